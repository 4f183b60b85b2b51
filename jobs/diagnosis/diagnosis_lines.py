"""A diagnosis in, JSON lines out: ``docs/diagnose.md`` lists them. Instants are UTC, ISO 8601 with milliseconds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from hindsight.udfs.diagnosis.held_by_two import HeldByTwo
from hindsight.udfs.diagnosis.log_diagnosis import Diagnosis
from hindsight.udfs.diagnosis.log_findings import LogFindings
from hindsight.udfs.diagnosis.log_members import Member
from hindsight.udfs.diagnosis.logged_by_brokers import ByBrokers, RefusedLock, SubscriptionChange
from hindsight.udfs.diagnosis.logged_calls import LoggedCall
from hindsight.udfs.diagnosis.logged_ownership import UNKNOWN, Ownership, Queues
from hindsight.udfs.diagnosis.logged_rebalances import Rebalance
from hindsight.udfs.diagnosis.logged_troubles import Subject, Tally, Troubles


def as_json(diagnosis: Diagnosis, left_alone: Iterable[str]) -> Iterator[str]:
    """Everything, one JSON object a line; ``kind`` says what a line is about, the last one is ``total``."""
    for log in diagnosis.logs:
        yield from _log(log)
    yield from (_line("left_alone", path=path) for path in left_alone)
    yield from map(_member, diagnosis.members)
    yield from map(_ownership, diagnosis.ownership)
    yield from map(_held_by_two, diagnosis.held_by_two)
    yield from map(_rebalance, diagnosis.rebalances)
    for troubles in diagnosis.troubles:
        yield from _troubles(troubles)
    yield from _of_brokers(diagnosis.by_brokers)
    yield from (_line("cannot_tell", **one._asdict()) for one in diagnosis.cannot_tell)
    yield _line(
        "total",
        logs=len(diagnosis.logs),
        lines=sum(log.lines for log in diagnosis.logs),
        refused=sum(log.refused.total() for log in diagnosis.logs),
    )


def instant(ms: int | None) -> str | None:
    """An instant as text."""
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _line(kind: str, **facts: object) -> str:
    return json.dumps({"kind": kind, **facts})


def _log(log: LogFindings) -> Iterator[str]:
    wrote = log.wrote()
    yield _line(
        "log",
        path=log.path,
        log_kind=log.kind,
        lines=log.lines,
        refused=log.refused.total(),
        reasons=dict(sorted(log.refused.items())),
        first_at=instant(wrote and wrote[0]),
        last_at=instant(wrote and wrote[1]),
        zone_assumed=log.zone_assumed,
        client_ids=sorted(log.clients()),
    )
    for one in log.first_refused.values():
        yield _line("refused_line", path=log.path, **one._asdict())


def _member(one: Member) -> str:
    signs = [
        {"at": instant(sign.at), "joined": sign.joined, "how": sign.how, "broker_name": sign.broker_name}
        for sign in one.signs
    ]
    first, last = one.wrote or (None, None)
    return _line(
        "member",
        consumer_group=one.consumer_group,
        client_id=one.client_id,
        consume_type=one.consume_type,
        message_model=one.message_model,
        client_version=one.client_version,
        log=one.log,
        pid=one.pid,
        first_at=instant(first),
        last_at=instant(last),
        started_at=instant(one.started_at),
        stopped_at=instant(one.stopped_at),
        at_brokers=signs,
    )


def _ownership(one: Ownership) -> str:
    is_known = one.state != UNKNOWN
    return _line(
        "ownership",
        consumer_group=one.key.consumer_group,
        topic=one.key.topic or None,
        client_id=one.key.client_id,
        state=one.state,
        since_at=instant(one.since),
        until_at=instant(one.until),
        queues=_queues(one.queues) if is_known else None,
        reason=one.reason,
        last_said=None if is_known else _queues(one.queues),
        log=one.log or None,
        pid=one.pid,
    )


def _held_by_two(one: HeldByTwo) -> str:
    return _line(
        "held_by_two",
        consumer_group=one.consumer_group,
        topic=one.topic,
        client_ids=one.client_ids,
        queues=_queues(one.queues),
        since_at=instant(one.since),
        until_at=instant(one.until),
    )


def _queues(queues: Queues) -> list[dict[str, object]]:
    return [{"broker_name": broker_name, "queue_id": queue_id} for broker_name, queue_id in queues]


def _rebalance(one: Rebalance) -> str:
    facts = {**one._asdict(), "began_at": instant(one.began_at), "ended_at": instant(one.ended_at)}
    return _line("rebalance", took_ms=one.took_ms, **facts)


def _troubles(one: Troubles) -> Iterator[str]:
    whose = {"log": one.process.log, "pid": one.process.pid}
    sends = ("broker_name", "response_code", "exception", "arguments_lost")
    yield from _tallies("send_failed", sends, one.sends, whose, "latency_ms_max")
    yield from (_call(call, whose) for call in one.calls)
    retried = ("broker_name", "broker_address", "response_code", "exception", "next_broker_name")
    yield from _tallies("send_retried", retried, one.retried, whose)
    yield from _tallies("member_not_listed", ("consumer_group", "client_id"), one.not_listed, whose, "listed_max")
    yield from _tallies("lock_failed", ("consumer_group", "topic", "broker_name", "queue_id"), one.locks, whose)
    yield from _tallies("failure", ("what", "consumer_group", "topic", "exception"), one.failures, whose)
    yield from _tallies("send_given_up", ("topic", "brokers_sent", "detail"), one.given_up, whose, "cost_ms_max")
    names = ("what", "consumer_group", "topic", "broker_name", "response_code", "exception", "detail")
    yield from _tallies("consuming", names, one.consuming, whose, "reconsume_times_max")
    for offset in one.offsets:
        told = {"what" if name == "kind" else name: value for name, value in offset._asdict().items()}
        yield _line("offset_set", **{**told, "at": instant(offset.at)}, **whose)
    for isolation in one.isolations:
        yield _line(
            "isolation",
            broker_name=isolation.broker_name,
            state=isolation.state,
            since_at=instant(isolation.since),
            until_at=instant(isolation.until),
            lines=isolation.lines,
            **whose,
        )


def _of_brokers(told: ByBrokers) -> Iterator[str]:
    for change in told.subscriptions:
        yield _line("subscription_changed", **_tallied(change))
    for lock in told.locks:
        yield _line("lock_refused", **_tallied(lock))
    for gone in told.gone:
        yield _line("client_gone", **{**gone._asdict(), "at": instant(gone.at)})
    for proxy, one in told.isolations:
        stretch = {"since_at": instant(one.since), "until_at": instant(one.until), "lines": one.lines}
        yield _line("proxy_isolation", proxy=proxy, broker_name=one.broker_name, state=one.state, **stretch)


def _tallied(one: SubscriptionChange | RefusedLock) -> dict[str, object]:
    tally = one.tally
    counted = {"count": tally.count, "first_at": instant(tally.first), "last_at": instant(tally.last)}
    return {**{name: value for name, value in one._asdict().items() if name != "tally"}, **counted}


def _call(call: LoggedCall, whose: Mapping[str, object]) -> str:
    attempts = [{**one._asdict(), "at": instant(one.at)} for one in call.attempts]
    return _line("send_call", **{**call._asdict(), "attempts": attempts}, **whose)


def _tallies(
    kind: str, names: tuple[str, ...], tallies: dict[Subject, Tally], whose: Mapping[str, object], most: str = ""
) -> Iterator[str]:
    for subject, tally in tallies.items():
        figure = {most: tally.most} if most else {}
        yield _line(
            kind,
            **dict(zip(names, subject, strict=True)),
            count=tally.count,
            first_at=instant(tally.first),
            last_at=instant(tally.last),
            **figure,
            **whose,
        )
