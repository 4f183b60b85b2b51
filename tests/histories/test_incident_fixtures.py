"""One fixture per drift code: true, it opens when it should; false, it closes when it should; blind, nothing moves.

Rounds are 15 s apart. A fixture is three rounds made by hand: ``bad`` has the condition, ``good`` has not, and
``blind`` lacks an input without which nobody can say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest

from hindsight.udfs.consumer.expected_allocation import MemberRule
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.offset_marks import NO_READINGS, Reading, Readings
from hindsight.udfs.consumer.round_facts import Connection, DeadLetters, Owner, Read, Subscription, TopicRound
from hindsight.udfs.drift.drift_rules import RULES
from hindsight.udfs.drift.group_history import GroupHistory
from hindsight.udfs.servers.server_fold import SERVER_CODES
from tests.default_timing import OPENS, default_timing

STEP_S = 15
BEGIN_MS = 1_700_000_000_000
A0, A1, B0 = ("broker-a", 0), ("broker-a", 1), ("broker-b", 0)
EXPECTED = {A0: "c1", A1: "c1", B0: "c2"}


def subscription(name="T", text="*", tags=(), kind="TAG"):
    return Subscription(name, kind, text, tuple(tags))


def read(client_id, at, *, answered=True, subscriptions=None, **changes):
    own = tuple(subscriptions or (subscription(),)) if answered else ()
    topics = frozenset(s.topic for s in own) if answered else None
    fields = {"error": None if answered else "timeout", "evidence": f"f:{client_id}", "started_at": 1}
    return Read(client_id, answered, topics=topics, captured_at=at, subscriptions=own, **{**fields, **changes})


def owner(client_id, at, **changes):
    return Owner(client_id, **{"locked": True, "last_pull_at": at - 1000, "last_consume_at": at - 1000, **changes})


def topic(at, owners=None, **changes):
    held = {**EXPECTED, **(owners or {})}
    shown = {q: (o,) if isinstance(o, str) else tuple(o) for q, o in held.items() if o}
    fields = {
        "topic": "T",
        "queues": (A0, A1, B0),
        "expected": EXPECTED,
        "allowed": {q: frozenset({c}) for q, c in EXPECTED.items()},
        "claimants": {q: frozenset({c}) for q, c in EXPECTED.items()},
        "owners": {q: tuple(o if isinstance(o, Owner) else owner(o, at) for o in os) for q, os in shown.items()},
        "strategy": "AVG",
        "strategy_source": "client_log",
        "strategy_parameters": "",
        "queue_list_hash": "h",
        "expects": True,
        "evidence": ("f:route",),
    }
    return TopicRound(**{**fields, **changes})


def world(at, owners=None, *, silent=(), members=("c1", "c2"), topics=None, reads=None, of_topic=None, **changes):
    """A healthy round at ``at``, but for what is said."""
    told = reads if reads is not None else [read(c, at, answered=c not in silent) for c in dict.fromkeys(members)]
    fields = {
        "consumer_group": "g",
        "message_model": "CLUSTERING",
        "members": tuple(members),
        "reads": {r.client_id: r for r in told},
        "strategies": dict.fromkeys(members, ("AVG", "client_log")),
        "ordered": False,
        "loose": False,
        "missing_inputs": tuple(f"running info of {c}: no answer" for c in silent),
        "topics": (topic(at, owners, **(of_topic or {})),) if topics is None else topics,
        "evidence": ("f:list",),
        "listed_at": at,
        "at": at,
    }
    return GroupRound(**{**fields, **changes})


class Fixture(NamedTuple):
    bad: Callable[[int], GroupRound]
    blind: Callable[[int], GroupRound]
    good: Callable[[int], GroupRound] = world
    opens_after_s: float | None = None  # where the condition brings an age of its own
    shares: bool = False  # its incident is opened by another finding of the same cause
    progress: Callable[[int, str], tuple[int, int]] | None = None  # (seconds, phase) -> broker and consumer offset


def unread_route(at, **changes):
    return world(at, of_topic={"queues": None}, **changes)


def two_views(at):
    lists = {"broker-a": ("c1", "c2"), "broker-b": ("c1",)}
    return world(at, connections=tuple(Connection(b, c, f"10.0.0.{c[1]}:1") for b, ids in lists.items() for c in ids))


def same_views(at):
    ids = ("c1", "c2")
    brokers = ("broker-a", "broker-b")
    return world(at, connections=tuple(Connection(b, c, f"10.0.0.{c[1]}:1") for b in brokers for c in ids))


def stalled(at, **changes):
    return world(at, {A1: [owner("c1", at, **changes)]})


def of_families(*profiles):
    return tuple(MemberRule(c, "AVG", profile) for c, profile in zip(("c1", "c2"), profiles, strict=True))


ANYBODY = {"allowed": dict.fromkeys(EXPECTED, frozenset({"c1", "c2", "c9"}))}

FIXTURES = {
    "ORPHAN_QUEUE": Fixture(lambda at: world(at, {A1: ()}), lambda at: world(at, {A1: ()}, silent=("c1",))),
    "UNSERVED_QUEUE": Fixture(
        lambda at: world(at, {B0: ()}, silent=("c2",)),
        lambda at: world(at, {B0: ()}, silent=("c2",), of_topic={"queues": None}),
        # It stands from the last good reading on: four rounds later two readings 60 s apart show it, and the incident
        # of the silent member takes it in.
        opens_after_s=30,
        shares=True,
        progress=lambda second, phase: (second, 0) if phase == "bad" else (second, second),
    ),
    "ORPHAN_BY_DESIGN": Fixture(
        lambda at: world(
            at,
            {B0: ()},
            of_topic={
                "strategy": "MACHINE_ROOM",
                "expected": {**EXPECTED, B0: None},
                "claimants": {A0: frozenset({"c1"}), A1: frozenset({"c1"})},
            },
        ),
        unread_route,
    ),
    "DOUBLE_OWNED": Fixture(lambda at: world(at, {A1: ("c1", "c2")}), unread_route),
    "WRONG_OWNER": Fixture(lambda at: world(at, {A1: "c2"}), lambda at: world(at, of_topic={"expects": False})),
    "IDLE_CONSUMER": Fixture(
        lambda at: world(at, {B0: "c1"}, of_topic=ANYBODY),
        lambda at: world(at, {B0: "c1"}, silent=("c2",), of_topic=ANYBODY),
    ),
    "IDLE_BY_DESIGN": Fixture(
        lambda at: world(at, members=("c1", "c2", "c3")),
        lambda at: world(at, members=("c1", "c2", "c3"), silent=("c3",)),
        lambda at: world(at, {B0: "c3"}, members=("c1", "c2", "c3")),
    ),
    "UNREACHABLE_CLIENT": Fixture(
        lambda at: world(at, {B0: ()}, silent=("c2",)), lambda at: world(at, {B0: ()}, reads=[read("c1", at)])
    ),
    "GHOST_OWNER": Fixture(
        lambda at: world(at, {A1: "c9"}, reads=[read(c, at) for c in ("c1", "c2", "c9")], of_topic=ANYBODY),
        lambda at: world(
            at, {A1: "c9"}, reads=[read(c, at) for c in ("c1", "c2", "c9")], of_topic=ANYBODY, listed=False
        ),
        lambda at: world(at, reads=[read(c, at) for c in ("c1", "c2", "c9")]),
    ),
    "DUPLICATE_CLIENT_ID": Fixture(
        lambda at: world(at, members=("c1", "c1", "c2")), lambda at: world(at, members=(), listed=False)
    ),
    "SUBSCRIPTION_INCONSISTENT": Fixture(
        lambda at: world(
            at,
            # A new process each time it comes: one that came back as it was had never left.
            reads=[read("c1", at), read("c3", at, started_at=at, subscriptions=[subscription(text="a", tags=("a",))])],
            members=("c1", "c3"),
        ),
        lambda at: world(at, members=("c1", "c3"), silent=("c3",)),
        lambda at: world(at, members=("c1", "c4")),
    ),
    "MIXED_STRATEGY": Fixture(
        lambda at: world(at, strategies={"c1": ("AVG", "x"), "c2": ("AVG_BY_CIRCLE", "x")}),
        lambda at: world(at, strategies={"c1": ("AVG", "x")}),
    ),
    "MIXED_CLIENTS": Fixture(
        lambda at: world(at, rules=of_families("G1", "P533")),
        lambda at: world(at, rules=of_families(None, "P533")),
        lambda at: world(at, rules=of_families("G6", "P533")),
    ),
    "VIEW_DIVERGENCE": Fixture(two_views, lambda at: world(at, listed=False), same_views),
    "LOCK_STARVED": Fixture(
        lambda at: replace(stalled(at, locked=False, last_lock_at=1), ordered=True),
        lambda at: replace(world(at, {A1: ()}, silent=("c1",)), ordered=True),
        lambda at: replace(world(at), ordered=True),
        opens_after_s=75,  # more than 60 s since it was first seen unlocked, then one more round
    ),
    "PULL_IDLE": Fixture(
        lambda at: stalled(at, last_pull_at=at - 121_000), lambda at: world(at, {A1: ()}, silent=("c1",))
    ),
    "CONSUME_BLOCKED": Fixture(
        lambda at: stalled(at, last_consume_at=at - 61_000, cached_messages=5),
        lambda at: world(at, {A1: ()}, silent=("c1",)),
    ),
    "GROUP_DOWN": Fixture(
        lambda at: world(at, members=(), topics=(), reads=[]),
        lambda at: world(at, members=(), topics=(), reads=[], listed=False),
        # Nobody is there from the first bad round on: 60 s later that is known.
        opens_after_s=60,
        progress=lambda second, phase: (second + 10, second if phase == "good" else 0),
    ),
    "DATA_GAP": Fixture(
        lambda at: unread_route(at, missing_inputs=("topic_route of T: not read in this round",)),
        lambda at: world(at, reads=[], topics=(), missing_inputs=("running infos: not asked for in this round",)),
        opens_after_s=600,
    ),
    "DEAD_LETTERS": Fixture(
        lambda at: world(at, dead_letters=DeadLetters(at - 5000, 7)),
        lambda at: world(at, dead_letters=None),
        lambda at: world(at, dead_letters=DeadLetters(at - 601_000, 7)),
    ),
}
# Their conditions are of several rounds: they have tests of their own.
OTHERWISE = {
    "POP_ASSIGNMENT_DIFFERS",  # engines/test_pop_groups.py
    "REVIVE_LAG",  # engines/test_pop_groups.py
    "REBALANCE_FLAP",
    "SLOW_HANDOVER",
    "OFFSET_REWOUND",
    "OFFSET_JUMPED",
    "MESSAGES_LOST",
    "MESSAGES_AT_RISK",
    "QUEUE_LAGS_ALONE",
    "OFFSET_BEYOND_END",
    "END_WENT_BACK",
    "CONSUMES_NOTHING",
    "CONSUME_DISABLED",  # test_told_beside.py
    "FALLS_BEHIND",
    "RETRIES_GROW",
}


def test_every_code_has_a_fixture():
    assert set(FIXTURES) | OTHERWISE == set(RULES) == set(OPENS) - set(SERVER_CODES)


class Run:
    """A group whose history goes on round by round."""

    def __init__(self, code, timing=None):
        self.code, self.fixture = code, FIXTURES[code]
        self.history = GroupHistory(("c", "", "g"), timing or default_timing())
        self.second = 0
        self.offset = 0
        self.walked = []

    def rounds(self, phase, count=1):
        for _ in range(count):
            self.second += STEP_S
            at = BEGIN_MS + self.second * 1000
            group = getattr(self.fixture, phase)(at)
            readings = NO_READINGS
            if self.fixture.progress is not None:
                broker, consumer = self.fixture.progress(self.second, phase)
                if phase == "bad" and consumer == 0:
                    consumer = self.offset
                self.offset = consumer
                readings = Readings.of(Reading(("T", *queue), at, broker, consumer) for queue in (A0, A1, B0))
            self.walked.append(self.history.step(group, readings))
        return self

    @property
    def incidents(self):
        every = [*self.history.ledger.incidents.values(), *self.history.ledger.finished]
        return [i for i in every if any(a.code == self.code for a in i.attached.values())]

    @property
    def states(self):
        return [i.state for i in self.incidents]

    def findings(self):
        return [j for j in self.walked[-1].judged if j.finding.code == self.code]


def rounds_to_open(code):
    """Bad rounds after which it must be open, by the table: so many rounds, and so old at the last of them."""
    opening, own = OPENS[code], FIXTURES[code].opens_after_s
    by_age = 1 + -(-opening.age_s // STEP_S)
    late = 0 if own is None else own // STEP_S
    # Membership changes in some fixtures: 20 s and S.
    return int(max(opening.rounds, by_age) + late)


every_code = pytest.mark.parametrize("code", sorted(FIXTURES))
# What a single round can show; the others need their age, or a count over time, to be true at all.
SHOWN_AT_ONCE = sorted(code for code, fixture in FIXTURES.items() if fixture.opens_after_s is None)
shown_at_once = pytest.mark.parametrize("code", SHOWN_AT_ONCE)
opened_by_rounds = pytest.mark.parametrize("code", [code for code in SHOWN_AT_ONCE if OPENS[code].rounds >= 2])
# A missing input is no drift: a join does not mute it.
muted_by_a_join = pytest.mark.parametrize("code", sorted(FIXTURES.keys() - {"DATA_GAP"}))


# No grace, and no finding about how often the fixtures' owners change.
NO_GRACE = default_timing(membership_grace_s=-1000, subscription_grace_s=0, owner_changes=99)


@every_code
def test_it_opens_when_it_has_lasted_and_not_a_round_before(code):
    run = Run(code, NO_GRACE).rounds("good", 10)
    assert run.incidents == []
    run.rounds("bad", rounds_to_open(code) - 1)
    assert run.incidents == [], "too early"
    run.rounds("bad")
    assert run.states == ["OPEN"]
    (incident,) = run.incidents
    assert FIXTURES[code].shares or incident.opened_at == run.walked[-1].group.at
    assert {j.judgement.state for j in run.findings()} == {"OPEN"}


@muted_by_a_join
def test_after_a_join_it_is_kept_and_muted_until_the_grace_is_over(code):
    run = Run(code).rounds("good", 10)
    at = run.walked[-1].group.at
    run.history.memory.starts = {}  # every member is new: started in the next round
    early = FIXTURES[code]
    started = early._replace(bad=lambda now: _started(early.bad(now), at + STEP_S * 1000))
    run.fixture = started
    run.rounds("bad", 2)
    assert run.incidents == []
    muted = run.findings()
    assert {j.judgement.state for j in muted} <= {"SUPPRESSED"}
    assert all(j.grace.until > run.walked[-1].group.at for j in muted)


def _started(group, at):
    return replace(group, reads={c: r._replace(started_at=at) for c, r in group.reads.items()})


@every_code
def test_it_closes_when_it_has_been_false_in_three_rounds_and_for_60_s_and_not_a_round_before(code):
    run = Run(code, NO_GRACE).rounds("good", 10).rounds("bad", rounds_to_open(code))
    assert run.states == ["OPEN"]
    run.rounds("good", 4)  # 45 s
    assert run.states == ["CLEARING"]
    run.rounds("good")
    assert run.states == ["RESOLVED"]
    assert run.incidents[0].resolved_at == run.walked[-1].group.at


@shown_at_once
def test_a_single_true_round_while_it_clears_starts_the_clearing_anew(code):
    run = Run(code, NO_GRACE).rounds("good", 10).rounds("bad", rounds_to_open(code)).rounds("good", 4)
    run.rounds("bad")
    assert run.states == ["OPEN"]
    run.rounds("good", 4)
    assert run.states == ["CLEARING"]


@every_code
def test_while_an_input_is_missing_nothing_opens(code):
    run = Run(code, NO_GRACE).rounds("good", 10).rounds("blind", 30)
    assert run.incidents == []
    assert run.findings() == []


@every_code
def test_while_an_input_is_missing_nothing_closes(code):
    run = Run(code, NO_GRACE).rounds("good", 10).rounds("bad", rounds_to_open(code))
    run.rounds("blind", 30)
    assert run.states == ["OPEN"]
    (incident,) = run.incidents
    before = incident.rounds_informative
    run.rounds("blind")
    assert FIXTURES[code].shares or run.incidents[0].rounds_informative == before
    run.rounds("good", 4)
    assert run.states == ["CLEARING"]
    run.rounds("good")
    assert run.states == ["RESOLVED"]


@opened_by_rounds
def test_an_unknown_round_between_two_true_ones_is_not_counted_and_resets_nothing(code):
    run = Run(code, NO_GRACE).rounds("good", 10).rounds("bad", OPENS[code].rounds - 1)
    run.rounds("blind", 12)
    assert run.incidents == []
    run.rounds("bad")
    assert run.states == ["OPEN"]
