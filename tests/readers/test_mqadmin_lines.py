from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from time import process_time
from zoneinfo import ZoneInfo

import pytest

from hindsight.udfs.formats.mqadmin_lines import MOST_LINES, parse_mqadmin, with_command
from hindsight.udfs.formats.mqadmin_output import COLLECTOR, version_ordinal
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import LandedFile
from tests.readers.line_checks import GOLDEN, check, check_bytes, counts, lines_of

REAL = GOLDEN / "captures/mqadmin/t140"
COMMANDS = lines_of(REAL / "commands.jsonl")
TABLES = FORMATS["mqadmin"].tables
AT = 1795253591125
ASKED = LandedFile("x.txt", "consumerConnection -g g", AT)


def landed(name):
    return with_command(LandedFile(f"t140/{name}"), COMMANDS)


def parse_real(name, zone=UTC):
    return check(partial(parse_mqadmin, zone=zone, file=landed(name)), lines_of(REAL / name), TABLES)


def parse(text, file=ASKED, zone=UTC):
    return check_bytes(partial(parse_mqadmin, zone=zone, file=file), text.encode(), TABLES)


def rows(parsed, table):
    return [r.row for p in parsed for r in p.records if r.table == table]


def at(*parts):
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("consumerConnection_g_avg.txt", {"consumer_heartbeat": 4}),
        ("consumerConnection_g_order.txt", {"consumer_heartbeat": 2}),
        ("consumerConnection_g_bcast.txt", {"consumer_heartbeat": 2}),
        ("consumerProgress_g_avg.txt", {"queue_progress": 15}),
        ("consumerProgress_g_order.txt", {"queue_progress": 15}),
        ("topicStatus_OracleOrders.txt", {"topic_status": 12}),
        ("topicRoute_OracleOrders.txt", {"topic_route": 3}),
        ("topicRoute_OracleSkew_list.txt", {"topic_route": 3}),
        ("1795253582923/127.0.0.1@5.3.3_a3", {"queue_ownership": 4}),
        ("1795253582923/127.0.0.1@4.7.1_a1", {"queue_ownership": 4}),
        ("1795253624479/127.0.0.1@4.9.8_o2", {"queue_ownership": 8}),
        ("1795253661728/127.0.0.1@5.3.3_h3", {"queue_ownership": 7}),
    ],
)
def test_each_output_gives_as_many_rows_as_it_lists(name, found):
    captured = counts(parse_real(name))
    assert {kind: n for kind, n in captured.items() if not kind.startswith("snapshot_capture")} == found
    assert sum(n for kind, n in captured.items() if kind.startswith("snapshot_capture")) == 1


@pytest.mark.parametrize(
    "name",
    [
        "consumerProgress_all.txt",
        "allocateMQ_sorted.txt",
        "clusterList.txt",
    ],
)
def test_outputs_that_feed_no_table_are_ignored(name):
    assert all(p.records == () and p.refusal is None for p in parse_real(name))


def test_that_running_infos_were_asked_for_stays_where_none_is_printed():
    parsed = parse_real("consumerStatus_g_avg.txt")
    ((table, row),) = [(record.table, record.row) for line in parsed for record in line.records]
    assert (table, row["kind"], row["consumer_group"]) == ("snapshot_capture", "consumerStatus", "g_avg")
    assert row["answered"] and not any(line.refusal for line in parsed)


def test_members_are_listed_with_their_release():
    parsed = parse_real("consumerConnection_g_avg.txt")
    member = rows(parsed, "consumer_heartbeat")[3]
    assert (member["client_id"], member["address"]) == ("127.0.0.1@8407#2503479679860", "127.0.0.1:54950")
    assert (member["language"], member["client_version"], member["consumer_group"]) == ("JAVA", 479, "g_avg")
    assert (member["consume_type"], member["message_model"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert (member["collector"], member["captured_at"]) == (COLLECTOR, 1795253591125)
    (capture,) = rows(parsed, "snapshot_capture")
    assert [(s["topic"], s["sub_string"]) for s in capture["subscriptions"]] == [
        ("%RETRY%g_avg", "*"),
        ("OracleOrders", "*"),
    ]


OLD_CONNECTION = """001  10.0.0.1@5                       10.0.0.1:53788         JAVA     V4_7_1
002  10.0.0.123456@1234567890123456789012345678901234567890 10.0.0.2:53788  JAVA     V4_1_0_SNAPSHOT

Below is subscription:
001  Topic: %RETRY%g                                 SubExpression: *
002  Topic: T                                        SubExpression: a || b

ConsumeType: CONSUME_PASSIVELY
MessageModel: CLUSTERING
ConsumeFromWhere: CONSUME_FROM_LAST_OFFSET
"""


def test_the_columns_of_4_9_2_and_before_are_read_too():
    parsed = parse(OLD_CONNECTION)
    first, second = rows(parsed, "consumer_heartbeat")
    assert (first["client_id"], first["address"], first["client_version"]) == ("10.0.0.1@5", "10.0.0.1:53788", 355)
    assert (second["client_id"][:13], second["client_version"]) == ("10.0.0.123456", 232)
    (capture,) = rows(parsed, "snapshot_capture")
    assert [(s["topic"], s["sub_string"]) for s in capture["subscriptions"]] == [("%RETRY%g", "*"), ("T", "a || b")]


OLD_PROGRESS = (
    "#Topic                            #Broker Name                      #QID  #Broker Offset        #Consumer Offset "
    "     {}#Diff                 #LastTime\n"
    "T                                 broker-a                          0     3415                  -1               "
    "     {}3416                  {}\n\nConsume TPS: 0.00\nDiff Total: 3416\n"
)


@pytest.mark.parametrize(
    ("column", "value", "client_ip"),
    [("", "", None), ("#Client IP   ", "10.0.0.1     ", "10.0.0.1"), ("#Client IP   ", "N/A    ", None)],
)
def test_progress_has_a_client_column_in_some_releases(column, value, client_ip):
    parsed = parse(OLD_PROGRESS.format(column, value, "2026-11-21 17:34:37"), zone=ZoneInfo("Asia/Shanghai"))
    (row,) = rows(parsed, "queue_progress")
    assert (row["broker_offset"], row["consumer_offset"], row["lag"]) == (3415, -1, 3416)
    assert (row["client_ip"], row["last_timestamp"]) == (client_ip, at(2026, 11, 21, 9, 34, 37))
    (row,) = rows(parse(OLD_PROGRESS.format(column, value, "N/A")), "queue_progress")
    assert row["last_timestamp"] is None


def test_of_progress_a_row_that_no_long_can_count_is_refused_alone():
    output = OLD_PROGRESS.format("", "", "N/A")
    row = next(line for line in output.splitlines() if line.startswith("T "))
    parsed = parse(output.replace(row, row.replace("3415", "9223372036854775807") + "\n" + row))
    assert [p.refusal.code for p in parsed if p.refusal] == ["OUT_OF_RANGE"]
    assert [r["lag"] for r in rows(parsed, "queue_progress")] == [3416]


def test_progress_of_5_x_has_a_column_of_messages_in_flight():
    row = next(
        r
        for r in rows(parse_real("consumerProgress_g_avg.txt"), "queue_progress")
        if (r["topic"], r["broker_name"], r["queue_id"]) == ("OracleOrders", "broker-b", 2)
    )
    assert (row["broker_offset"], row["consumer_offset"], row["lag"]) == (5141, 5140, 1)
    assert row["last_timestamp"] == at(2026, 11, 21, 9, 34, 37)


@pytest.mark.parametrize("name", ["topicRoute_OracleOrders.txt", "topicRoute_OracleSkew_list.txt"])
def test_a_route_is_read_as_json_and_as_a_list(name):
    by_broker = {r["broker_name"]: r for r in rows(parse_real(name), "topic_route")}
    assert {b: r["master_address"] for b, r in by_broker.items()} == {
        "broker-a": "127.0.0.1:20911",
        "broker-b": "127.0.0.1:20931",
        "broker-c": "127.0.0.1:20951",
    }
    counts_of = (8, 2, 4) if "Skew" in name else (4, 4, 4)
    assert tuple(by_broker[f"broker-{b}"]["write_queue_nums"] for b in "abc") == counts_of
    assert all(r["perm"] == 6 and r["topic"] == name.split("_")[1].removesuffix(".txt") for r in by_broker.values())


def test_a_running_info_tells_what_the_client_owns_and_how():
    parsed = parse_real("1795253661728/127.0.0.1@5.3.3_h3")
    (capture,) = rows(parsed, "snapshot_capture")
    assert (capture["consumer_group"], capture["client_id"]) == ("g_hash", "127.0.0.1@5.3.3_h3")
    assert (capture["strategy"], capture["client_version"]) == ("CONSISTENT_HASH", "V5_3_3")
    assert capture["captured_at"] == 1795253661728
    owned = rows(parsed, "queue_ownership")
    assert all(r["locked"] and not r["dropped"] for r in owned)
    first = next(
        r for r in owned if (r["broker_name"], r["queue_id"]) == ("broker-c", 0) and r["topic"] == "OracleOrders"
    )
    assert first["last_pull_at"] == at(2026, 11, 21, 9, 34, 20, 588000)


def test_a_pop_queue_of_a_running_info_is_no_ownership():
    text = (GOLDEN / "running_info/pop_5.3.3.txt").read_text()
    parsed = parse(text, LandedFile(f"{AT}/10.0.0.1@5"))
    (pop,) = rows(parsed, "pop_assignment")
    assert (pop["queue_id"], pop["client_id"], pop["wait_ack_count"]) == (-1, "10.0.0.1@5", 3)
    assert pop["last_pop_at"] == 1795253661728
    (owned,) = rows(parsed, "queue_ownership")
    assert (owned["queue_id"], owned["last_pull_at"]) == (0, None)


@pytest.mark.parametrize(
    ("path", "captured_at"),
    [
        (f"consumerConnection_g_{AT}.txt", AT),
        (f"{AT}/consumerConnection_g.txt.gz", AT),
        (f"1795253000000/consumerConnection_g_{AT}.txt", AT),
    ],
)
def test_without_a_list_of_commands_time_and_subject_stand_in_the_name(path, captured_at):
    (capture,) = rows(parse(OLD_CONNECTION.replace("%RETRY%g ", "%RETRY%x "), LandedFile(path)), "snapshot_capture")
    assert (capture["captured_at"], capture["consumer_group"]) == (captured_at, "g")


def test_a_list_of_commands_says_when_and_of_what():
    said = [
        "{}",
        '{"ts":1,"file":"a.txt","args":"x"}',
        f'{{"ts":{AT},"file":"a.txt","args":"topicRoute -t T -l"}}',
        "x",
        f'{{"ts":{AT},"file":"b.txt","args":"y"}}',
    ]
    lines = [Line(i, 0, 0, text, None) for i, text in enumerate(said, 1)]
    assert with_command(LandedFile("t/a.txt.gz"), lines) == LandedFile("t/a.txt.gz", "topicRoute -t T -l", AT)
    assert with_command(LandedFile("t/c.txt"), lines) == LandedFile("t/c.txt")


def test_a_client_id_of_13_digits_is_no_time():
    parsed = parse(
        "#Consumer Properties#\nconsumerGroup  : g\n#Consumer RT&TPS#\n",
        LandedFile(f"{AT}/10.0.0.1@8407#2503479679860"),
    )
    assert rows(parsed, "snapshot_capture")[0]["captured_at"] == AT


def test_a_group_is_found_in_its_retry_topic():
    (capture,) = rows(parse(OLD_CONNECTION, LandedFile(f"{AT}.txt")), "snapshot_capture")
    assert capture["consumer_group"] == "g"


@pytest.mark.parametrize(
    ("text", "file", "code"),
    [
        (OLD_CONNECTION, LandedFile("consumerConnection_g.txt"), "NO_CAPTURE_TIME"),
        (OLD_CONNECTION.replace("%RETRY%", ""), LandedFile(f"{AT}.txt"), "NO_SUBJECT"),
        ('{"queueDatas":[]}', LandedFile(f"{AT}.txt"), "NO_SUBJECT"),
        ('{"queueDatas":[}', LandedFile("topicRoute_T.txt", None, AT), "BAD_RAW"),
        ("#Consumer Properties#\nconsumerGrou", LandedFile(f"{AT}/c@1"), "MISSING_FIELD"),
        ("#ClientId\n" + "x\n" * (MOST_LINES + 5), ASKED, "OUTPUT_TOO_LONG"),
    ],
)
def test_an_output_of_unknown_time_or_subject_is_refused_whole(text, file, code):
    parsed = parse(text, file)
    assert {p.refusal.code for p in parsed if p.line.text.strip()} == {code}


def test_a_row_that_cannot_be_read_is_refused_by_itself():
    parsed = parse(OLD_CONNECTION.replace("10.0.0.1:53788", "10.0.0.1 53788"))
    assert parsed[0].refusal.code == "BAD_ROW"
    assert [r["address"] for r in rows(parsed, "consumer_heartbeat")] == ["10.0.0.2:53788"]
    parsed = parse(OLD_PROGRESS.format("", "", "yesterday evening"))
    assert [p.refusal.code for p in parsed if p.refusal] == ["BAD_TIMESTAMP"]


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [
        ("V4_0_0_SNAPSHOT", 212),
        ("V4_1_0_SNAPSHOT", 232),
        ("V4_2_0_SNAPSHOT", 252),
        ("V4_3_0", 273),
        ("V4_5_1", 315),
        ("V4_7_1", 355),
        ("V4_9_8", 409),
        ("V5_0_0", 413),
        ("V5_1_4", 441),
        ("V5_3_3", 479),
        ("HIGHER_VERSION", None),
        ("V3_5_8", None),
    ],
)
def test_a_release_has_the_ordinal_of_mqversion(name, ordinal):
    assert version_ordinal(name) == ordinal


@pytest.mark.parametrize(
    "text",
    [
        "#ClusterName\n" + "a " * 400_000,
        "#ClusterName\na b {" + " " * 900_000,
        "#Consumer Properties#\nconsumerGroup : g\n#Consumer MQ Detail#\n" + "T b 0 ProcessQueueInfo [" * 40_000,
        "#Topic #QID #Diff\n" + " 1" * 400_000,
        "{" * 900_000,
    ],
    ids=lambda text: text[:12] + text[-6:],
)
def test_time_is_linear_in_the_length_of_an_output(text):
    began = process_time()
    parse(text)
    assert process_time() - began < 1.5


def test_a_list_of_members_that_lacks_one_which_cannot_be_read_is_no_answer():
    whole = "#ClientId #ClientAddr #Language #Version\n10.0.0.1@7 10.0.0.1:5 JAVA V4_9_8\n"
    rest = "\nBelow is subscription:\n#Topic #SubExpression\nT *\n\nConsumeType: CONSUME_PASSIVELY\n"
    rest += "MessageModel: CLUSTERING\nConsumeFromWhere: CONSUME_FROM_LAST_OFFSET\n"
    (read,) = rows(parse(whole + rest), "snapshot_capture")
    assert (read["answered"], read["kind"]) == (True, "consumerConnection")
    parsed = parse(whole + "10.0.0.2@7 JAVA\n" + rest)
    (unread,) = rows(parsed, "snapshot_capture")
    assert (unread["answered"], unread["consumer_group"]) == (False, "g")
    assert unread["error"] == "answer not readable: BAD_ROW" == f"answer not readable: {parsed[2].refusal.code}"


def test_an_output_that_is_refused_as_a_whole_was_asked_for():
    parsed = parse('{"brokerDatas":[]}\n', LandedFile("x.txt", "topicRoute -t T", AT))
    assert parsed[0].refusal.code == "BAD_RAW"
    (unread,) = rows(parsed, "snapshot_capture")
    told = (unread["answered"], unread["kind"], unread["topic"], unread["error"])
    assert told == (False, "topicRoute", "T", "answer not readable: BAD_RAW")
