"""What a round shows of a group and of a topic's route in; by which rule the topic is judged and what is expected, out.

Nothing here holds an instant: rounds that show the same share these values.

A topic of a round and what was found in it in; what the round says of the topic out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from hindsight.udfs.consumer.expected_allocation import Expectation, MemberRule, Shares, expected_allocation
from hindsight.udfs.consumer.listed_members import Listed, Row, listed_again
from hindsight.udfs.consumer.member_rules import Rules
from hindsight.udfs.consumer.missing_inputs import Inputs, not_asked, unanswered
from hindsight.udfs.consumer.round_reads import Reads, broker_assigns, reads_again
from hindsight.udfs.consumer.topic_routes import Queues, Route
from hindsight.udfs.values.date_digests import digest, list_digest


class GroupFacts:
    """What a round shows of a group's members; ``number`` is equal for rounds that show the same."""

    def __init__(self, number: int, listed: Listed | None, reads: Reads) -> None:
        self.number, self.listed, self.reads = number, listed, reads
        told = listed.model if listed else None
        self.model = reads.model if told is None else told
        self.members: list[str] = (listed.members if listed else None) or []
        self.is_listed = listed is not None and listed.members is not None
        self.shared = broker_assigns(reads.reads, self.model, reads.ordered)

    def again(self, captures: Sequence[Row]) -> tuple[Listed | None, Reads]:
        """The list and the reads of another round that shows the same; ``captures``: its own, ``NEEDED_AGAIN``."""
        return self.listed and listed_again(self.listed, captures), reads_again(self.reads, captures)

    @cached_property
    def list_hash(self) -> str:
        """The digest of the member list."""
        return list_digest(self.members)

    def views(self, route_brokers: Sequence[str] | None) -> list[list[str]]:
        """The member lists of the brokers that a topic's clients may ask, each distinct one once: of its route, if
        known.

        A broker that knows of nobody has no list to share by: a client that asks it keeps what it has.
        """
        lists = {
            tuple(view["members"])
            for view in (self.listed.broker_views if self.listed else ())
            if route_brokers is None or view["broker_name"] is None or view["broker_name"] in route_brokers
        }
        return [list(members) for members in sorted(lists) if members]


class Expected:
    """What is expected of one set of inputs of a group and topic: a row of ``expected_allocation``."""

    def __init__(self, key: Mapping[str, Any], queues: Queues, made: Expectation) -> None:
        self.key, self.queues, self.made = key, queues, made

    @property
    def refusal(self) -> str | None:
        """Why nothing can be expected."""
        return self.made.refusal

    @cached_property
    def shares(self) -> Shares | None:
        """Owner and claimants of each queue; None: refused."""
        return None if self.refusal is not None else Shares(self.queues.pairs, self.made)


class TopicFacts:
    """A topic of a group's rounds, as long as nothing of it changes; ``number`` names it among the group's."""

    def __init__(self, number: int, inputs: Inputs, facts: GroupFacts, rules: Rules, route: Route | None) -> None:
        self.number, self.topic, self.facts, self.rules, self.route = number, inputs.topic, facts, rules, route
        told = route.told if route else None
        self.queues = told.queues if told else None
        self.not_asked = not_asked(inputs)
        self.missing_inputs = [*self.not_asked, *unanswered(inputs)]
        self.views = facts.views(told.route_brokers if told else None)
        self.expected: Expected | None = None

    @cached_property
    def claims_hash(self) -> str:
        """The digest of each member's own strategy and release, and of the lists that they may go by."""
        own = [(rule["client_id"], rule["strategy"] or "", rule["profile"] or "") for rule in self.rules.members]
        differing = [(len(view), view) for view in self.views] if len(self.views) > 1 else None
        return digest(self.facts.model or "", own, differing)

    @property
    def can_expect(self) -> bool:
        """Whether there is all that an expectation needs, and members decide by themselves."""
        differ = self.route is not None and self.route.told.routes_differ
        asked = bool(self.queues and self.facts.members) and not self.not_asked
        return asked and not self.facts.shared and not differ

    def inputs(self) -> dict[str, Any]:
        """What names an expectation among those of its group and date."""
        return {
            "topic": self.topic,
            "strategy": self.rules.strategy,
            "strategy_parameters": self.rules.parameters,
            "profile": self.rules.profile,
            "queue_list_hash": self.queues.list_hash if self.queues else None,
            "member_list_hash": self.facts.list_hash,
            "claims_hash": self.claims_hash,
        }

    def expect(self, key: Mapping[str, Any]) -> Expected:
        """The expectation of these inputs, which ``key`` names."""
        assert self.queues is not None
        made = expected_allocation(
            self.facts.model,
            self.rules.strategy,
            self.rules.profile,
            self.topic,
            self.queues.pairs,
            self.facts.members,
            [MemberRule(r["client_id"] or "", r["strategy"], r["profile"]) for r in self.rules.members],
            parameters=self.rules.parameters,
            views=self.views,
        )
        return Expected(key, self.queues, made)

    def row(self, evidence: str | None, before: Expected | None) -> dict[str, Any]:
        """The topic as the walk takes it."""
        told = self.route.told if self.route else None
        return {
            "topic": self.topic,
            "queues": None if self.queues is None else self.queues.pairs,
            "strategy": self.rules.strategy,
            "strategy_source": self.rules.source,
            "strategy_parameters": self.rules.parameters,
            "queue_list_hash": self.queues.list_hash if self.queues is not None else None,
            "shares": self.expected.shares if self.expected else None,
            "shares_before": before.shares if before else None,
            "evidence": evidence,
            "queue_kind": told.queue_kind if told else None,
            "hosts": told.hosts if told else None,
            "route_brokers": told.route_brokers if told else None,
            "routes_differ": told.routes_differ if told else None,
            "name_servers": told.name_servers if told else None,
            "not_asked": self.not_asked,
            "missing_inputs": self.missing_inputs,
        }


class JudgedTopic(NamedTuple):
    """A row of ``group_round``; instants are epoch us."""

    facts: TopicFacts
    round_us: int
    spread_ms: int
    loose: bool
    heartbeats: list[dict[str, Any]] | None
    verdict: str | None
    scope_reason: str | None
    inferred: list[str] | None
    findings: int


def verdict(
    facts: TopicFacts, found: Sequence[Row], scope: Row | None
) -> tuple[str | None, str | None, list[str] | None, int]:
    """What a round says of a topic, why the rules do not apply, strategies that explain its owners, how many findings.

    It says drift where a finding does, unknown where an input is missing or the rules do not apply, None if no verdict
    was due.

    A finding that is only possible leaves a round with missing inputs unknown. A group that is down reads no topic.
    """
    own = [row for row in found if row["severity"] != "INFO" and row["topic"] == facts.topic]
    is_certain = any(row["trust"] == "certain" for row in own) or any(row["code"] == "GROUP_DOWN" for row in found)
    reason, inferred = (None, None) if scope is None else (scope["scope_reason"], scope["inferred_strategies"])
    said: str | None = "ok"
    if facts.not_asked and not is_certain:
        said = None
    elif is_certain or (own and not facts.missing_inputs):
        said = "drift"
    elif facts.missing_inputs or reason is not None:
        said = "unknown"
    return said, reason, inferred, len(own)
