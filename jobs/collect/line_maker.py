"""A question asked of a server, in; its line out, whatever came of it: an answer, or why there is none."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from hindsight.jobs.collect.failures import NoAnswerError, NotSentError, RefusedError, not_asked, unreadable
from hindsight.jobs.collect.questions import READS, Question
from hindsight.jobs.collect.server import Server
from hindsight.udfs.formats.fastjson import FastjsonError, parse_fastjson
from hindsight.udfs.lines.parsed_line import NOT_ASKED
from hindsight.udfs.remoting.remoting_frames import Credentials, Frame, configured, of_runtime_info

MOST_UNSENT = 10_000  # lines of a sweep for questions that were not sent
_TOO_MANY = not_asked(f"of what cannot be asked {MOST_UNSENT:,} questions have a line, with the reason")
LONGEST_LINE = 8_388_608  # what the pipeline takes in (`ingest.max_line_bytes`)


class Heard(NamedTuple):
    """What came of a question: the parsed answer, or the failure."""

    value: Any = None
    failure: NoAnswerError | None = None

    @property
    def code(self) -> int | None:
        """The response code of a refusal."""
        return self.failure.code if isinstance(self.failure, RefusedError) else None


class LineMaker:
    """Writes a line for each question and counts them; ``collector`` names this collector where there are several.

    What a sweep has no time for, and what cannot be sent beyond ``MOST_UNSENT`` questions, is counted: it is told in
    one line for each server.
    """

    def __init__(
        self, write: Callable[[bytes], None], collector: str | None = None, credentials: Credentials | None = None
    ) -> None:
        self.lines = 0
        self.errors = 0
        self.questions_left_out = 0
        self._begun = now_ms()
        self._unsent = 0
        self._left_out: dict[Server, dict[str, Counter[str]]] = {}
        self._write = write
        self._own = {"collector": collector} if collector else {}
        self._credentials = credentials

    async def ask(self, server: Server, question: Question) -> Heard:
        """Ask now, and write the line."""
        begun = now_ms()
        read = READS[question.kind]
        try:
            frame = await server.ask(read.code, question.fields, silence_tells=read.silence_tells)
            if frame.code != 0:
                broker_address = None if "name_server" in server.place else server.address
                raise RefusedError(frame.code, frame.remark, read.exception, broker_address)
            raw, value = _read(server, question, frame)
        except NoAnswerError as failure:
            if isinstance(failure, NotSentError):
                await asyncio.sleep(0)  # others have their turn: nothing was waited for
            return self.failed(server, question, failure, begun)
        line = self._line(server, question, begun, {"error": None, "raw": raw})
        if len(line) >= LONGEST_LINE:
            told = f"{len(line):,} bytes as a line, which may have {LONGEST_LINE:,}"
            return self.failed(server, question, unreadable(server.address, told), begun, value)
        self._put(line)
        return Heard(value)

    def failed(
        self, server: Server, question: Question, failure: NoAnswerError, begun: int | None = None, value: Any = None
    ) -> Heard:
        """Write the line of a question that has no answer, or that was left out on purpose (``begun`` is now)."""
        if isinstance(failure, NotSentError):
            self._unsent += 1
            if self._unsent > MOST_UNSENT:
                self.left_out(server, question.kind, _TOO_MANY)
                return Heard(value, failure)
        error = self._credentials.hidden_in(str(failure)) if self._credentials else str(failure)
        begun = now_ms() if begun is None else begun
        self._put(self._line(server, question, begun, {"error": error, "raw": None}))
        self.errors += 1
        return Heard(value, failure)

    def left_out(self, server: Server, kind: str, why: NoAnswerError, count: int = 1) -> None:
        """Count questions that are not asked in this sweep."""
        self._left_out.setdefault(server, {}).setdefault(str(why), Counter())[kind] += count
        self.questions_left_out += count

    @property
    def was_cut(self) -> bool:
        """Whether the sweep had no time for a question."""
        return any(reason != str(_TOO_MANY) for reasons in self._left_out.values() for reason in reasons)

    def tell_left_out(self) -> None:
        """Write the line of each server that was not asked everything, at the instant at which the sweep began."""
        for server, reasons in self._left_out.items():
            kinds = sum(reasons.values(), Counter[str]())
            told = "; ".join(f"{why} ({sum(of_kinds.values()):,} questions)" for why, of_kinds in reasons.items())
            question = Question(NOT_ASKED, ",".join(sorted(kinds)), {})
            self._put(self._line(server, question, self._begun, {"error": told, "raw": None, "questions": dict(kinds)}))
            self.errors += 1

    def mark(self, kind: str, **facts: Any) -> None:
        """Write a line of the collector's own: ``round``, ``sweepEnd``."""
        self._put(orjson.dumps({"ts": now_ms(), "kind": kind, **self._own, **facts}))

    def _line(self, server: Server, question: Question, begun: int, said: Mapping[str, Any]) -> bytes:
        # The clock may have been set back meanwhile; a read that ends before it began would be refused.
        ended = max(begun, now_ms())
        asked = {"ts": begun, "ts_end": ended, "kind": question.kind, "subject": question.subject}
        return orjson.dumps({**asked, **server.place, **self._own, **said})

    def _put(self, line: bytes) -> None:
        self._write(line)
        self.lines += 1


def now_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000


def _read(server: Server, question: Question, frame: Frame) -> tuple[str, Any]:
    """The answer's text and value; a list of ids comes in an object and goes on without, as rocketmq-tools has it.

    Of a broker's configuration, which may hold keys of stores, and of its runtime info only what is looked for goes on.
    """
    try:
        raw = frame.body.decode()
        value = configured(raw) if question.kind == "brokerConfig" else parse_fastjson(raw)
        value = of_runtime_info(value) if question.kind == "brokerRuntimeInfo" else value
    except UnicodeDecodeError as error:
        raise unreadable(server.address, f"no UTF-8 at byte {error.start} of {len(frame.body):,}") from None
    except FastjsonError as error:
        raise unreadable(server.address, f"{error}, of {len(frame.body):,} bytes") from None
    if not isinstance(value, dict):
        raise unreadable(server.address, f"a JSON {type(value).__name__}, expected an object")
    if question.kind in ("brokerConfig", "brokerRuntimeInfo"):
        return orjson.dumps(value).decode(), value
    if question.kind == "consumerIdList":
        return orjson.dumps(value.get("consumerIdList") or []).decode(), value
    return raw, value
