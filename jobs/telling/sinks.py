"""What ``--sink`` says, or a sink of the settings, in; where events go, with its secrets, out.

Secrets come from the environment or from a file, never from the command line, and no message repeats them: of an
address only scheme and host are ever told.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.conf.settings import Events, EventSink
from hindsight.jobs.running.places import holds_secret
from hindsight.jobs.running.run_log import tell

FORMS = ("webhook", "slack", "dingtalk", "alertmanager")
TOKEN = "HINDSIGHT_SINK_TOKEN"
_SECRET_ADDRESSES = ("slack", "dingtalk")  # whoever has the address can write there
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ALERTS = "/api/v2/alerts"
_SECRET_CHARS = 8  # a shorter word of an address is no key


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
    url = _secret(sink.url_env, sink.url_file, where)
    if url is None:
        url = sink.url or ""
        if sink.form in _SECRET_ADDRESSES or holds_secret(_checked(url, sink.form, where)):
            raise SinkPlaceError(f"{where}: its address is a secret; give url_env or url_file instead of url.")
    token = _secret(sink.token_env, sink.token_file, where)
    return Sink(sink.name, sink.form, _checked(url, sink.form, where), token, severity or sink.severity)


def _secret(variable: str | None, path: str | None, where: str) -> str | None:
    if variable is not None:
        return _of_environment(variable, where)
    return None if path is None else _of_file(path, where)


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
    settings: Events,
    meant: Callable[[Answer], Answer] | None = None,
) -> None:
    """Send JSON until it is taken, as often and as patiently as the settings say.

    ``meant``: what an answer of this kind of sink stands for, by HTTP's statuses. Raises: SinkError.
    """
    data = json.dumps(body, ensure_ascii=False).encode()
    for attempt in range(1, settings.attempts + 1):
        answer = _answered(url, data, headers, settings.timeout_s)
        answer = meant(answer) if meant else answer
        if answer.status is not None and 200 <= answer.status < 300:
            return
        shown = sink.without_secrets(_why_not(answer))[:_MOST_SHOWN]
        if answer.status is not None and answer.status not in _TRY_AGAIN:
            raise SinkError(
                f"{sink.form} {sink.name!r} at {sink.place} refuses: {shown}. What it took before stays told; mend the "
                "address, the token or the sink, and run hindsight events again: it goes on with this event."
            )
        if attempt < settings.attempts:
            pause = min(answer.retry_after_s or settings.retry_s * 2 ** (attempt - 1), _LONGEST_PAUSE_S)
            tell("sends again", sink=sink.name, attempt=attempt, why=shown, pause_s=round(pause, 1))
            time.sleep(pause)
    raise SinkError(
        f"{sink.form} {sink.name!r} at {sink.place} did not take an event in {settings.attempts} attempts: {shown}. "
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
            return Answer(answer.status, _said(answer))
    except HTTPError as error:
        with error:
            return Answer(error.code, _said(error), _seconds(error.headers))
    except TimeoutError:
        return Answer(None, f"no answer within {timeout_s:g} s")
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        return Answer(None, f"{type(why).__name__}: {why}")


def _said(answer: IO[bytes]) -> str:
    """The begin of an answer's body, as far as it came: its status stands whether the rest comes or not."""
    try:
        said = answer.read(_MOST_BYTES)
    except (OSError, HTTPException) as error:
        said = getattr(error, "partial", b"")
    return said.decode(errors="replace")


def _seconds(headers: Message) -> float | None:
    told = str(headers.get("Retry-After", ""))
    return float(told) if told.isdigit() else None
