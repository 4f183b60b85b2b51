"""The life of a message told: as lines for a person, and as values for a machine."""

from __future__ import annotations

from collections.abc import Iterator

from hindsight.jobs.asking.message_life import FAILED, Message, printed_offset, topic_of, why_no_place
from hindsight.jobs.engines.asker import Asker, Record
from hindsight.jobs.explaining.explanation import answer, shown
from hindsight.jobs.running.terminal import legible
from hindsight.udfs.telling.message_verdicts import SIGN, Life, moved, passed

_MOST = 100
_PRINTED = (
    *("logged_at", "detail", "topic", "broker_name", "queue_id", "offset", "offset_msg_id"),
    *("source_file", "source_line"),
)
_SHOWN = (
    *("producer_group", "client_id", "attempt", "mode", "begin_at", "latency_ms", "broker_name", "queue_id", "outcome"),
    *("exception", "queue_offset", "queue_offset_of", "offset_msg_id", "source_file", "source_line"),
)


def told(message: Message, asker: Asker) -> Iterator[str]:
    """Lines for a person."""
    topic = topic_of(message)
    yield f"Message {legible(message.msg_id)} of {legible(message.cluster)}, found by its {message.found_by}"
    yield from _told_sends(message, asker)
    for one in message.printed:
        where = f"{one['topic']} {one['broker_name']} queue {one['queue_id']}, offset {printed_offset(message, one)}"
        line = f"{one['detail']}, {where} ({one['source_file']}:{one['source_line']})"
        yield f"  {shown(one['logged_at'])}  printed by its application: {legible(line)}"
    for end in message.ends:
        by = " after the broker asked" if end["from_transaction_check"] else ""
        yield f"  {shown(end['traced_at'])}  transaction ended: {legible(end['transaction_state'] or 'null')}{by}"
    place = message.place
    if place:
        where = f"{place.topic} {place.broker or 'broker not recorded'} queue {shown(place.queue)}"
        offset = why_no_place(message) or "not recorded" if place.offset is None else str(place.offset)
        yield f"  stored in {legible(where)}, offset: {offset}; {shown(message.stored_at)}"
    if message.verdict:
        yield f"  {message.verdict.verdict}: {message.verdict.cause}"
    for group, (life, found) in message.groups.items():
        yield ""
        yield f"Group {legible(group)}: {', '.join(each.verdict for each in found)}"
        yield from (f"  {each.verdict}: {legible(each.cause)}" for each in found)
        yield from _told_group(life)
    if not message.groups:
        yield f"No group is recorded to consume {legible(topic or 'its topic')} then."


def _told_sends(message: Message, asker: Asker) -> Iterator[str]:
    for one in message.attempts:
        number = "" if one["attempt"] is None else f" {one['attempt']}"
        result = one["outcome"] if one["outcome"] != FAILED else legible(f"{one['exception']}: {one['error']}")
        queue = "" if one["queue_id"] is None else f" queue {one['queue_id']}"
        to = legible(one["broker_name"] or one["broker_named_as"])
        by = legible(f"{one['client_id']} ({one['producer_group']})")
        yield f"  {shown(one['begin_at'])}  attempt{number} by {by} to {to}{queue}: {result}, {one['latency_ms']} ms"
        yield from (f"      {line}" for line in _choices(asker, one))


def _choices(asker: Asker, attempt: Record) -> Iterator[str]:
    """Why the broker was taken, and which ones were left out."""
    for row in answer(asker, "message", "choice", attempt):
        told = [f"by the rule {row['rule']}" if row["rule"] else "", row["reason"] or ""]
        yield f"choice {row['verdict']}: {', '.join(filter(None, told))}"
    for row in answer(asker, "message", "held", attempt, most=_MOST):
        until = "without end" if row["window_end"] is None else f"until {shown(row['window_end'])}"
        why = f"{row['trigger_kind']} after {row['trigger_latency_ms']} ms at {shown(row['window_start'])}"
        yield f"{legible(row['broker_name'])} was {row['state']} {until}: {why} ({row['certainty']})"


def _told_group(life: Life) -> Iterator[str]:
    for one in life.deliveries:
        took = "no end recorded" if one.cost_ms is None else f"{one.result} after {one.cost_ms} ms"
        again = f", retry {one.retry_times}" if one.retry_times else ""
        yield f"  {shown(one.began_at)}  given to {legible(one.consumer)}{again}: {took}"
    after, by = passed(life)
    if by or after:
        when = [f"{word} {shown(at)}" for word, at in (("after", after), ("by", by)) if at]
        yield f"  the group's offset passed it {' and '.join(when)}"
    yield from (f"  {shown(at)}  {legible(line)}" for at, line in moved(life))
    near = [one for one in life.owners if life.stored_at and one.last >= life.stored_at - SIGN]
    for owner in near[:10]:
        read = f"read from {shown(owner.first)} to {shown(owner.last)}"
        yield f"  its queue was held by {legible(owner.client_id)}, {read}"


def as_values(message: Message) -> Record:
    """The same for a machine."""
    place = message.place._asdict() if message.place else None
    return {
        "cluster": message.cluster,
        "msg_id": message.msg_id,
        "found_by": message.found_by,
        "place": place,
        "stored_at": message.stored_at,
        "verdict": message.verdict and message.verdict._asdict(),
        "attempts": [{name: row[name] for name in _SHOWN} for row in message.attempts],
        "printed": [
            {name: row[name] for name in _PRINTED} | {"offset": printed_offset(message, row)} for row in message.printed
        ],
        "groups": {
            group: {
                "verdicts": [each._asdict() for each in found],
                "deliveries": [
                    {name: value for name, value in one._asdict().items() if name != "place"} for one in life.deliveries
                ],
                "moved": [{"at": at, "told": line} for at, line in moved(life)],
                "passed": list(passed(life)),
                "owners": [one._asdict() for one in life.owners],
            }
            for group, (life, found) in message.groups.items()
        },
    }
