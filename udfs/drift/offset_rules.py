"""One round of a group in; findings about its offsets, retries and dead letters out.

Each function's first line is its definition. What offsets alone cannot tell is not said: see ``offset_marks``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.consumer.offset_marks import Mark
from hindsight.udfs.consumer.queue_ends import DEAD_LETTER_PREFIX
from hindsight.udfs.consumer.round_facts import BROADCASTING, RETRY_PREFIX, Owner, TopicQueue, TopicRound
from hindsight.udfs.drift.finding import Finding, clock, evidence, queue_name

NOT_COMMITTED = "NOT_COMMITTED"
_PROXY = "members behind a proxy: a proxy was not asked"
_DELETES_AS_BEFORE = "next deletion: as many messages as the last"
_SLAVE = "queue end: a slave that answers for its master may lack messages"
_CORRECTED_S = (
    120  # live clients take the new queues by then: 30 s route poll, 20 s rebalance, and correct their offset
)
_OWNERS = "owners of the queue: not all members answered"


def offset_rewound(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """The group's offset lies behind where it was, further than commits lag, in two readings: messages are read anew.

    Kind NOT_COMMITTED: it reads as 0 or less, as where the broker has no offset of the group any more. A queue that two
    processes hold is left out: each commits its own offset.
    """
    for one in _speaking(group):
        back, last = one.mark.back, one.mark.last
        if back is None or not back.confirmed or len(one.owners) > 1 or group.duplicates:
            continue
        gone = last.consumer_offset <= 0
        what = "is not committed any more" if gone else f"stands at {last.consumer_offset}"
        yield one.finding(
            "OFFSET_REWOUND",
            "HIGH",
            f"the offset of {group.consumer_group} in {one.name} {what}, after {back.high}, since "
            f"{clock(back.since)}: {back.high - max(last.consumer_offset, 0)} messages are consumed again.",
            since=back.since,
            kind=NOT_COMMITTED if gone else None,
            assumptions=() if group.complete else (_OWNERS,),
        )


def offset_jumped(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """The group's offset stood and went ahead while nobody was connected and the broker handed nothing to the group.

    Possible only: a proxy's clients are in no broker's list. Of a group that consumes, no reading tells a skip from a
    catching up: a slave may hand out what its master does not count.
    """
    for one in _speaking(group):
        ahead = one.mark.ahead
        if ahead is None or not ahead.confirmed or group.past.peopled_at >= ahead.stood_at:
            continue
        yield one.finding(
            "OFFSET_JUMPED",
            "HIGH",
            f"the offset of {group.consumer_group} in {one.name} went from {ahead.consumer_offset_then} to "
            f"{ahead.consumer_offset} before {clock(ahead.moved_at)}, while nobody was connected and nothing was "
            f"handed out: {ahead.consumer_offset - ahead.consumer_offset_then} messages are skipped.",
            since=ahead.moved_at,
            assumptions=(_PROXY,),
        )


def offset_beyond_end(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """The group's offset lies beyond the queue's end, in two readings: what comes before it is not consumed."""
    for one in _speaking(group):
        since, last = one.mark.beyond_since, one.mark.last
        if since is None or last.read_at - since < timing.offset_commit_s * 1000:
            continue
        end, committed = last.broker_offset, last.consumer_offset
        yield one.finding(
            "OFFSET_BEYOND_END",
            "HIGH",
            f"the offset of {group.consumer_group} in {one.name} is {committed} since {clock(since)}, and "
            f"the queue ends at {end}: the next {committed - end} messages are skipped, unless clients correct it.",
            since=since,
        )


def end_went_back(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A queue's end lies before where it was, in two readings: its messages are gone.

    INFO where the topic was made anew (it was in no route for a while, or all its queues on two brokers or more began
    anew) and the group went on in it.
    """
    for one in _speaking(group):
        ended, last = one.mark.ended, one.mark.last
        if ended is None or not ended.confirmed:
            continue
        made_anew = _is_made_anew(group, one.queue[0])
        went_on = last.consumer_offset <= last.broker_offset
        waits = made_anew and not went_on and last.read_at - ended.at < _CORRECTED_S * 1000
        if waits:
            continue
        what = "its topic was deleted and made again" if made_anew else "messages of its broker are gone"
        yield one.finding(
            "END_WENT_BACK",
            "INFO" if made_anew and went_on else "HIGH",
            f"the end of {one.name} went back from {ended.high} before {clock(ended.at)}, and is "
            f"{last.broker_offset}: {what}; {group.consumer_group} stands at {last.consumer_offset}.",
            since=ended.at,
            assumptions=() if made_anew else (_SLAVE,),
        )


def _is_made_anew(group: GroupRound, topic: str) -> bool:
    """The topic's queues began anew with the topic: not those of one broker alone, which may have lost its disk."""
    if topic in group.past.remade:
        return True
    marks = {queue: mark for queue, mark in group.past.offsets.marks.items() if queue[0] == topic}
    return len({broker for _, broker, _ in marks}) > 1 and all(mark.ended is not None for mark in marks.values())


def messages_lost(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """The broker has deleted messages that the group has not read: its offset lies before the first that is there."""
    for one in _speaking(group):
        lost, committed = one.mark.lost, one.mark.consumer_offset
        if lost:
            yield one.finding(
                "MESSAGES_LOST",
                "CRITICAL",
                f"{lost} messages of {one.name} were deleted before {group.consumer_group} read them: it "
                f"stands at {committed}, and the first that is there is {committed + lost}.",
            )


def messages_at_risk(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """Messages wait that the broker's next deletion takes, if it deletes as before and the group reads as before.

    Possible only: a broker deletes at its hour, or when its disk is full. The pace is that of the time between its last
    two deletions; before two were seen it is told of a group that stands still alone.
    """
    for one in _speaking(group):
        told, last = one.mark.deleting, one.mark.last
        if told is None or not one.mark.at_risk:
            continue
        yield one.finding(
            "MESSAGES_AT_RISK",
            "HIGH",
            f"{group.consumer_group} is {last.broker_offset - last.consumer_offset} messages behind in "
            f"{one.name}, and {max(last.consumer_offset - told.min_offset, 0)} lie before the next that it "
            f"reads; the broker's last deletion took {told.deleted}, the group read {told.consumed} before it.",
            assumptions=(_DELETES_AS_BEFORE,),
        )


def queue_lags_alone(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """One queue of a topic is behind for longer than ``offset_slack_s``, or stands for 60 s while messages wait in it.

    None of the others is, two at least. It has one owner, without whom it is another finding, and was not set back.
    """
    if group.message_model == BROADCASTING:
        return
    for queue in _behind_alone(group):
        one = _OfQueue(group, queue, group.past.offsets.marks[queue])
        topic, owners, mark = group.topic(queue[0]), one.owners, one.mark
        if topic is None or len(owners) != 1 or mark.back or not _others_keep_up(group, topic, queue):
            continue
        progress = group.past.progress[queue]
        if progress.read_at < group.past.shown_since.get(queue, 0):
            continue  # as its offsets were read last, it was another's or nobody's
        stands = queue in group.past.stuck
        behind_s = max(mark.behind_s, progress.waited_ms() // 1000 if stands else 0)
        yield one.finding(
            "QUEUE_LAGS_ALONE",
            "HIGH" if progress.rises else "MEDIUM",
            f"{one.name} is {mark.last.broker_offset - mark.last.consumer_offset} messages and at least "
            f"{behind_s} s behind in {group.consumer_group}, at {owners[0].client_id}, and no other queue of "
            f"{queue[0]} is.",
            client_id=owners[0].client_id,
            since=progress.waiting_since if stands else None,
        )


def _behind_alone(group: GroupRound) -> list[TopicQueue]:
    """The only queue of a topic that is behind for long, or stands while its messages wait."""
    stuck: dict[str, set[TopicQueue]] = {}
    for queue in group.past.stuck:
        stuck.setdefault(queue[0], set()).add(queue)
    behind = group.past.offsets.behind
    alone = [behind.get(topic, set()) | stuck.get(topic, set()) for topic in behind.keys() | stuck.keys()]
    return sorted(next(iter(queues)) for queues in alone if len(queues) == 1)


def retries_grow(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """So many messages a minute come to the group's retry topic that consuming fails (``retries_a_minute``)."""
    for name, rate in group.past.offsets.retries_a_minute().items():
        if rate >= timing.retries_a_minute:
            yield Finding(
                "RETRIES_GROW",
                "MEDIUM",
                f"{rate:.0f} messages a minute come to {name}: {group.consumer_group} {_why_again(name, group)}.",
                # The kind names the topic: a finding about a retry topic would count one severity less.
                kind=name,
                evidence=evidence(group, None, group.reads),
                captured_at=group.at,
            )


def _why_again(topic: str, group: GroupRound) -> str:
    """Why messages come to a retry topic: POP has one for each topic, ``%RETRY%<group>_<topic>`` or with ``+``."""
    if topic == f"{RETRY_PREFIX}{group.consumer_group}":
        return "fails to consume them, or answers too late"
    return "popped them and did not acknowledge them while they were hidden"


def dead_letters(group: GroupRound, timing: Timing) -> Iterator[Finding]:
    """A message came to the group's dead letter queue: it was given up after its last retry."""
    told = group.dead_letters
    if told is not None and group.at - told.stored_at <= timing.offset_shown_s * 1000:
        yield Finding(
            "DEAD_LETTERS",
            "HIGH",
            f"{group.consumer_group} gave up a message at {clock(told.stored_at)}, and {told.messages} in all: they "
            f"are in {DEAD_LETTER_PREFIX}{group.consumer_group}, which nobody consumes.",
            evidence=evidence(group, None, group.reads),
            captured_at=group.at,
            since=told.stored_at,
        )


class _OfQueue(NamedTuple):
    """A queue of a group, and what is remembered of its offsets."""

    group: GroupRound
    queue: TopicQueue
    mark: Mark

    @property
    def name(self) -> str:
        """As RocketMQ users say it."""
        return queue_name(self.queue[0], self.queue[1:])

    @property
    def owners(self) -> tuple[Owner, ...]:
        """Who shows it."""
        topic = self.group.topic(self.queue[0])
        return topic.owners.get(self.queue[1:], ()) if topic is not None else ()

    def finding(
        self, code: str, severity: str, sentence: str, assumptions: tuple[str, ...] = (), **more: Any
    ) -> Finding:
        """A finding of it; ``more``: other fields."""
        return Finding(
            code,
            severity,
            sentence,
            topic=self.queue[0],
            queue=self.queue[1:],
            trust="possible" if assumptions else "certain",
            observed=self.owners,
            evidence=evidence(self.group, self.group.topic(self.queue[0]), self.group.reads),
            captured_at=self.mark.last.read_at,
            assumptions=assumptions,
            **more,
        )


def _speaking(group: GroupRound) -> Iterator[_OfQueue]:
    """The queues whose last reading may say something, where it is still valid."""
    for queue in sorted(group.past.offsets.speaking):
        if queue in group.past.progress:
            yield _OfQueue(group, queue, group.past.offsets.marks[queue])


def _others_keep_up(group: GroupRound, topic: TopicRound, queue: TopicQueue) -> bool:
    """Two other queues at least have valid readings, as has this one: none of them is among those that lag."""
    readable = [(topic.topic, *each) for each in topic.queues or ()]
    return len(readable) > 2 and queue in readable and all(each in group.past.progress for each in readable)
