"""What a round shows of a group and one of its topics: the rule that judges it, what is expected, found and missing.

Nothing here holds an instant: rounds that show the same share these values. Of what is missing is told in words why:
nobody asked, a server refused, the answer could not be read, or no answer came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from hindsight.udfs.consumer.expected_allocation import Expectation, MemberRule, Shares, expected_allocation
from hindsight.udfs.consumer.listed_members import Listed, Row, listed_again, views_asked
from hindsight.udfs.consumer.member_rules import Rules
from hindsight.udfs.consumer.round_reads import Reads, broker_assigns, reads_again
from hindsight.udfs.consumer.topic_routes import Queues, TopicRoute
from hindsight.udfs.lines.parsed_line import UNREADABLE
from hindsight.udfs.values.date_digests import digest, list_digest

_IGNORED = (
    "running infos: asked and ignored: consumerStatus -g prints no queues, the files that it writes into a folder do"
)
_CUT = "not asked for: the sweep was cut"


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

    def __init__(
        self,
        number: int,
        topic: str,
        facts: GroupFacts,
        rules: Rules,
        route: TopicRoute | None,
        *,
        is_route_collected: bool,
    ) -> None:
        """``route``: None: it was not asked for in the round; ``is_route_collected``: it was on that date."""
        self.number, self.topic, self.facts, self.rules, self.route = number, topic, facts, rules, route
        self.is_route_collected = is_route_collected
        self.queues = route.queues if route else None
        self.not_asked = list(_not_asked(self))
        self.missing_inputs = [*self.not_asked, *_unanswered(self)]
        broker_views = facts.listed.broker_views if facts.listed else ()
        self.views = views_asked(broker_views, route.route_brokers if route else None)
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
        differ = self.route is not None and self.route.routes_differ
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
        told = self.route
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


def _not_asked(of: TopicFacts) -> Iterator[str]:
    """Inputs that nobody asked for in this round: without them there is no verdict at all.

    A round that had to be cut was to have them: they are missing.
    """
    if not of.facts.reads.was_cut:
        if not of.is_route_collected:
            yield f"topic_route of {of.topic}: not_collected"
        if _lacks_infos(of.facts):
            yield "running infos: not asked for in this round"


def _unanswered(of: TopicFacts) -> Iterator[str]:
    """Inputs that were due in this round and did not come."""
    route = of.route
    yield from _lists(of.facts.listed, (route.route_brokers if route else None) or ())
    if of.is_route_collected and (route is None or route.queues is None):
        yield f"topic_route of {of.topic}: {'not read in this round' if route is None else _fate(route._asdict())}"
    if route is not None and route.routes_differ:
        yield f"topic_route of {of.topic}: the name servers differ"
    if of.facts.model is None and of.facts.members:
        yield "message model: not read"
    if of.facts.reads.was_cut:
        if not of.is_route_collected:
            yield f"topic_route of {of.topic}: {_CUT}"
        if _lacks_infos(of.facts):
            yield f"running infos: {_CUT}"
    yield from _running_infos(of.facts.reads, of.facts.members)


def _lacks_infos(facts: GroupFacts) -> bool:
    return bool(facts.members) and not facts.reads.reads and not facts.reads.statuses


def _fate(row: Row) -> str:
    """What became of a read that was tried: refused by a server, answered so that it cannot be read, or no answer."""
    error: str | None = row["error"]
    if error is not None and error.startswith(UNREADABLE):
        return error
    return "no answer" if row["error_code"] is None else f"refused, CODE {row['error_code']}"


def _lists(listed: Listed | None, brokers: Iterable[str]) -> Iterator[str]:
    if listed is None:
        yield "consumer list: not asked for in this round"
        return
    for place in listed.listings:
        if not place["told"]:
            whose = "" if place["broker_name"] is None else f" of {place['broker_name']}"
            yield f"consumer list{whose}: {_fate(place)}"
    named = [place["broker_name"] for place in listed.listings if place["broker_name"] is not None]
    for broker in dict.fromkeys(brokers) if named else ():
        if broker not in named:
            yield f"consumer list of {broker}: not asked for"


def _running_infos(told: Reads, members: Collection[str]) -> Iterator[str]:
    if told.reads:
        asked = {read["client_id"] for read in told.reads}
        came = {read["client_id"] for read in told.reads if read["answered"]}
        failed = {r["client_id"]: r for r in told.reads if r["client_id"] not in came}
        yield from (f"running info of {client_id}: {_fate(read)}" for client_id, read in failed.items())
        yield from (f"running info of {c}: not asked for" for c in dict.fromkeys(members) if c not in asked)
    yield from (f"running info of a member: {_fate(status)}" for status in told.statuses if not status["answered"])
    if not told.reads and any(status["answered"] for status in told.statuses):
        yield _IGNORED
