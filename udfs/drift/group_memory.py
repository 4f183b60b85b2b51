"""A group's rounds in order in, what each round needs of those before it out: its memory, kept from round to round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hindsight.udfs.consumer.absent_members import Absence
from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.offset_marks import NO_READINGS, OffsetMarks, Readings
from hindsight.udfs.consumer.round_facts import (
    BROADCASTING,
    CONSUMER_LIST,
    NOT_SUPPORTED,
    RETRY_PREFIX,
    TOPIC_NOT_EXIST,
    Owner,
    Past,
    Queue,
    Read,
    TopicQueue,
    TopicRound,
)
from hindsight.udfs.consumer.round_reads import UNHEARD_MS
from hindsight.udfs.drift.disturbances import (
    AGREE,
    ROLLOUT,
    SUBSCRIPTION,
    Disturbance,
    grace_end,
    interval_s,
    membership_changes,
    route_changes,
)
from hindsight.udfs.drift.queue_standings import Standings
from hindsight.udfs.values.kept_states import Kept

# Refusals that say something: what was asked is a proxy, or there is no such group.
_TOLD_IN_VAIN = tuple(f"refused, CODE {code}" for code in (NOT_SUPPORTED, TOPIC_NOT_EXIST))

_LOSES_FOR_MS = 300_000  # for so long after a lost answer others may have been lost too


class _Held(NamedTuple):
    """Who last showed a queue alone, who should have when that began, and when it changed without need."""

    client_id: str
    expected: str | None
    changed_at: tuple[int, ...]


@dataclass
class GroupMemory(Kept):
    """What is remembered of one group; ``to_state`` and ``of_state`` carry it over a date's end."""

    rounds_read: int = 0
    read_at: list[int] = field(default_factory=list)
    last_at: int = 0
    progress_at: int = 0
    members: list[str] | None = None
    ordered: bool | None = None  # as the last member that answered consumes
    starts: dict[str, int] = field(default_factory=dict)
    subscriptions: dict[str, list[Any]] = field(default_factory=dict)
    routes: dict[str, list[Queue]] = field(default_factory=dict)
    disturbances: list[Disturbance] = field(default_factory=list)
    last_disturbance: Disturbance | None = None
    standing: Standings = field(default_factory=Standings)
    held: dict[TopicQueue, _Held] = field(default_factory=dict)
    ownerless: dict[TopicQueue, int] = field(default_factory=dict)
    shown: dict[TopicQueue, tuple[str, int]] = field(default_factory=dict)  # who shows it alone, and since when
    lapsed: dict[TopicQueue, str] = field(default_factory=dict)  # who showed it alone, and was not heard of since
    slow: dict[TopicQueue, tuple[int, int]] = field(default_factory=dict)  # handed over: without owner from, until
    unlocked: dict[tuple[str, TopicQueue], int] = field(default_factory=dict, init=False)
    silent: dict[str, int] = field(default_factory=dict)
    unheard: dict[str, int] = field(default_factory=dict)  # no answer since, while the collector loses answers
    lost_at: int = 0  # when the collector last lost an answer of a broker that answered
    # Ids listed twice: by which connections (broker and address), and since when.
    twice: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict, init=False)
    relived: dict[str, int] = field(default_factory=dict)  # ids of which an earlier process answered after a later one
    newcomers: dict[str, int] = field(default_factory=dict)  # joined, and have not told what they subscribe
    missing: dict[str, int] = field(default_factory=dict)
    new_queues: dict[TopicQueue, int] = field(default_factory=dict)
    remade: dict[str, int] = field(default_factory=dict)  # topics that were in no route for a while, until then
    absence: Absence = field(default_factory=Absence)
    by_hand: dict[str, bool] = field(default_factory=dict)  # members that told it: do they choose their queues by hand?
    offsets: OffsetMarks = field(default_factory=OffsetMarks)
    peopled_at: int = 0  # when a member was listed last, or nobody told who is
    empty_since: int = 0  # when first nobody was listed any more; 0: somebody is
    diverged: bool = False  # brokers listed different members when they were asked last
    # Not in the state: whether a server is in trouble; the last reading of offsets; until when such as show the same
    # change instants alone; it waits; which queues changed their owner lately, and have one now.
    troubled: bool = field(default=False, init=False)
    read: Readings = field(default=NO_READINGS, init=False)
    still_until: float = field(default=0, init=False)
    is_behind: bool = field(default=False, init=False)
    changing: set[TopicQueue] = field(default_factory=set, init=False)

    def interval_s(self, timing: Timing) -> float:
        """The group's usual time between rounds in which it was read."""
        return interval_s(self.read_at, timing.interval_rounds)

    def with_earlier(self, group: GroupRound, timing: Timing) -> GroupRound:
        """The round with what earlier ones tell: members that its list lacks by lot, who chooses queues by hand."""
        group = self.absence.take(group, self.members or (), self.starts, self.silent, timing)
        return group if group.chose_by_hand == self.by_hand else replace(group, chose_by_hand=dict(self.by_hand))

    def observe(self, group: GroupRound, readings: Readings, timing: Timing) -> Past:
        """Take in a round and say what it needs of the past, itself included."""
        self._pass(group.at, timing)
        if group.was_read:
            self.rounds_read += 1
            self.read_at = [*self.read_at, group.at][-(timing.interval_rounds + 1) :]
        if group.ordered is not None:
            self.ordered = group.ordered
        self._take_disturbances(group, timing)
        self._take_members(group)
        self.take_readings(readings, timing)
        if group.was_read:
            self._take_owners(group, timing)
        self._take_missing(group)
        return self.past(group, timing)

    def repeat(self, at: int, timing: Timing) -> None:
        """Take in a round that shows what the last one did, but for its readings."""
        self._pass(at, timing)
        self.rounds_read += 1
        self.read_at = [*self.read_at, at][-(timing.interval_rounds + 1) :]
        self.absence.forget(at)
        for queue in list(self.changing):
            self._forget_changes(queue, at - int(timing.owner_changes_s * 1000))
        if self.members:
            self.peopled_at = at

    def _pass(self, now: int, timing: Timing) -> None:
        self.last_at = max(self.last_at, now)
        self.remade = {t: at for t, at in self.remade.items() if now - at <= timing.offset_shown_s * 1000}

    @property
    def settled(self) -> bool:
        """Nothing that is remembered makes the next round say more than its own facts do."""
        waits = (
            self.disturbances,
            self.ownerless,
            self.silent,
            self.missing,
            self.new_queues,
            self.slow,
            self.unlocked,
            self.absence.members,
            self.twice,
        )
        return not any(waits)

    def _stuck(self, timing: Timing) -> Iterator[TopicQueue]:
        """Queues of which messages have waited for long at one client that shows them."""
        for queue in self.standing.stuck:
            since = self.shown[queue][1] if queue in self.shown else None
            if since is not None and self.standing.read_at(queue) - since >= timing.standstill_s * 1000:
                yield queue

    def take_readings(self, readings: Readings, timing: Timing) -> None:
        """Take in a progress reading; one that was taken in changes nothing.

        One that shows what the last two did moves instants on, if no limit is reached by then: that is done once.
        """
        if readings is self.read or not readings.queues:
            return
        begin, end = min(readings.read_at), max(readings.read_at)
        same = begin > self.progress_at and readings.shows(self.read)
        if same and end < self.still_until:
            self.is_behind = True
        else:
            if same:
                self.is_behind = False  # what waits would change what this one changes
            self.catch_up(timing)
            self._take_offsets(readings, timing)
            self.still_until = self._still_until(readings, timing) if same else 0
        self.read, self.progress_at = readings, max(self.progress_at, end)

    def catch_up(self, timing: Timing) -> None:
        """Take in the last reading, if that waits because it shows what those before it did."""
        if self.is_behind:
            self.is_behind = False
            self._take_offsets(self.read, timing)

    def _take_offsets(self, readings: Readings, timing: Timing) -> None:
        self.standing.take(readings, int(timing.revive_lag_s * 1000), int(timing.standstill_s * 1000))
        self.offsets.take(readings, timing)

    def _still_until(self, readings: Readings, timing: Timing) -> float:
        """Until when readings that show the same, as two did, change nothing but instants; epoch ms."""
        if self.offsets.speak(timing) or len(set(readings.queues)) < len(readings.queues):
            return 0
        return min(self.standing.still_until(timing.standstill_s * 1000), self.offsets.still_until(readings, timing))

    def readings_valid_until(self, at: int, timing: Timing) -> int:
        """Until when all readings of queues count that count now; instants are epoch ms."""
        self.catch_up(timing)
        valid_ms = int(timing.progress_valid_s * 1000)
        return self.standing.first_since(at - valid_ms, at) + valid_ms

    def _take_disturbances(self, group: GroupRound, timing: Timing) -> None:
        fresh = membership_changes(self.members, group, self.starts)
        for topic in group.topics:
            if topic.queues is not None:
                fresh += self._route_disturbances(topic, group.at)
        fresh += self._subscription_changes(group, [d for d in fresh if d.kind == "join"])
        if self.diverged and group.listed and not group.views_differ:
            fresh.append(Disturbance(AGREE, group.at, group.consumer_group))
        self.diverged = group.views_differ if group.listed else self.diverged
        interval, ordered = self.interval_s(timing), bool(self.ordered)
        kept = [*self.disturbances, *fresh]
        # A disturbance that is over is forgotten: longer intervals later on do not bring it back.
        self.disturbances = [
            d
            for d in kept
            if grace_end(d, ordered=ordered, interval=interval, timing=timing, topic=RETRY_PREFIX) > group.at
        ]
        latest = [d for d in (self.last_disturbance, *fresh) if d is not None]
        self.last_disturbance = max(latest, key=lambda d: (d.at, d.kind, d.subject), default=None)

    def _subscription_changes(self, group: GroupRound, joined: Iterable[Disturbance]) -> Iterator[Disturbance]:
        """Members that subscribe other than before, and such as joined and bring what no other member subscribed."""
        self.newcomers |= {join.subject: join.at for join in joined}
        for client_id, read in sorted(group.reads.items()):
            if read.topics is None:
                continue
            own, others = _own(read), [s for c, s in self.subscriptions.items() if c != client_id]
            joined_at = self.newcomers.pop(client_id, None)
            if self.subscriptions.get(client_id, own) != own:
                yield Disturbance(SUBSCRIPTION, read.captured_at, client_id)
            elif joined_at is not None and others and own not in others:
                yield Disturbance(ROLLOUT, joined_at, client_id)

    def _route_disturbances(self, topic: TopicRound, at: int) -> list[Disturbance]:
        queues = list(topic.queues or ())
        before = self.routes.get(topic.topic)
        if before is not None and self.missing.get(f"topic_route of {topic.topic}", at) < at:
            self.remade[topic.topic] = at
        self.routes[topic.topic] = queues
        if before is None:
            return []
        for queue in set(queues) - set(before):
            self.new_queues[(topic.topic, *queue)] = at
        if topic.routes_differ and set(before) - set(queues):
            # A broker that one name server does not tell of, as one that was started anew, has left no route.
            return [Disturbance("route_change", at, topic.topic, topic.topic)]
        return route_changes(topic.topic, before, queues, at)

    def _take_members(self, group: GroupRound) -> None:
        if group.may_have_members:
            self.peopled_at = max(self.peopled_at, group.at)
        else:
            self.empty_since = self.empty_since or group.at
        if group.listed and group.members:
            self.empty_since = 0
        if group.listed:
            self.members = list(group.members)
            listed = set(group.members)
            self.starts = {c: at for c, at in self.starts.items() if c in listed}
            self.subscriptions = {c: own for c, own in self.subscriptions.items() if c in listed}
            self.silent = {c: at for c, at in self.silent.items() if c in listed}
            self.unheard = {c: at for c, at in self.unheard.items() if c in listed}
            self.newcomers = {c: at for c, at in self.newcomers.items() if c in listed}
            self.by_hand = {c: by_hand for c, by_hand in self.by_hand.items() if c in listed}
            self.relived = {c: at for c, at in self.relived.items() if c in group.listed_twice}
            self._take_connections(group)
        self._take_loss(group)
        for client_id, read in group.reads.items():
            if read.answered:
                self.silent.pop(client_id, None)
                self.unheard.pop(client_id, None)
                if read.topics is not None:
                    self.subscriptions[client_id] = _own(read)
                    self.by_hand[client_id] = client_id in group.by_hand
                if read.started_at is not None:
                    if read.started_at < self.starts.get(client_id, 0):
                        self.relived[client_id] = group.at
                    self.starts[client_id] = read.started_at
            elif read.failure is None and not group.was_asked_elsewhere(read):
                self._take_silence(client_id, read.captured_at, group.at)

    def _take_silence(self, client_id: str, asked_at: int, at: int) -> None:
        """A client did not answer; where the collector loses answers, that counts once it has lasted."""
        since = asked_at
        if self._loses_answers(at):
            since = self.unheard.setdefault(client_id, asked_at)
        if not self._loses_answers(at) or asked_at - since >= UNHEARD_MS:
            self.silent.setdefault(client_id, since)

    def _take_loss(self, group: GroupRound) -> None:
        """An answer was lost: who was silent in the one round before alone may have answered, too."""
        if not group.loses_answers:
            return
        self.lost_at = group.at
        earlier = [0, 0, *(at for at in self.read_at if at < group.at)][-2]  # an instant of a round is its last read's
        for client_id in [client_id for client_id, since in self.silent.items() if since > earlier]:
            self.unheard.setdefault(client_id, self.silent.pop(client_id))

    def _loses_answers(self, at: int) -> bool:
        return self.lost_at > 0 and at - self.lost_at < _LOSES_FOR_MS

    def _take_connections(self, group: GroupRound) -> None:
        """Since when an id that is listed twice has each of its connections."""
        before, told = self.twice, {broker or "" for broker in group.views}
        self.twice = {}
        for client_id in group.listed_twice:
            own = _connections_of(client_id, group)
            old = before.get(client_id, {})
            kept = {name for name in old if name[0] not in told}  # its broker was not heard of
            self.twice[client_id] = {name: old.get(name, group.at) for name in sorted(own | kept)}

    def _twice_since(self, at: int, reconnect_s: float) -> dict[str, int]:
        """Ids of which two processes answered, or one broker has had two connections side by side for so long."""
        found = dict(self.relived)
        for client_id, since in self.twice.items():
            of_each = [sorted(at for (b, _), at in since.items() if b == broker) for broker in {b for b, _ in since}]
            second = min((firsts[1] for firsts in of_each if len(firsts) > 1), default=at)
            if at - second >= reconnect_s * 1000:
                found[client_id] = second
        return found

    def _take_owners(self, group: GroupRound, timing: Timing) -> None:
        since = group.at - int(timing.owner_changes_s * 1000)
        judged = {topic.topic: topic for topic in group.judged_topics()}
        in_route: set[TopicQueue] = set()
        self.changing.clear()
        for topic in judged.values():
            for queue in topic.queues or ():
                at: TopicQueue = (topic.topic, *queue)
                in_route.add(at)
                owners = topic.owners.get(queue, ())
                self._take_shown(at, owners, group)
                if owners:
                    self._take_hand_over(at, group.at, timing)
                elif group.complete:
                    # While a member is silent, nobody knows.
                    self.ownerless.setdefault(at, group.at)
                # One that shows it alone may not be alone while another has not answered.
                if len(owners) == 1 and group.complete and group.message_model != BROADCASTING:
                    self._take_owner(at, owners[0].client_id, topic.expected.get(queue), group.at, since)
        self.unlocked = self._unlocked(group, judged.values()) if self.ordered else {}
        known: tuple[dict[TopicQueue, Any], ...] = (self.held, self.ownerless, self.shown, self.lapsed)
        gone = [q for of_queues in known for q in of_queues if q not in in_route and q[0] in judged]
        for queue_gone in gone:
            for of_queues in known:
                of_queues.pop(queue_gone, None)
        self.new_queues = {q: at for q, at in self.new_queues.items() if at > since}
        self.slow = {q: (begin, end) for q, (begin, end) in self.slow.items() if end > since and q not in gone}

    def _take_shown(self, queue: TopicQueue, owners: Sequence[Owner], group: GroupRound) -> None:
        client_id = owners[0].client_id if len(owners) == 1 else None
        before = self.shown[queue][0] if queue in self.shown else self.lapsed.pop(queue, None)
        if client_id is None:
            self.shown.pop(queue, None)
            read = group.reads.get(before or "")
            is_heard = read is not None and read.answered
            if before is not None and before in (self.members or ()) and not owners and not is_heard:
                self.lapsed[queue] = before
        elif self.shown.get(queue, ("", 0))[0] != client_id:
            self.shown[queue] = client_id, group.at

    def _take_hand_over(self, queue: TopicQueue, at: int, timing: Timing) -> None:
        """Somebody has the queue; note it if an ordered group had left it for long, after somebody else had had it."""
        since = self.ownerless.pop(queue, at)
        if self.ordered and queue in self.held and at - since >= timing.slow_handover_s * 1000:
            self.slow[queue] = since, at

    def told(self, queue: TopicQueue) -> None:
        """A slow hand-over of the queue was told: it is over."""
        self.slow.pop(queue, None)

    def _unlocked(self, group: GroupRound, topics: Iterable[TopicRound]) -> dict[tuple[str, TopicQueue], int]:
        """Since when owners have held queues without the broker's lock, as far as they answered."""
        silent = set(group.unanswered)
        since = {key: first for key, first in self.unlocked.items() if key[0] in silent}
        for topic in topics:
            for queue in topic.queues or ():
                for owner in topic.owners.get(queue, ()):
                    if not owner.locked:
                        key = (owner.client_id, (topic.topic, *queue))
                        since[key] = max(self.unlocked.get(key, group.at), owner.last_lock_at or 0)
        return since

    def _take_owner(self, queue: TopicQueue, client_id: str, expected: str | None, at: int, since: int) -> None:
        """Note a change of owner; one that another list of members calls for is no flapping."""
        held = self.held.get(queue)
        if held is None:
            self.held[queue] = _Held(client_id, expected, ())
        elif held.client_id != client_id:
            # While lists differ, and until clients have taken note that they agree, queues go to and fro by them.
            settled = not (self.diverged or self.troubled or any(d.kind == AGREE for d in self.disturbances))
            needless = (at,) if expected == held.expected and settled else ()
            self.held[queue] = _Held(client_id, expected, (*held.changed_at, *needless))
        if held is not None and self.held[queue].changed_at:
            self.changing.add(queue)
            self._forget_changes(queue, since)

    def _forget_changes(self, queue: TopicQueue, since: int) -> None:
        """Let go of changes of a queue's owner that lie as far back."""
        held = self.held[queue]
        self.held[queue] = held._replace(changed_at=tuple(c for c in held.changed_at if c > since))
        if not self.held[queue].changed_at:
            self.changing.discard(queue)

    def _take_missing(self, group: GroupRound) -> None:
        sources = {s for s in map(gap_source, group.missing_inputs) if s is not None}
        if group.list_failed:
            sources.add(CONSUMER_LIST)
        if not group.was_read:
            # The list is all that was asked for, if anything was.
            sources |= {s for s in self.missing if s != CONSUMER_LIST or group.listed_at is None}
        self.missing = {source: self.missing.get(source, group.at) for source in sorted(sources)}

    def past(self, group: GroupRound, timing: Timing) -> Past:
        """What the rounds so far say about this one."""
        self.catch_up(timing)
        return Past(
            progress=self.standing.since(group.at - int(timing.progress_valid_s * 1000)),
            ownerless_since=dict(self.ownerless),
            owner_changes={queue: held.changed_at for queue, held in self.held.items() if held.changed_at},
            slow_hand_overs=dict(self.slow),
            unlocked_since=dict(self.unlocked),
            silent_since=dict(self.silent),
            unheard_since=dict(self.unheard),
            lapsed=dict(self.lapsed),
            loses_answers=self._loses_answers(group.at),
            both_answered=frozenset(self.relived),
            two_since=self._twice_since(group.at, timing.opens["DUPLICATE_CLIENT_ID"].age_s),
            missing_since=dict(self.missing),
            new_queues=dict(self.new_queues),
            remade=dict(self.remade),
            stuck=frozenset(self._stuck(timing)),
            shown_since={queue: at for queue, (_, at) in self.shown.items()},
            offsets=self.offsets,
            read_lately=bool(self.read_at) and group.at - self.read_at[-1] < timing.data_gap_s * 1000,
            peopled_at=self.peopled_at,
            empty_since=self.empty_since,
            started_lately=any(group.at - at < timing.route_grace_s * 1000 for at in self.starts.values()),
        )

    def to_state(self) -> dict[str, Any]:
        """The memory as JSON values, in an order that equal memories share."""
        return {
            **super().to_state(),
            "disturbances": sorted(self.disturbances, key=str),
            "stuck": sorted(self.standing.stuck),
            "unlocked": [[client_id, *queue, at] for (client_id, queue), at in sorted(self.unlocked.items())],
            "twice": [[c, *name, at] for c, since in sorted(self.twice.items()) for name, at in sorted(since.items())],
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> GroupMemory:
        """The memory that ``to_state`` wrote; states of earlier releases lack some of it."""
        made = super().of_state(state)
        made.standing = Standings.of_state(state["standing"], state.get("stuck", ()))
        made.unlocked = {(client_id, (t, b, q)): at for client_id, t, b, q, at in state["unlocked"]}
        for client_id, broker, address, at in state.get("twice", ()):
            made.twice.setdefault(client_id, {})[broker, address] = at
        return made


def _own(read: Read) -> list[Any]:
    """What a client subscribes, as JSON values."""
    return [[*s[:3], list(s.tags)] for s in read.subscriptions]


def _connections_of(client_id: str, group: GroupRound) -> set[tuple[str, str]]:
    """The connections under an id, each by its broker and address; those whose address was not told are counted."""
    views = dict(group.views) or {None: group.members}
    found = {(c.broker_name or "", c.address) for c in group.connections if c.client_id == client_id}
    for broker, listed in views.items():
        own = sum(name == (broker or "") for name, _ in found)
        found |= {(broker or "", f"#{number}") for number in range(own, listed.count(client_id))}
    return found


def gap_source(missing_input: str) -> str | None:
    """The input that a ``missing_inputs`` text names, if it was due and nothing else says that it did not come.

    A member that was asked and did not answer is UNREACHABLE_CLIENT; what nobody collects is no gap.
    """
    source, _, reason = missing_input.partition(": ")
    if source.startswith(("expected allocation", "allocation strategy")) or reason == "not_collected":
        return None
    if source.startswith("running info") and reason.partition(": ")[0] != "not asked for":
        return None
    return None if reason in _TOLD_IN_VAIN else source
