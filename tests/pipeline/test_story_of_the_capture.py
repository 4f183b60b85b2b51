"""The whole pipeline on a whole real capture: what must stand in the tables, worked out from the capture's own records.

One run serves all tests that only read (`story` in conftest.py).
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from hindsight.jobs.asking.run_summary import summary
from hindsight.jobs.engines.sql_views import view_texts, views
from hindsight.schemas import TABLES
from tests.conftest import CAPTURES
from tests.default_timing import default_timing
from tests.recorded_producer import Recorded

# Nothing is refused here, there is one source of each thing, nobody recorded heartbeats, topics' offsets or how brokers
# assign, no route changed, and every producer's start is recorded.
NOTHING_TO_SHOW = {
    *("quarantine_by_reason", "source_contradiction", "trace_coverage"),
    *("stale_member", "heartbeat_subscription", "doubted_rows", "route_change", "route_missing"),
    *(
        "retention_margin",
        "assigned_member",
        "pop_repeats",
        "scheduled_backlog",
        "broker_replication",
        "release_candidates",
    ),
    *("groups_held_back", "message_consumption", "subscription_flips"),
}
START_MS = 1795253414272  # first round of the consumers' capture


def records(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def snapshots():
    return records(CAPTURES / "consumers" / "admin_snapshots.jsonl.gz")


def seconds(instant: datetime) -> float:
    return (instant.replace(tzinfo=UTC).timestamp() * 1000 - START_MS) / 1000


# -- ingestion -----------------------------------------------------------------------------------------------------


def test_every_line_is_accounted_for_and_nothing_is_refused(rows):
    files = rows("ingested_file")
    assert len(files) == 20
    for f in files:
        assert f.read == f.stored + f.duplicate + f.ignored + f.quarantined
        assert (f.duplicate, f.quarantined, f.complete) == (0, 0, True)
    assert rows("quarantine") == []


def test_attempts_are_as_many_as_the_hooks_saw_and_async_lines_are_halves(rows):
    expected = Counter()
    for path in sorted((CAPTURES / "producers").glob("producer_*")):
        for record in records(path):
            if record["type"] == "attempt":
                key = (record["clientId"], record["msgId"], record["beginMs"], record["times"])
                expected[(record["mode"], key if record["mode"] != "ASYNC" else key[:3])] += 1
    by_mode = Counter(mode for mode, _ in expected)
    assert Counter(row.mode for row in rows("send_attempt", columns="mode")) == by_mode
    assert rows("send_attempt", "mode = 'ASYNC' AND (submit_end_at IS NULL OR callback_end_at IS NULL)") == []
    unseen = rows.one("send_attempt", "mode = 'ASYNC' AND callback_outcome IS NULL")
    assert (unseen.message_key, unseen.outcome) == ("async-658", "UNKNOWN")


def test_all_254_rebalance_lines_are_stored(rows):
    assert len(rows("rebalance_result")) == 254


def test_ownership_equals_what_the_collector_read_itself(rows, snapshots):
    expected = Counter()
    for record in snapshots:
        if record["kind"] == "consumerRunningInfo" and record["mqs"] is not None:
            group, _, client = record["subject"].rpartition("|")
            for topic, broker, queue, dropped, locked in record["mqs"]:
                expected[(record["ts"], group, client, topic, broker, queue, dropped, locked)] += 1
    columns = "UNIX_MILLIS(captured_at), consumer_group, client_id, topic, broker_name, queue_id, dropped, locked"
    assert Counter(tuple(row.values()) for row in rows("queue_ownership", columns=columns)) == expected


def test_each_capture_belongs_to_the_marker_before_it(rows, snapshots):
    expected, marker = {}, None
    for record in snapshots:
        if record["kind"] == "round":
            marker = record["ts"]
        else:
            expected[(record["kind"], record["subject"], record["ts"])] = marker
    columns = "kind, subject, UNIX_MILLIS(captured_at) AS at, UNIX_MILLIS(round_at) AS of_round"
    found = rows("snapshot_capture", columns=columns)
    assert {(r.kind, r.subject, r.at): r.of_round for r in found} == expected


# -- the consumer side ---------------------------------------------------------------------------------------------


def drift(rows, group, code):
    found = rows("allocation_drift", f"consumer_group = '{group}' AND code = '{code}'")
    return sorted(
        (round(seconds(r.round_at)), r.broker_name and f"{r.broker_name[-1]}{r.queue_id}", r.client_id) for r in found
    )


def test_g_mix_mixes_its_strategies_in_every_round(rows):
    assert len(drift(rows, "g_mix", "MIXED_STRATEGY")) == 68
    kinds = {(row.kind, row.severity) for row in rows("allocation_drift", "code = 'MIXED_STRATEGY'")}
    assert kinds == {("AVG + AVG_BY_CIRCLE", "HIGH")}


def test_a2_is_owned_twice_in_all_68_rounds_and_others_at_times(rows):
    doubles = Counter(queue for _, queue, _ in drift(rows, "g_mix", "DOUBLE_OWNED"))
    assert doubles["a2"] == 68
    assert set(doubles) == {"a2", "b1", "c2"}


def test_queues_of_g_mix_without_owner_are_orphans_only_while_everybody_answers(rows):
    orphans = drift(rows, "g_mix", "ORPHAN_QUEUE")
    assert {queue for at, queue, _ in orphans if at < 46} == {"c1", "c2"}
    assert {queue for at, queue, _ in orphans if 48 <= at <= 84} == {"b3", "c0"}
    # m4 is listed and unread from 87 on: what it may own is not known.
    assert [at for at, _, _ in orphans if 87 <= at <= 200] == []


def test_ownerless_queues_of_g_sub_and_g_skew_are_named_with_the_member_that_does_not_subscribe(rows):
    late = {queue for at, queue, _ in drift(rows, "g_sub", "ORPHAN_QUEUE") if at >= 84}
    assert late == {"c0", "c1", "c2", "c3", *(f"a{i}" for i in range(8)), "b0", "b1"}
    skew = [(at, queue) for at, queue, _ in drift(rows, "g_skew", "ORPHAN_QUEUE")]
    assert {queue for _, queue in skew} == {"a0", "a1", "a2", "a3", "b0", "b1"}
    assert len({at for at, _ in skew}) == 65
    sentences = [row.sentence for row in rows("allocation_drift", "consumer_group = 'g_skew'")]
    assert any("its expected owner 127.0.0.1@4.7.1_k1 does not subscribe OracleOrders" in said for said in sentences)


def test_the_frozen_members_are_unreachable_and_leave_their_rounds_unknown(rows):
    a5 = drift(rows, "g_avg", "UNREACHABLE_CLIENT")
    assert {client for _, _, client in a5} == {"127.0.0.1@8407#2503479679860"}
    assert min(at for at, _, _ in a5) == 87
    unknown = rows("group_round", "consumer_group = 'g_avg' AND verdict = 'unknown'")
    assert len(unknown) == len(a5) == 11
    assert all(r.missing_inputs == ["running info of 127.0.0.1@8407#2503479679860: no answer"] for r in unknown)
    m4 = {client for _, _, client in drift(rows, "g_mix", "UNREACHABLE_CLIENT")}
    assert m4 == {"127.0.0.1@8407#2507521046470"}


def test_nothing_is_orphaned_in_g_avg_while_a5_is_listed_and_unread(rows):
    assert [at for at, _, _ in drift(rows, "g_avg", "ORPHAN_QUEUE") if 87 <= at <= 200] == []


def test_the_killed_member_of_g_avg_leaves_nothing_to_report(rows):
    assert [at for at, _, _ in drift(rows, "g_avg", "ORPHAN_QUEUE") if 72 <= at < 87] == []


def test_g_idle_has_three_idle_by_design_in_the_rounds_that_read_it_and_no_verdict_in_the_others(rows):
    idle = Counter(at for at, _, _ in drift(rows, "g_idle", "IDLE_BY_DESIGN"))
    assert len(idle) == 17 and set(idle.values()) == {3}
    rounds = rows("group_round", "consumer_group = 'g_idle' AND topic = 'OracleOrders'")
    assert Counter(row.verdict for row in rounds) == {"ok": 17, None: 51}


def test_g_hash_doubles_queues_in_the_round_in_which_h2_joins(rows):
    doubles = drift(rows, "g_hash", "DOUBLE_OWNED")
    assert {at for at, _, _ in doubles} == {57} and len(doubles) == 6


def test_retry_topics_whose_routes_nobody_collects_have_no_verdict(rows):
    retry = rows("group_round", "topic LIKE '%RETRY%'")
    assert {row.verdict for row in retry} == {None}
    assert rows("allocation_drift", "topic LIKE '%RETRY%'") == []


def test_expected_owners_equal_what_each_client_of_g_avg_logged_that_it_took(rows):
    logs = rows("rebalance_result", "consumer_group = 'g_avg' AND topic = 'OracleOrders' AND member_count = 5")
    logged = {(row.client_id, row.queues_text) for row in logs}
    expected: dict[tuple, set] = {}
    for row in rows("expected_allocation", "consumer_group = 'g_avg'"):
        for queue in row.allocation:
            owned = expected.setdefault((row.member_list_hash, queue.owner), set())
            owned.add(f"{queue.broker_name}:{queue.queue_id}")
    assert len(logged) == 3
    assert logged <= {(owner, " ".join(sorted(queues))) for (_, owner), queues in expected.items()}


def test_incidents_and_findings_are_those_of_the_kernels_without_spark(rows):
    """What tests/captures/test_incidents_of_groups.py says of the kernels holds of the tables."""
    from hindsight.udfs.groups.group_walk import CHANGE, DRIFT, INCIDENT, WalkSettings
    from tests.capture_rounds import CaptureRounds, walk

    capture = CaptureRounds(CAPTURES / "consumers" / "admin_snapshots.jsonl.gz")
    made = [r for group in capture.groups for r in walk(capture.of_group(group), WalkSettings(default_timing(), 7))]
    tables = {
        DRIFT: ("allocation_drift", ("consumer_group", "code", "kind", "finding_state", "root_cause", "sentence")),
        INCIDENT: ("drift_incident", ("consumer_group", "root_cause", "cause_key", "state", "severity", "sentence")),
        CHANGE: ("membership_change", ("consumer_group", "topic", "joined", "left", "moved", "necessary", "excess")),
    }
    for kind, (table, names) in tables.items():
        expected = sorted(repr([row[n] for n in names]) for k, row in made if k == kind)
        # What clients' logs add is not the kernels'.
        values = ([row[n] for n in names] for row in rows(table))
        told = (
            [re.sub(r" Its clients' logs: .*?\.(?= |$)", "", v) if isinstance(v, str) else v for v in o] for o in values
        )
        assert sorted(map(repr, told)) == expected, table


def test_a_finding_comes_with_the_incident_that_explains_it(rows):
    assert len(rows("drift_with_incident")) == len(rows("allocation_drift"))
    assert rows("drift_with_incident", "(finding_state = 'OPEN') AND incident_id IS NULL") == []
    orphans = "consumer_group = 'g_avg' AND code = 'ORPHAN_QUEUE' AND root_cause <> 'UNREACHABLE_CLIENT'"
    assert rows("drift_with_incident", orphans) == []


# -- the producer side ---------------------------------------------------------------------------------------------


def test_producers_with_the_switch_off_have_no_windows(rows):
    assert rows.one("producer_replay", "client_id LIKE '%latoff'").verdict == "off"
    assert rows("broker_availability_window", "client_id LIKE '%latoff'") == []


def truth(release_and_id):
    """The client's own dumps: instant -> broker -> item."""
    dumps = records(CAPTURES / "producers" / f"fault_{release_and_id}.jsonl.gz")
    return [(d["ts"], {item["name"]: item for item in d["items"]}) for d in dumps]


def held(windows, at):
    return any(start <= at < end for start, end in windows)


def agreement(rows, producer):
    """Share of the dumped states in which available or not agrees."""
    windows: dict[str, list] = {}
    own = f"client_id = '127.0.0.1@{producer}' AND state = 'unavailable'"
    columns = "broker_name, UNIX_MILLIS(window_start) AS start, UNIX_MILLIS(window_end) AS until"
    for row in rows("broker_availability_window", own, columns):
        windows.setdefault(row.broker_name, []).append((row.start, row.until))
    states = [
        (item["startTimestamp"] > at) == held(windows.get(name, []), at)
        for at, items in truth(producer)
        for name, item in items.items()
    ]
    return sum(states) / len(states)


SYNC_AND_ONEWAY = ("4.7.1_laton", "4.7.1_short", "4.9.8_short", "5.3.3_laton", "4.7.1_oneway", "5.3.3_oneway")


@pytest.mark.parametrize("producer", SYNC_AND_ONEWAY)
def test_windows_of_sync_and_oneway_producers_equal_the_clients_own_tables(rows, producer):
    agree = agreement(rows, producer)
    assert agree >= 0.999, f"{producer}: available or not agrees in {agree:.4%} of the dumped states"


def test_the_closing_start_of_every_item_equals_the_clients_last_dump(rows):
    for producer in SYNC_AND_ONEWAY:
        at, items = truth(producer)[-1]
        columns = "broker_name, UNIX_MILLIS(start_at) AS s, UNIX_MILLIS(last_update_at) AS u"
        closing = rows("fault_item_state", f"client_id = '127.0.0.1@{producer}'", columns)
        ours = {row.broker_name: row for row in closing}
        for name, item in items.items():
            # An update after the last dump, or just before it, is not in it.
            if ours[name].u < at - 20:
                assert abs((ours[name].s or 0) - item["startTimestamp"]) <= 20, (producer, name)


def test_the_detector_and_async_retries_are_unseen_and_their_windows_say_so(rows):
    told = [(row.client_id, row.certainty) for row in rows("broker_availability_window")]
    certainty = {client: {one for of, one in told if of == client} for client, _ in told}
    assert certainty["127.0.0.1@5.3.3_detect"] == {"possible"}
    assert certainty["127.0.0.1@4.9.8_async"] == certainty["127.0.0.1@5.3.3_async"] == {"partial"}
    # A broker that goes on answers several threads in one millisecond, and any update of theirs may be the last one.
    several = [one for client, one in told if client in map("127.0.0.1@{}".format, SYNC_AND_ONEWAY)]
    assert set(several) == {"certain", "possible"} and several.count("possible") < 0.2 * len(several)
    assert agreement(rows, "5.3.3_detect") >= 0.99
    # Most of what an ASYNC producer does is seen; the client's own retries are not.
    assert min(agreement(rows, p) for p in ("4.9.8_async", "5.3.3_async")) >= 0.80


# What stands out, worked out from chaos.jsonl: b is frozen for up to 2.4 s four times until 09:18:46, a from 09:18:54
# to 09:19:06; c is killed at 09:19:24, back at 09:19:54; a is stopped at 09:21:19, back at 09:21:39; from 09:22:04
# on a, b and c are frozen for 0.6 s in turn, a once more for 1.2 s at 09:22:14. Nine of ten producers are switched on.


@pytest.fixture(scope="module")
def findings(rows):
    found = rows.ask('SELECT * FROM producer_finding ORDER BY event_date, "from", client_id')

    def of(code):
        return [row for row in found if row.code == code]

    return of


def test_a_broker_that_stands_still_is_slow_for_the_fleet(findings):
    told = {(r.broker_name, f"{r['from']:%H:%M}", f"{r['to']:%H:%M}"): r.certainty for r in findings("FLEET_SLOW")}
    assert told == {
        # Three of the nine are not certain (ASYNC twice, a detector), and the two ONEWAY do not notice a frozen broker.
        ("broker-b", "09:18", "09:19"): "possible",
        ("broker-a", "09:18", "09:20"): "possible",
        ("broker-c", "09:19", "09:20"): "certain",
        ("broker-a", "09:21", "09:23"): "certain",
        ("broker-c", "09:22", "09:23"): "possible",  # two more have updates of two threads too close to be told apart
    }


def test_the_clients_own_tables_lie_within_the_bounds_of_each_fleet_minute(rows):
    """Producers that held a broker in some dump of a minute; the dumps, 200 ms apart, miss the shortest windows."""
    seen: dict[tuple, set] = {}
    for path in (CAPTURES / "producers").glob("fault_*"):
        for dump in records(path):
            for item in dump["items"]:
                if item["startTimestamp"] > dump["ts"]:
                    seen.setdefault((dump["ts"] // 60_000 * 60_000, item["name"]), set()).add(path.name)
    minutes = rows("fleet_minute", columns="*, UNIX_MILLIS(minute_at) AS ms")
    assert len(minutes) == 15 and all((r.active, r.active_off, r.active_unknown) == (9, 1, 0) for r in minutes)
    for r in minutes:
        held = len(seen.get((r.ms, r.broker_name), ()))
        assert r.isolating_at_least <= held <= r.isolating_at_most, (r.minute_at, r.broker_name, held)


def test_two_producers_had_no_broker_left_for_a_moment(findings):
    """Their dumps show all three held at 09:22:08.069, and from 09:22:15.711 to the dump before 09:22:17.710."""
    told = {r.client_id: (f"{r['from']:%T.%f}"[:-3], f"{r['to']:%T.%f}"[:-3]) for r in findings("ALL_ISOLATED")}
    assert told == {
        "127.0.0.1@4.7.1_laton": ("09:22:07.971", "09:22:08.116"),
        "127.0.0.1@5.3.3_detect": ("09:22:15.569", "09:22:17.570"),
    }


def test_long_isolations_are_those_of_ten_minutes_under_4_7_1_and_of_ten_seconds_under_5_3_3(findings):
    lengths: dict[str, list] = {}
    for r in findings("LONG_ISOLATION"):
        lengths.setdefault(r.client_id.partition("@")[2], []).append(round((r["to"] - r["from"]).total_seconds()))
    assert lengths["4.7.1_laton"] == [601, 164]
    assert lengths["4.7.1_oneway"] == [600, 600]
    # Its seven failed sends: two to a, a millisecond apart, then two to c and three to a while they are down.
    assert lengths["5.3.3_laton"] == [10] * 6
    assert "4.7.1_latoff" not in lengths


def test_impossible_choices_are_told(rows, findings):
    impossible = rows("send_verdict", "verdict = 'impossible'")
    told = [(r.client_id, r.topic, r.broker_name) for r in findings("IMPOSSIBLE_CHOICE")]
    assert sorted(told) == sorted({(r.client_id, r.topic, r.broker_name) for r in impossible})


def test_nothing_else_stands_out(findings):
    """One of nine is more than 10 %, no broker is slow in five minutes on end, and all that came back were used."""
    for code in ("OVER_ISOLATION", "FAULT_OFF_SLOW", "NOT_RETURNING"):
        assert findings(code) == []


# -- for those who read the tables ---------------------------------------------------------------------------------


def test_every_view_answers_and_every_column_of_tables_and_views_has_a_comment(rows):
    names = [view.name for view in views()]
    assert len(names) >= 5
    for name in names:
        assert rows(name) or name in NOTHING_TO_SHOW
    for name in [*names, *TABLES]:
        for column in rows.ask(f"DESCRIBE TABLE {name}"):
            assert column.comment, f"{name}.{column.col_name}"


def examples() -> list[Any]:
    """The query in each view's header."""
    found = []
    for name, text in view_texts().items():
        header = [line.removeprefix("--").strip() for line in text.splitlines() if line.startswith("--")]
        assert any(line.startswith("Grain:") for line in header), name
        example = " ".join(header[next(i for i, line in enumerate(header) if line.startswith("Example:")) :])
        found.append(pytest.param(example.removeprefix("Example:").rstrip(";"), id=name))
    return found


@pytest.mark.parametrize("query", examples())
def test_the_example_in_each_views_header_runs(asker, query):
    asker.answer(query).read_all()


def test_the_summary_names_what_a_person_looks_for(asker):
    text = "\n".join(summary(asker))
    assert "g_mix: " in text and "MIXED_STRATEGY in 68 rounds" in text and "is owned twice in g_mix" in text
    assert "g_sub: ORPHAN_QUEUE" in text and "g_skew: ORPHAN_QUEUE" in text
    assert "127.0.0.1@8407#2503479679860 is listed in g_avg and did not answer" in text
    assert "600.8 s  broker-a  by 127.0.0.1@4.7.1_laton" in text


def test_a_record_that_ends_inside_a_window_leaves_it_open(rows):
    window = rows.one("broker_availability_window", "client_id LIKE '%4.7.1_oneway' AND broker_name = 'broker-a'")
    assert window.end_reason == "open"


# -- verdicts on the producers' choices ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verdicts(rows):
    found = {}
    for row in rows("send_verdict", columns="*, UNIX_MILLIS(begin_at) AS begin_ms"):
        found.setdefault(row.client_id, {})[row.msg_id, row.attempt, row.begin_ms] = row
    return found


@pytest.mark.parametrize(
    ("name", "at_least"),
    [("4.7.1_short", 300), ("5.3.3_detect", 80), ("4.9.8_short", 0), ("4.9.8_async", 0), ("4.7.1_oneway", 1)],
)
def test_verdicts_equal_those_of_the_choices_judged_one_by_one(verdicts, name, at_least):
    """The jobs prune, join and stream; the sequential judgement of the same record must say the same of each choice."""
    ours = verdicts.get(f"127.0.0.1@{name}", {})
    one_by_one = list(Recorded.captured(name).verdicts())
    asynchronous = name.endswith("async")
    told = {
        (a["msgId"], None if asynchronous else a["times"], a["beginMs"]): (j.verdict, j.reason, sorted(j.admissible))
        for a, j in one_by_one
    }
    assert len(told) == len(one_by_one)
    different = [
        (key, row.verdict, row.reason, told[key])
        for key, row in ours.items()
        if (row.verdict, row.reason, row.admissible) != told[key]
    ]
    assert different == []
    assert {told[key][0] for key in told.keys() - ours.keys()} <= {"consistent"}
    assert len(ours) >= at_least


def test_the_choices_of_the_captured_producers_were_admissible_but_two(rows):
    """tests/captures/test_fold_of_captures.py explains the two."""
    counts = Counter(row.verdict for row in rows("send_verdict"))
    assert counts["impossible"] == 2
    assert set(counts) == {"consistent", "possible", "impossible"}
    assert counts["possible"] < 100
