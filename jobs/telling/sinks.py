"""What ``--sink`` says, or a sink of the settings, in; where events go, with its secrets, out.

Secrets come from the environment or from a file, never from the command line, and no message repeats them: of an
address only scheme and host are ever told.

Events that were noted in, requests to a sink out; a cursor beside the tables says how far it has got.

The cursor moves after an event is taken. So a run that ends between the two sends that event once more, with the same
id: at the wire each event comes at least once, by its id once. One run at a time sends: it holds the cursors by a lease
of their own, so that a sink which answers slowly keeps no job from the lake.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.conf.settings import Events, EventSink
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.lake.small_files import Store, store_at
from hindsight.jobs.running.places import holds_secret
from hindsight.jobs.running.run_log import tell
from hindsight.jobs.telling.incident_noting import SinceError
from hindsight.udfs.telling.event_forms import (
    alerts,
    as_values,
    dingtalk_message,
    dingtalk_sign,
    hold,
    is_as_bad,
    slack_message,
)
from hindsight.udfs.telling.incident_news import Event, firing

FORMS = ("webhook", "slack", "dingtalk", "alertmanager")
TOKEN = "HINDSIGHT_SINK_TOKEN"
_SECRET_ADDRESSES = ("slack", "dingtalk")  # whoever has the address can write there
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ALERTS = "/api/v2/alerts"
_SECRET_CHARS = 8  # a shorter word of an address is no key
CURSORS = "_cursors"  # their folder
_ALERTS_AT_ONCE = 200
_TOO_FAST = (-1, 130101, 410100)  # busy; more than 20 messages a minute
_MESSAGES = {"webhook": as_values, "slack": slack_message, "dingtalk": dingtalk_message}


class SinkPlaceError(ExpectedError):
    """Raised where it cannot be told where to send, or what is said would show a secret; nothing was sent."""

    exit_code = WRONG_USAGE


@dataclass(frozen=True)
class Sink:
    """Where events go. ``name`` is that of its cursor, ``severity`` the least that it is sent."""

    name: str
    form: str
    url: str = field(repr=False)
    token: str | None = field(repr=False)
    severity: str

    @property
    def place(self) -> str:
        """What may be told of the address."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
        return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")

    def without_secrets(self, text: str) -> str:
        """A server's text, should it repeat the address or the token."""
        parts = urlsplit(self.url)
        path = parts.path.rstrip("/")
        # A short word of the path is an ordinary one, such as hook: it is none without its slash.
        keys = (word for word in re.split(r"[/&=]", f"{path}&{parts.query}") if len(word) >= _SECRET_CHARS)
        for secret in sorted({*filter(None, (self.url, self.token, path, parts.query)), *keys}, key=len)[::-1]:
            text = text.replace(secret, "***")
        return text


def sink_of(to: str, of_settings: Iterable[EventSink], severity: str | None) -> Sink:
    """The sink that ``to`` names: one of the settings, or FORM:URL, FORM:env:VARIABLE, FORM:file:PATH.

    Raises: SinkPlaceError.
    """
    named = {sink.name: sink for sink in of_settings}
    if to in named:
        return _of_settings(named[to], severity)
    form, _, place = to.partition(":")
    if form not in FORMS or not place:
        known = f"; the settings name {', '.join(sorted(named))}" if named else "; the settings name no sink"
        raise SinkPlaceError(
            "--sink takes the name of a sink of the settings, or FORM:URL, FORM:env:VARIABLE or FORM:file:PATH with "
            f"one of {', '.join(FORMS)} as FORM{known}."
        )
    url = _spoken(form, place)
    name = f"{form}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
    token = _of_environment(TOKEN, "--sink") if os.environ.get(TOKEN) else None
    return Sink(name, form, _checked(url, form, "--sink"), token, severity or "INFO")


def _spoken(form: str, place: str) -> str:
    kind, _, name = place.partition(":")
    if kind == "env":
        return _of_environment(name, "--sink")
    if kind == "file":
        return _of_file(name, "--sink")
    if form in _SECRET_ADDRESSES or holds_secret(_checked(place, form, "--sink")):
        raise SinkPlaceError(
            f"--sink {form}: this address is a secret, which logs and the list of processes would show. Put it into a "
            f"variable or a file: --sink {form}:env:VARIABLE, or --sink {form}:file:PATH."
        )
    return place


def _of_settings(sink: EventSink, severity: str | None) -> Sink:
    where = f"sink {sink.name!r} of the settings"
    if sink.url_env is not None:
        url = _of_environment(sink.url_env, where)
    elif sink.url_file is not None:
        url = _of_file(sink.url_file, where)
    else:
        url = sink.url or ""
        if sink.form in _SECRET_ADDRESSES or holds_secret(_checked(url, sink.form, where)):
            raise SinkPlaceError(f"{where}: its address is a secret; give url_env or url_file instead of url.")
    token = None
    if sink.token_env is not None:
        token = _of_environment(sink.token_env, where)
    elif sink.token_file is not None:
        token = _of_file(sink.token_file, where)
    return Sink(sink.name, sink.form, _checked(url, sink.form, where), token, severity or sink.severity)


def _of_environment(variable: str, where: str) -> str:
    value = os.environ.get(variable, "").strip()
    if not value:
        raise SinkPlaceError(f"{where}: the environment has no {variable!r}, or it is empty.")
    return _one_line(value, f"{where}: {variable!r} of the environment")


def _of_file(path: str, where: str) -> str:
    try:
        value = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SinkPlaceError(f"{where}: the file {path!r} cannot be read: {type(error).__name__}.") from None
    if not value:
        raise SinkPlaceError(f"{where}: the file {path!r} is empty.")
    return _one_line(value, f"{where}: the file {path!r}")


def _one_line(value: str, where: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise SinkPlaceError(f"{where} holds more than one line of plain characters.")
    return value


def _checked(url: str, form: str, where: str) -> str:
    """The address to post to; of Alertmanager its root is enough."""
    try:
        parts = urlsplit(url)
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_http = False
    if not is_http or not url.isascii() or not url.isprintable() or " " in url or "#" in url:
        raise SinkPlaceError(f"{where}: the address of a {form} begins with http:// or https:// and names a host.")
    return url.rstrip("/") + _ALERTS if form == "alertmanager" and not url.rstrip("/").endswith(_ALERTS) else url


def cursor_name(name: str) -> str:
    """The name of a cursor, which is that of a file. Raises: SinkPlaceError."""
    if not _NAME.fullmatch(name) or set(name) == {"."}:
        raise SinkPlaceError(f"--cursor {name!r}: a name has 1 to 64 letters, digits, '_', '.' and '-'.")
    return name


_MOST_BYTES = 64 * 1024  # of an answer that is read
_MOST_SHOWN = 200
_LONGEST_PAUSE_S = 30.0
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class SinkError(ExpectedError):
    """Raised when a sink refuses an event, or does not answer as often as it was asked; what came before was taken."""


class Patience(NamedTuple):
    """How long an answer is waited for, how often an event is sent, how long is waited before it is sent again."""

    timeout_s: float
    attempts: int
    retry_s: float


class Answer(NamedTuple):
    """What came back: ``status`` None: no answer, and ``text`` says why; ``retry_after_s``: what the sink asks for."""

    status: int | None
    text: str
    retry_after_s: float | None = None


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = build_opener(_NoRedirects)


def post(
    sink: Sink,
    url: str,
    body: Any,
    headers: Mapping[str, str],
    patience: Patience,
    meant: Callable[[Answer], Answer] = lambda answer: answer,
) -> None:
    """Send JSON until it is taken. ``meant``: what an answer of this kind of sink stands for, by HTTP's statuses.

    Raises: SinkError.
    """
    data = json.dumps(body, ensure_ascii=False).encode()
    for attempt in range(1, patience.attempts + 1):
        answer = meant(_answered(url, data, headers, patience.timeout_s))
        if answer.status is not None and 200 <= answer.status < 300:
            return
        shown = sink.without_secrets(_why_not(answer))[:_MOST_SHOWN]
        if answer.status is not None and answer.status not in _TRY_AGAIN:
            raise SinkError(
                f"{sink.form} {sink.name!r} at {sink.place} refuses: {shown}. What it took before stays told; mend the "
                "address, the token or the sink, and run hindsight events again: it goes on with this event."
            )
        if attempt < patience.attempts:
            pause = min(answer.retry_after_s or patience.retry_s * 2 ** (attempt - 1), _LONGEST_PAUSE_S)
            tell("sends again", sink=sink.name, attempt=attempt, why=shown, pause_s=round(pause, 1))
            time.sleep(pause)
    raise SinkError(
        f"{sink.form} {sink.name!r} at {sink.place} did not take an event in {patience.attempts} attempts: {shown}. "
        "The next hindsight events goes on with this event."
    )


def _why_not(answer: Answer) -> str:
    if answer.status is None:
        return answer.text
    return f"status {answer.status}, {' '.join(answer.text.split()) or 'without a word'}"


def _answered(url: str, data: bytes, headers: Mapping[str, str], timeout_s: float) -> Answer:
    """The answer, or why there is none after so many seconds, also where a server sends byte by byte."""
    found: list[Answer] = []
    asking = Thread(target=lambda: found.append(_asked(url, data, headers, timeout_s)), daemon=True)
    asking.start()
    asking.join(timeout_s)
    return found[0] if found else Answer(None, f"no answer within {timeout_s:g} s")


def _asked(url: str, data: bytes, headers: Mapping[str, str], timeout_s: float) -> Answer:
    request = Request(url, data, dict(headers), method="POST")
    try:
        with _OPENER.open(request, timeout=timeout_s) as answer:
            return Answer(answer.status, answer.read(_MOST_BYTES).decode(errors="replace"))
    except HTTPError as error:
        with error:
            return Answer(error.code, error.read(_MOST_BYTES).decode(errors="replace"), _seconds(error.headers))
    except TimeoutError:
        return Answer(None, f"no answer within {timeout_s:g} s")
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        return Answer(None, f"{type(why).__name__}: {why}")


def _seconds(headers: Message) -> float | None:
    told = str(headers.get("Retry-After", ""))
    return float(told) if told.isdigit() else None


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
        if number > after and _is_sent(event, settings, with_backfill=with_backfill)
    ]
    if cursors.at(sink.name) != after:
        cursors.move(sink.name, after)  # what is not taken now is what the next run begins with
    patience = Patience(settings.timeout_s, settings.attempts, settings.retry_s)
    if sink.form == "alertmanager":
        live = [event for event in events[after:] if not event.told.backfill]
        sent = _send_alerts(sink, events, live, patience, settings)
    else:
        sent = _send_each(sink, fresh, cursors, patience)
    if len(events) > after:
        cursors.move(sink.name, len(events))
    return sent


def _is_sent(event: Event, settings: Events, *, with_backfill: bool) -> bool:
    return event.what not in settings.unsent and (with_backfill or not event.told.backfill)


def _send_each(sink: Sink, fresh: Sequence[tuple[int, Event]], cursors: Cursors, patience: Patience) -> int:
    wanted = [(number, event) for number, event in fresh if is_as_bad(event, sink.severity)]
    for number, event in wanted:
        headers = {**_headers(sink), "Idempotency-Key": event.event_id}
        meant = _by_errcode if sink.form == "dingtalk" else _as_it_is
        post(sink, _address(sink), _MESSAGES[sink.form](number, event), headers, patience, meant)
        cursors.move(sink.name, number)
    return len(wanted)


def _send_alerts(
    sink: Sink, events: Sequence[Event], fresh: Sequence[Event], patience: Patience, settings: Events
) -> int:
    ends = hold(datetime.now(UTC), settings.alert_hold_m)
    found = alerts(fresh, firing(events), sink.severity, ends)
    pieces = [found[at : at + _ALERTS_AT_ONCE] for at in range(0, len(found), _ALERTS_AT_ONCE)]
    for piece in pieces:
        post(sink, sink.url, piece, _headers(sink), patience)
    return len(pieces)


def _address(sink: Sink) -> str:
    """The address, with the signature of this instant where a robot asks for one."""
    if sink.form != "dingtalk" or sink.token is None:
        return sink.url
    return f"{sink.url}{'&' if '?' in sink.url else '?'}{dingtalk_sign(sink.token, int(time.time() * 1000))}"


def _headers(sink: Sink) -> dict[str, str]:
    bearer = {"Authorization": f"Bearer {sink.token}"} if sink.token and sink.form != "dingtalk" else {}
    return {"Content-Type": "application/json; charset=utf-8", "User-Agent": "rocketmq-hindsight", **bearer}


def _as_it_is(answer: Answer) -> Answer:
    return answer


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
