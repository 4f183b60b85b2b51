"""What is computed from the attempts that matter, against what is computed from all of them."""

from __future__ import annotations

import random

import pytest

from jobs.delta_tables import Lake
from jobs.publication import Stretch
from jobs.rebuild_by_frames import compute
from jobs.run_context import RunContext
from jobs.transforms.broker_activity import broker_activity
from jobs.transforms.frames import ClusterDate
from jobs.transforms.relevant_attempts import (
    RelevantAttempts,
    _held,
    _last_begun_before,
    _last_of_date,
    _of_pairs,
    _while_recorded,
)
from schemas import PRODUCER_INSTANCE, SEND_ATTEMPT
from tests.conftest import only_in_one
from tests.restless_producers import (
    BEGIN_MS,
    BROKERS,
    DAY_MS,
    DAYS,
    FIRST,
    SEED,
    at,
    attempt,
    attempts_of,
    producer,
    starts_of,
)


def stretch_of(spark, folder, attempts, starts):
    """A stretch of all dates on a new lake that holds these rows."""
    lake = Lake(spark, str(folder), retention_days=1)
    context = RunContext("")
    for table, made in ((SEND_ATTEMPT, attempts), (PRODUCER_INSTANCE, starts)):
        rows = {tuple(row[k] for k in table.key): row for row in made}
        lineage = {"ingested_at": context.started_at, "run_id": "r"}
        stored = [tuple({**row, **lineage}.get(name) for name in table.columns.names) for row in rows.values()]
        lake.append(table, spark.createDataFrame(stored, table.columns))
    dates = [ClusterDate("c", day) for day in DAYS]
    return Stretch(
        lake, context, dates, {}, {}, {"c": DAYS[-1]}, frozenset(dates), frozenset(), frozenset({"producer_hook"})
    )


def attempts_frame(spark, rows):
    lineage = {"ingested_at": at(0), "run_id": "r"}
    stored = [tuple({**row, **lineage}.get(name) for name in SEND_ATTEMPT.columns.names) for row in rows]
    return spark.createDataFrame(stored, SEND_ATTEMPT.columns)


def pruned(settings):
    """Settings under which the attempts that do not matter are left out."""
    few = settings.pruning.model_copy(update={"from_attempts": 0, "below_share": 1.0})
    return settings.model_copy(update={"pruning": few})


@pytest.fixture(scope="module")
def both(spark, settings, tmp_path_factory):
    """All tables of the rebuild: from all attempts, and from those that matter."""
    rng = random.Random(SEED)
    attempts, starts = ([row for n in range(36) for row in made(n, rng)] for made in (attempts_of, starts_of))
    stretch = stretch_of(spark, tmp_path_factory.mktemp("lake"), attempts, starts)
    return [
        {name: frame.localCheckpoint() for name, frame in compute(stretch, chosen).items()}
        for chosen in (settings, pruned(settings))
    ]


def test_a_broker_shunned_for_ever_is_told_as_shunned_for_366_days(spark, settings, tmp_path):
    """What a producer may be given for "never again" is no instant; nor may it make a row for each date to come."""
    rng = random.Random(SEED)
    sends = [
        (1_000, 900, "broker-a"),
        (5_000, 2, "broker-b"),
        (2 * DAY_MS + 5, 3, "broker-a"),
        (2 * DAY_MS, 2, "broker-b"),
    ]
    attempts = [attempt(3, n, at_ms, ms, broker, "SYNC", False, rng) for n, (at_ms, ms, broker) in enumerate(sends)]
    start = {
        **next(row for n in range(9) for row in starts_of(3, random.Random(n))),
        "event_date": FIRST,
        "started_at": at(0),
        "client_version": "V5_3_3",
        "latency_fault_enabled": True,
        "latency_max_ms": [0, 550],
        "not_available_ms": [0, 2**63 - 1],
    }
    tables = compute(stretch_of(spark, tmp_path, attempts, [start]), pruned(settings))
    (rule, *_) = tables["producer_replay"].collect()
    assert (rule.not_available_ms, rule.recorded.not_available_ms) == ([0, 366 * DAY_MS], [0, 2**63 - 1])
    windows = tables["broker_availability_window"].orderBy("window_start").collect()
    assert {(w.broker_name, w.state, w.not_available_ms) for w in windows} == {
        ("broker-a", "unavailable", 366 * DAY_MS)
    }
    assert windows[0].window_start == at(1_900).replace(tzinfo=None)
    assert len(windows) < 20


@pytest.mark.parametrize(
    "name", ["producer_replay", "fault_item_state", "broker_availability_window", "send_verdict", "producer_finding"]
)
def test_the_attempts_that_matter_give_what_all_give(both, name):
    from_all, from_few = (tables[name] for tables in both)
    assert from_all.count() > 30
    assert only_in_one(from_all, from_few) == []


def test_whatever_ended_while_a_broker_was_held_began_in_a_minute_that_is_kept(spark):
    """Quick attempts at the edges of holds: begun before the hold, ended at its first and at its last instant.

    And those begun a little after it, as far as the clocks may err: such a choice is in doubt.
    """
    rng, slow_ms, tolerance_ms = random.Random(SEED), 550, 3
    holds, quick = [], []
    for number in range(200):
        held_at = 60_000 * rng.randrange(1440) + rng.choice([0, 5, 300, rng.randrange(60_000)])
        duration = rng.choice([30_000, 60_000, 600_000, rng.randrange(1, 200_000)])
        duration += rng.choice([0, -(held_at + duration) % 60_000 - 1])  # ends in the last instant of a minute
        pair = ("c", "g", f"p{number}", "broker-a")
        holds.append((*pair, at(held_at), duration))
        for end in (held_at, held_at + duration, held_at + rng.randrange(duration)):
            quick += [(pair[2], (BEGIN_MS + end - took) // 60_000) for took in (0, slow_ms - 1, rng.randrange(slow_ms))]
        quick.append((pair[2], (BEGIN_MS + held_at + duration + tolerance_ms) // 60_000))
    columns = "cluster string, producer_group string, client_id string, broker_name string, at timestamp"
    kept = _held(spark.createDataFrame(holds, f"{columns}, duration_ms long"), slow_ms, tolerance_ms)
    minutes = {(row.client_id, row.minute) for row in kept.collect()}
    assert set(quick) <= minutes
    # And no more than the hold needs: its own minutes, and the one before where it begins early in its first.
    assert len(minutes) <= sum(duration // 60_000 + 3 for *_, duration in holds)


def test_a_hold_of_a_year_keeps_no_minute_after_the_last_date_with_attempts(spark):
    pair = ("c", "g", "p", "broker-a")
    names = "cluster string, producer_group string, client_id string, broker_name string"
    told = spark.createDataFrame(
        [(*pair, at(DAY_MS - 60_000), 366 * DAY_MS)], f"{names}, at timestamp, duration_ms long"
    )
    of_pairs = spark.createDataFrame([(*pair, day) for day in DAYS[:2]], f"{names}, event_date date")
    minutes = {row.minute - BEGIN_MS // 60_000 for row in _held(_while_recorded(told, of_pairs), 550, 3).collect()}
    assert minutes == set(range(1438, 2881))


def test_the_last_quick_update_that_ended_on_a_date_began_in_a_minute_that_is_kept(spark):
    """Quick attempts in the last seconds of a date, some of which end on the next, and earlier ones, or none."""
    rng, slow_ms = random.Random(SEED), 550
    rows, last = [], {}
    for number in range(300):
        begun = [DAY_MS - rng.choice([1, 5, 549, 550, 551, rng.randrange(1_200)]) for _ in range(rng.randrange(4))]
        begun += [rng.randrange(DAY_MS - 600) for _ in range(rng.choice([0, 1, 1, 5]))]
        # At the seam of two minutes the one that began first may end last.
        seam = 60_000 * rng.randrange(1, 1440)
        begun += rng.choice([[], [seam - 1, seam], [seam - rng.randrange(1, 549), seam + rng.randrange(3)]])
        for serial, begin in enumerate(begun):
            latency = rng.choice([0, slow_ms - 1, rng.randrange(slow_ms)])
            rows.append(attempt(number, serial, begin, latency, "broker-a", "SYNC", False, rng))
            if begin + latency < DAY_MS:
                last[f"p{number:02d}"] = max(last.get(f"p{number:02d}", (0, 0)), (begin + latency, begin))
    made = attempts_frame(spark, [{**row, "queue_selected_by": None} for row in rows])
    kept = _last_of_date(_of_pairs(broker_activity(made, slow_ms=slow_ms)), slow_ms).collect()
    minutes = {(row.client_id, row.minute) for row in kept}
    assert len(last) > 200
    assert {(who, (BEGIN_MS + begin) // 60_000) for who, (_, begin) in last.items()} <= minutes
    assert len(minutes) <= 3 * len({row.client_id for row in kept})


def test_the_last_update_before_each_cut(spark):
    """Of instants at the borders of slots and dates, cuts among them, for clients that two groups share."""
    rng, slot_ms = random.Random(SEED), 240_000
    border = [0, 999, slot_ms - 1, slot_ms, 60 * slot_ms, DAY_MS - slot_ms, DAY_MS - 1]

    def drawn(most):
        return [rng.choice([rng.choice(border), rng.randrange(DAY_MS), rng.randrange(3_000)]) for _ in range(most)]

    begun, cuts, expected = [], [], set()
    for number in range(200):
        who, day = ("c", f"g{number % 2}", f"p{number // 4}"), number % 4 // 2
        day_ms = BEGIN_MS + day * DAY_MS
        some = {(cut - rng.choice([0, 0, 1_553])) // 1000 for cut in drawn(rng.choice([0, 1, 3, 30]))}
        cuts += [(*who, DAYS[day], day_ms // 1000 + cut) for cut in some for _ in range(2)]
        for broker in BROKERS[: rng.randint(1, 3)]:
            sent = drawn(rng.choice([1, 5, 60]))
            begun += [(*who, broker, DAYS[day], at(day * DAY_MS + ms)) for ms in sent]
            before = ([ms for ms in sent if ms // 1000 < cut] for cut in some)
            expected |= {(*who, broker, DAYS[day], day_ms + max(found)) for found in before if found}
    names = "cluster string, producer_group string, client_id string"
    given = spark.createDataFrame(cuts, f"{names}, event_date date, cut long")
    updates = spark.createDataFrame(begun, f"{names}, broker_name string, event_date date, begin_at timestamp")
    told = _last_begun_before(given, updates).drop("cut").collect()
    assert len(expected) > 500
    assert {tuple(row) for row in told} == expected
    assert len(told) == len(expected)


def test_what_a_choice_found_in_the_table_is_kept(spark):
    """Quick attempts about the turn of a second, and choices just after or later: of each broker the last update.

    Some end long after others that began later, some after the choice; and some update nothing, whenever they began.
    """
    rng, slow_ms, tolerance_ms = random.Random(SEED), 550, 3
    rows, choices_ms = [], {}
    for number in range(60):
        turns = [1000 * rng.randrange(3_600, 80_000) for _ in range(12)]
        choices_ms[number] = [turn + rng.choice([rng.randrange(1_500), rng.randrange(900_000)]) for turn in turns[:6]]
        for serial in range(80):
            begin, took = rng.choice(turns) + rng.randrange(-700, 700), rng.choice([1, 549, rng.randrange(slow_ms)])
            row = attempt(number, serial, begin, took, rng.choice(BROKERS[:2]), "SYNC", False, rng)
            kind = rng.choice(["sync", "sync", "selector", "async without an end"])
            row["queue_selected_by"] = "selector" if kind == "selector" else None
            rows.append({**row, "mode": "ASYNC"} if kind.startswith("async") else row)
    made = attempts_frame(spark, rows)
    told = [(*producer(n).values(), FIRST, at(ms)) for n, begun in choices_ms.items() for ms in begun]
    names = "cluster string, producer_group string, client_id string, event_date date, begin_at timestamp"
    suspects = spark.createDataFrame(told, names)
    activity = broker_activity(made, slow_ms=slow_ms)
    relevant = RelevantAttempts(made, activity, slow_ms=slow_ms, tolerance_ms=tolerance_ms)
    kept = relevant.that_updated_last(suspects).unionByName(relevant.that_updated_near(suspects))
    kept_ids = {row.msg_id for row in kept.select("msg_id").collect()}
    updates = [row for row in rows if row["queue_selected_by"] is None and row["mode"] == "SYNC"]
    found = set()
    for number, begun in choices_ms.items():
        for broker in BROKERS[:2]:
            own = [r for r in updates if (r["client_id"], r["broker_name"]) == (f"p{number:02d}", broker)]
            for ms in begun:
                ended = [r for r in own if r["end_at"] < at(ms - tolerance_ms)]
                found |= {r["msg_id"] for r in ended if r["end_at"] == max(e["end_at"] for e in ended)}
    assert len(found) > 300
    assert found <= kept_ids
    assert len(kept_ids) < len(rows)
