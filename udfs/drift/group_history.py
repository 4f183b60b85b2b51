"""Rounds of one group in order in; judged findings, incidents and membership changes out, one state carried along.

The state is JSON values: the state in which a date closes opens the next date, and however the rounds are cut into
dates, the incidents are the same.

An example: a group is read every 15 s, and all is well; then nobody owns one of its queues for 105 s. A finding is
about one round. ``ORPHAN_QUEUE`` opens an incident when two rounds show it and it was first seen 60 s ago. The incident
is over when three rounds do not show it, and 60 s have passed (``[timing]`` in the settings):

    seconds   the queue    ORPHAN_QUEUE   its incident
    105       owned        -              -
    120       nobody's     PENDING        -
    165       nobody's     PENDING        -
    180       nobody's     OPEN           OPEN
    210       nobody's     OPEN           OPEN
    225       owned        -              CLEARING
    270       owned        -              CLEARING
    285       owned        -              RESOLVED
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, NamedTuple

from hindsight.udfs.consumer.drift_timing import Maintenance, Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.offset_marks import NO_READINGS, Readings
from hindsight.udfs.consumer.round_facts import Loosely, Past, Queue, TopicQueue
from hindsight.udfs.consumer.round_reads import LEFT_OUT
from hindsight.udfs.drift.disturbances import Change, Churn, Disturbance, Grace, grace_of
from hindsight.udfs.drift.drift_rules import BY_INSTANTS, BY_READINGS, BY_STANDING, absence_is_told, findings
from hindsight.udfs.drift.finding import NO_OWNER, SEVERITIES, Finding, Subject, progress_of, queue_name, subject_of
from hindsight.udfs.drift.group_memory import GroupMemory
from hindsight.udfs.drift.incidents import OPEN, Attached, Incident, Judgement, Ledger, Seen
from hindsight.udfs.drift.root_cause import Trouble, causes, effect_of, stalled_clients
from hindsight.udfs.drift.strategy_inference import Inference, scope_reasons
from hindsight.udfs.drift.told_beside import Beside
from hindsight.udfs.values.kept_states import state_of, state_text

_BY_ROUND = ("DOUBLE_OWNED", "WRONG_OWNER")  # what reads that lie far apart can fake
FOLDED = "FOLDED"
_VIEWS = Subject("VIEW_DIVERGENCE", None, None, None, None, None)
Signature = Any  # equal for rounds that show the same facts, instants and evidence aside; None: not known
_SAMPLE = 5


class Judged(NamedTuple):
    """A finding of one round with its state, its grace and its causes."""

    finding: Finding
    grace: Grace | None
    judgement: Judgement
    folded: bool = False


class Round(NamedTuple):
    """What the walk says of one round.

    By topic, ``inferred``: strategies that would explain all owners so far; ``scope``: why the rules of ownership do
    not apply.
    """

    group: GroupRound
    judged: list[Judged]
    changes: Sequence[Change] = ()
    inferred: Mapping[str, tuple[str, ...]] = {}
    scope: Mapping[str, str] = {}
    disturbance: Disturbance | None = None  # the last change of the group so far


@dataclass
class GroupHistory:
    """One group's rounds as they are walked; key: cluster, collector, consumer group."""

    key: tuple[str, str, str]
    timing: Timing
    maintenance: Sequence[Maintenance] = ()
    memory: GroupMemory = field(default_factory=GroupMemory)
    churn: Churn = field(default_factory=Churn)
    inference: Inference = field(default_factory=Inference)
    beside: Beside = field(default_factory=Beside)
    ledger: Ledger = field(init=False)
    loosely: Loosely | None = field(default=None, init=False)  # see ``Past``
    hosts: Mapping[str, Mapping[Queue, TopicQueue]] = field(default_factory=dict, init=False)  # of static topics
    inferred: Mapping[str, tuple[str, ...]] = field(default_factory=dict, init=False)  # by the last round
    shown: Signature = field(default=None, init=False)  # what the last round showed that was judged by all rules
    said: frozenset[str] = field(default=frozenset(), init=False)  # the codes that it found
    settled: Signature = field(default=None, init=False)  # the same, if a repeat can find nothing but what it found
    troubles: Sequence[Trouble] = field(default=(), init=False)  # of servers, that the next round may show effects of
    asked: frozenset[str] | None = field(default=None, init=False)  # all that the next round can find, a repeat
    # The codes that a repeat was asked for and did not find, as long as no reading is taken in or becomes too old.
    silent: frozenset[str] = field(default=frozenset(), init=False)
    silent_until: int = field(default=0, init=False)  # epoch ms
    last: tuple[Mapping[str, Any], GroupRound] | None = field(default=None, init=False)  # which a repeat shows again

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.key, self.timing)

    def repeat(
        self, signature: Signature, at: int, oldest: tuple[int | None, int | None], readings: Readings = NO_READINGS
    ) -> bool:
        """Take in a round that shows the same facts as the last one, if nothing can come of it; else False.

        Else ``step`` asks it for what the last one found, and for what its instants and readings may tell, no more.
        ``oldest``: when the queue that was pulled from least recently was, and, of those with messages waiting, the one
        consumed least recently.
        """
        self.asked = None
        if readings.queues or self.settled is None or signature != self.settled or at > self.silent_until:
            self.silent = frozenset()
        if self.settled is None or signature != self.settled:
            return False
        self.memory.take_readings(readings, self.timing)
        asked = self.said | self._told_anew(at, oldest)
        if asked - self.silent or self.ledger.tracks:
            self.asked = asked
            return False
        self.memory.repeat(at, self.timing)
        self.inference.repeat(self.inferred)
        self.ledger.advance(at, self.memory.rounds_read, [], lambda *_: False)
        return True

    def _told_anew(self, at: int, oldest: tuple[int | None, int | None]) -> frozenset[str]:
        """The codes that instants and readings may tell of, though all else is as it was."""
        (pulled, consumed), timing, told = oldest, self.timing, self.beside.speaks(at)
        is_late = pulled is not None and at - pulled > timing.pull_idle_s * 1000
        if is_late or (consumed is not None and at - consumed > timing.consume_blocked_s * 1000):
            told |= BY_INSTANTS
        if self.memory.offsets.speak(timing):
            return told | BY_READINGS
        return told | BY_STANDING if self.memory.standing.stuck else told

    def step(self, group: GroupRound, readings: Readings = NO_READINGS, signature: Signature = None) -> Round:
        """Judge the next round. One in which the group was not read tells at most that its members are not known."""
        if self.asked is not None:
            return self._again(group, readings, self.asked)
        walked = self._step(group, readings)
        self.inferred = walked.inferred
        settled = walked.group.complete and bool(group.reads) and self.memory.settled
        settled = settled and not (walked.scope or group.loses_answers) and self.churn.changed_at is None
        # What is expected now was also expected before, once a second round has shown it.
        steady = signature == self.shown or not (walked.judged or self.ledger.tracks)
        self.settled, self.shown = signature if settled and steady else None, signature
        self.said = frozenset(one.finding.code for one in walked.judged)
        return walked

    def _again(self, group: GroupRound, readings: Readings, codes: Collection[str]) -> Round:
        """Judge a round that can find only what these codes say: with its own instants and evidence."""
        group = self.memory.with_earlier(group, self.timing)
        self.memory.take_readings(readings, self.timing)
        self.memory.repeat(group.at, self.timing)
        self.inference.repeat(self.inferred)
        walked = self._judged(group, self.memory.past(group, self.timing), codes)._replace(inferred=self.inferred)
        if not (walked.judged or self.memory.remade):
            self.silent = BY_READINGS.intersection(codes)
            self.silent_until = self.memory.readings_valid_until(group.at, self.timing)
        return walked

    def _step(self, group: GroupRound, readings: Readings) -> Round:
        group = self.memory.with_earlier(group, self.timing)
        self.memory.troubled = bool(self.troubles)
        walked = self._judged(group, self.memory.observe(group, readings, self.timing), None)
        group, scope = walked.group, scope_reasons(walked.group)
        if not group.was_read:
            return walked._replace(scope=scope)
        in_grace = self._grace(group, "MEMBERSHIP", None) is not None
        changes = self.churn.take(group, in_grace=in_grace)
        inferred = {} if in_grace else self.inference.take(group)
        return walked._replace(changes=changes, inferred=inferred, scope=scope)

    def _judged(self, group: GroupRound, past: Past, codes: Collection[str] | None) -> Round:
        """What the rules of these codes find, of all by default, and what becomes of what they found before."""
        flips, held_back = self.beside.flips(group.at), self.beside.held_back(group.at)
        ownerless = self._ownerless(past)
        past = replace(past, ownerless_since=ownerless, flips=flips, held_back=held_back, loosely=self.loosely)
        group = group.with_past(past, ordered=self.memory.ordered)
        found = [self.beside.joined(one, group.at) for one in findings(group, self.timing, codes)]
        stalled, grace = stalled_clients(found), cache(partial(self._grace, group))
        seen = [
            self._seen(finding, group, stalled, grace(finding.code, finding.topic, finding.severity == "CRITICAL"))
            for finding in found
        ]
        disturbance = self.memory.last_disturbance
        judgements = self.ledger.advance(
            group.at,
            self.memory.rounds_read,
            seen,
            lambda subject, last_true_at: absence_is_told(group, subject, last_true_at),
            disturbance,
        )
        self.loosely = _loosely(found, group) if group.was_read else self.loosely
        judged = [Judged(s.finding, s.grace, j) for s, j in zip(seen, judgements, strict=True)]
        for one in judged:
            if one.finding.code == "SLOW_HANDOVER" and one.judgement.state == OPEN and one.finding.queue:
                self.memory.told((one.finding.topic or "", *one.finding.queue))
        judged = folded(judged, group, self.timing) if group.was_read else judged
        return Round(group, judged, disturbance=disturbance)

    def close_date(self, day: str) -> list[Incident]:
        """The incidents that were finished on the date (ISO) that closes; they are not in the state any more."""
        # The first round of a date is judged in full, whether or not the date before was walked with it.
        self.settled = None
        self.ledger.close_date(day)
        finished, self.ledger.finished = self.ledger.finished, []
        return finished

    def to_json(self) -> str:
        """The state; equal histories give equal texts."""
        self.memory.catch_up(self.timing)
        state = {
            "memory": self.memory.to_state(),
            "ledger": self.ledger.to_state(),
            "churn": self.churn.to_state(),
            "inference": self.inference.to_state(),
            "loosely": self.loosely and [list(self.loosely.shown.items()), self.loosely.complete],
        }
        return state_text(state)

    @classmethod
    def of_json(
        cls,
        key: tuple[str, str, str],
        timing: Timing,
        text: str,
        maintenance: Sequence[Maintenance] = (),
        evidence: Mapping[str, Sequence[str]] | None = None,
    ) -> GroupHistory:
        """The history that ``to_json`` wrote, under today's timing; ``evidence``: that of its incidents, by id."""
        state = state_of(text)
        history = cls(
            key,
            timing,
            maintenance,
            GroupMemory.of_state(state["memory"]),
            Churn.of_state(state["churn"]),
            Inference.of_state(state["inference"]),
        )
        history.ledger = Ledger.of_state(key, timing, state["ledger"], evidence or {})
        if (loosely := state.get("loosely")) is not None:
            history.loosely = Loosely({Subject(*of): tuple(held) for of, held in loosely[0]}, loosely[1])
        return history

    def _ownerless(self, past: Past) -> dict[TopicQueue, int]:
        """Since when queues have had no owner: from when they stood still, where that showed it before."""
        since = dict(past.ownerless_since)
        for subject, track in self.ledger.tracks.items():
            queue = (
                subject.topic or "",
                subject.broker_name or "",
                -1 if subject.queue_id is None else subject.queue_id,
            )
            if subject.family == NO_OWNER and track.is_true and queue in since:
                since[queue] = min(since[queue], track.since)
        return since

    def _seen(self, finding: Finding, group: GroupRound, stalled: Collection[str | None], grace: Grace | None) -> Seen:
        subject, progress = subject_of(finding), progress_of(group, finding.topic, finding.queue)
        track, views = self.ledger.tracks.get(subject), self.ledger.followed(_VIEWS, group.differing)
        # A member that dies while the brokers are asked makes lists differ for a round; its queues stood before that.
        # A list that lacks one for longer shows in the round after the one that shows what comes of it.
        found = causes(finding, group, stalled, before_lists=track is not None and views is None)
        views_of = views.causes[0] if views else None
        trouble = effect_of(finding, group, self.troubles, track.first_seen_at if track else group.at, views_of)
        if track is not None and track.incident is not None:
            trouble = None
        return Seen(
            subject,
            finding,
            found if trouble is None else [trouble.cause, *found],
            grace,
            counts=not (_may_be_faked(finding, group) or _was_left_out(finding, group)),
            # A double that only the list of members shows is as old as DUPLICATE_CLIENT_ID must be.
            opens=not (finding.code == "DOUBLE_OWNED" and len(finding.observed) < 2),
            # Of lists asked for one after the other, members who come or go make others differ each time.
            about=group.differing if subject == _VIEWS else (),
            effect_of=trouble and trouble.incident_id,
            at_once=finding.code == "DUPLICATE_CLIENT_ID" and finding.client_id in group.past.both_answered,
            lag=progress and progress.lag,
            broker_offset=progress and progress.broker_offset,
            ordered=bool(group.ordered),
        )

    def _grace(self, group: GroupRound, code: str, topic: str | None, is_critical: bool = False) -> Grace | None:
        """The grace that still mutes a finding of this code in this round.

        That nobody is there comes of no change that the group had been left by everybody before.
        """
        empty_since = self.memory.empty_since
        is_down = code == "GROUP_DOWN" and empty_since
        grace = grace_of(
            code,
            topic,
            [d for d in self.memory.disturbances if not is_down or d.at <= empty_since],
            ordered=bool(group.ordered),
            interval=self.memory.interval_s(self.timing),
            timing=self.timing,
            maintenance=[m for m in self.maintenance if m.begin <= group.at < m.end],
            is_critical=is_critical,
        )
        return grace if grace is not None and group.at < grace.until else None


def _loosely(found: Sequence[Finding], group: GroupRound) -> Loosely | None:
    if not group.loose:
        return None
    return Loosely({subject_of(one): _held(one) for one in found if one.code in _BY_ROUND}, group.complete)


def _held(finding: Finding) -> tuple[str, ...]:
    """Who holds a queue, and who should."""
    return (*(owner.client_id for owner in finding.observed), "", *finding.expected)


def _may_be_faked(finding: Finding, group: GroupRound) -> bool:
    """Queues may have moved while clients were asked, and the round before does not show the same.

    What two rounds on end show alike is so: each owner held the queue before and after the other one was asked.
    """
    if not group.loose or finding.code not in _BY_ROUND:
        return False
    before = group.past.loosely
    return before is None or before.shown.get(subject_of(finding)) != _held(finding)


def _was_left_out(finding: Finding, group: GroupRound) -> bool:
    """The client was not asked, since it had not answered before: that adds nothing."""
    read = group.reads.get(finding.client_id or "")
    return finding.code == "UNREACHABLE_CLIENT" and read is not None and read.failure == LEFT_OUT


def folded(judged: Sequence[Judged], group: GroupRound, timing: Timing) -> list[Judged]:
    """The findings, those marked whose code holds for more than half of the group's queues."""
    total = sum(len(topic.queues or ()) for topic in group.judged_topics())
    queues: dict[str, set[tuple[str | None, Queue]]] = {}
    for one in judged:
        if one.finding.queue is not None:
            queues.setdefault(one.finding.code, set()).add((one.finding.topic, one.finding.queue))
    wide = {code for code, of_code in queues.items() if len(of_code) > total * timing.fold_share}
    return [one._replace(folded=one.finding.queue is not None and one.finding.code in wide) for one in judged]


class Shown(NamedTuple):
    """A finding of an incident as a reader sees it; a folded one stands for ``queues`` queues, some of them named."""

    attached: Attached
    queues: int
    sample: tuple[str, ...]


def fold_attached(incident: Incident, total_queues: int, timing: Timing) -> list[Shown]:
    """An incident's findings for a reader: a code that holds for more than half of the group's queues is one."""
    of_code: dict[str, list[Attached]] = {}
    for _, attached in sorted(incident.attached.items(), key=lambda entry: str(entry[0])):
        of_code.setdefault(attached.code, []).append(attached)
    shown: list[Shown] = []
    for _, ones in sorted(of_code.items()):
        wide = [a for a in ones if a.subject.queue is not None]
        if total_queues and len(wide) > total_queues * timing.fold_share:
            shown.append(_fold(wide))
            ones = [a for a in ones if a.subject.queue is None]
        shown += [Shown(attached, int(attached.subject.queue is not None), ()) for attached in ones]
    return shown


def _fold(ones: Sequence[Attached]) -> Shown:
    first = min(ones, key=lambda a: a.first_seen_at)
    names = [queue_name(a.subject.topic or "", a.subject.queue) for a in ones[:_SAMPLE] if a.subject.queue]
    folded = first._replace(
        subject=Subject(first.subject.family, None, None, None, None, FOLDED),
        kind=FOLDED,
        severity=min((a.severity for a in ones), key=SEVERITIES.index),
        last_seen_at=max(a.last_seen_at for a in ones),
        is_open=any(a.is_open for a in ones),
    )
    return Shown(folded, len(ones), tuple(names))
