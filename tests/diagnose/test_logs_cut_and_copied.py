"""Logs cut anywhere, in any order, and copied: the same is told of what they cover, and nothing else."""

from __future__ import annotations

from functools import cache
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.udfs.diagnosis.log_diagnosis import Diagnosis, diagnosis_of
from hindsight.udfs.diagnosis.logged_ownership import PART_MISSING, STOPPED, UNKNOWN
from tests.diagnose.told_by_logs import CLUSTER, SCOPE, found, told, unpacked
from tests.random_examples import examples

NAMES = {
    f"logs/{path.parent.name.replace('cluster=scope', '') or 'scope'}/{path.name.removesuffix('.gz')}": path
    for path in (*SCOPE, *CLUSTER)
    if path.stat().st_size < 35_000
}
RAW = {name: unpacked(path) for name, path in NAMES.items()}
FEW = [name for name in RAW if name.split("/")[-1] in ("frozen.log", "push_5.3.3.log", "victim.log", "broker-a.log")]


@cache
def whole() -> Diagnosis:
    return told({name: RAW[name] for name in FEW})


def essence(diagnosis: Diagnosis):
    """What is told, but for which file a line stood in."""
    return (
        [one._replace(log="") for one in diagnosis.ownership],
        diagnosis.rebalances,
        diagnosis.held_by_two,
        [member._replace(log=None) for member in diagnosis.members],
    )


def counts(diagnosis: Diagnosis):
    found = {}
    for one in diagnosis.troubles:
        for name in ("sends", "retried", "not_listed", "locks", "failures"):
            for subject, tally in getattr(one, name).items():
                found[name, subject] = found.get((name, subject), 0) + tally.count
    return found


def cut(raw: bytes, places: list[float]) -> list[bytes]:
    """Between lines, but not between those of a stack trace."""
    lines = raw.splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if i and line.startswith(b"20")]
    at = sorted({starts[int(place * len(starts))] for place in places})
    return [b"".join(lines[a:b]) for a, b in zip([0, *at], [*at, len(lines)], strict=True)]


@settings(max_examples=8)
@given(st.data())
def test_rotated_logs_in_any_order_with_copies_tell_what_the_whole_logs_tell(data):
    places = st.lists(st.floats(0, 0.999), max_size=4)
    files = []
    for name in FEW:
        parts = cut(RAW[name], data.draw(places))
        files += [(f"{name}.{number}" if number else name, part) for number, part in enumerate(reversed(parts))]
    copied = data.draw(st.lists(st.sampled_from(files), max_size=3))
    files += [(f"copy/{number}/{name}", part) for number, (name, part) in enumerate(copied)]
    order = data.draw(st.permutations(files))
    diagnosis = told(dict(order))
    assert essence(diagnosis) == essence(whole())
    # Equal lines of one instant, parted by a cut, are taken for copies.
    expected, counted = counts(whole()), counts(diagnosis)
    assert counted.keys() == expected.keys()
    assert all(counted[one] <= expected[one] for one in expected)


@cache
def told_alone(name: str) -> Diagnosis:
    return told({name: RAW[name]})


@examples(5, 20)
@given(st.sampled_from(FEW), st.floats(0, 0.999), st.floats(0, 0.999), st.randoms(use_true_random=False))
def test_a_part_of_a_log_says_nothing_that_the_whole_does_not(name, one, other, rng: Random):
    first, last = sorted((one, other))
    parts = cut(RAW[name], [first, last])
    part = told({"part.log": rng.choice(parts)})
    alone = told_alone(name)
    for owned in part.ownership:
        if owned.state in (UNKNOWN, STOPPED):
            continue
        until = owned.since
        for real in alone.ownership:
            is_same = real.key[:2] == owned.key[:2] and owned.key.client_id in (real.key.client_id, None)
            if is_same and until < owned.until and real.since <= until and (real.until or until) > until:
                assert (real.state, real.queues) == (owned.state, owned.queues)
                until = real.until
        assert until >= owned.until, owned


def test_where_the_middle_of_a_log_is_missing_what_was_held_before_is_not_held_after():
    (name,) = (name for name in FEW if "push_5" in name)
    first, _, last = cut(RAW[name], [0.35, 0.8])
    diagnosis = told({name: last, f"{name}.2": first})
    missing = [one for one in diagnosis.ownership if one.reason == PART_MISSING and one.until is not None]
    assert {one.key.client_id[-2:] for one in missing} >= {"p2", "v1", "v2", "s1"}
    instants = {event.at for troubles in diagnosis.troubles for event in troubles.process.events}
    for one in missing:
        held = [after for after in diagnosis.ownership if after.key == one.key and after.since >= one.until]
        known = [after.since for after in held if after.state != UNKNOWN]
        assert set(known) <= instants  # each begins with a line


@settings(max_examples=5)
@given(st.permutations(sorted(RAW)))
def test_the_order_of_the_files_changes_nothing(names):
    logs = {name: findings(name) for name in names}
    told_in_order = diagnosis_of(list(logs.values()))
    assert essence(told_in_order) == essence(diagnosis_of([logs[name] for name in sorted(logs)]))
    assert counts(told_in_order) == counts(diagnosis_of([logs[name] for name in sorted(logs)]))


@cache
def findings(name):
    return found(name, RAW[name])
