"""Rebalances that the captures show, against what was done to their clients: who came and went, and when."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs import flag_allocation_drift, ingest_consumer_snapshots
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import REBALANCE_EVENT, SNAPSHOT_CAPTURE

CAPTURES = Path(__file__).parent.parent / "golden" / "captures"
ORACLE = {
    "admin_snapshots": CAPTURES / "consumers" / "admin_snapshots.jsonl.gz",
    "client_log": CAPTURES / "consumers" / "client_logs",
    "broker_log": CAPTURES / "broker_logs",
}
# When things were done to members of g_avg in the capture of consumers, epoch ms.
A4_JOINED, A5_JOINED, A4_KILLED, A5_STOPPED, A5_WENT_ON, ENDED = (
    1795253440435, 1795253455442, 1795253485448, 1795253500555, 1795253645578, 1795253695000,
)  # fmt: skip
A4, A5 = "127.0.0.1@8279#2487844758314", "127.0.0.1@8407#2503479679860"


def lake_of(root: Path, **sources: Path) -> LocalLake:
    """A lake made of the sources: formats and where their files are."""
    for name, source in sources.items():
        place = root / "landing" / name / "cluster=c"
        if source.is_dir():
            shutil.copytree(source, place, dirs_exist_ok=True)
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)
    lake, context = LocalLake(str(root / "lake"), retention_days=7), RunContext(str(root / "landing"))
    for job in (ingest_consumer_snapshots, flag_allocation_drift):
        job.run_on(lake, LocalRunner(2), load_settings(None), context)
    return lake


def events_of(lake, *groups):
    rows = lake.rows(REBALANCE_EVENT, REBALANCE_EVENT.schema.names).to_pylist()
    return [row for row in rows if not groups or row["consumer_group"] in groups]


def ms(at: datetime) -> int:
    return round(at.replace(tzinfo=UTC).timestamp() * 1000)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    return lake_of(tmp_path_factory.mktemp("oracle"), **ORACLE)


@pytest.fixture(scope="module")
def rounds_alone(tmp_path_factory):
    return lake_of(tmp_path_factory.mktemp("rounds"), admin_snapshots=ORACLE["admin_snapshots"])


def near(events, since, until):
    return [row for row in events if since <= ms(row["changed_at"]) < until]


# Kind, whom it names, and when: members that came and went in g_avg.
DONE = [
    ("member_joined", A4, A4_JOINED, A4_JOINED + 4_000),
    ("member_joined", A5, A5_JOINED, A5_JOINED + 4_000),
    ("member_died", A4, A4_KILLED, A4_KILLED + 4_000),
]


@pytest.mark.parametrize(("kind", "subject", "since", "until"), DONE)
def test_logs_name_what_was_done_to_a_member_and_when(oracle, kind, subject, since, until):
    found = near(events_of(oracle, "g_avg"), since, until)
    others = [row for row in found if row["client_id"] != subject]
    assert others and {(row["trigger_kind"], *row["trigger_subjects"]) for row in others} == {(kind, subject)}
    # Brokers write whole seconds; a process that starts takes a second to register.
    assert all(since - 1_000 <= ms(row["trigger_at"]) <= since + 2_500 for row in others)
    assert {row["certainty"] for row in found} == {"exact"}
    started = [row for row in found if row["client_id"] == subject]
    assert [row["trigger_kind"] for row in started] == (["start"] if kind == "member_joined" else [])


@pytest.mark.parametrize(("kind", "subject", "since", "until"), DONE)
def test_rounds_alone_tell_the_same_within_an_interval(rounds_alone, kind, subject, since, until):
    found = near(events_of(rounds_alone, "g_avg"), since, until + 4_000)
    others = [row for row in found if row["client_id"] != subject]
    assert others and {row["trigger_kind"] for row in others} == {kind.replace("died", "gone")}
    for row in others:
        assert subject in row["trigger_subjects"] and row["certainty"] == "interval"
        assert ms(row["trigger_after"]) - 1_000 <= since + 2_500 and since <= ms(row["trigger_at"])
        assert ms(row["changed_after"]) < ms(row["changed_at"])


def test_a_client_may_have_changed_right_after_its_own_last_read_whatever_was_read_of_others_later(rounds_alone):
    reads = rounds_alone.rows(SNAPSHOT_CAPTURE, ["kind", "consumer_group", "client_id", "answered", "captured_at"])
    own = defaultdict(list)
    for read in reads.to_pylist():
        if read["kind"] == "consumerRunningInfo" and read["answered"]:
            own[read["consumer_group"], read["client_id"]].append(read["captured_at"])
    found = 0
    for row in events_of(rounds_alone):
        before = [at for at in own[row["consumer_group"], row["client_id"]] if at < row["changed_at"]]
        if row["changed_after"] is not None and row["trigger_kind"] != "start" and before:
            found += 1
            assert row["changed_after"] <= max(before), row
    assert found > 20


def test_the_queues_of_a_frozen_member_stood_for_as_long_as_it_was_frozen(oracle, rounds_alone):
    """It is told by the end of its heartbeats, and by the rounds in which it answered last."""
    for lake in (oracle, rounds_alone):
        found = near(events_of(lake, "g_avg"), A5_STOPPED + 60_000, A5_WENT_ON)
        hands = [(hand, row) for row in found for hand in row["hand_overs"] if hand["from_client_id"] == A5]
        assert len(hands) == 3
        for hand, row in hands:
            stood = ms(row["changed_at"]) - A5_STOPPED
            assert hand["unread_at_least_ms"] <= stood <= hand["unread_ms"] <= stood + 35_000


def test_an_ordered_queue_waits_for_the_lock_that_another_has(oracle):
    """The first member of g_order was refused locks that the second held, and got them at its next timer."""
    (waited,) = [row for row in events_of(oracle, "g_order") if row["trigger_kind"] == "lock_acquired"]
    assert (waited["took_ms"], waited["queues_gained"], waited["ordered"]) == (20_000, 6, True)
    assert waited["lock_failures"] >= 6 and waited["longest_unread_ms"] < 20_000
    (graceful,) = [
        row
        for row in events_of(oracle, "g_order")
        if row["client_id"].endswith("_o2") and row["trigger_subjects"] == ["127.0.0.1@4.7.1_o1"]
    ]
    assert graceful["trigger_kind"] == "member_left" and graceful["longest_unread_ms"] < 1_000


def test_between_starts_and_ends_a_group_that_nobody_touched_does_not_rebalance(oracle, rounds_alone):
    for lake in (oracle, rounds_alone):
        untouched = [
            row
            for row in events_of(lake, "g_idle", "g_bcast", "g_skew")
            if A4_JOINED - 10_000 <= ms(row["changed_at"]) <= ENDED
        ]
        assert untouched == []


def _contents(lake, names):
    return sorted(json.dumps({name: row[name] for name in names}, default=str) for row in events_of(lake))


SCOPE = CAPTURES / "scope"
SCOPE_T0 = 1795569372964


@pytest.fixture(scope="module")
def scope(tmp_path_factory):
    sources = {name: SCOPE / name / "cluster=scope" for name in ("admin_snapshots", "broker_log", "client_log")}
    return lake_of(tmp_path_factory.mktemp("scope"), **sources)


@pytest.mark.parametrize(
    ("group", "second", "kind", "subject"),
    [
        ("g_push", 60, "member_died", "4.9.8_k1"),
        ("g_static", 81.6, "member_left", "5.3.3_s2"),
        ("g_lite49", 81.4, "member_left", "4.9.8_l2@STREAM"),
        ("g_lite53", 81.5, "member_left", "5.3.3_m2@STREAM"),
        ("g_pop", 81.9, "member_left", "5.3.3_o2"),
        ("g_view", 125, "member_joined", "5.3.3_v3"),
    ],
)
def test_what_was_done_to_the_groups_of_the_scopes_is_named(scope, group, second, kind, subject):
    at = SCOPE_T0 + round(second * 1000)
    found = near(events_of(scope, group), at - 2_000, at + 3_000)
    assert {(row["trigger_kind"], *row["trigger_subjects"]) for row in found} == {(kind, f"127.0.0.1@{subject}")}
    assert all(0 <= row["took_ms"] <= 3_000 and row["certainty"] == "exact" for row in found)


def test_groups_that_nobody_touched_have_starts_alone(scope):
    """Of a group that consumes a short while its retry topic comes later, whose route clients poll every 30 s."""
    quiet = events_of(scope, "g_bcast", "g_assign", "g_gone", "g_push", "g_static", "g_view")
    before = [row for row in quiet if ms(row["changed_at"]) < SCOPE_T0 + 35_000]
    kinds = {row["trigger_kind"] for row in before if not all(t.startswith("%RETRY%") for t in row["topics"])}
    assert kinds == {"start"}
    between = [row for row in quiet if SCOPE_T0 + 150_000 <= ms(row["changed_at"]) <= SCOPE_T0 + 340_000]
    assert between == []


def test_a_list_that_one_broker_alone_lacks_a_member_in_is_told_when_a_client_asks_that_broker(scope):
    rows = near(events_of(scope, "g_view"), SCOPE_T0 + 95_000, SCOPE_T0 + 122_000)
    # The member itself cannot ask for the list meanwhile: nothing comes of it.
    failed = [row for row in rows if row["outcome"] == "failed"]
    assert {row["client_id"] for row in failed} == {"127.0.0.1@5.3.3_v3"}
    assert {one["kind"] for row in failed for one in row["exceptions"]} == {"member_list_failed"}
    found = [row for row in rows if row["outcome"] == "applied"]
    assert {(row["trigger_kind"], *row["trigger_subjects"]) for row in found} == {("member_died", "127.0.0.1@5.3.3_v3")}
    assert {row["woken_by"] for row in found} == {"timer"}
    assert max(row["held_twice_ms"] for row in found) > 19_000


@pytest.mark.soak
def test_dates_that_a_midnight_parts_tell_the_same_whichever_is_computed_first(tmp_path):
    """The capture moved so that a midnight lies within it: both dates at once, or the second one later."""
    texts = moved_logs()
    whole = lake_of(tmp_path / "whole", client_log=written(tmp_path / "a", texts))
    days = {row["event_date"] for row in events_of(whole)}
    assert len(days) == 2
    halves = [{n: [line for line in of if (line[:10] == day)] for n, of in texts.items()} for day in _days(texts)]
    part = lake_of(tmp_path / "parts", client_log=written(tmp_path / "b", halves[0], "1"))
    assert len({row["event_date"] for row in events_of(part)}) == 1
    part = lake_of(tmp_path / "parts", client_log=written(tmp_path / "c", halves[1], "2"))
    names = [name for name in REBALANCE_EVENT.contract_columns if name != "evidence"]
    assert _contents(part, names) == _contents(whole, names)
    late = lake_of(tmp_path / "late", client_log=written(tmp_path / "d", halves[1], "2"))
    late = lake_of(tmp_path / "late", client_log=written(tmp_path / "e", halves[0], "1"))
    assert _contents(late, names) == _contents(whole, names)


def moved_logs() -> dict[str, list[str]]:
    """Lines of the client's log that has g_avg's fourth member, later by so much that a midnight lies within them."""
    by = timedelta(seconds=52_100)
    found = {}
    for name in ("consumer_4.9.8", "consumer_a4"):
        path = ORACLE["client_log"] / name / "rocketmq_client.log.gz"
        lines = gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
        stamped = [line for line in lines if line[:4] == "2026" and line[19:20] == ","]
        moved = [datetime.strptime(line[:19], "%Y-%m-%d %H:%M:%S") + by for line in stamped]
        found[name] = [f"{at:%Y-%m-%d %H:%M:%S}{line[19:]}" for at, line in zip(moved, stamped, strict=True)]
    return found


def _days(texts):
    return sorted({line[:10] for lines in texts.values() for line in lines})


def written(root: Path, texts: dict[str, list[str]], suffix: str = "") -> Path:
    for name, lines in texts.items():
        (root / name).mkdir(parents=True)
        log = root / name / f"rocketmq_client.log{'.' + suffix if suffix else ''}"
        log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def test_who_took_a_queue_began_at_what_the_owner_before_stored_or_before_it_where_it_took_it_early(oracle):
    """Lines of 4.7.1, 4.9.8 and 5.3.3; the offset where a client begins is named through 4.9.8."""
    raw = b"".join(gzip.decompress(path.read_bytes()) for path in ORACLE["client_log"].glob("*/*.gz")).decode()
    hands = [hand for row in events_of(oracle) for hand in row["hand_overs"] if hand["stored_offset"] is not None]
    for hand in hands:
        queue = f"topic={hand['topic']}, brokerName={hand['broker_name']}, queueId={hand['queue_id']}"
        by = f"ClientId: {hand['from_client_id']} updateConsumeOffsetToBroker MessageQueue [{queue}]"
        assert f"{by} {hand['stored_offset']}" in raw
    named = [hand for hand in hands if hand["began_offset"] is not None]
    given = [hand for hand in named if hand["released_at"] is not None]
    assert (len(hands), len(named), len(given)) == (143, 103, 68)
    assert all(hand["began_offset"] == hand["stored_offset"] for hand in given)
    # Of queues that two had at once: some were taken before the last messages of who had them before were stored.
    moved = sorted(hand["began_offset"] - hand["stored_offset"] for hand in named)
    assert [offsets for offsets in moved if offsets] == [-24, -6, -4, -3, -3, -2, -1, 1, 6]
