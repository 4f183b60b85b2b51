"""Each drift code on a round made by hand: the condition true, and the inputs that limit what may be said."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import Connection, Owner, Past, Progress, Read, TopicRound
from hindsight.udfs.drift.drift_rules import Finding, absence_is_told
from hindsight.udfs.drift.finding import subject_of
from tests.default_timing import findings

A0, A1, B0 = ("broker-a", 0), ("broker-a", 1), ("broker-b", 0)
QUEUES = (A0, A1, B0)


def owner(client_id, locked=False):
    return Owner(client_id, locked, None, None)


def read(client_id, answered=True, topics=("T",)):
    error = None if answered else "a.b.exception.RemotingTimeoutException: wait response timeout, 5000(ms)"
    return Read(client_id, answered, error, frozenset(topics) if answered else None, 1, f"f:{client_id}")


def lagging(queue, now, before):
    """What the walk remembers of a queue's lag."""
    return Past(progress={("T", *queue): Progress(0, now, before, 0, 0)})


def topic(owners, name="T", expected=None, queues=QUEUES, expects=True):
    expected = expected or {A0: "c1", A1: "c1", B0: "c2"}
    return TopicRound(
        topic=name,
        queues=queues,
        expected=expected,
        allowed={q: frozenset({c}) for q, c in expected.items() if c},
        owners={q: tuple(owner(c) for c in clients) for q, clients in owners.items()},
        strategy="AVG",
        strategy_source="client_log",
        strategy_parameters="",
        queue_list_hash="h",
        expects=expects,
        evidence=("f:route",),
    )


def group(*topics, members=("c1", "c2"), reads=None, **changes):
    fields = {
        "consumer_group": "g",
        "message_model": "CLUSTERING",
        "members": members,
        "reads": {r.client_id: r for r in reads or [read(c) for c in dict.fromkeys(members)]},
        "strategies": dict.fromkeys(members, ("AVG", "client_log")),
        "ordered": False,
        "loose": False,
        "missing_inputs": (),
        "topics": topics,
        "evidence": ("f:list",),
        "listed_at": 0,
    }
    return GroupRound(**{**fields, **changes})


HEALTHY = {A0: ["c1"], A1: ["c1"], B0: ["c2"]}


def found(*args, **kwargs) -> list[tuple]:
    return [(f.code, f.queue, f.client_id) for f in findings(group(*args, **kwargs))]


def one(*args, **kwargs) -> Finding:
    (finding,) = findings(group(*args, **kwargs))
    return finding


def test_a_round_in_which_everybody_owns_what_he_should_has_no_finding():
    assert found(topic(HEALTHY)) == []


def test_a_queue_without_owner_is_an_orphan_when_every_listed_member_answered():
    finding = one(topic({**HEALTHY, A1: []}))
    assert (finding.code, finding.queue, finding.severity, finding.expected) == ("ORPHAN_QUEUE", A1, "HIGH", ("c1",))
    assert finding.sentence == "queue 1 of T@broker-a has no owner in g: its expected owner c1 does not own it."
    assert finding.evidence == ("f:c1", "f:c2", "f:list", "f:route")


def test_an_orphan_whose_lag_rises_is_critical():
    orphan = topic({**HEALTHY, A1: []})
    assert one(orphan, past=lagging(A1, 9, 3)).severity == "CRITICAL"
    assert one(orphan, past=lagging(A1, 3, 9)).severity == "HIGH"
    assert one(orphan, past=lagging(A1, 9, None)).severity == "HIGH"


def test_an_orphan_of_an_ordered_group_is_critical():
    assert one(topic({**HEALTHY, A1: []}), ordered=True).severity == "CRITICAL"


def test_while_a_listed_member_has_not_answered_nothing_is_an_orphan():
    assert found(topic({**HEALTHY, A1: []}), reads=[read("c1"), read("c2", answered=False)]) == [
        ("UNREACHABLE_CLIENT", None, "c2")
    ]


def test_a_listed_member_that_was_not_asked_leaves_orphans_unknown_too():
    assert found(topic({**HEALTHY, A1: []}), reads=[read("c1")]) == []


def test_a_topic_that_nobody_subscribes_has_no_orphans():
    reads = [read("c1", topics=("U",)), read("c2", topics=("U",))]
    assert found(topic({A0: [], A1: [], B0: []}), reads=reads) == []


def test_an_expected_owner_that_does_not_subscribe_is_named_as_the_reason():
    reads = [read("c1", topics=("U",)), read("c2")]
    finding = one(topic({A0: ["c2"], A1: [], B0: ["c2"]}, expected={A0: "c2", A1: "c1", B0: "c2"}), reads=reads)
    assert "its expected owner c1 does not subscribe T" in finding.sentence


def test_a_queue_with_two_owners_is_owned_twice_even_while_a_member_is_unread():
    reads = [read("c1"), read("c2"), read("c3", answered=False)]
    codes = found(topic({**HEALTHY, A0: ["c1", "c2"]}), members=("c1", "c2", "c3"), reads=reads)
    assert ("DOUBLE_OWNED", A0, None) in codes


def test_two_locked_owners_of_an_ordered_queue_are_critical():
    double = topic({**HEALTHY, A0: ["c1", "c2"]})
    locked = TopicRound(**{**vars(double), "owners": {**double.owners, A0: (owner("c1", True), owner("c2", True))}})
    assert one(double, ordered=True).severity == "HIGH"
    assert one(locked, ordered=True).severity == "CRITICAL"


def test_a_loose_round_leaves_doubles_and_wrong_owners_possible():
    rounds = topic({A0: ["c1", "c2"], A1: ["c2"], B0: ["c2"]})
    assert {f.trust for f in findings(group(rounds, loose=True))} == {"possible"}
    assert {f.trust for f in findings(group(rounds))} == {"certain"}


def test_an_owner_outside_the_allowed_set_is_wrong():
    finding = one(topic({**HEALTHY, A1: ["c2"]}))
    assert (finding.code, finding.client_id, finding.expected) == ("WRONG_OWNER", "c2", ("c1",))
    assert finding.sentence == "queue 1 of T@broker-a is owned by c2 in g; AVG gives it to c1."


def test_an_owner_that_was_right_a_round_before_is_not_wrong():
    moved = topic({**HEALTHY, A1: ["c2"]})
    allowed = {**moved.allowed, A1: frozenset({"c1", "c2"})}
    assert findings(group(TopicRound(**{**vars(moved), "allowed": allowed}))) == []


def test_without_an_expectation_nobody_is_wrong_or_idle():
    assert found(topic({**HEALTHY, A1: ["c2"], A0: ["c2"]}, expects=False)) == []


def test_a_subscriber_that_owns_nothing_of_its_share_is_idle():
    taken = {A0: ["c2"], A1: ["c2"], B0: ["c2"]}
    made = findings(group(topic(taken, expected={A0: "c2", A1: "c2", B0: "c1"})))
    assert [(f.code, f.client_id, f.severity) for f in made] == [
        ("WRONG_OWNER", "c2", "MEDIUM"),
        ("IDLE_CONSUMER", "c1", "MEDIUM"),
    ]


def test_idle_by_design_is_information():
    finding = one(topic(HEALTHY), members=("c1", "c2", "c3"))
    assert (finding.code, finding.client_id, finding.severity) == ("IDLE_BY_DESIGN", "c3", "INFO")
    assert "3 queues, 3 members" in finding.sentence


def test_a_member_that_does_not_subscribe_is_not_idle():
    reads = [read("c1"), read("c2"), read("c3", topics=("U",))]
    assert found(topic(HEALTHY), members=("c1", "c2", "c3"), reads=reads) == []


def test_a_listed_member_that_does_not_answer_is_unreachable():
    finding = one(topic(HEALTHY), reads=[read("c1"), read("c2", answered=False)])
    assert finding.sentence == (
        "c2 is listed in g and did not answer: RemotingTimeoutException: wait response timeout, 5000(ms)."
    )


def test_two_strategies_in_one_group_are_mixed():
    mixed = {"c1": ("AVG", "client_log"), "c2": ("AVG_BY_CIRCLE", "running_info")}
    finding = one(topic(HEALTHY), strategies=mixed)
    assert (finding.code, finding.severity, finding.kind) == ("MIXED_STRATEGY", "MEDIUM", "AVG + AVG_BY_CIRCLE")


def test_the_sentence_says_who_shares_by_what_in_the_order_of_the_members():
    by = {"c2": "AVG", "c4": "CONFIG", "c3": "AVG", "c1": "AVG"}
    strategies = {c: (name, "client_log") for c, name in by.items()}
    made = findings(group(topic(HEALTHY), members=tuple(by), strategies=strategies))
    assert [f.sentence for f in made if f.code == "MIXED_STRATEGY"] == [
        "the members of g share by different strategies: AVG by c2, c3, c1, CONFIG by c4."
    ]


def test_mixed_strategies_that_explain_a_double_are_high():
    mixed = {"c1": ("AVG", "client_log"), "c2": ("AVG_BY_CIRCLE", "running_info")}
    made = findings(group(topic({**HEALTHY, A0: ["c1", "c2"]}), strategies=mixed))
    assert [f.severity for f in made if f.code == "MIXED_STRATEGY"] == ["HIGH"]


def test_strategies_of_clients_that_are_not_listed_do_not_mix():
    assert found(topic(HEALTHY), strategies={"c1": ("AVG", "x"), "gone": ("CONFIG", "x")}) == []


def test_a_retry_topic_is_judged_one_severity_lower():
    reads = [read("c1", topics=("%RETRY%g",)), read("c2", topics=("%RETRY%g",))]
    assert one(topic({**HEALTHY, A1: []}, name="%RETRY%g"), reads=reads).severity == "MEDIUM"


def test_a_topic_whose_route_was_not_read_is_not_judged():
    assert found(topic({**HEALTHY, A0: ["c1", "c2"]}, queues=None)) == []


def test_every_broadcasting_subscriber_should_read_every_queue():
    both = {A0: ["c1", "c2"], A1: ["c1", "c2"], B0: ["c1"]}
    assert found(topic(both), message_model="BROADCASTING") == [("ORPHAN_QUEUE", B0, "c2")]


def views(lists):
    """The sentence on what brokers list; None: nothing to say."""
    channels = tuple(Connection(broker, c, "10.0.0.1:1") for broker, clients in lists.items() for c in clients)
    made = findings(group(topic(HEALTHY), connections=channels))
    return next((f.sentence for f in made if f.code == "VIEW_DIVERGENCE"), None)


def test_views_that_differ_name_the_members_that_not_all_brokers_know():
    assert views({"a": ("c1", "c2"), "b": ("c2", "c3"), "c": ("c2",)}) == (
        "the brokers list different members of g (a: 2, b: 2, c: 1): not all know c1, c3."
    )
    assert views({"a": ("c1", "c1"), "b": ("c1",)}) == (
        "the brokers list the members of g a different number of times (a: 2, b: 1)."
    )
    assert views({"a": ("c1", "c2"), "b": ("c2", "c1")}) is None
    assert views({"a": ("c1", "c2"), None: ("c1",)}) is None


@given(st.dictionaries(st.sampled_from("abcd"), st.sets(st.sampled_from("12345"), min_size=1), min_size=2))
def test_a_member_is_not_known_to_all_if_one_broker_does_not_list_it(lists):
    lacking = sorted({c for known in lists.values() for c in "12345" if c not in known} & set().union(*lists.values()))
    told = (views(lists) or "not all know .").rpartition("not all know ")[2].rstrip(".")
    assert told == ", ".join(lacking)


def test_where_nobody_was_asked_a_queue_that_stands_beside_one_that_is_read_shows():
    """Lists and offsets alone: as `mqadmin consumerConnection` and `consumerProgress` tell them."""
    moved, stands = Progress(200_000, 0, 0, 200_000, 0), Progress(200_000, 650, 600, 100_000, 50)
    asleep = {("%RETRY%g", "broker-a", 0): stands}
    progress = {("T", *A0): moved, ("T", *A1): stands, **asleep}
    unread = group(reads=[read("c1", answered=False)], at=200_000)
    unread = replace(unread, reads={}, missing_inputs=("running infos",))
    made = replace(unread, past=Past(progress=progress))
    (finding,) = findings(made)
    assert (finding.code, finding.queue, finding.trust) == ("UNSERVED_QUEUE", A1, "possible")
    assert absence_is_told(made, subject_of(finding), last_true_at=90_000)
    assert not absence_is_told(made, subject_of(finding), last_true_at=150_000)
    # Where members were asked lately, they say who holds it; where all stand, nothing tells this queue from others.
    assert not findings(replace(made, past=Past(progress=progress, read_lately=True)))
    assert not findings(replace(made, past=Past(progress={("T", *A0): stands, ("T", *A1): stands})))
    assert not findings(replace(made, message_model="BROADCASTING"))
