"""What must hold of ``random_producers``, whatever computes them: tests for modules with a fixture ``rebuilt``.

That gives the rows of the tables. The oracles are ``tests/recorded_producer.py`` for verdicts, one choice at a time,
and ``FaultTable``, one update at a time, for the rest.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hindsight.udfs.fault_tolerance import FaultTable
from tests.random_producers import DAY, PRODUCERS, VERSIONS, lines_of, name_of, start_of
from tests.recorded_producer import TOLERANCE_MS, Recorded

FAR = datetime(9999, 12, 31)


def own(rows, producer):
    return [row for row in rows if row.client_id == name_of(*producer)]


def ms_of(instant):
    return instant and round(instant.replace(tzinfo=UTC).timestamp() * 1000)


def key_of(attempt):
    return attempt["msgId"], None if attempt["mode"] == "ASYNC" else attempt["times"]


def told_one_by_one(producer):
    recorded = Recorded(start_of(producer[0]), lines_of(*producer))
    verdicts = {key_of(a): (j.verdict, j.rule, j.reason, sorted(j.admissible)) for a, j in recorded.verdicts()}
    if goes_by_no_table(recorded, verdicts):
        verdicts = {
            key: ("possible", rule, "settings_changed", admissible) if verdict == "impossible" else told
            for key, told in verdicts.items()
            for verdict, rule, _, admissible in [told]
        }
    return recorded, verdicts


def goes_by_no_table(recorded, verdicts):
    """From its first impossible choice on, of sends that had another choice, half as many went to brokers that the
    table avoids as would have if each broker of the topic were as likely."""
    struck = [a["beginMs"] for a in recorded.choices if verdicts[key_of(a)][0] == "impossible"]
    if len(struck) < 5:
        return False
    against = expected = 0
    for a in recorded.choices:
        if a["beginMs"] < min(struck) or a["times"]:
            continue
        avoided = {
            broker: is_avoided(recorded, broker, a["beginMs"]) for topic, broker in recorded.used if topic == a["topic"]
        }
        if 0 < sum(avoided.values()) < len(avoided):
            against += avoided[a["broker"]]
            expected += sum(avoided.values()) / len(avoided)
    return expected > 0 and against >= expected / 2


def is_avoided(recorded, broker, at_ms):
    """Whether the fault table refuses the broker, all updates until then and sure removals applied."""
    changes = [
        (a["endMs"], a["beginMs"], (a["endMs"] - a["beginMs"], told)) for a, _, told in recorded.updates.get(broker, [])
    ]
    changes += [(now, now, None) for name, now in recorded.removed if name == broker]
    table = FaultTable(recorded.profile)
    for now, _, update in sorted(changes, key=lambda change: change[:2]):
        if now <= at_ms:
            applied(table, (now, now, broker, update))
    return not table.is_available(broker, at_ms)


@pytest.mark.parametrize("version", VERSIONS)
def test_verdicts_are_those_of_the_choices_judged_one_by_one(rebuilt, version):
    seen = set()
    for producer in (p for p in PRODUCERS if p[0] == version):
        _, expected = told_one_by_one(producer)
        ours = {
            (row.msg_id, row.attempt): (row.verdict, row.rule, row.reason, row.admissible)
            for row in own(rebuilt["send_verdict"], producer)
        }
        assert {key: expected[key] for key in ours} == ours, producer
        assert {expected[key][0] for key in expected.keys() - ours.keys()} <= {"consistent"}, producer
        # What a change of settings explains was impossible to the judge of single choices.
        seen |= {"impossible" if told[2] == "settings_changed" else told[0] for told in ours.values()}
    assert seen == {"consistent", "possible", "impossible"}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_choices_in_doubt_are_judged_and_no_others(rebuilt, version):
    for producer in (p for p in PRODUCERS if p[0] == version):
        recorded, _ = told_one_by_one(producer)
        doubtful = [a for a in recorded.choices if not recorded.is_beyond_doubt(a, TOLERANCE_MS)]
        expected = {(a["msgId"], None if a["mode"] == "ASYNC" else a["times"]) for a in doubtful}
        assert {(row.msg_id, row.attempt) for row in own(rebuilt["send_verdict"], producer)} == expected, producer


def changes_of(producer):
    """Every update and every sure removal of the producer, in order: (instant, broker, update or None)."""
    recorded, _ = told_one_by_one(producer)
    changes = [
        (a["endMs"], a["beginMs"], broker, (a["endMs"] - a["beginMs"], told))
        for broker, made in recorded.updates.items()
        for a, _, told in made
    ]
    changes += [(now, now, broker, None) for broker, now in recorded.removed]
    return recorded.profile, sorted(changes, key=lambda change: change[:2])


def applied(table, change):
    now, _, broker, update = change
    if update is None:
        table.remove(broker)
    else:
        table.update(broker, latency_ms=update[0], now_ms=now, **update[1]._asdict())


def test_some_brokers_are_forgotten():
    assert any(update is None for producer in PRODUCERS for *_, update in changes_of(producer)[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_is_unavailable_exactly_inside_its_windows(rebuilt, version):
    for producer in (p for p in PRODUCERS if p[0] == version):
        profile, changes = changes_of(producer)
        held = [
            (row.broker_name, row.state, ms_of(row.window_start), ms_of(row.window_end))
            for row in own(rebuilt["broker_availability_window"], producer)
        ]
        moments = sorted({now + step for now, *_ in changes for step in (0, 1, 2_000, 10_000, 30_000, 600_000)})
        table, pending = FaultTable(profile), list(changes)
        for ms in moments:
            while pending and pending[0][0] <= ms:
                applied(table, pending.pop(0))
            inside = {
                (broker, state) for broker, state, start, end in held if start <= ms and (end is None or ms < end)
            }
            for broker in "abcd":
                unreachable = (broker, "unreachable") in inside
                gated = (broker, "unavailable") in inside or (profile.reachable_gates_availability and unreachable)
                assert gated == (not table.is_available(broker, ms)), (producer, broker, ms)
                assert unreachable == (not table.is_reachable(broker)), (producer, broker, ms)


@pytest.mark.parametrize("version", VERSIONS)
def test_items_close_as_the_table_holds_them(rebuilt, version):
    for producer in (p for p in PRODUCERS if p[0] == version):
        profile, changes = changes_of(producer)
        table = FaultTable(profile)
        for change in changes:
            applied(table, change)
        rows = [r for r in own(rebuilt["fault_item_state"], producer) if r.event_date == DAY]
        assert {r.broker_name: (r.current_latency_ms, ms_of(r.start_at), r.reachable) for r in rows} == table.items()


def held_longer(recorded, broker, more_ms):
    """The stretches, ms, in which the table holds a broker, if the client measured so much longer than the hook."""
    made = recorded.updates.get(broker, [])
    removed = [(at, None) for name, at in recorded.removed if name == broker]
    stretches, held, table = [], None, FaultTable(recorded.profile)
    for at, told in sorted([*((a["endMs"], (a, t)) for a, _, t in made), *removed], key=lambda change: change[0]):
        if held and held[1] < at:
            stretches.append(held)
            held = None
        if told is None:
            table.remove(broker)
        else:
            latency = told[0]["endMs"] - told[0]["beginMs"]
            longer = latency if told[1].isolation else latency + more_ms
            table.update(broker, latency_ms=longer, now_ms=at, **told[1]._asdict())
        until = (table.items()[broker].start_ms or 0) if broker in table.items() else 0
        if until > at:
            held = (held[0] if held else at, until)
        elif held:
            stretches.append((held[0], at))
            held = None
    return [each for each in (*stretches, held) if each and each[1] > each[0]]


def is_at_an_edge(recorded, row):
    start, end = ms_of(row.window_start), ms_of(row.window_end)
    longer = held_longer(recorded, row.broker_name, TOLERANCE_MS)
    midnight = ms_of(datetime(DAY.year, DAY.month, DAY.day)) + 86_400_000
    near = [
        abs(since - start) <= TOLERANCE_MS and abs(min(until, midnight) - min(end, midnight)) <= TOLERANCE_MS
        for since, until in longer
    ]
    return not any(near)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_perhaps_forgotten_is_told_as_possible(rebuilt, version):
    for producer in (p for p in PRODUCERS if p[0] == version and p[1] != "ASYNC"):
        recorded, _ = told_one_by_one(producer)
        for row in own(rebuilt["broker_availability_window"], producer):
            marks = [at for broker, at in recorded.doubted if broker == row.broker_name]
            inside = any(ms_of(row.window_start) <= at < ms_of(row.window_end or FAR) for at in marks)
            reasons = {*(row.reason or "").split(" + ")} - {""}
            assert ("possibly_absent" in reasons) == (row.state == "unavailable" and inside), (producer, row)
            assert ("ladder_edge" in reasons) == (row.state == "unavailable" and is_at_an_edge(recorded, row)), row
            assert row.certainty == ("possible" if reasons else "certain"), (producer, row)
        for row in own(rebuilt["fault_item_state"], producer):
            since = ms_of(row.last_update_at) - TOLERANCE_MS
            marks = sorted(at for broker, at in recorded.doubted if broker == row.broker_name and at >= since)
            assert ms_of(row.forgotten_at) == (marks[0] if marks else None), (producer, row)


def test_some_brokers_are_perhaps_forgotten(rebuilt):
    assert "possible" in {row.certainty for row in rebuilt["broker_availability_window"]}
    assert any(row.forgotten_at for row in rebuilt["fault_item_state"])
