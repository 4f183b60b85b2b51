"""One request to a sink: sent until it is taken, refused, or too often in vain; no answer is waited for long.

A redirect is not followed: it would carry the event and its token to somebody who was not named.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from email.message import Message
from http.client import HTTPException
from threading import Thread
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from hindsight.conf.failure import ExpectedError
from hindsight.jobs.running.run_log import tell
from hindsight.jobs.telling.sinks import Sink

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
