"""Clients that are well: what an error, a loss or an old connection looks like, and what it must not be taken for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hindsight.udfs.consumer.offset_marks import Reading, Readings
from hindsight.udfs.consumer.round_facts import Connection, Listing
from hindsight.udfs.consumer.round_reads import CHANNEL, LEFT_OUT, NEEDED, NOTHING, reads_of
from hindsight.udfs.drift.group_history import GroupHistory
from hindsight.udfs.lines.parsed_line import UNREADABLE
from tests.default_timing import default_timing, findings
from tests.histories.test_incident_fixtures import A0, A1, ANYBODY, B0, BEGIN_MS, read, subscription, topic, world

REMOTING = "org.apache.rocketmq.remoting.exception"
TIMEOUT = f"{REMOTING}.RemotingTimeoutException: wait response on the channel <10.0.0.9:10911> timeout, 3000(ms)"
DEAD = (
    "org.apache.rocketmq.client.exception.MQClientException: CODE: 1  DESC: invoke consumer <g> <c1> Exception: "
    f"{REMOTING}.RemotingSendRequestException, send request to <null> failed"
)
SILENT_BEFORE = f"not asked: did not answer before, and is left out for 60 s: {TIMEOUT}"


def at(second):
    return BEGIN_MS + second * 1000


def walk(rounds, history=None, begin=0, step=15):
    """A history after rounds, each a function of its instant."""
    made = history or GroupHistory(("c", "", "g"), default_timing())
    return made, [made.step(one(at(begin + n * step))) for n, one in enumerate(rounds)]


def codes(rounds):
    return {j.finding.code for one in rounds for j in one.judged if j.finding.severity != "INFO"}


def incidents(made):
    every = [*made.ledger.incidents.values(), *made.ledger.finished]
    return {i.cause.name: i for i in every if i.severity != "INFO"}


# -- what a running info that did not come says of its client --------------------------------------------------------


def capture(kind="consumerRunningInfo", client_id="c1", broker_name="broker-a", error=None, code=None, **columns):
    row = dict.fromkeys([*NEEDED, "captured_at"]) | {"kind": kind, "client_id": client_id, "broker_name": broker_name}
    return row | {"answered": error is None, "error": error, "error_code": code, "evidence": "f:1"} | columns


def failures(*captures):
    return {(r["client_id"], r["broker_name"]): r["failure"] for r in reads_of(captures).reads}


LISTS = [capture("consumerConnection", None, broker) for broker in ("broker-a", "broker-b")]


@pytest.mark.parametrize(
    ("error", "code", "failure"),
    [
        (TIMEOUT, None, None),
        ("CODE: 207  DESC: consumer <g> <c1> Timeout: ...", 207, None),
        ("CODE: 1  DESC: The Consumer <g> <c1> not online", 1, None),
        (DEAD, 1, CHANNEL),
        (f"{UNREADABLE}OUT_OF_RANGE", None, NOTHING),
        (f"{REMOTING}.RemotingConnectException: connect to <10.0.0.9:10911> failed: refused", None, NOTHING),
        (f"{REMOTING}.RemotingCommandException: decode answer of <10.0.0.9:10911> failed: no JSON", None, NOTHING),
        (SILENT_BEFORE, None, LEFT_OUT),
        (f"not asked: did not answer before, and is left out for 60 s: {DEAD}", 1, NOTHING),
        ("not asked: the sweep lasted 110 s", None, NOTHING),
    ],
)
def test_a_failure_says_of_a_client_only_what_is_its_own(error, code, failure):
    assert failures(*LISTS, capture(error=error, code=code)) == {("c1", "broker-a"): failure}


def test_who_answers_through_nobody_is_silent_and_who_answers_through_one_is_not():
    both = [capture(error=DEAD, code=1, broker_name=broker) for broker in ("broker-a", "broker-b")]
    assert set(failures(*LISTS, *both).values()) == {None}
    assert set(failures(*LISTS, both[0], capture(broker_name="broker-b")).values()) == {CHANNEL, None}


def test_a_broker_that_answers_nothing_says_nothing_of_the_client():
    silent = capture("consumerConnection", None, "broker-a", TIMEOUT)
    assert failures(silent, capture(error=TIMEOUT)) == {("c1", "broker-a"): NOTHING}
    assert failures(silent, LISTS[1], capture(error=TIMEOUT, broker_name="broker-b")) == {("c1", "broker-b"): None}
    assert not reads_of([silent, LISTS[1]]).loses_answers
    assert reads_of([silent, *LISTS]).loses_answers  # it answered another question


# -- unreachable, or not ----------------------------------------------------------------------------------------------


def failing(now, failure, error="e", **changes):
    return world(now, {B0: ()}, reads=[read("c1", now), read("c2", now, answered=False, error=error, failure=failure)])


@pytest.mark.parametrize("failure", [CHANNEL, NOTHING])
def test_a_failure_that_is_not_the_clients_own_makes_it_no_unreachable_one(failure):
    made, rounds = walk([world] * 10 + [lambda now: failing(now, failure)] * 20)
    assert "UNREACHABLE_CLIENT" not in codes(rounds) | set(incidents(made))


def test_a_client_that_was_silent_once_and_is_left_out_since_opens_when_it_is_silent_again():
    once = [lambda now: failing(now, None)] + [lambda now: failing(now, LEFT_OUT)] * 4
    made, rounds = walk([world] * 10 + once)
    assert codes(rounds[11:]) >= {"UNREACHABLE_CLIENT"} and not incidents(made)
    made, _ = walk([lambda now: failing(now, None)], made, begin=225)
    assert incidents(made)["UNREACHABLE_CLIENT"].opened_at == at(225)


def test_where_the_collector_loses_answers_a_lost_one_says_nothing_and_silence_that_lasts_does():
    def lossy(now, silent):
        return replace(world(now, silent=("c2",) if silent else ()), loses_answers=True)

    now_and_then = [lambda now, n=n: lossy(now, n % 5 in (0, 1)) for n in range(60)]
    made, rounds = walk([world] * 10 + now_and_then)
    assert "UNREACHABLE_CLIENT" not in codes(rounds) | set(incidents(made))
    made, _ = walk([lambda now: lossy(now, True)] * 12, made, begin=15 * 70)
    assert "UNREACHABLE_CLIENT" in incidents(made)


@pytest.mark.parametrize(("silent_s", "lost_s", "opens"), [((0, 15, 30), 15, False), ((0, 15, 30), 30, True)])
def test_a_silence_of_one_round_is_in_doubt_too_once_an_answer_is_lost_in_the_next(silent_s, lost_s, opens):
    """Nothing was known of losses in the first round. What has opened stays open."""

    def sweep(second):
        silent = ("c2",) if second in silent_s else ()
        return lambda now: replace(world(now, silent=silent), loses_answers=lost_s <= second)

    made, rounds = walk([sweep(second) for second in range(0, 90, 15)])
    assert ("UNREACHABLE_CLIENT" in incidents(made), "UNREACHABLE_CLIENT" in codes(rounds[2:3])) == (opens, opens)


def test_a_queue_that_an_unreadable_client_may_hold_is_not_put_down_to_its_silence():
    history, rounds = walk([world] * 10)
    for n in range(10, 30):
        now = at(15 * n)
        readings = Readings.of([Reading(("T", "broker-b", 0), now, 1000 + n, 500)])
        rounds.append(history.step(failing(now, NOTHING, UNREADABLE + "OUT_OF_RANGE"), readings))
    found = [j for one in rounds for j in one.judged if j.finding.code == "UNSERVED_QUEUE"]
    assert found and not any("has not answered" in j.finding.sentence for j in found)
    assert set(incidents(history)) == {"UNEXPLAINED"}


def standing(rounds, moved_until):
    """A history of rounds in which answers are lost; offsets of B0 stand from a round on, and messages come."""
    history = GroupHistory(("c", "", "g"), default_timing())
    for n, one in enumerate(rounds):
        readings = Readings.of([Reading(("T", "broker-b", 0), at(15 * n), 1000 + n, 1000 + min(n, moved_until))])
        history.step(replace(one(at(15 * n)), loses_answers=True), readings)
    return incidents(history)


def unasked(now):
    return world(now, {B0: ()}, reads=[read("c1", now)])


def mute(now):
    return world(now, {B0: ()}, silent=("c2",))


def orphaned(now):
    return world(now, {B0: ()})


def half_read(now):
    return world(now, {A0: (), A1: (), B0: ()}, silent=("c1",))


def unread(now):
    return world(now, {A0: (), A1: (), B0: ()}, silent=("c1", "c2"))


@pytest.mark.parametrize(
    ("rounds", "cause"),
    [
        # c2 held the queue when it answered last, and dies: the queue had stood before, as a reading was lost.
        ([world] * 10 + [mute] * 4, "UNREACHABLE_CLIENT"),
        ([world] * 10 + [unasked] * 4, "UNREACHABLE_CLIENT"),
        ([world] * 10 + [unread] * 4, "UNREACHABLE_CLIENT"),
        # It answered, and did not hold it: an answer that is lost later, or a question left out, tells nothing.
        ([world] * 8 + [orphaned] * 2 + [mute] * 4, "UNEXPLAINED"),
        ([world] * 8 + [orphaned] * 2 + [unasked] * 4, "UNEXPLAINED"),
        ([world] * 8 + [half_read] * 2 + [mute] * 2, "UNEXPLAINED"),
    ],
)
def test_a_queue_that_stands_is_put_down_to_a_lost_answer_only_of_who_held_it_last(rounds, cause):
    assert set(standing(rounds, 5)) == {cause}


# -- connections that brokers keep ------------------------------------------------------------------------------------


def connected(now, *connections, reads=None):
    members = tuple(sorted({*(c for _, c, _ in connections)}))
    lists = {}
    for broker, client_id, _ in connections:
        lists.setdefault(broker, []).append(client_id)
    most = [c for c in members for _ in range(max(ids.count(c) for ids in lists.values()))]
    own = {"reads": reads} if reads else {}
    return world(
        now,
        members=tuple(most),
        connections=tuple(Connection(b, c, address) for b, c, address in connections),
        lists={broker: tuple(ids) for broker, ids in lists.items()},
        **own,
    )


WELL = [(b, c, f"10.0.0.{c[1]}:{port}") for b, port in (("broker-a", 1), ("broker-b", 2)) for c in ("c1", "c2")]
OLD_AT_B = ("broker-b", "c1", "10.0.0.1:3")


def test_a_connection_that_one_broker_keeps_is_no_second_process():
    made, rounds = walk([lambda now: connected(now, *WELL)] * 10 + [lambda now: connected(now, *WELL, OLD_AT_B)] * 8)
    assert not {"DUPLICATE_CLIENT_ID", "DOUBLE_OWNED"} & codes(rounds)
    assert set(incidents(made)) <= {"VIEW_DIVERGENCE"}


def test_connections_that_one_broker_keeps_one_after_the_other_are_no_second_process():
    # Two stops of a broker: each leaves a connection that it keeps for 120 s; some is always there.
    later = ("broker-b", "c1", "10.0.0.1:4")
    stretches = [[lambda now: connected(now, *WELL, OLD_AT_B)] * 7]
    anew = [c for c in WELL if c[:2] != ("broker-b", "c1")]
    stretches.append([lambda now: connected(now, *anew, WELL[2], later)] * 7)
    stretches.append([lambda now: connected(now, *anew, later, ("broker-b", "c1", "10.0.0.1:5"))] * 7)
    made, told = walk([lambda now: connected(now, *WELL)] * 10 + [one for stretch in stretches for one in stretch])
    assert not {"DUPLICATE_CLIENT_ID", "DOUBLE_OWNED"} & codes(told) | {"DUPLICATE_CLIENT_ID"} & set(incidents(made))


def test_connections_that_outlast_what_a_broker_keeps_are_two_processes():
    made, _ = walk([lambda now: connected(now, *WELL)] * 10 + [lambda now: connected(now, *WELL, OLD_AT_B)] * 12)
    assert "DUPLICATE_CLIENT_ID" in incidents(made)


def test_two_processes_that_both_answered_are_told_at_once_and_closed_when_one_has_ended():
    second = [*WELL, OLD_AT_B, ("broker-a", "c1", "10.0.0.1:4")]

    def alternating(now):
        started = 1 if (now - BEGIN_MS) // 15_000 % 2 else at(150)
        return connected(now, *second, reads=[read("c1", now, started_at=started), read("c2", now)])

    made, _ = walk([lambda now: connected(now, *WELL)] * 10 + [alternating] * 12)
    opened = incidents(made)["DUPLICATE_CLIENT_ID"].opened_at
    assert opened <= at(15 * 10 + 75)
    # The second ends; a broker then stops and keeps a connection of the first, as before.
    made, _ = walk([lambda now: connected(now, *WELL)] * 2, made, begin=15 * 22)
    made, _ = walk([lambda now: connected(now, *WELL, OLD_AT_B)] * 8, made, begin=15 * 24)
    assert incidents(made)["DUPLICATE_CLIENT_ID"].resolved_at <= at(15 * 22 + 120)


# -- rollouts, and what has ended --------------------------------------------------------------------------------------


def tagged(now, **texts):
    """A round in which each member subscribes T with its own tags; the id says when it started."""
    reads = [read(c, now, subscriptions=[subscription(text=text, tags=(text,))]) for c, text in texts.items()]
    return world(now, {A0: "c1", A1: "c1", B0: "c1"}, members=tuple(texts), reads=reads, of_topic=ANYBODY)


def subscriptions_open(made):
    found = incidents(made).get("SUBSCRIPTION_INCONSISTENT")
    return None if found is None else found.opened_at


OLD, BOTH, NEW = {"c1": "a", "c2": "a"}, {"c1": "a", "c2": "a", "n1": "b"}, {"n1": "b", "n2": "b"}


def test_a_rollout_with_new_ids_has_its_ten_minutes():
    mixed = [lambda now: tagged(now, **BOTH)] * 20 + [lambda now: tagged(now, c2="a", n1="b", n2="b")] * 18
    made, _ = walk([lambda now: tagged(now, **OLD)] * 4 + mixed + [lambda now: tagged(now, **NEW)] * 6)
    assert subscriptions_open(made) is None


def test_a_rollout_that_stays_half_done_opens_after_ten_minutes_from_its_first_join():
    made, _ = walk([lambda now: tagged(now, **OLD)] * 4 + [lambda now: tagged(now, **BOTH)] * 45)
    assert at(60 + 600) <= subscriptions_open(made) <= at(60 + 600 + 30)


def test_members_that_differ_from_the_first_sweep_on_have_no_ten_minutes_nor_gives_another_one_them():
    differing = [lambda now: tagged(now, c1="a", c2="b")] * 3 + [lambda now: tagged(now, c1="a", c2="b", c3="b")] * 8
    made, _ = walk(differing)
    assert subscriptions_open(made) <= at(120)


def test_a_member_that_lacks_a_topic_is_not_waited_for():
    def lacking(now):
        return world(
            now,
            {A0: "c1", A1: "c1", B0: "c1"},
            members=("c1", "n1"),
            reads=[read("c1", now), read("n1", now, subscriptions=[subscription("X")])],
            of_topic=ANYBODY,
        )

    made, _ = walk([lambda now: world(now, members=("c1",))] * 4 + [lacking] * 6)
    assert subscriptions_open(made) <= at(60 + 90)


def test_spare_members_are_told_of_topics_and_not_of_retry_topics():
    def spare(now, name):
        return world(
            now,
            members=("c1", "c2", "c3"),
            reads=[read(c, now, subscriptions=[subscription(name)]) for c in ("c1", "c2", "c3")],
            topics=(topic(now, topic=name),),
        )

    of_topic = {f.code for f in findings(spare(at(0), "T"))}
    of_retry = {f.code for f in findings(spare(at(0), "%RETRY%g"))}
    assert of_topic - of_retry == {"IDLE_BY_DESIGN"} and not of_retry


# -- a group that is down ----------------------------------------------------------------------------------------------


def empty(now):
    return world(now, members=(), topics=(), reads=[])


def offsets(history, phases, step=15):
    """A history after rounds of phases: (rounds, round, messages consumed); messages come all the while."""
    second, consumed = 0, 0
    for count, one, consumes in phases:
        for _ in range(count):
            now, consumed = at(second), second if consumes else consumed
            history.step(one(now), Readings.of(Reading(("T", *q), now, 10 + second, consumed) for q in (A0, A1, B0)))
            second += step
    return history


@pytest.mark.parametrize("step", [5, 15, 30, 60])
def test_a_group_that_is_down_is_told_within_90_s_of_the_first_sweep_that_shows_it(step):
    made = GroupHistory(("c", "", "g"), default_timing())
    offsets(made, [(150 // step, world, True), (300 // step, empty, False)], step)
    shown = 150 // step * step
    assert at(shown + 60) <= incidents(made)["GROUP_DOWN"].opened_at <= at(shown + 90)


def one_says_nobody(now):
    """A group without members of which one broker of two says so."""
    told = [Listing("broker-a", now, True, 206, "f:a"), Listing("broker-b", now, False, None, "f:b")]
    return replace(empty(now), listings=tuple(told), lists={"broker-a": ()})


def one_is_back(now):
    """The same where the broker that did not answer is there again, with another queue."""
    return world(now, members=(), reads=[], of_topic={"queues": (A0, A1, B0, ("broker-z", 0))})


@pytest.mark.parametrize("then", [one_says_nobody, one_is_back])
def test_a_group_that_is_down_is_told_though_a_broker_is_too(then):
    made = GroupHistory(("c", "", "g"), default_timing())
    offsets(
        made, [(10, world, True), (3, lambda now: replace(world(now), members=(), reads={}), False), (8, then, False)]
    )
    assert at(150 + 60) <= incidents(made)["GROUP_DOWN"].opened_at <= at(150 + 90)


def test_a_name_server_that_is_new_and_tells_of_one_broker_alone_mutes_nothing_for_long():
    """The other broker has left no route: clients that were told so know better at their next poll."""

    def poorer(now):
        return world(now, of_topic={"queues": (B0,), "routes_differ": True, "name_servers": 2})

    made = GroupHistory(("c", "", "g"), default_timing())
    offsets(made, [(10, world, True), (2, poorer, True), (2, world, True), (12, empty, False)])
    assert at(210 + 60) <= incidents(made)["GROUP_DOWN"].opened_at <= at(210 + 90)


def test_a_group_of_which_a_broker_never_said_that_nobody_is_there_is_not_down():
    made = GroupHistory(("c", "", "g"), default_timing())
    offsets(made, [(10, world, True), (20, one_says_nobody, False)])
    assert "GROUP_DOWN" not in incidents(made)


@pytest.mark.parametrize("step", [5, 15])
def test_a_group_that_is_back_within_60_s_opens_nothing(step):
    made = GroupHistory(("c", "", "g"), default_timing())
    offsets(made, [(150 // step, world, True), (60 // step, empty, False), (300 // step, world, True)], step)
    assert "GROUP_DOWN" not in incidents(made)


def test_a_group_of_which_a_message_waits_now_and_then_is_not_down():
    # Consumers behind a proxy, a message a minute: a reading may come between its arrival and its consumption.
    made, second = GroupHistory(("c", "", "g"), default_timing()), 0
    for n in range(100):
        came, read_since = n // 4, n % 4 > 0
        done = came if read_since else came - 1
        made.step(empty(at(second)), Readings.of([Reading(("T", *A0), at(second), 10 + came, 10 + done)]))
        second += 15
    assert "GROUP_DOWN" not in incidents(made)
