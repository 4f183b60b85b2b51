"""Groups that are there and do not consume, or too little; offsets and ends of queues that cannot be: what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hindsight.udfs.consumer.offset_marks import Reading, Readings
from hindsight.udfs.drift.backlog_rules import BLOCKED, GETS_NOTHING, NOT_PULLED, NOT_TOLD
from hindsight.udfs.drift.group_history import GroupHistory
from tests.default_timing import default_timing
from tests.histories.test_incident_fixtures import A0, A1, B0, BEGIN_MS, EXPECTED, owner, world

STEP_S, QUEUES = 15, (A0, A1, B0)


def at(second):
    return BEGIN_MS + second * 1000


def walk(stretches, history=None, begin=0, floor=0):
    """A history after (rounds, offsets, round): ``offsets`` of a second, by queue (end, committed) or one for all.

    ``floor``: the first message that the broker still has.
    """
    made, second, rounds = history or GroupHistory(("c", "", "g"), default_timing()), begin, []
    for count, offsets, shown in stretches:
        for _ in range(count):
            told = offsets(second)
            told = told if isinstance(told, dict) else dict.fromkeys(QUEUES, told)
            readings = Readings.of(
                [Reading(("T", *queue), at(second), *pair, None, floor) for queue, pair in told.items()]
            )
            rounds.append(made.step(shown(at(second)), readings))
            second += STEP_S
    return made, rounds


def incidents(made):
    every = [*made.ledger.incidents.values(), *made.ledger.finished]
    return {i.cause.name: i for i in every}


def codes(rounds):
    return {j.finding.code for one in rounds for j in one.judged}


def keeps_up(second):
    return 100 + second, 100 + second


def stands(second, since=150):
    return 100 + second, 100 + min(second, since)


def holding(now, **shown):
    return world(now, {queue: [owner(client_id, now, **shown)] for queue, client_id in EXPECTED.items()})


# -- nothing is consumed ----------------------------------------


@pytest.mark.parametrize(
    ("shown", "kind"),
    [
        ({"cached_messages": 0}, GETS_NOTHING),
        ({"cached_messages": 9, "last_consume_at": 1}, BLOCKED),
        ({"last_pull_at": 1}, NOT_PULLED),
        ({"cached_messages": 9}, NOT_TOLD),
        ({"last_pull_at": None}, NOT_TOLD),
    ],
)
def test_a_group_whose_members_answer_and_that_consumes_nothing_is_told_in_90_s_and_why(shown, kind):
    made, rounds = walk([(11, keeps_up, world), (20, stands, lambda now: holding(now, **shown))])
    found = [j.finding for j in rounds[-1].judged if j.finding.code == "CONSUMES_NOTHING"]
    assert [(f.kind, f.severity, f.trust) for f in found] == [(kind, "HIGH", "certain")]
    assert incidents(made)["CONSUMES_NOTHING"].opened_at <= at(150 + 90)


def test_a_group_that_stands_since_between_two_reads_has_not_fallen_behind_before():
    """Of one cause one incident: what it consumed until then is in the pace of the minute after it."""
    made, rounds = walk([(11, keeps_up, world), (20, lambda second: stands(second, 157), world)])
    assert codes(rounds) == {"CONSUMES_NOTHING"}
    assert incidents(made)["CONSUMES_NOTHING"].opened_at <= at(157 + 90)


def test_it_is_over_when_the_group_consumes_again():
    made, _ = walk([(11, keeps_up, world), (20, stands, world), (6, keeps_up, world)])
    assert incidents(made)["CONSUMES_NOTHING"].resolved_at <= at(31 * 15 + 150)


@pytest.mark.parametrize(
    ("offsets", "shown"),
    [
        (lambda second: (250, 250), world),  # nothing comes
        (lambda second: (100 + second, 100 + second // 30 * 30), world),  # a message each 30 s, read late
        (stands, lambda now: world(now, members=())),  # nobody is there: GROUP_DOWN
        (stands, lambda now: world(now, silent=("c2",))),  # somebody does not answer
        (stands, lambda now: replace(world(now), message_model="BROADCASTING")),
        (lambda second: {q: keeps_up(second) if q == A0 else stands(second) for q in QUEUES}, world),
    ],
)
def test_what_is_quiet_or_another_finding_or_consumes_something_is_none(offsets, shown):
    _, rounds = walk([(11, keeps_up, world), (30, offsets, shown)])
    assert "CONSUMES_NOTHING" not in codes(rounds)


def test_where_one_client_alone_stalls_the_group_it_is_that_clients_incident():
    def one(now):
        held = [owner("c1", now, cached_messages=9, last_consume_at=at(150))]
        return world(
            now, dict.fromkeys(QUEUES, held), members=("c1",), of_topic={"expected": dict.fromkeys(QUEUES, "c1")}
        )

    made, rounds = walk([(11, keeps_up, one), (20, stands, one)])
    assert "CONSUMES_NOTHING" in codes(rounds[-1:])
    assert {name for name, i in incidents(made).items() if i.severity == "HIGH"} == {"CLIENT_STALLED"}


def waits_for_its_turn(now):
    """A0 was consumed last at second 240; its messages wait in the client, whose one thread has others to do."""
    shown = {q: [owner(c, now)] for q, c in EXPECTED.items()}
    shown[A0] = [owner(EXPECTED[A0], now, cached_messages=9, last_consume_at=at(240))]
    return world(now, shown)


@pytest.mark.parametrize(("others_again", "cause"), [(True, "OFFSET_REWOUND"), (False, "CLIENT_STALLED")])
def test_a_queue_that_waits_while_its_topic_is_consumed_again_is_no_stalled_clients(others_again, cause):
    def set_back(second):
        again = second - 900 if others_again else second - 3
        return {q: (1000 + second, 1240 if q == A0 else 1000 + again) for q in QUEUES}

    made, rounds = walk([(17, lambda s: (1000 + s,) * 2, world), (16, set_back, waits_for_its_turn)])
    (found,) = [j for j in rounds[-1].judged if j.finding.code == "CONSUME_BLOCKED"]
    assert found.judgement.track.causes[0].name == cause
    assert cause in incidents(made)


# -- one queue, one thread ----------------------------------------


def test_a_queue_that_stands_alone_while_its_owner_goes_on_is_told_within_two_minutes():
    def one_stands(second):
        return {q: stands(second) if q == A1 else keeps_up(second) for q in QUEUES}

    made, rounds = walk([(11, keeps_up, world), (12, one_stands, world)])
    incident = incidents(made)["QUEUE_LAGS_ALONE"]
    assert incident.opened_at <= at(150 + 120) and incident.severity == "HIGH"
    assert {j.finding.queue for j in rounds[-1].judged if j.finding.code == "QUEUE_LAGS_ALONE"} == {A1}


# -- it falls behind as a whole ----------------------------------------


def slower(second, since=150):
    return 1000 + 8 * second, 1000 + 8 * min(second, since) + 4 * max(second - since, 0)


def test_a_group_that_is_slower_than_its_producers_falls_behind_and_it_is_said_how_long_retention_leaves():
    made, rounds = walk([(11, lambda s: (1000 + 8 * s, 1000 + 8 * s), world), (20, slower, world)], floor=40)
    incident = incidents(made)["FALLS_BEHIND"]
    assert incident.opened_at <= at(150 + 240) and incident.severity == "HIGH"
    (found,) = [j.finding for j in rounds[-1].judged if j.finding.code == "FALLS_BEHIND"]
    # At second 450: 3 queues, each 4,600 - 1,200 - 1,200 behind, at offset 3,400 - 40 with 4 a second to lose.
    assert "24.0 messages a second come, and 12.0 are consumed; 3600 wait" in found.sentence
    assert found.sentence.endswith("retention takes messages that wait in about 14 minutes.")
    assert incidents(walk([(6, keeps_up, world)], made, 31 * 15 + 10_000)[0])["FALLS_BEHIND"].state == "RESOLVED"


@pytest.mark.parametrize(
    ("floor", "why"), [(0, "nothing of the queues was deleted so far"), (None, "no topicStatus was read")]
)
def test_how_long_retention_leaves_is_not_told_of_queues_of_which_nothing_was_ever_deleted(floor, why):
    _, rounds = walk([(11, lambda s: (1000 + 8 * s,) * 2, world), (20, slower, world)], floor=floor)
    (found,) = [j.finding for j in rounds[-1].judged if j.finding.code == "FALLS_BEHIND"]
    assert found.sentence.endswith(f"When retention takes them is not told: {why}.")


def test_a_group_that_catches_up_or_was_set_back_or_of_which_one_queue_lags_does_not_fall_behind():
    def catches_up(second):
        return 10_000 + 8 * second, 1000 + 20 * second

    def one(second):
        return {q: slower(second) if q == A1 else (8 * second, 8 * second) for q in QUEUES}

    for offsets in (catches_up, one):
        assert "FALLS_BEHIND" not in codes(walk([(40, offsets, world)])[1])

    def set_back(second):
        return 1000 + 8 * second, 8 * second + (1000 if second < 300 else 0)

    assert "FALLS_BEHIND" not in codes(walk([(40, set_back, world)])[1])


@pytest.mark.parametrize("pace", [(7, 4), (100, 20), (2, 1)])
def test_a_group_that_falls_behind_is_told_before_messages_have_waited_a_minute(pace):
    came, consumed = pace

    def falls(second):
        return 1000 + came * second, 1000 + came * min(second, 150) + consumed * max(second - 150, 0)

    made, rounds = walk([(11, lambda s: (1000 + came * s,) * 2, world), (8, falls, world)])
    assert incidents(made)["FALLS_BEHIND"].opened_at <= at(150 + 105)
    told = [j.finding.sentence for one in rounds for j in one.judged if j.finding.code == "FALLS_BEHIND"]
    assert "wait, the first for about " in told[0]


def half_answered(now):
    """A round in which only the owner of one queue of three answers."""
    return world(now, {A0: (), A1: ()}, silent=("c1",))


def test_one_queue_of_the_only_member_that_answers_is_not_the_topic():
    def one(second):
        return {queue: slower(second) if queue == B0 else (1000 + 8 * second,) * 2 for queue in QUEUES}

    assert "FALLS_BEHIND" not in codes(walk([(40, one, half_answered)])[1])

    def others_stand(second):
        return {queue: slower(second) if queue == B0 else (1000 + 8 * second, 1000) for queue in QUEUES}

    assert "FALLS_BEHIND" not in codes(walk([(40, others_stand, half_answered)])[1])


def test_a_group_falls_behind_by_its_offsets_though_a_member_never_answers():
    _, rounds = walk([(11, lambda s: (1000 + 8 * s,) * 2, half_answered), (20, slower, half_answered)])
    assert "FALLS_BEHIND" in codes(rounds)


@pytest.mark.parametrize(
    "offsets",
    [
        lambda s: (1000 + 8 * s, 1000 + 8 * (s - s % 20)),  # commits come late
        lambda s: (1000 + 8 * s, 1000 + 8 * s - min(max(s - 150, 0), 60)),  # a minute of a little more than it can
        lambda s: (1000 + 8 * s, 999 + int(7.9 * s)),  # a little slower than messages come
        lambda s: (1000 + 8 * s, 1000 + 8 * s - (4 * (s % 60) if s % 600 < 60 else 0)),  # bursts that it works off
    ],
)
def test_what_waits_for_moments_is_no_falling_behind(offsets):
    assert "FALLS_BEHIND" not in codes(walk([(45, offsets, world)])[1])


def test_the_walk_of_a_group_that_falls_behind_can_be_cut_anywhere():
    whole = walk([(11, lambda s: (1000 + 8 * s,) * 2, world), (9, slower, world)])[0].to_json()
    for first in (12, 15, 17):
        made, _ = walk([(11, lambda s: (1000 + 8 * s,) * 2, world), (first - 11, slower, world)])
        again = GroupHistory.of_json(made.key, default_timing(), made.to_json(), (), made.ledger.evidence())
        assert walk([(20 - first, slower, world)], again, first * STEP_S)[0].to_json() == whole


# -- offsets and ends that cannot be ----------------------------------------


def test_an_offset_beyond_the_end_is_told_though_nothing_else_was_ever_seen():
    made, rounds = walk([(12, lambda second: (120, 5000), world)])
    assert incidents(made)["OFFSET_BEYOND_END"].opened_at <= at(150)
    assert any(
        "is 5000 since" in j.finding.sentence and "4880 messages" in j.finding.sentence for j in rounds[-1].judged
    )


def test_an_offset_that_clients_correct_soon_is_no_incident():
    stretches = [(4, lambda second: (120, 5000), world), (20, lambda second: (120, 120), world)]
    assert "OFFSET_BEYOND_END" not in incidents(walk(stretches)[0])


def without_route(now):
    return world(now, of_topic={"queues": None}, missing_inputs=("topic_route of T: not read in this round",))


def made_anew(went_on=True, gap=3, queues=QUEUES):
    """Rounds in which a topic goes and comes again, empty."""

    def anew(second):
        end = second - 200
        return {q: (end, end if went_on else 5000) if q in queues else (5000 + second,) * 2 for q in QUEUES}

    before = (11, lambda second: (5000 + second,) * 2, world)
    return walk(
        [before, (gap, lambda second: {}, without_route), (14, anew, world)] if gap else [before, (17, anew, world)]
    )


def test_a_topic_that_was_deleted_and_made_again_and_is_consumed_on_is_at_most_news():
    made, rounds = made_anew()
    assert {(j.finding.code, j.finding.severity) for j in rounds[-1].judged} == {("END_WENT_BACK", "INFO")}
    assert {i.severity for i in incidents(made).values()} == {"INFO"}
    # Too quick for a sweep to miss the route, but all queues of two brokers began anew.
    assert {i.severity for i in incidents(made_anew(gap=0)[0]).values()} == {"INFO"}


def test_a_topic_that_was_made_again_and_in_which_the_group_does_not_go_on_is_told():
    made, _ = made_anew(went_on=False)
    assert {"OFFSET_BEYOND_END", "END_WENT_BACK"} <= {n for n, i in incidents(made).items() if i.severity == "HIGH"}


def test_the_end_of_one_broker_that_goes_back_is_lost_messages_until_a_slave_is_ruled_out():
    made, rounds = made_anew(gap=0, queues=(A0, A1))
    found = {(j.finding.severity, j.finding.trust) for j in rounds[-1].judged if j.finding.code == "END_WENT_BACK"}
    assert found == {("HIGH", "possible")} and incidents(made)["END_WENT_BACK"].severity == "HIGH"


def test_an_end_that_is_back_in_the_next_reading_was_another_brokers():
    def blip(second):
        return (4000, 4000) if second == 150 else (5000 + second, 5000 + second)

    assert "END_WENT_BACK" not in codes(walk([(30, blip, world)])[1])


def test_what_is_remembered_is_the_same_wherever_it_is_written_down():
    whole, cut = (GroupHistory(("c", "", "g"), default_timing()) for _ in range(2))
    for n in range(40):
        end = 5000 + 10 * n if n < 20 else 10 * n
        readings = Readings.of(Reading(("T", *q), at(15 * n), end, 5100, None, 0) for q in QUEUES)
        told = [
            one.step(without_route(at(15 * n)) if n % 9 == 8 else world(at(15 * n)), readings) for one in (whole, cut)
        ]
        assert told[0].judged == told[1].judged and whole.to_json() == cut.to_json()
        cut = GroupHistory.of_json(cut.key, cut.timing, cut.to_json(), evidence=cut.ledger.evidence())


# -- what needs no running infos ----------------------------------------


def lists_alone(now, **changes):
    return world(now, reads=[], topics=(), **changes)


def test_lists_alone_show_an_id_of_two_processes():
    made, _ = walk([(12, keeps_up, lambda now: lists_alone(now, members=("c1", "c1", "c2")))])
    assert incidents(made)["DUPLICATE_CLIENT_ID"].opened_at <= at(135)
    made, _ = walk([(6, keeps_up, lists_alone)], made, 12 * 15)
    assert incidents(made)["DUPLICATE_CLIENT_ID"].state == "RESOLVED"


def test_progress_alone_shows_offsets_that_went_back_or_lie_beyond_the_end():
    def unlisted(now):
        return lists_alone(now, members=(), listed=False)

    back = [(11, keeps_up, unlisted), (4, lambda second: (100 + second, 20), unlisted)]
    assert {"OFFSET_REWOUND"} <= set(incidents(walk(back)[0]))
    assert {"OFFSET_BEYOND_END"} <= set(incidents(walk([(12, lambda second: (120, 5000), unlisted)])[0]))
    assert not codes(walk([(20, keeps_up, unlisted)])[1])


def test_a_queue_that_stood_while_its_client_did_not_answer_has_a_minute_once_it_answers():
    """Offsets are read once a minute: the last reading is of the time in which the client was frozen."""

    def frozen(now):
        return world(now, {B0: ()}, silent=("c2",))

    def one_stands(second):
        return {q: stands(second) if q == B0 else keeps_up(second) for q in QUEUES}

    def unread(second):
        return {}

    _, rounds = walk([(11, keeps_up, world), (8, one_stands, frozen), (4, unread, world), (8, keeps_up, world)])
    assert not {"QUEUE_LAGS_ALONE", "CONSUMES_NOTHING"} & codes(rounds)
