"""What premises make of rows, rules and owners: what is so already stays, and what would be follows the rules alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.allocation import allocate
from hindsight.udfs.consumer.member_rules import Rules
from hindsight.udfs.consumer.round_facts import Owner
from hindsight.udfs.groups.supposed_groups import Claims, Present, moved_owners, supposed_rules
from hindsight.udfs.producer.replay_rules import Recorded, rules_of, under_premise
from hindsight.udfs.release_profiles import profile_for, stated_number
from hindsight.udfs.scenarios.premises import GroupPremise

MEMBERS = [f"10.0.0.{n}@c{n}" for n in range(1, 6)]
QUEUES = [("broker-a", n) for n in range(7)]


class Shared:
    """Shares by AVG, as ``Shares`` gives them."""

    def __init__(self, members):
        self.queues = QUEUES
        self.claimants = {queue: frozenset() for queue in QUEUES}
        for member, own in allocate("AVG", [("t", *queue) for queue in QUEUES], sorted(members)).items():
            for queue in own:
                self.claimants[tuple(queue)[1:]] = frozenset({member})


@st.composite
def held(draw):
    """Members, and who shows which queue: mostly what is claimed, sometimes something else."""
    members = sorted(draw(st.sets(st.sampled_from(MEMBERS), min_size=1)))
    claimed = Shared(members).claimants
    odd = draw(st.dictionaries(st.sampled_from(QUEUES), st.sets(st.sampled_from(MEMBERS))))
    owners = {queue: odd.get(queue, set(claimed[queue])) for queue in QUEUES}
    return members, {"t": {q: tuple(Owner(c, False) for c in sorted(own)) for q, own in owners.items() if own}}


@given(held())
def test_where_nothing_else_is_claimed_every_owner_stays(drawn):
    members, owners = drawn
    claims = {"t": Claims(Shared(members), Shared(members))}
    assert moved_owners(owners, claims, Present(set(MEMBERS), set(), False)) == owners


@given(st.sets(st.sampled_from(MEMBERS), min_size=1), st.sets(st.sampled_from(MEMBERS), min_size=1))
def test_clients_that_did_what_their_rules_say_hold_what_these_would_say(before, after):
    claimed, would = Shared(sorted(before)), Shared(sorted(after))
    owners = {"t": {queue: tuple(Owner(c, False) for c in claimed.claimants[queue]) for queue in QUEUES}}
    left = before - after
    found = moved_owners(owners, {"t": Claims(claimed, would)}, Present(after, left, False))
    assert {queue: {o.client_id for o in own} for queue, own in found["t"].items()} == {
        queue: set(own) for queue, own in would.claimants.items()
    }


@given(held(), st.sets(st.sampled_from(MEMBERS)))
def test_a_client_that_leaves_holds_nothing_even_where_nothing_is_expected(drawn, left):
    _, owners = drawn
    found = moved_owners(owners, {"t": Claims(None, None)}, Present(set(MEMBERS) - left, left, False))
    assert not {owner.client_id for own in found.get("t", {}).values() for owner in own} & left


@given(
    st.sets(st.sampled_from(MEMBERS[:4]), min_size=1),
    st.sampled_from(QUEUES),
    st.sets(st.sampled_from(MEMBERS)),
    st.booleans(),
)
def test_an_orphan_queue_stays_one_whoever_would_claim_it_until_its_claimant_leaves(before, orphan, others, leaves):
    """With one that joins, one that leaves, any others: only the claimant of the orphan makes it one no more."""
    claimed = Shared(sorted(before))
    (claimant,) = claimed.claimants[orphan]
    after = (others | {MEMBERS[4]}) - {claimant} if leaves else others | {claimant}
    would = Shared(sorted(after))
    owners = {"t": {q: tuple(Owner(c, False) for c in claimed.claimants[q]) for q in QUEUES if q != orphan}}
    found = moved_owners(owners, {"t": Claims(claimed, would)}, Present(after, before - after, False))["t"]
    held_by = {owner.client_id for owner in found.get(orphan, ())}
    assert held_by == (set(would.claimants[orphan]) if leaves else set())


def rule(client_id, strategy="AVG", profile="P533"):
    return {"client_id": client_id, "strategy": strategy, "source": "client_log", "profile": profile}


def test_a_strategy_is_supposed_of_members_that_have_a_choice_alone():
    rules = Rules(members=[rule("a"), rule("b", profile="G0")], strategy="AVG", source="client_log")
    found = supposed_rules(rules, GroupPremise(strategy="AVG_BY_CIRCLE"))
    assert [each["strategy"] for each in found.members] == ["AVG_BY_CIRCLE", "AVG"]
    assert (found.strategy, found.source, found.parameters) == ("AVG_BY_CIRCLE", "settings", "")


def test_what_a_group_does_already_is_no_premise():
    rules = Rules(members=[rule("a")], strategy="AVG", source="client_log")
    for same in (GroupPremise(strategy="AVG"), GroupPremise(virtual_node_count=7), GroupPremise(joins=("a",))):
        assert supposed_rules(rules, same) == rules
    ring = rules._replace(strategy="CONSISTENT_HASH")
    assert supposed_rules(ring, GroupPremise(virtual_node_count=10)) == ring
    assert supposed_rules(ring, GroupPremise(virtual_node_count=20)).parameters == '{"virtual_node_count": 20}'


def test_one_that_joins_shares_as_its_group_does():
    rules = Rules(members=[rule("a"), rule("new", strategy=None)], strategy="AVG", source="client_log")
    assert [each["strategy"] for each in supposed_rules(rules, GroupPremise(joins=("new",))).members] == ["AVG", "AVG"]
    assert [each["strategy"] for each in supposed_rules(rules, GroupPremise()).members] == ["AVG", None]


def test_the_number_of_a_release_is_that_release():
    for release in ("4.0.0", "4.3.2", "4.7.1", "4.9.8", "5.0.0", "5.1.4", "5.2.0", "5.3.3", "5.4.0"):
        assert profile_for(stated_number(release)) == profile_for(release), release


def test_another_release_brings_its_ladders_unless_the_producer_has_its_own():
    old, new = profile_for("4.9.4"), profile_for("5.3.3")
    usual = Recorded(client_version="4.9.4", latency_fault_enabled=True)
    supposed = Recorded(client_version="5.3.3")
    own = tuple(ms + 1 for ms in old.not_available_ms)
    stated = usual._replace(latency_max_ms=old.latency_max_ms, not_available_ms=old.not_available_ms)
    for known in (usual, stated):
        assert rules_of(under_premise(supposed, known)).settings.not_available_ms == new.not_available_ms
    kept = rules_of(under_premise(supposed, stated._replace(not_available_ms=own)))
    assert kept.settings.not_available_ms == own and kept.settings.client_version == "5.3.3"


def test_no_premise_makes_a_java_client_of_another():
    known = Recorded(client_version="GO 2.1.2")
    assert under_premise(Recorded(client_version="5.3.3"), known) == known
