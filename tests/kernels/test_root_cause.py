"""What a finding comes of: each cause true, and each thing without which it explains nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hindsight.udfs.consumer.round_facts import Connection, Past, Subscription
from hindsight.udfs.drift.drift_rules import Finding
from hindsight.udfs.drift.root_cause import Cause, causes, stalled_clients
from tests.default_timing import findings
from tests.kernels.test_drift_rules import A0, A1, B0, HEALTHY, group, read, topic

DOUBLE = {**HEALTHY, A0: ["c1", "c2"]}
ORPHAN = {**HEALTHY, A1: []}
MIXED = {"c1": ("AVG", "client_log"), "c2": ("AVG_BY_CIRCLE", "running_info")}


def cause_of(code, made) -> Cause:
    """The root cause of the round's one finding of this code."""
    found = findings(made)
    (finding,) = (one for one in found if one.code == code)
    return causes(finding, made, stalled_clients(found))[0]


def claimed(made, **by_queue):
    """The topic, with who takes which queue by its own rule."""
    queues = {"A0": A0, "A1": A1, "B0": B0}
    return replace(made, claimants={queues[name]: frozenset(clients) for name, clients in by_queue.items()})


def lists(**by_broker):
    """What each broker says of the members; ``unnamed``: a broker that is not recorded."""
    return tuple(
        Connection(None if broker == "unnamed" else broker, c, f"10.0.0.{c[1]}:1")
        for broker, clients in by_broker.items()
        for c in clients
    )


def test_what_nothing_explains_is_unexplained():
    assert cause_of("DOUBLE_OWNED", group(topic(DOUBLE))) == Cause("UNEXPLAINED", "T")


@pytest.mark.parametrize("models", [("CLUSTERING", "BROADCASTING"), ("BROADCASTING", "CLUSTERING")])
@pytest.mark.parametrize(("owners", "code"), [(DOUBLE, "DOUBLE_OWNED"), (ORPHAN, "ORPHAN_QUEUE")])
def test_members_that_share_by_different_models_explain_a_queue(models, owners, code):
    reads = [read(c)._replace(message_model=model) for c, model in zip(("c1", "c2"), models, strict=True)]
    assert cause_of(code, group(topic(owners), reads=reads)) == Cause("SUBSCRIPTION_INCONSISTENT", "MODEL_DIFF")


@pytest.mark.parametrize(
    ("expressions", "stalled", "cause"),
    [
        (("TagA", "TagB"), (), Cause("SUBSCRIPTION_INCONSISTENT", "TAG_DIFF")),
        (("TagA", "TagA"), (), Cause("QUEUE_LAGS_ALONE", "T")),
        (("TagA", "TagB"), ("c1",), Cause("CLIENT_STALLED", "c1")),  # it does not consume what it holds
    ],
)
def test_where_expressions_differ_a_queue_that_lags_comes_of_it(expressions, stalled, cause):
    reads = [
        read(client)._replace(subscriptions=(Subscription("T", "TAG", text, (text,)),))
        for client, text in zip(("c1", "c2"), expressions, strict=True)
    ]
    made = group(topic(HEALTHY), reads=reads)
    lags = Finding("QUEUE_LAGS_ALONE", "HIGH", "", topic="T", queue=A0, client_id="c1")
    assert causes(lags, made, stalled)[0] == cause


@pytest.mark.parametrize("stalled", [frozenset(map(str, range(10, 40))), frozenset({None, "10", "11", "9"})])
def test_of_several_stalled_clients_the_same_one_is_named_in_every_process(stalled):
    nothing = Finding("CONSUMES_NOTHING", "HIGH", "", topic="T")
    first = min(filter(None, stalled))
    assert Cause("CLIENT_STALLED", first) in causes(nothing, group(topic(HEALTHY)), stalled)


def test_one_message_model_explains_nothing():
    reads = [read(c)._replace(message_model="CLUSTERING") for c in ("c1", "c2")]
    assert cause_of("DOUBLE_OWNED", group(topic(DOUBLE), reads=reads)).name == "UNEXPLAINED"


def test_mixed_strategies_explain_what_members_take_by_their_own_rules():
    both = claimed(topic(DOUBLE), A0=("c1", "c2"), A1=("c1",), B0=("c2",))
    assert cause_of("DOUBLE_OWNED", group(both, strategies=MIXED)) == Cause("MIXED_STRATEGY", "")
    assert cause_of("DOUBLE_OWNED", group(both)).name == "UNEXPLAINED"  # all by AVG


def test_while_a_members_strategy_is_not_known_mixed_ones_explain_nothing():
    both = claimed(topic(DOUBLE), A0=("c1", "c2"), A1=("c1",), B0=("c2",))
    made = group(both, members=("c1", "c2", "c3"), strategies=MIXED)
    assert cause_of("DOUBLE_OWNED", made).name == "UNEXPLAINED"


@pytest.mark.parametrize(("takers", "cause"), [((), "MIXED_STRATEGY"), (("c1",), "UNEXPLAINED")])
def test_mixed_strategies_explain_an_idle_consumer_that_takes_nothing_by_its_own_rule(takers, cause):
    taken = topic({A0: ["c2"], A1: ["c2"], B0: ["c2"]}, expected={A0: "c2", A1: "c2", B0: "c1"})
    made = group(claimed(taken, A0=("c2",), B0=("c2", *takers)), strategies=MIXED)
    assert cause_of("IDLE_CONSUMER", made).name == cause


def test_different_views_explain_what_members_take_by_their_own():
    both = claimed(topic(DOUBLE), A0=("c1", "c2"))
    views = {"broker-a": ("c1", "c2"), "broker-b": ("c2",)}
    assert cause_of("DOUBLE_OWNED", group(both, connections=lists(**views))) == Cause("VIEW_DIVERGENCE", "")
    assert cause_of("DOUBLE_OWNED", group(topic(DOUBLE), connections=lists(**views))).name == "UNEXPLAINED"


@pytest.mark.parametrize("other", [{"broker-b": ("c1", "c2")}, {"unnamed": ("c2",)}])
def test_equal_views_and_one_of_a_broker_that_is_not_recorded_explain_nothing(other):
    both = claimed(topic(DOUBLE), A0=("c1", "c2"))
    made = group(both, connections=lists(**{"broker-a": ("c1", "c2")}, **other))
    assert not [one for one in findings(made) if one.code == "VIEW_DIVERGENCE"]
    assert cause_of("DOUBLE_OWNED", made).name == "UNEXPLAINED"


def test_an_expected_owner_that_does_not_pull_explains_an_orphan():
    made = group(topic(ORPHAN))
    (orphan,) = findings(made)
    idle = Finding("PULL_IDLE", "HIGH", "", topic="T", queue=A0, client_id="c1")
    assert causes(orphan, made, stalled_clients([idle])) == [Cause("CLIENT_STALLED", "c1")]
    assert causes(orphan, made, stalled_clients([idle._replace(client_id="c2")])) == [Cause("UNEXPLAINED", "T")]
    wrong = idle._replace(code="WRONG_OWNER")
    assert causes(orphan, made, stalled_clients([wrong])) == [Cause("UNEXPLAINED", "T")]


def test_a_stalled_client_does_not_explain_a_double():
    made = group(topic(DOUBLE))
    (double,) = findings(made)
    idle = Finding("PULL_IDLE", "HIGH", "", topic="T", queue=A0, client_id="c1")
    assert causes(double, made, stalled_clients([idle])) == [Cause("UNEXPLAINED", "T")]


def test_different_views_explain_a_consumer_that_idles():
    idle = topic({A0: ["c2"], A1: ["c2"], B0: ["c2"]}, expected={A0: "c2", A1: "c2", B0: "c1"})
    views = {"broker-a": ("c1", "c2"), "broker-b": ("c2",)}
    assert cause_of("IDLE_CONSUMER", group(idle, connections=lists(**views))) == Cause("VIEW_DIVERGENCE", "")
    assert cause_of("IDLE_CONSUMER", group(idle)).name == "UNEXPLAINED"


@pytest.mark.parametrize(
    ("unheard_s", "cause"), [(45, "UNREACHABLE_CLIENT"), (20, "UNEXPLAINED"), (None, "UNEXPLAINED")]
)
def test_a_queue_that_stands_is_put_down_to_its_owner_once_nothing_was_heard_of_it_for_half_a_minute(unheard_s, cause):
    """The collector loses answers: one that is missing says nothing yet."""
    unheard = {} if unheard_s is None else {"c1": 100_000 - unheard_s * 1000}
    silent = read("c1")._replace(answered=False)
    made = group(topic(ORPHAN), reads=[silent, read("c2")], at=100_000)
    made = replace(made, past=Past(loses_answers=True, unheard_since=unheard))
    finding = Finding("UNSERVED_QUEUE", "HIGH", "", topic="T", queue=A1)
    assert causes(finding, made, frozenset())[0].name == cause


def test_where_nobody_was_asked_nobody_is_unreachable():
    finding = Finding("UNSERVED_QUEUE", "HIGH", "", topic="T", queue=A1)
    unread = replace(group(topic(ORPHAN), at=100_000), reads={})
    assert causes(finding, unread, frozenset())[0].name == "UNEXPLAINED"
    assert causes(finding, replace(unread, reads={"c2": read("c2")}), frozenset())[0] == Cause(
        "UNREACHABLE_CLIENT", "c1"
    )
