"""Incidents over rounds: one per cause, the same however the rounds are cut, with what each explains."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hindsight.udfs.consumer.expected_allocation import MemberRule, expected_allocation
from hindsight.udfs.consumer.offset_marks import Reading, Readings
from hindsight.udfs.consumer.round_facts import Connection, Subscription
from hindsight.udfs.drift import drift_rules
from hindsight.udfs.drift.drift_rules import RULES
from hindsight.udfs.drift.finding import Finding
from hindsight.udfs.drift.group_history import GroupHistory, fold_attached
from hindsight.udfs.drift.incidents import incident_id
from hindsight.udfs.drift.root_cause import Cause, Trouble, causes
from tests.default_timing import OPENS, default_timing
from tests.histories.test_incident_fixtures import A0, A1, B0, BEGIN_MS, NO_GRACE, owner, read, topic, world
from tests.random_examples import examples


def history(timing=NO_GRACE):
    return GroupHistory(("c", "", "g"), timing)


def at(second):
    return BEGIN_MS + second * 1000


def walk(rounds, timing=NO_GRACE, step=15):
    """The history after rounds, each a function of its instant."""
    made = history(timing)
    for number, one in enumerate(rounds):
        made.step(one(at(number * step)))
    return made


def live(made):
    return {tuple(cause): incident for cause, incident in made.ledger.incidents.items()}


# -- one cause, everything it explains -------------------------------------------------------------------------------


def allocated(now, members, owners, queues=8, strategies=None, **changes):
    """A round whose expectation and claims come from RocketMQ's own rules."""
    names = [("broker-a", q) for q in range(queues)]
    rules = [MemberRule(c, (strategies or {}).get(c, "AVG"), "P533") for c in dict.fromkeys(members)]
    made = expected_allocation("CLUSTERING", "AVG", "P533", "T", names, members, rules)
    claimants = {q: frozenset(c) for q, c in zip(names, made.claimants, strict=True)}
    shown = {("broker-a", q): tuple(owner(c, now) for c in clients) for q, clients in owners.items()}
    one = replace(
        topic(now),
        queues=tuple(names),
        expected=dict(zip(names, made.owners, strict=True)),
        claimants=claimants,
        allowed={q: claimants[q] | {o} - {None} for q, o in zip(names, made.owners, strict=True)},
        owners=shown,
    )
    named = {c: ((strategies or {}).get(c, "AVG"), "client_log") for c in members}
    return world(now, members=members, topics=(one,), strategies=named, **changes)


def test_a_a_b_over_8_queues_is_one_incident_with_3_doubles_and_3_orphans():
    def one(now):
        return allocated(now, ("A", "A", "B"), {0: "A", 1: "A", 2: "A", 6: "B", 7: "B"})

    made = walk([one] * 12)
    assert set(live(made)) == {("DUPLICATE_CLIENT_ID", "A")}
    (incident,) = live(made).values()
    attached = [(a.code, a.subject.queue_id) for a in incident.attached.values()]
    assert sorted(q for code, q in attached if code == "DOUBLE_OWNED") == [0, 1, 2]
    assert sorted(q for code, q in attached if code == "ORPHAN_QUEUE") == [3, 4, 5]
    assert [code for code, _ in attached if code == "DUPLICATE_CLIENT_ID"] == ["DUPLICATE_CLIENT_ID"]
    # The orphans are the first that may open: 60 s. The doubles rest on the list of members alone.
    assert incident.opened_at == at(60)


def test_one_id_with_another_port_at_each_broker_is_one_process():
    connections = tuple(Connection(b, "c1", f"10.0.0.1:{port}") for b, port in (("broker-a", 1), ("broker-b", 2)))
    assert world(0, connections=connections).duplicates == ()
    assert world(0, connections=(*connections, Connection("broker-c", "c1", "10.0.0.9:1"))).duplicates == ("c1",)


def test_mixed_strategies_explain_what_the_members_own_rules_lead_to():
    # AVG: A 0-2, B 3-5, C 6 7; C by circle: 2 5. So 2 and 5 are double, 6 and 7 nobody's.
    owned = {0: "A", 1: "A", 2: "AC", 3: "B", 4: "B", 5: "BC"}

    def one(now):
        return allocated(now, ("A", "B", "C"), owned, strategies={"C": "AVG_BY_CIRCLE"})

    (incident,) = live(walk([one] * 3)).values()
    assert incident.cause == Cause("MIXED_STRATEGY", "")
    assert incident.opened_at == at(15)
    codes = sorted((a.code, a.subject.queue_id) for a in incident.attached.values() if a.subject.queue)
    assert codes == [("DOUBLE_OWNED", 2), ("DOUBLE_OWNED", 5), ("ORPHAN_QUEUE", 6), ("ORPHAN_QUEUE", 7)]


def test_lags_that_no_long_can_count_together_are_told_as_the_most_it_can():
    made = history()
    for now in map(at, range(0, 180, 15)):
        readings = Readings.of(Reading(("T", *queue), now, 2**63 - 1, 0) for queue in (A0, A1))
        made.step(world(now, {A0: (), A1: ()}), readings)
    (incident,) = live(made).values()
    assert (incident.lag_at_open, incident.lag_now) == (2**63 - 1, 2**63 - 1)


def test_an_orphan_that_mixed_strategies_do_not_lead_to_is_not_explained_by_them():
    owned = {0: "A", 2: "AC", 3: "B", 4: "B", 5: "BC"}  # A holds 1 by its own rule, and does not

    def one(now):
        return allocated(now, ("A", "B", "C"), owned, strategies={"C": "AVG_BY_CIRCLE"})

    made = live(walk([one] * 6))
    assert set(made) == {("MIXED_STRATEGY", ""), ("UNEXPLAINED", "T")}
    assert [a.subject.queue_id for a in made["UNEXPLAINED", "T"].attached.values()] == [1]


def test_a_queue_that_was_added_to_the_route_a_moment_ago_lags_behind_it():
    def before(now):
        return world(now, topics=(topic(now, {A1: ()}, queues=(A0, B0)),))

    made = walk([before, before, *[lambda now: world(now, {A1: ()})] * 12])
    assert set(live(made)) == {("ROUTE_LAG", "T")}
    # 50 s + S after the change at 30, which 60 s of age outlast.
    assert live(made)["ROUTE_LAG", "T"].opened_at == at(30 + 75)


def test_a_broker_that_left_the_route_mutes_for_175_s_and_s():
    def before(now):
        return world(now, of_topic={"queues": (A0, A1, B0, ("broker-z", 0))})

    made = walk([before, *[lambda now: world(now, {A1: ()})] * 16], NO_GRACE)
    (incident,) = live(made).values()
    assert incident.opened_at == at(210)  # 15 + 175 + 15 = 205


def test_ordered_groups_are_given_60_s_more_but_what_is_critical_is_told_within_90_s():
    def ordered(now):
        return world(now, {A1: ()}, reads=[read(c, now, started_at=at(0)) for c in ("c1", "c2")], ordered=True)

    (incident,) = live(walk([ordered] * 9, default_timing())).values()
    assert incident.opened_at == at(75)  # not 20 + 15 + 60 = 95


def test_a_rolling_deploy_mutes_the_subscriptions_and_nothing_else():
    def other(now, tags):
        own = [Subscription("T", "TAG", tags or "*", (tags,) if tags else ())]
        return world(now, {A1: ()}, reads=[read("c1", now), read("c2", now, subscriptions=own)])

    rounds = [lambda now: other(now, ""), *[lambda now: other(now, "x")] * 20]
    made = walk(rounds, default_timing(membership_grace_s=-1000))
    assert set(live(made)) == {("UNEXPLAINED", "T")}  # the orphan
    made = walk(rounds * 1, replace(default_timing(membership_grace_s=-1000), subscription_grace_s=30))
    assert ("SUBSCRIPTION_INCONSISTENT", "TAG_DIFF") in live(made)


def test_an_orphan_that_no_members_own_rule_leads_to_is_not_explained_by_mixed_strategies():
    owned = {0: "A", 1: "A", 3: "B", 4: "B", 5: "BC"}  # A and C both take 2 by their rules, and neither holds it

    def one(now):
        return allocated(now, ("A", "B", "C"), owned, strategies={"C": "AVG_BY_CIRCLE"})

    made = live(walk([one] * 6))
    assert [a.subject.queue_id for a in made["UNEXPLAINED", "T"].attached.values()] == [2]


# -- what a round does not tell --------------------------------------------------------------------------------------


C12 = ("c1", "c2")
EXPECTED_BY = {A0: frozenset({"c1"}), A1: frozenset({"c1"})}


def list_failed(now):
    """Nobody said who the members are, so nobody could be asked for anything."""
    return world(now, members=(), topics=(), listed=False)


def list_alone(now):
    """Who the members are was asked, and nothing else."""
    return world(now, topics=(), reads=[], ordered=None)


@pytest.mark.parametrize("between", [list_failed, lambda now: world(now, listed=False)])
def test_a_list_of_members_that_does_not_come_for_10_min_is_a_data_gap(between):
    made = walk([world, *[between] * 41])
    assert set(live(made)) == {("DATA_GAP", "consumer list")}
    (incident,) = live(made).values()
    assert (incident.first_seen_at, incident.opened_at) == (at(615), at(615))  # missed from 15 on
    assert set(live(walk([world, *[between] * 40]))) == set()


def test_a_list_that_came_once_in_between_is_no_gap_and_one_that_was_not_asked_for_is_no_answer():
    def nothing(now):
        return world(now, topics=(), reads=[], members=(), listed=False, listed_at=None)

    assert not live(walk([world, *[list_failed] * 20, list_alone, *[list_failed] * 40]))
    assert live(walk([world, *[list_failed] * 20, nothing, *[list_failed] * 21]))
    made = walk([world, *[list_failed] * 42, *[list_alone] * 5])
    assert [incident.state for incident in live(made).values()] == ["RESOLVED"]


def test_while_the_list_does_not_come_what_was_open_stays_as_it_was():
    made = walk([lambda now: world(now, {A1: ("c1", "c2")})] * 3)
    for second in range(45, 1200, 15):
        made.step(list_failed(at(second)))
    double = next(i for cause, i in live(made).items() if cause[0] != "DATA_GAP")
    assert (double.state, double.last_seen_at) == ("OPEN", at(30))


def test_rounds_in_which_only_the_list_was_asked_for_close_nothing():
    twice = walk([lambda now: world(now, members=("c1", "c1", "c2"))] * 12)
    for second in range(180, 600, 15):
        twice.step(list_alone(at(second)))
    (incident,) = live(twice).values()
    assert {a.code: a.is_open for a in incident.attached.values()}["DUPLICATE_CLIENT_ID"]


@pytest.mark.parametrize("owners", [{A1: ("c1", "c2")}, {A1: "c2"}, {A1: ()}])
def test_what_was_open_is_closed_when_the_group_is_scaled_to_nobody(owners):
    def nobody(now):
        return world(now, members=(), topics=())

    made = walk([*[lambda now: world(now, owners)] * 6, *[nobody] * 6])
    assert [incident.state for incident in live(made).values()] == ["RESOLVED"]


@pytest.mark.parametrize("stalled", [False, True])
def test_what_was_said_of_a_consumer_of_a_topic_is_closed_when_nobody_subscribes_it_any_more(stalled):
    def before(now):
        if stalled:
            return world(now, {A1: [owner("c1", now, last_pull_at=now - 500_000)]})
        return world(now, {B0: "c1"}, of_topic={"allowed": {**EXPECTED_BY, B0: frozenset({"c1", "c2"})}})

    def dropped(now):
        return world(
            now, topics=(), reads=[read(c, now, subscriptions=[Subscription("U", "TAG", "*", ())]) for c in C12]
        )

    made = walk([*[before] * 6, *[dropped] * 6])
    assert [incident.state for incident in live(made).values()] == ["RESOLVED"]


def test_a_group_stays_ordered_in_rounds_in_which_nobody_says_so():
    def ordered(now, owners=None):
        return world(now, owners, reads=[read(c, now, started_at=at(0)) for c in C12], ordered=True)

    rounds = [ordered, ordered, ordered, list_alone, *[lambda now: ordered(now, {A1: C12})] * 2]
    assert not live(walk(rounds, default_timing(critical_grace_s=95)))  # until 20 + 15 + 60 s after their start


def untold(client_id, now):
    """An answer that shows queues and does not tell what the client subscribes."""
    return read(client_id, now)._replace(topics=None, subscriptions=())


def test_a_member_that_does_not_tell_what_it_subscribes_differs_from_nobody():
    other = [Subscription("U", "TAG", "*", ())]

    def half_told(now):
        return world(now, reads=[untold("c1", now), read("c2", now, subscriptions=other)])

    def differ(now):
        return world(now, reads=[read("c1", now), read("c2", now, subscriptions=other)])

    assert not live(walk([half_told] * 5))
    made = walk([*[differ] * 3, *[half_told] * 8])
    assert [incident.state for incident in live(made).values()] == ["OPEN"]
    assert made.memory.last_disturbance.kind == "start"


def test_a_member_that_misses_one_answer_is_starved_of_its_lock_as_before():
    def unlocked(now):
        return world(now, {A1: [owner("c1", now, locked=False)]}, ordered=True)

    def silent(now):
        return world(now, {A0: (), A1: (), B0: ()}, silent=C12, ordered=None)

    made = walk([*[unlocked] * 8, silent, *[unlocked] * 3])
    (incident,) = live(made).values()
    assert (incident.cause.name, incident.state, incident.reopened) == ("CLIENT_STALLED", "OPEN", 0)
    assert incident.last_seen_at == at(11 * 15)


def test_with_rounds_far_apart_it_is_the_third_false_one_that_closes():
    rounds = [lambda now: world(now, {A1: ("c1", "c2")})] * 3 + [world] * 2
    assert [i.state for i in live(walk(rounds, step=60)).values()] == ["CLEARING"]
    assert [i.state for i in live(walk([*rounds, world], step=60)).values()] == ["RESOLVED"]


# -- loose rounds ----------------------------------------------------------------------------------------------------


def double(now):
    return world(now, {A1: ("c1", "c2")})


def loose_double(now):
    return world(now, {A1: ("c1", "c2")}, loose=True)


def loose_world(now):
    return world(now, loose=True)


def test_a_loose_round_by_itself_opens_no_double():
    def other_double(now):
        return world(now, {A0: ("c1", "c2")}, loose=True)

    assert live(walk([loose_double, other_double] * 10)) == {}  # queues that move look so
    assert live(walk([loose_double, loose_world] * 10)) == {}
    assert live(walk([double, *[loose_double, loose_world] * 10])) == {}


@pytest.mark.parametrize("cut", [None, *range(1, 8)])
def test_what_loose_rounds_on_end_show_alike_counts(cut):
    """Where sweeps are slow every round is loose: the first of two that show the same does not count."""
    made = walk([loose_double] * 2)
    assert live(made) == {} and len(made.ledger.tracks) == 1
    assert [i.trust for i in live(walk([loose_double] * 3)).values()] == ["possible"]
    rounds = [*[loose_double] * 4, *[loose_world] * 4, loose_double, *[loose_world] * 4]
    assert [i.state for i in live(walk([*rounds[:7]], step=60)).values()] == ["CLEARING"]
    whole = walk(rounds, step=60)
    assert [i.state for i in live(whole).values()] == ["RESOLVED"]
    if cut:
        parts = history()
        for number, make in enumerate(rounds):
            if number == cut:
                parts = GroupHistory.of_json(parts.key, parts.timing, parts.to_json(), (), parts.ledger.evidence())
            parts.step(make(at(number * 60)))
        assert parts.to_json() == whole.to_json()


def test_a_double_in_a_loose_round_neither_counts_nor_resets():
    assert live(walk([double, loose_double, loose_world, loose_double])) == {}
    assert len(live(walk([double, loose_double, loose_world, double]))) == 1


def test_a_double_in_a_loose_round_does_not_stop_the_closing():
    made = walk([double, double, world, loose_double, world, world, world])
    assert [i.state for i in live(made).values()] == ["RESOLVED"]  # false at 30, 60, 75, 90


# -- flapping --------------------------------------------------------------------------------------------------------

QUICK = replace(NO_GRACE, close_rounds=1, close_s=0, opens={**OPENS, "DOUBLE_OWNED": OPENS["IDLE_BY_DESIGN"]})


def test_an_incident_that_opens_again_within_20_rounds_is_the_same_and_flaps_at_the_fourth_change():
    made = history(QUICK)
    states = []
    for number, one in enumerate([double, world, double, world, double, world]):
        made.step(one(at(15 * number)))
        states.append(live(made)["UNEXPLAINED", "T"].state)
    assert states == ["OPEN", "RESOLVED", "OPEN", "RESOLVED", "FLAPPING", "RESOLVED"]
    (incident,) = live(made).values()
    assert (incident.reopened, incident.opened_at) == (2, at(0))


def test_an_incident_after_20_quiet_rounds_is_another():
    made = walk([double, world, *[world] * 21, double], QUICK)
    (finished,), (second,) = made.ledger.finished, live(made).values()
    assert finished.state == "RESOLVED" and second.state == "OPEN"
    assert finished.incident_id != second.incident_id
    day = datetime.fromtimestamp(BEGIN_MS / 1000, UTC).date().isoformat()
    assert second.incident_id == incident_id(("c", "", "g"), Cause("UNEXPLAINED", "T"), day, 2)


def test_a_queue_that_changes_its_owner_three_times_without_need_flaps():
    rounds = [lambda now, c=c: world(now, {A1: c}) for c in ("c1", "c2", "c1", "c2")]
    found = [j.finding for j in history().step(rounds[0](at(0))).judged]
    assert found == []
    made = history(default_timing(membership_grace_s=-1000))
    for number, one in enumerate(rounds):
        walked = made.step(one(at(15 * number)))
    (flap,) = [j for j in walked.judged if j.finding.code == "REBALANCE_FLAP"]
    assert (flap.finding.queue, flap.judgement.state) == (A1, "OPEN")
    # Ten minutes later the changes are forgotten.
    for number in range(4, 50):
        walked = made.step(world(at(15 * number)))
    assert [j.finding.code for j in walked.judged] == []


def test_owners_that_follow_the_members_do_not_flap():
    def members(now, third):
        ids = ("A", "B", "C") if third else ("A", "B")
        made = expected_allocation("CLUSTERING", "AVG", "P533", "T", [("broker-a", q) for q in range(8)], ids, [])
        return allocated(now, ids, {q: (o,) for q, o in enumerate(made.owners)})

    rounds = [lambda now, third=bool(i // 3 % 2): members(now, third) for i in range(30)]
    made = history(default_timing())
    codes = {j.finding.code for n, one in enumerate(rounds) for j in made.step(one(at(15 * n))).judged}
    assert codes == set()


def handed_over(unowned_s, *, ordered=True, before=("c1",), timing=NO_GRACE, leaver=()):
    """A group's history, and its rounds from when a queue was taken that had had no owner for so long."""
    made = history(timing)
    for second in range(0, 30, 10):
        made.step(world(at(second), {A1: before}, ordered=ordered, members=("c1", "c2", *leaver)))
    for second in range(30, 30 + unowned_s, 10):
        made.step(world(at(second), {A1: ()}, ordered=ordered))
    taken = range(30 + unowned_s, 750 + unowned_s, 20)
    return made, [made.step(world(at(second), {A1: ("c2",)}, ordered=ordered)) for second in taken]


def slow(rounds):
    return [[j for j in round_.judged if j.finding.code == "SLOW_HANDOVER"] for round_ in rounds]


def test_an_ordered_queue_that_had_no_owner_for_the_life_of_its_lock_was_handed_over_slowly():
    made, rounds = handed_over(60, timing=default_timing())
    (found,) = slow(rounds)[0]
    assert (found.finding.queue, found.finding.severity, found.judgement.state) == (A1, "MEDIUM", "OPEN")
    assert found.finding.since == at(30) and " for 60 s from " in found.finding.sentence
    # It was over when it was told: its incident ends as soon as any.
    assert not any(slow(rounds)[1:])
    (ended,) = [i for i in made.ledger.finished if i.cause.name == "SLOW_HANDOVER"]
    assert (ended.opened_at, ended.resolved_at) == (at(90), at(170))


@pytest.mark.parametrize(
    ("unowned_s", "changes"), [(30, {}), (60, {"ordered": False}), (200, {}), (60, {"before": ()})]
)
def test_a_hand_over_that_is_quick_or_not_ordered_or_was_an_orphan_is_no_slow_one(unowned_s, changes):
    _, rounds = handed_over(unowned_s, timing=default_timing(), **changes)
    assert not any(slow(rounds))


def test_a_slow_hand_over_is_muted_while_the_grace_of_a_change_lasts():
    timing = replace(NO_GRACE, membership_grace_s=100, ordered_extra_s=60)
    _, rounds = handed_over(60, timing=timing, leaver=("c3",))
    states = [found[0].judgement.state for found in slow(rounds) if found]
    assert states[0] == "SUPPRESSED" and states[-1] == "OPEN"


def test_who_gave_no_lock_back_is_one_cause_whatever_topics_he_held():
    found = [Finding("SLOW_HANDOVER", "MEDIUM", "", topic=name, queue=A0) for name in ("T", "%RETRY%g")]
    assert [causes(one, world(at(0)), ()) for one in found] == [[Cause("SLOW_HANDOVER", "")]] * 2


# -- effects of servers -----------------------------------------------------------------------------------------------


def troubled(code="BROKER_NOT_ANSWERING", key="broker-a", since=30, settles=300, until=400, groups=None):
    return (Trouble(Cause(code, key), "of the server", at(since), at(settles), at(until), groups),)


def with_trouble(troubles, rounds=8, first=60):
    """A queue of broker-a has no owner from second 60 on."""
    made = history()
    for number in range(rounds):
        second = number * 15
        made.troubles = troubles
        walked = made.step(world(at(second), {A0: ()} if second >= first else None))
    return made, walked.judged


def test_what_begins_while_a_server_is_in_trouble_is_its_effect_and_opens_nothing_until_it_was_well_for_long():
    made, (judged,) = with_trouble(troubled(), rounds=12)
    assert live(made) == {} and judged.judgement.state == "OPEN" and judged.judgement.incident_id == "of the server"
    assert judged.judgement.track.causes[0] == Cause("BROKER_NOT_ANSWERING", "broker-a")
    made.troubles = ()
    (after,) = made.step(world(at(180), {A0: ()})).judged
    (incident,) = live(made).values()
    assert (incident.cause.name, incident.opened_at) == ("UNEXPLAINED", at(180))
    assert after.judgement.incident_id == incident.incident_id


@pytest.mark.parametrize(
    "troubles",
    [
        troubled(since=75),  # it stood before
        troubled(settles=59),  # the server was well for long
        troubled(key="broker-z"),  # the group has nothing there
        troubled("BROKER_KEEPS_DEAD_CONNECTION", groups=("another",)),
    ],
)
def test_what_a_server_does_not_explain_is_the_group_s_own(troubles):
    made, _ = with_trouble(troubles, rounds=12)
    assert [incident.cause.name for incident in live(made).values()] == ["UNEXPLAINED"]


# -- folding ---------------------------------------------------------------------------------------------------------


def test_a_code_of_more_than_half_of_the_queues_is_shown_as_one():
    made = walk([lambda now: world(now, {A0: (), A1: ()})] * 6)
    (incident,) = live(made).values()

    def orphans(queues):
        return [s for s in fold_attached(incident, queues, made.timing) if s.attached.code == "ORPHAN_QUEUE"]

    (shown,) = orphans(3)
    assert (shown.attached.kind, shown.queues, shown.attached.subject.queue) == ("FOLDED", 2, None)
    assert shown.sample == ("queue 0 of T@broker-a", "queue 1 of T@broker-a")
    assert [s.queues for s in orphans(4)] == [1, 1]
    walked = made.step(world(at(90), {A0: (), A1: ()}))
    assert {j.folded for j in walked.judged if j.finding.queue} == {True}


# -- any split, any state --------------------------------------------------------------------------------------------

KINDS = {
    "good": world,
    "orphan": lambda now: world(now, {A1: ()}),
    "double": double,
    "silent": lambda now: world(now, {B0: ()}, silent=("c2",)),
    "mixed": lambda now: world(now, {A1: ("c1", "c2")}, strategies={"c1": ("AVG", "x"), "c2": ("CONFIG", "x")}),
    "joined": lambda now: world(now, members=("c1", "c2", "c3")),
    "route": lambda now: world(now, of_topic={"queues": (A0, A1, B0, ("broker-z", 0))}),
    "unread": lambda now: world(now, reads=[], topics=()),
    "blind": lambda now: world(now, of_topic={"queues": None}, missing_inputs=("topic_route of T: not read",)),
    "moved": lambda now: world(now, {A1: "c2"}),
    "nobody": lambda now: world(now, members=(), reads=[], topics=()),
}
SHORT = replace(
    default_timing(
        close_s=30, membership_grace_s=5, route_grace_s=10, broker_death_s=5, data_gap_s=60, flapping_rounds=8
    ),
    opens={code: o._replace(age_s=min(o.age_s, 20)) for code, o in OPENS.items()},
)


def reread(made):
    return GroupHistory.of_json(made.key, made.timing, made.to_json(), evidence=made.ledger.evidence())


MIDNIGHT_MS = 1_700_006_400_000


@examples(37, 150)
@given(
    kinds=st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.integers(1, 8)), min_size=1, max_size=12),
    first=st.integers(0, 60),
    cuts=st.sets(st.integers(1, 60), max_size=4),
)
def test_a_history_cut_anywhere_goes_on_as_if_it_were_not(kinds, first, cuts):
    """Cut at midnight, which comes after ``first`` rounds, and at other places as well."""
    names = [kind for kind, count in kinds for _ in range(count)]
    instants = [MIDNIGHT_MS + 13_000 * (number - first) for number in range(len(names))]
    whole, cut = history(SHORT), history(SHORT)
    finished = []
    for number, (kind, now) in enumerate(zip(names, instants, strict=True)):
        if number in cuts:
            cut = reread(cut)
        if number == first:
            finished += cut.close_date("2023-11-14")
            cut = reread(cut)
        expected, actual = whole.step(KINDS[kind](now)), cut.step(KINDS[kind](now))
        assert [(j.finding, j.grace, j.judgement.state) for j in actual.judged] == [
            (j.finding, j.grace, j.judgement.state) for j in expected.judged
        ]
        assert actual.changes == expected.changes
        finished += cut.ledger.finished
        cut.ledger.finished = []
    assert finished == whole.close_date("2023-11-15")
    cut.close_date("2023-11-15")
    assert json.loads(cut.to_json()) == json.loads(whole.to_json())


def unnamed(group):
    """The same round where no record names a strategy, as it is where a collector alone looks."""
    topics = [replace(topic, strategy_source="default") for topic in group.topics]
    return replace(group, topics=topics, strategies={})


@pytest.mark.parametrize("shown", [lambda group: group, unnamed], ids=["named", "by default"])
@examples(25, 100)
@given(kinds=st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.integers(1, 14)), min_size=1, max_size=8))
@example(kinds=[("joined", 1), ("blind", 1), ("joined", 1), ("blind", 33), ("good", 14)])
@example(kinds=[("double", 1), ("blind", 1), ("double", 48)])
@example(kinds=[("good", 25), ("double", 20), ("good", 30)])
def test_rounds_that_repeat_the_one_before_may_be_passed_over(shown, kinds):
    names = [kind for kind, count in kinds for _ in range(count)]
    whole, passing = history(SHORT), history(SHORT)
    passed = 0
    for number, kind in enumerate(names):
        group, signature = shown(KINDS[kind](at(13 * number))), hash(kind)
        walked = whole.step(group)
        if passing.repeat(signature, group.at, (None, None)):
            passed += 1
            assert walked.judged == [] and not walked.changes
            assert not walked.scope and passing.inferred == walked.inferred
        else:
            found = passing.step(group, signature=signature)
            assert [told(one) for one in found.judged] == [told(one) for one in walked.judged]
            assert [*found.changes] == [*walked.changes]
            assert found.scope == walked.scope and found.inferred == walked.inferred
    assert passing.to_json() == whole.to_json()
    assert passed >= max((c - 20 for k, c in kinds if k == "good"), default=0)


def told(one):
    """A judged finding as it is told, with the state of what is followed."""
    return one.finding, one.grace, one.folded, one.judgement.state, vars(one.judgement.track)


def test_a_group_that_goes_on_saying_the_same_is_asked_for_that_alone(monkeypatch):
    asked = []
    rules = {code: rule._replace(find=partial(_noted, asked, code, rule.find)) for code, rule in RULES.items()}
    monkeypatch.setattr(drift_rules, "RULES", rules)
    made = history(SHORT)
    for number in range(12):
        asked.clear()
        assert not made.repeat(7, at(13 * number), (None, None))
        made.step(double(at(13 * number)), signature=7)
    assert asked == ["DOUBLE_OWNED"]
    made.repeat(8, at(160), (None, None))
    made.step(double(at(160)), signature=8)
    assert set(asked) == RULES.keys()


def _noted(asked, code, find, group, timing):
    asked.append(code)
    return find(group, timing)


def test_a_healthy_group_is_passed_over_but_not_when_a_queue_has_long_not_been_pulled_from():
    made = history(default_timing())
    for number in range(4):
        made.step(world(at(15 * number)), signature=7)
    assert made.repeat(7, at(60), (at(55), None))
    assert not made.repeat(8, at(75), (at(70), None))
    assert not made.repeat(7, at(75), (at(75) - 121_000, None))
    assert not made.repeat(7, at(75), (None, at(75) - 61_000))
    made.close_date("2023-11-14")
    assert not made.repeat(7, at(75), (at(70), None))


def test_equal_histories_give_equal_texts():
    rounds = [KINDS[kind] for kind in sorted(KINDS)] * 2
    one, two = walk(rounds, SHORT), walk(rounds, SHORT)
    assert one.to_json() == two.to_json()
    assert GroupHistory.of_json(one.key, SHORT, one.to_json()).to_json() == one.to_json()


# -- what a finding takes for granted --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "assumption"),
    [
        ({"of_topic": {"strategy_source": "default"}}, "allocation strategy of g: not known, AVG assumed"),
        ({"strategies": {"c1": ("AVG", "x")}}, "allocation strategy of c2: not known"),
        (
            {"of_topic": {"strategy": "CONSISTENT_HASH"}},
            "virtual nodes of CONSISTENT_HASH: not recorded, 10 assumed",
        ),
        (
            {"strategies": {"c1": ("AVG", "x"), "c2": ("CONSISTENT_HASH", "x")}},
            "virtual nodes of CONSISTENT_HASH: not recorded, 10 assumed",
        ),
        (
            {"strategies": {"c1": ("AVG", "x"), "c2": ("MACHINE_ROOM", "x")}},
            "queues of c2: MACHINE_ROOM depends on what no record holds",
        ),
        (
            {"strategies": {"c1": ("AVG", "x"), "c2": ("MINE", "x")}},
            "queues of c2: MINE depends on what no record holds",
        ),
    ],
)
def test_a_wrong_owner_is_possible_where_the_expectation_rests_on_an_assumption(changes, assumption):
    walked = history().step(world(at(0), {A1: "c2"}, **changes))
    (finding,) = [j.finding for j in walked.judged if j.finding.code == "WRONG_OWNER"]
    assert (finding.trust, finding.assumptions) == ("possible", (assumption,))


def test_with_its_virtual_nodes_given_a_hash_is_certain():
    given_nodes = {"strategy": "CONSISTENT_HASH", "strategy_parameters": '{"virtual_node_count": 20}'}
    walked = history().step(world(at(0), {A1: "c2"}, of_topic=given_nodes))
    assert [j.finding.trust for j in walked.judged if j.finding.code == "WRONG_OWNER"] == ["certain"]


def test_the_broker_assigns_and_shared_queues_are_legal():
    walked = history().step(world(at(0), {A1: ("c1", "c2"), B0: "c1"}, shared=True))
    assert [j.finding.code for j in walked.judged] == []
