"""Events that were noted in, requests to a sink out; a cursor beside the tables says how far it has got.

The cursor moves after an event is taken. So a run that ends between the two sends that event once more, with the same
id: at the wire each event comes at least once, by its id once. One run at a time sends: it holds the cursors by a lease
of their own, so that a sink which answers slowly keeps no job from the lake.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from hindsight.conf.settings import Events
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.lake.small_files import Store, store_at
from hindsight.jobs.telling.incident_noting import SinceError
from hindsight.jobs.telling.sinks import Answer, Sink, post
from hindsight.udfs.telling.event_forms import (
    alerts,
    as_values,
    dingtalk_message,
    dingtalk_sign,
    is_as_bad,
    slack_message,
)
from hindsight.udfs.telling.incident_news import Event, firing

CURSORS = "_cursors"  # their folder
_ALERTS_AT_ONCE = 200
_TOO_FAST = (-1, 130101, 410100)  # busy; more than 20 messages a minute
_MESSAGES = {"webhook": as_values, "slack": slack_message, "dingtalk": dingtalk_message}


class Cursors:
    """How far whoever reads the stream has got: the number of the last event, by name."""

    def __init__(self, lake: ArrowLake) -> None:
        self._store: Store = store_at(lake.spark, f"{lake.root}/{CURSORS}")

    def at(self, name: str) -> int | None:
        """The number; None: nothing was read by that name yet."""
        with suppress(ValueError, KeyError, TypeError):
            return int(json.loads(self._store.read(f"{name}.json") or "")["number"])
        return None

    def within(self, name: str, reached: int) -> int | None:
        """The same, of a stream that has so many events. Raises: SinceError: it cannot be of this stream."""
        number = self.at(name)
        if number is not None and number > reached:
            raise SinceError(
                f"the cursor {name!r} stands at no. {number}, and the stream has {reached} events: incident_event was "
                "made anew. Send with --since 0, or read with another --cursor."
            )
        return number

    def move(self, name: str, number: int) -> None:
        """Note that all up to this event was read."""
        self._store.write(f"{name}.json", json.dumps({"number": number}))


def first_number(noted_at: Sequence[datetime], settings: Events, now: datetime) -> int:
    """Where a sink begins that was never sent anything: behind what was noted too long ago to be news."""
    limit = now - timedelta(hours=settings.backfill_after_h)
    return sum(at < limit for at in noted_at)


def deliver(
    sink: Sink, events: Sequence[Event], after: int, cursors: Cursors, settings: Events, *, with_backfill: bool = False
) -> int:
    """Send the events behind number ``after``, in order, and move the sink's cursor; how many requests it took.

    ``events``: all of the stream, from 1. Raises: SinkError: the cursor stands before what was not taken.
    """
    fresh = [
        (number, event)
        for number, event in enumerate(events, 1)
        if number > after and event.what not in settings.unsent and (with_backfill or not event.told.backfill)
    ]
    if cursors.at(sink.name) != after:
        cursors.move(sink.name, after)  # what is not taken now is what the next run begins with
    if sink.form == "alertmanager":
        live = [event for event in events[after:] if not event.told.backfill]
        sent = _send_alerts(sink, events, live, settings)
    else:
        sent = _send_each(sink, fresh, cursors, settings)
    if len(events) > after:
        cursors.move(sink.name, len(events))
    return sent


def _send_each(sink: Sink, fresh: Sequence[tuple[int, Event]], cursors: Cursors, settings: Events) -> int:
    wanted = [(number, event) for number, event in fresh if is_as_bad(event, sink.severity)]
    for number, event in wanted:
        headers = {**_headers(sink), "Idempotency-Key": event.event_id}
        meant = _by_errcode if sink.form == "dingtalk" else None
        post(sink, _address(sink), _MESSAGES[sink.form](number, event), headers, settings, meant)
        cursors.move(sink.name, number)
    return len(wanted)


def _send_alerts(sink: Sink, events: Sequence[Event], fresh: Sequence[Event], settings: Events) -> int:
    ends = datetime.now(UTC) + timedelta(minutes=settings.alert_hold_m)
    found = alerts(fresh, firing(events), sink.severity, ends)
    pieces = [found[at : at + _ALERTS_AT_ONCE] for at in range(0, len(found), _ALERTS_AT_ONCE)]
    for piece in pieces:
        post(sink, sink.url, piece, _headers(sink), settings)
    return len(pieces)


def _address(sink: Sink) -> str:
    """The address, with the signature of this instant where a robot asks for one."""
    if sink.form != "dingtalk" or sink.token is None:
        return sink.url
    return f"{sink.url}{'&' if '?' in sink.url else '?'}{dingtalk_sign(sink.token, int(time.time() * 1000))}"


def _headers(sink: Sink) -> dict[str, str]:
    bearer = {"Authorization": f"Bearer {sink.token}"} if sink.token and sink.form != "dingtalk" else {}
    return {"Content-Type": "application/json; charset=utf-8", "User-Agent": "rocketmq-hindsight", **bearer}


def _by_errcode(answer: Answer) -> Answer:
    """DingTalk answers 200 to everything; its text says whether the robot took it, or was sent too much."""
    if answer.status != 200:
        return answer
    told: dict[str, Any] = {}
    with suppress(ValueError, TypeError):
        told = dict(json.loads(answer.text))
    if told.get("errcode") == 0:
        return answer
    status = 429 if told.get("errcode") in _TOO_FAST else 400
    return Answer(status, f"errcode {told.get('errcode')}, {told.get('errmsg')}")
