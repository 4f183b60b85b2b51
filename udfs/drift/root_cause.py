"""A finding and its round in, what it comes of out: the first cause that matches, and the others that match too.

Where the clients did what RocketMQ does with what they were given, the cause is in what they were given: two ids that
are one, other subscriptions, other strategies, other views. So a cause explains a queue only if it is what makes the
members' own claims differ from what the group's rule wants; a strategy that is mixed elsewhere explains nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.round_facts import Queue, TopicRound
from hindsight.udfs.drift.client_rules import differing_kind
from hindsight.udfs.drift.finding import Finding
from hindsight.udfs.drift.ownership_rules import suspect
from hindsight.udfs.strategies.member_families import is_of_other_language

UNEXPLAINED = "UNEXPLAINED"
_UNHEARD_MS = 30_000  # a queue that stands is put down to who gave no answer for so long, though answers are lost
_UNOWNED = ("ORPHAN_QUEUE", "UNSERVED_QUEUE")
_OF_QUEUES = (*_UNOWNED, "DOUBLE_OWNED", "WRONG_OWNER")
_OF_HELD_BACK = frozenset(
    {"UNSERVED_QUEUE", "QUEUE_LAGS_ALONE", "CONSUMES_NOTHING", "FALLS_BEHIND", "MESSAGES_AT_RISK", "MESSAGES_LOST"}
) | {"PULL_IDLE", "CONSUME_BLOCKED", "LOCK_STARVED"}
_OF_REFUSED = ("QUEUE_LAGS_ALONE", "CONSUMES_NOTHING", "FALLS_BEHIND")
BROKER_DOWN, NAME_SERVER_DOWN = "BROKER_NOT_ANSWERING", "NAME_SERVER_NOT_ANSWERING"
# What troubles of a server may bring about: in groups that it serves; in topics of which it has queues.
_OF_SHARING = (
    *_OF_QUEUES, "IDLE_CONSUMER", "GHOST_OWNER", "DUPLICATE_CLIENT_ID", "VIEW_DIVERGENCE", "REBALANCE_FLAP",
    "SLOW_HANDOVER", "DATA_GAP",
)  # fmt: skip
_OF_CONSUMING = (
    "LOCK_STARVED", "PULL_IDLE", "CONSUME_BLOCKED", "QUEUE_LAGS_ALONE", "FALLS_BEHIND", "CONSUMES_NOTHING",
    "RETRIES_GROW", "POP_ASSIGNMENT_DIFFERS", "REVIVE_LAG",
)  # fmt: skip
_STALLS = ("LOCK_STARVED", "PULL_IDLE", "CONSUME_BLOCKED")


class Cause(NamedTuple):
    """A root cause and what distinguishes it from others of its kind in the group: client, kind or topic."""

    name: str
    key: str


class Trouble(NamedTuple):
    """An incident of a server, and what it explains in groups. Instants are epoch milliseconds.

    Attributes:
        since: when the server was last known to be well.
        settles: what is first seen later is no effect of it, unless lists differ that long because of it.
        until: what still holds later has a cause of its own.
        groups: whose it alone is; None: of all that the server serves.
    """

    cause: Cause
    incident_id: str
    since: int
    settles: int
    until: int
    groups: tuple[str, ...] | None = None


class _Case(NamedTuple):
    finding: Finding
    group: GroupRound
    topic: TopicRound | None
    stalled: Collection[str | None]

    @property
    def claimants(self) -> frozenset[str]:
        """Who takes the queue by its own rule, over the lists of this round."""
        if self.topic is None or self.finding.queue is None:
            return frozenset()
        return self.topic.claimants.get(self.finding.queue, frozenset())

    @property
    def claims_explain(self) -> bool:
        """The members' own rules, answered or not, lead to what is seen, and not to what the group's rule wants."""
        return not self.group.unknown_strategies and self._claims_lead_here

    @property
    def families_explain(self) -> bool:
        """As ``claims_explain``, and members of different client families disagree on the topic.

        No record tells the strategy of a Go client: that its claims lead to what is seen tells it.
        """
        unknown = self.group.unknown_strategies
        if self.topic is None or self.topic.topic not in self.group.disagreements:
            return False
        others = {rule.client_id for rule in self.group.rules if is_of_other_language(rule.profile)}
        return others.issuperset(unknown) and self._claims_lead_here

    @property
    def _claims_lead_here(self) -> bool:
        topic, queue = self.topic, self.finding.queue
        if topic is None or not topic.expects:
            return False
        if self.finding.code == "IDLE_CONSUMER":
            return self.finding.client_id not in topic.all_claimants
        if queue is None or self.finding.code not in _OF_QUEUES:
            return False
        shown = {owner.client_id for owner in topic.owners.get(queue, ())}
        wanted = {topic.expected[queue]} if topic.expected.get(queue) else set()
        return shown == self.claimants and self.claimants != wanted


def stalled_clients(found: Iterable[Finding]) -> frozenset[str | None]:
    """The clients that do not lock, pull or consume what they hold, by the findings of a round."""
    return frozenset(finding.client_id for finding in found if finding.code in _STALLS)


def causes(
    finding: Finding, group: GroupRound, stalled: Collection[str | None], *, before_lists: bool = False
) -> list[Cause]:
    """Every cause that matches, in order of precedence; the first is the root cause. Never empty.

    ``stalled``: the ``stalled_clients`` of the round; ``before_lists``: lists differ only since the finding is there,
    which explains it where nothing else does. A round has as many findings as members, or more: what a cause asks of
    the whole group, ``GroupRound`` holds.
    """
    case = _Case(finding, group, group.topic(finding.topic), stalled)
    matches = [Cause(name, key) for name, match in CAUSES.items() if (key := match(case)) is not None]
    if before_lists:
        matches.sort(key=lambda cause: cause.name == "VIEW_DIVERGENCE")
    return matches or [Cause(UNEXPLAINED, finding.topic or finding.client_id or "")]


def effect_of(
    finding: Finding, group: GroupRound, troubles: Iterable[Trouble], first_seen_at: int, views_of: Cause | None = None
) -> Trouble | None:
    """The trouble of a server that explains a finding of the group, as it began after that; None: none does.

    ``views_of``: what the group's lists differ by, as the rounds before had it.

    A dead broker leaves its own queues unread, and while clients and brokers find each other again lists differ and
    queues are shared anew, on whichever broker they are; a dead name server leaves routes unread. Nobody's being
    there, and what became of offsets and messages, is never put down to a server.
    """
    for trouble in troubles:
        settles = group.at if views_of == trouble.cause else trouble.settles
        is_of_group = trouble.groups is None or group.consumer_group in trouble.groups
        if is_of_group and trouble.since <= first_seen_at <= settles and _reaches(trouble.cause, finding, group):
            return trouble
    return None


def _reaches(cause: Cause, finding: Finding, group: GroupRound) -> bool:
    """Whether a trouble of a server may bring about what is found."""
    server = cause.key
    own = finding.queue is not None and finding.queue[0] == server
    if finding.code in _OF_SHARING:
        return own or cause.name == NAME_SERVER_DOWN or server in group.brokers
    if cause.name != BROKER_DOWN or finding.code not in _OF_CONSUMING:
        return False
    return own or any(server in topic.brokers for topic in group.topics if topic.topic == finding.topic)


def _consume_disabled(case: _Case) -> str | None:
    """The broker does not let the group consume: of a topic, one of its brokers."""
    held_back, finding = case.group.past.held_back, case.finding
    if finding.code == "CONSUME_DISABLED":
        return finding.kind
    if not held_back or finding.code not in _OF_HELD_BACK:
        return None
    brokers = [finding.queue[0]] if finding.queue else [name for name, _ in (case.topic and case.topic.queues) or ()]
    return next((name for name in brokers if name in held_back), None)


def _duplicate_client_id(case: _Case) -> str | None:
    """Two processes under one id compute the same share, and nobody computes the other's."""
    duplicates = case.group.duplicates
    if case.finding.code == "DUPLICATE_CLIENT_ID":
        return case.finding.client_id
    if not duplicates or case.finding.code not in (*_OF_QUEUES, "IDLE_CONSUMER"):
        return None
    owners = [owner.client_id for owner in case.finding.observed if owner.client_id in duplicates]
    if owners:
        return owners[0]
    return duplicates[0] if case.finding.code in _UNOWNED and not case.claimants else None


def _subscription(case: _Case) -> str | None:
    """A member that takes the queue by rule does not subscribe its topic, or members share by different models.

    Or they subscribe it by different expressions, and what they ask for is refused, or filtered by another's.
    """
    finding, group, topic = case.finding, case.group, case.topic
    if finding.code == "SUBSCRIPTION_INCONSISTENT":
        return finding.kind
    if topic is not None and finding.code in _OF_REFUSED and finding.client_id not in case.stalled:
        kind = differing_kind(s for read in group.reads.values() for s in read.subscriptions if s.topic == topic.topic)
        flips = any(flip.topic == topic.topic for flip in group.past.flips)
        return kind if kind not in (None, "COSMETIC") else "TAG_DIFF" if flips else None
    if topic is None or finding.code not in _OF_QUEUES:
        return None
    takers = case.claimants | set(finding.expected)
    told = [c for c in takers if c in group.reads and group.reads[c].topics is not None]
    lacking = [c for c in told if c not in group.subscribers(topic.topic) and c not in group.by_hand]
    if finding.code in _UNOWNED and lacking:
        return "TOPIC_MISSING"
    return "MODEL_DIFF" if len(group.message_models) > 1 else None


def _mixed_strategy(case: _Case) -> str | None:
    """Members decide by different strategies, and their own rules lead to what is seen."""
    if case.finding.code == "MIXED_STRATEGY":
        return ""
    return "" if len(case.group.by_strategy) > 1 and case.claims_explain else None


def _view_divergence(case: _Case) -> str | None:
    """Brokers list different members, and what members compute from their lists leads to what is seen."""
    if case.finding.code == "VIEW_DIVERGENCE":
        return ""
    if not case.group.views_differ or case.topic is None:
        return None
    if case.finding.code == "IDLE_CONSUMER":
        return ""
    if case.finding.queue is None or case.finding.code not in _OF_QUEUES:
        return None
    shown = {owner.client_id for owner in case.finding.observed}
    return "" if shown <= case.claimants and case.claimants != set(case.finding.expected) else None


def _unreachable_client(case: _Case) -> str | None:
    """A listed member does not answer, and the queue may be its own."""
    if case.finding.code == "UNREACHABLE_CLIENT":
        return case.finding.client_id
    # Where nobody was asked, nobody failed to answer.
    if case.finding.code != "UNSERVED_QUEUE" or not case.group.was_read or not case.topic or not case.finding.queue:
        return None
    client_id, past = suspect(case.group, case.topic, case.finding.queue), case.group.past
    read, queue = case.group.reads.get(client_id or ""), (case.topic.topic, *case.finding.queue)
    if client_id in past.silent_since:
        return client_id
    if read is not None and read.failure is not None:
        return None
    if not past.loses_answers or past.lapsed.get(queue) == client_id:
        return client_id
    # One answer that is missing says nothing, nor do several of a queue that nobody had when all had answered.
    unheard_ms = case.group.at - past.unheard_since.get(client_id or "", case.group.at)
    return client_id if unheard_ms >= _UNHEARD_MS and queue not in past.ownerless_since else None


def _consumes_nothing(case: _Case) -> str | None:
    """The group as a whole consumes nothing of a topic; where one client alone stalls it is that client's."""
    if len(case.stalled) == 1 or case.topic is None:
        return None
    if case.finding.code == "CONSUMES_NOTHING":
        return case.topic.topic
    if case.finding.code not in _STALLS:
        return None
    names = ((case.topic.topic, *queue) for queue in case.topic.queues or ())
    waiting = [name for name in names if (progress := case.group.past.progress.get(name)) and progress.lag > 0]
    stands = len(waiting) > 1 and case.group.past.stuck.issuperset(waiting)
    return case.topic.topic if stands else None


def _route_lag(case: _Case) -> str | None:
    """The queue came to the route a short while ago, or the retry topic did: clients have not all read it."""
    queue: Queue | None = case.finding.queue
    if case.topic is None or queue is None or case.finding.code not in _OF_QUEUES:
        return None
    is_new = (case.topic.topic, *queue) in case.group.past.new_queues
    return case.topic.topic if is_new or case.group.may_lag(case.topic.topic) else None


def _client_stalled(case: _Case) -> str | None:
    """A client does not lock, pull or consume what it holds, or what it should hold."""
    if case.finding.code in _STALLS:
        return None if _offset_rewound(case) else case.finding.client_id
    if case.finding.code == "CONSUMES_NOTHING":
        return min(filter(None, case.stalled), default=None)  # a set has another order in each process
    if case.finding.code == "QUEUE_LAGS_ALONE":
        return case.finding.client_id if case.finding.client_id in case.stalled else None
    if case.finding.code not in (*_UNOWNED, "IDLE_CONSUMER"):
        return None
    return min((c for c in case.claimants | set(case.finding.expected) if c in case.stalled), default=None)


def _offset_rewound(case: _Case) -> str | None:
    """Offsets were set back; or the queue waits for its turn, while its topic's others are consumed again."""
    if case.finding.code == "OFFSET_REWOUND":
        return case.finding.topic
    if case.finding.code != "CONSUME_BLOCKED" or case.topic is None:
        return None
    marks, stuck = case.group.past.offsets.marks, case.group.past.stuck
    names = ((case.topic.topic, *queue) for queue in case.topic.queues or ())
    goes_on = any(name in marks and marks[name].back is not None and name not in stuck for name in names)
    return case.topic.topic if goes_on else None


def _itself(code: str) -> Callable[[_Case], str | None]:
    """What is found comes of nothing else: by its topic, by the retry topic or the input that its kind names, or
    of the group as a whole."""

    def match(case: _Case) -> str | None:
        return (case.finding.topic or case.finding.kind or "") if case.finding.code == code else None

    return match


# In order of precedence; UNEXPLAINED is what is left.
CAUSES: dict[str, Callable[[_Case], str | None]] = {
    "DATA_GAP": _itself("DATA_GAP"),
    "GROUP_DOWN": _itself("GROUP_DOWN"),
    "CONSUME_DISABLED": _consume_disabled,
    "DUPLICATE_CLIENT_ID": _duplicate_client_id,
    "SUBSCRIPTION_INCONSISTENT": _subscription,
    # Members of different client families share by different rules, and those lead to what is seen.
    "MIXED_CLIENTS": lambda case: "" if case.finding.code == "MIXED_CLIENTS" or case.families_explain else None,
    "MIXED_STRATEGY": _mixed_strategy,
    "VIEW_DIVERGENCE": _view_divergence,
    "UNREACHABLE_CLIENT": _unreachable_client,
    "CONSUMES_NOTHING": _consumes_nothing,
    "ROUTE_LAG": _route_lag,
    "CLIENT_STALLED": _client_stalled,
    # The locks of one who was gone had to run off before others could take its queues, of all its topics.
    "SLOW_HANDOVER": lambda case: "" if case.finding.code == "SLOW_HANDOVER" else None,
    # The group's own rule leaves the consumer or the queue out: nothing is wrong with the clients.
    "BY_DESIGN": lambda case: case.finding.code if case.finding.code.endswith("_BY_DESIGN") else None,
    "OFFSET_REWOUND": _offset_rewound,
    **{
        code: _itself(code)
        for code in (
            "OFFSET_JUMPED",
            "OFFSET_BEYOND_END",
            "END_WENT_BACK",
            "MESSAGES_LOST",
            "MESSAGES_AT_RISK",
            "FALLS_BEHIND",
            "QUEUE_LAGS_ALONE",
            "RETRIES_GROW",
            "DEAD_LETTERS",
        )
    },
}
