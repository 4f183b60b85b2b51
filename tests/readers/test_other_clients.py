"""What real Go and C++ clients wrote, read: running infos, heartbeats, traces and logs, with nothing refused."""

from __future__ import annotations

import gzip
from collections import Counter
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.limits.door import judged, severities
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import LandedFile
from tests.conftest import GOLDEN

SAMPLES = sorted((GOLDEN / "other_clients").glob("sample_*"))
FORMAT_OF = {
    "running_info": "admin_snapshots",
    "heartbeat": "heartbeat",
    "trace": "trace_topic",
    "client_log": "client_log",
}


def parsed(path, zone=UTC):
    kind = next(format_name for part, format_name in FORMAT_OF.items() if f"sample_{part}_" in path.name)
    with gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="\n") as text:
        lines = [Line(number, 0, 0, line.rstrip("\n"), None) for number, line in enumerate(text, 1)]
    found = PARSERS[kind](iter(lines), zone, LandedFile(path.name))
    return list(judged(found, severities({}), FORMATS[kind].tables))


def rows(name, table):
    (path,) = (one for one in SAMPLES if one.name.startswith(f"sample_{name}."))
    return [record.row for one in parsed(path) for record in one.records if record.table == table]


def read(*texts, zone=UTC):
    lines = [Line(number, 0, 0, text, None) for number, text in enumerate(texts, 1)]
    return list(PARSERS["client_log"](iter(lines), zone, LandedFile("a.log")))


def events(*texts, **options):
    return [record.row for one in read(*texts, **options) for record in one.records]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_nothing_of_a_real_client_goes_to_quarantine(path):
    found = parsed(path)
    assert [one.refusal for one in found if one.refusal] == []
    assert any(one.records for one in found)


def test_there_is_a_sample_of_each_kind_and_language():
    kinds = {
        (part, language)
        for path in SAMPLES
        for part in FORMAT_OF
        for language in ("go", "cpp")
        if path.name.startswith(f"sample_{part}_{language}")
    }
    assert len(kinds) == 8


@pytest.mark.parametrize(
    ("name", "count"),
    [("go_2.0.0-rc1", 3), ("go_2.1.0", 18), ("go_2.1.2", 18), ("cpp_2.2.0", 14)],
)
def test_what_members_took_is_read_with_its_counts(name, count):
    found = rows(f"client_log_{name}", "rebalance_result")
    assert len(found) == count
    language = "GO" if name.startswith("go") else "CPP"
    assert {(row["language"], row["strategy"]) for row in found} == {(language, "" if language == "GO" else "AVG")}
    for row in found:  # the share of some place of so many members
        shares = {row["queue_count"] // max(row["member_count"], 1) + more for more in (0, 1)}
        assert len(row["queues"]) in (shares if row["queues"] else {0})
    assert any(row["queues"] for row in found) and all("doubts" not in row for row in found)


@pytest.mark.parametrize(
    ("name", "count"),  # of lines that name an offset, by grep
    [("go_2.0.0-rc1", 0), ("go_2.1.0", 22), ("go_2.1.2", 22), ("cpp_2.2.0", 17)],
)
def test_where_members_began_to_read_is_read_with_the_group_and_the_queue(name, count):
    found = [row for row in rows(f"client_log_{name}", "client_event") if row["kind"] == "queue_began"]
    assert [row["offset"] for row in found] == [0] * count
    added = {queue_of(row) for row in rows(f"client_log_{name}", "client_event") if row["kind"] == "queue_added"}
    assert {queue_of(row)[1:] for row in found} == ({queue[1:] for queue in added} if count else set())
    assert all(row["consumer_group"] and row["topic"] for row in found)


def queue_of(row):
    return row.get("consumer_group"), row["topic"], row["broker_name"], row["queue_id"]


GO_BEGAN = (
    'time="2026-11-25T09:08:02+08:00" level=info msg="fetch offset of mq from broker success" '
    'MessageQueue="MessageQueue [topic=T, brokerName=b, queueId=3]" consumerGroup=g offset={}'
)
CPP_BEGAN = (
    "[2026-11-25 09:31:11.897656](info):Start to pull MessageQueue [topic=T, brokerName=b, queueId=3], offset:{}, "
    "GroupName g[updateRequestTableInRebalance:538]"
)


@pytest.mark.parametrize("line", [GO_BEGAN, GO_BEGAN.replace("fetch", "fecth"), CPP_BEGAN])
def test_it_began_at_the_offset_that_its_line_names(line):
    (row,) = events(line.format(4711))
    assert (*queue_of(row), row["kind"], row["offset"]) == ("g", "T", "b", 3, "queue_began", 4711)


def test_where_nothing_was_stored_a_go_clients_line_does_not_say_where_it_began():
    assert events(GO_BEGAN.format(-1)) == []
    (one,) = read(GO_BEGAN.format("much"))
    assert one.refusal.code == "WRONG_TYPE"


def test_a_running_info_shows_the_queues_that_the_log_tells_of():
    for name in ("go_2.1.2", "cpp_2.2.0"):
        owned = Counter((r["client_id"], r["topic"]) for r in rows(f"running_info_{name}", "queue_ownership"))
        logged = {}
        for row in rows(f"client_log_{name}", "rebalance_result"):
            logged.setdefault((row["client_id"], row["topic"]), set()).add(len(row["queues"]))
        assert owned and all(count in logged[member] for member, count in owned.items())


def test_a_running_info_names_its_kind_and_what_its_client_states():
    stated = {
        name: {(r["client_version"], r["client_kind"]) for r in rows(f"running_info_{name}", "snapshot_capture")}
        for name in ("go_2.0.0-rc1", "go_2.1.0", "go_2.1.2", "cpp_2.2.0")
    }
    assert stated == {
        "go_2.0.0-rc1": {("v2.0.0-alpha3", "push")},
        "go_2.1.0": {("v2.1.0", "push")},
        "go_2.1.2": {("v2.1.1", "push")},
        "cpp_2.2.0": {("V4_6_0", "push")},
    }


def test_heartbeats_say_how_a_group_consumes_in_javas_words_whatever_the_client_writes():
    for name in ("go_2.0.0-rc1", "go_2.1.2", "cpp_2.2.0"):
        beats = [r for r in rows(f"heartbeat_{name}", "client_heartbeat") if r["role"] == "consumer"]
        assert {(r["consume_type"], r["message_model"]) for r in beats} == {("CONSUME_PASSIVELY", "CLUSTERING")}
        assert {r["consume_from_where"] for r in beats} <= {"CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET"}


def test_gos_trace_tells_the_end_of_a_whole_call_and_cpps_the_start_of_an_attempt():
    (first, slow, *_) = rows("trace_go_2.1.2", "send_attempt")
    assert (slow["begin_at"], slow["end_at"], slow["latency_ms"]) == (1795570673154, 1795570676155, 3001)
    assert slow["begin_at"] >= first["end_at"] and slow["doubts"] == ["WHOLE_CALL"]
    attempts = rows("trace_cpp_2.2.0", "send_attempt")
    assert attempts[0]["begin_at"] == 1795570697336 and all("doubts" not in row for row in attempts)


GO = 'time="2026-11-25T09:08:02+08:00" level=warning msg='
QUEUE = 'MessageQueue="MessageQueue [topic=T 1, brokerName=broker-a, queueId=3]"'


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f'"lock MessageQueue" {QUEUE} consumerGroup=g lockOK=true', {"kind": "lock_acquired"}),
        (f'"lock MessageQueue" {QUEUE} consumerGroup=g lockOK=false', {"kind": "lock_failed"}),
        (f'"unlock MessageQueue" {QUEUE} consumerGroup=g', {"kind": "queue_unlocked"}),
        (f'"remove unnecessary mq because unsubscribed" {QUEUE} consumerGroup=g', {"kind": "queue_removed"}),
        (
            f'"remove unnecessary mq because pull was expired, prepare to fix it" {QUEUE} consumerGroup=g',
            {"kind": "queue_pull_expired"},
        ),
        (
            f'"do defaultConsumer, add a new mq failed, because lock failed" {QUEUE} consumerGroup=g',
            {"kind": "lock_failed"},
        ),
        (f'"do defaultConsumer, add a new mq" {QUEUE} consumerGroup=g', {"kind": "queue_added", "queue_id": 3}),
        (f'"do balance in group failed, the topic does not exist" {QUEUE} consumerGroup=g', {"kind": "topic_unknown"}),
        (f'"send heart beat to broker failed" {QUEUE} consumerGroup=g', {"kind": "heartbeat_failed"}),
    ],
)
def test_a_line_of_gos_own_log_is_an_event_of_its_queue(line, told):
    (row,) = events(GO + line)
    assert row.items() >= {**told, "topic": "T 1", "broker_name": "broker-a", "consumer_group": "g"}.items()
    assert (row["language"], row["resolution_ms"], row["level"]) == ("GO", 1000, "warning")
    assert row["logged_at"] == datetime(2026, 11, 25, 1, 8, 2, tzinfo=UTC).timestamp() * 1000


def test_who_a_go_member_is_missing_among_is_told():
    (row,) = events(GO + '"[BUG] ConsumerId not in cidAll" cidAll="[a@1 b@2]" consumerGroup=g consumerId="a b@3"')
    assert (row["kind"], row["members"], row["client_id"]) == ("member_not_listed", ["a@1", "b@2"], "a b@3")


def test_quotes_in_gos_values_are_taken_off():
    (row,) = events(
        GO + r'"get consumer list of group from broker error" broker="h:1" consumerGroup=g underlayError="a \"b\" c"'
    )
    assert (row["detail"], row["broker_address"]) == ('a "b" c', "h:1")
    (row,) = events(GO + r'"send heart beat to broker failed" remark="\x01 \"b\""')  # what JSON does not have
    assert row["detail"] == 'x01 "b"'


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        ('rebalanceResultSet="[]" rebalanceResultSize=1 topic=T', "BAD_REBALANCE_LINE"),
        ('rebalanceResultSet="[]" rebalanceResultSize=x topic=T', "BAD_REBALANCE_LINE"),
        ('rebalanceResultSet="[]" rebalanceResultSize=0', "BAD_REBALANCE_LINE"),
    ],
)
def test_a_go_result_that_contradicts_itself_or_lacks_a_field_is_refused(broken, code):
    head = GO + '"MessageQueue do balance done" cidAllSize=1 clientID=c consumerGroup=g mqAllSize=1 '
    (one,) = read(head + broken)
    assert one.refusal.code == code


def test_a_time_without_a_zone_is_refused():
    (one,) = read('time="2026-11-25T09:08:02" level=info msg="unlock MessageQueue" consumerGroup=g')
    assert one.refusal.code == "BAD_TIMESTAMP"


CPP_HEADS = [
    "[2026-11-25 09:31:11.796791](info):",
    "[2026-Nov-25 09:31:11.796791](info):",
    "[2026-11-25 09:31:11.796] [info] ",
    "[2026-11-25 09:31:11.796] [info] [thread@30244] - ",
]


@pytest.mark.parametrize("head", CPP_HEADS)
def test_cpps_layouts_are_local_times_of_the_zone_that_is_told(head):
    (row,) = events(f"{head}notifyConsumerIdsChanged:g_1[notifyConsumerIdsChanged:150]", zone=ZoneInfo("Asia/Shanghai"))
    assert (row["kind"], row["consumer_group"], row["level"]) == ("members_changed", "g_1", "info")
    assert row["logged_at"] == datetime(2026, 11, 25, 1, 31, 11, 796000, tzinfo=UTC).timestamp() * 1000


# Lines of branch re_dev, with the place in its source behind them or without, as its versions write them.
RE_DEV = "[2026-11-25 09:31:11.796] [warning] [thread@30244] - "
RE_DEV_PLACES = [
    "",
    " [/src/consumer/RebalanceImpl.cpp:312 (operator())]",
    r" [C:\c\consumer\RebalanceImpl.cpp:9 (lock)]",
]
OF_RE_DEV = [
    (
        "doRebalance, g, add a new mq failed, MessageQueue [topic=T, brokerName=b.c, queueId=1], because lock failed",
        {"kind": "lock_failed", "consumer_group": "g", "topic": "T", "broker_name": "b.c", "queue_id": 1},
    ),
    (
        "doRebalance, g, add a new mq, MessageQueue [topic=T, brokerName=b, queueId=0]",
        {"kind": "queue_added", "consumer_group": "g", "queue_id": 0},
    ),
    (
        "the message queue locked Failed, mq:MessageQueue [topic=T, brokerName=b, queueId=2]",
        {"kind": "lock_failed", "topic": "T", "queue_id": 2},
    ),
    (
        "the message queue locked OK, mq:MessageQueue [topic=T, brokerName=b, queueId=2]",
        {"kind": "lock_acquired", "topic": "T", "queue_id": 2},
    ),
    ("notifyConsumerIdsChanged, group:g", {"kind": "members_changed", "consumer_group": "g"}),
    (
        "send failed of times:1, brokerName:b.c. exception:msg: connect to <10.0.0.1:10911> failed",
        {"kind": "send_failed", "broker_name": "b.c", "detail": "msg: connect to <10.0.0.1:10911> failed"},
    ),
]


@pytest.mark.parametrize("place", RE_DEV_PLACES)
@pytest.mark.parametrize(("message", "told"), OF_RE_DEV)
def test_lines_of_branch_re_dev_are_read_whether_they_name_their_place_or_not(message, told, place):
    (row,) = events(f"{RE_DEV}{message}{place}")
    assert {name: row.get(name) for name in told} == told
    assert (row["language"], row["level"], row["text"]) == ("CPP", "warning", message)


RESULT = "Allocation result for [Consumer Group: g, Topic: T, Current Consumer ID: 10.0.0.1@7#a] is changed."


def printed(count):
    return [f"MessageQueue [topic=T, brokerName=broker-a, queueId={i}]" for i in range(count)]


def test_the_queues_below_a_cpp_result_are_its_own():
    totals = "Total Queue :#4, Total Consumer :#2, Allocated Queues are: "
    found = read(CPP_HEADS[0] + RESULT, totals, *printed(2), "[doRebalance:138]", CPP_HEADS[0] + "something else[a:1]")
    (row,) = (record.row for one in found for record in one.records)
    assert (row["client_id"], row["queue_count"], row["member_count"]) == ("10.0.0.1@7#a", 4, 2)
    assert row["queues_text"] == "broker-a:0 broker-a:1" and "doubts" not in row
    assert [one.line.number for one in found] == [1, 2, 3, 4, 5, 6]


def test_a_list_that_cpp_cut_is_doubted():
    totals = "Total Queue :#40, Total Consumer :#1, Allocated Queues are: "
    message = "\n".join([RESULT, totals, *printed(40)]).encode()[:1023].decode()
    first, *rest = message.split("\n")
    *_, last = read(CPP_HEADS[0] + first, *rest[:-1], rest[-1] + "[doRebalance:138]")
    (row,) = events(CPP_HEADS[0] + first, *rest[:-1], rest[-1] + "[doRebalance:138]")
    assert row["doubts"] == ["CUT_LIST"] and 10 < len(row["queues"]) < 40 and last.refusal is None


def test_a_cpp_result_without_its_counts_is_refused():
    (one, _) = read(CPP_HEADS[0] + RESULT, CPP_HEADS[0] + "something else[a:1]")
    assert one.refusal.code == "BAD_REBALANCE_LINE"
