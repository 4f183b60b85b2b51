"""A name server, broker or proxy: one connection that is kept, asked politely, and opened anew when it is lost."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from hindsight.jobs.collect.failures import (
    NoAnswerError,
    NotSentError,
    connection_lost,
    not_connected,
    reason,
    timed_out,
    unreadable,
)
from hindsight.udfs.remoting.remoting_frames import (
    Credentials,
    Frame,
    FrameDecoder,
    FrameError,
    encode_request,
    signed_fields,
)

_LAST_OPAQUE = 2**31 - 1


class Connection(asyncio.Protocol):
    """Holds one unfinished frame at most; what nobody waits for, and requests of the server's own, are dropped."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.frames = 0  # read so far: what tells a server that lives from one that only accepted the connection
        self._decoder = FrameDecoder()
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._opaque = 0
        self._transport: asyncio.Transport | None = None
        self._failure: NoAnswerError | None = None

    @property
    def is_open(self) -> bool:
        """Whether a request can be written."""
        return self._transport is not None and self._failure is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The event loop's call: the connection stands."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """The event loop's call: bytes came."""
        if self._failure is not None:
            return
        try:
            for frame in self._decoder.feed(data):
                self.frames += 1
                waiting = self._waiting.pop(frame.opaque, None) if frame.is_answer else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(frame)
        except FrameError as error:
            self.close(unreadable(self.address, str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        """The event loop's call: the connection is gone."""
        why = reason(exc) if exc else "the server closed the connection"
        self.close(connection_lost(self.address, why))

    async def ask(self, code: int, fields: Mapping[str, str], timeout_s: float) -> Frame:
        """The answer to a request.

        Raises: TimeoutError; NoAnswerError: the connection went away, or what came on it cannot be read.
        """
        if self._failure is not None or self._transport is None:
            raise self._failure or connection_lost(self.address, "the connection is not open")
        self._opaque = opaque = self._opaque % _LAST_OPAQUE + 1
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = answer
        try:
            self._transport.write(encode_request(code, opaque, fields))
            async with asyncio.timeout(timeout_s):
                return await answer
        finally:
            self._waiting.pop(opaque, None)

    def close(self, failure: NoAnswerError) -> None:
        """End the connection; whoever waits gets the failure."""
        if self._failure is None:
            self._failure = failure
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._failure)
        self._waiting.clear()
        if self._transport is not None:
            self._transport.abort()  # a server that reads nothing would keep a graceful end waiting


DEFAULT_PORT = 9876
_IDLE_S = 60.0  # servers close what is idle for 120 s; asking just then would fail
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_ANEW_S = 10.0  # so long after it failed a sweep that begins tries it anew, so that its return is seen at once
_SILENT_AFTER = 4  # unanswered questions in a row after which a server is left alone for a while


@dataclass(frozen=True)
class Manners:
    """How servers are asked: time-out of a question, questions at once and a second per server, TLS, signature."""

    timeout_s: float = 3.0
    in_flight: int = 4
    per_second: float = 500.0
    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = field(default=None, repr=False)


def split_address(address: str) -> tuple[str, int]:
    """Host and port; the last colon parts them, as RocketMQ has it: ``[::1]:9876``, ``fe80::1:9876``, ``mq-0:9876``."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(f"{address!r} is no HOST:PORT")
    return host, int(port)


class Server:
    """One address; ``place`` is what its lines say of where they come from."""

    def __init__(self, address: str, manners: Manners, place: Mapping[str, str]) -> None:
        self.address = address
        self.place = dict(place)
        self.requests = 0
        self._manners = manners
        self._opening, self._pacing = asyncio.Lock(), asyncio.Lock()
        self._connection: Connection | None = None
        self._used_at = 0.0
        self._next_turn_at = 0.0
        self._failures = 0  # in a row, to connect or to answer anything
        self._unanswered = 0
        self._left_alone_until = self._failed_at = 0.0
        self._last_failure = ""

    async def pace(self) -> None:
        """Wait until the rate allows one more question, which ``ask`` counts: who stops waiting takes nobody's turn.

        What was left unused in the last second may be made up for.
        """
        async with self._pacing:
            wait = self._next_turn_at - asyncio.get_running_loop().time()
            if wait > 0:
                await asyncio.sleep(wait)

    async def ask(self, code: int, fields: Mapping[str, str], *, silence_tells: bool = True) -> Frame:
        """The answer to a request, whatever its code.

        ``silence_tells``: a server that does not answer this is silent.
        Raises: NoAnswerError: no connection, no answer in time, or one that cannot be read.
        """
        unused_since = asyncio.get_running_loop().time() - 1.0
        self._next_turn_at = max(self._next_turn_at, unused_since) + 1.0 / self._manners.per_second
        connection = await self._connected()
        credentials = self._manners.credentials
        told = signed_fields(fields, credentials) if credentials else fields
        before = connection.frames
        self.requests += 1
        self._used_at = asyncio.get_running_loop().time()
        try:
            answer = await connection.ask(code, told, self._manners.timeout_s)
        except TimeoutError:
            if silence_tells and connection.frames == before:
                self._went_unanswered(connection)
            raise timed_out(self.address, self._manners.timeout_s) from None
        except NoAnswerError as failure:
            self._lost(connection, str(failure))
            raise
        self._unanswered = self._failures = 0
        return answer

    def begin_sweep(self) -> None:
        """Let a sweep that begins try a server once that is left alone."""
        now = asyncio.get_running_loop().time()
        if now - self._failed_at >= _ANEW_S:
            self._left_alone_until = min(self._left_alone_until, now)

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close(connection_lost(self.address, "the collector ended"))
            self._connection = None

    async def _connected(self) -> Connection:
        async with self._opening:
            now = asyncio.get_running_loop().time()
            if self._connection is not None and (not self._connection.is_open or now - self._used_at > _IDLE_S):
                self.close()
            if self._connection is None:
                if now < self._left_alone_until:
                    raise NotSentError(f"{self._last_failure}; next try in {self._left_alone_until - now:.1f} s")
                self._connection = await self._open()
            self._used_at = now
            return self._connection

    async def _open(self) -> Connection:
        loop, tls = asyncio.get_running_loop(), self._manners.tls
        try:
            host, port = split_address(self.address)
            async with asyncio.timeout(self._manners.timeout_s):
                _, made = await loop.create_connection(lambda: Connection(self.address), host, port, ssl=tls)
        except (OSError, ValueError) as error:  # TimeoutError and ssl.SSLError are OSErrors
            failure = not_connected(self.address, reason(error))
            self._leave_alone(str(failure))
            raise failure from None
        return made

    def _went_unanswered(self, connection: Connection) -> None:
        """Count a question that timed out while nothing else was answered; a server that is silent is left alone."""
        self._unanswered += 1
        if self._unanswered >= _SILENT_AFTER and connection is self._connection:
            self._unanswered = 0
            self._leave_alone(str(timed_out(self.address, self._manners.timeout_s)))
            self.close()

    def _lost(self, connection: Connection, why: str) -> None:
        """Take in that a connection broke; the first time in a row the next question opens another at once."""
        if connection is not self._connection:
            return  # one lost connection fails many questions, and counts once
        self._connection = None
        if self._failures:
            self._leave_alone(why)
        else:
            self._failures = 1

    def _leave_alone(self, why: str) -> None:
        """Begin a pause, doubled with each failure in a row, and drawn by lot so that not all come back at once."""
        pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._failures, 16))
        self._failures += 1
        self._failed_at = asyncio.get_running_loop().time()
        self._left_alone_until = self._failed_at + pause * random.uniform(0.5, 1.0)
        self._last_failure = why
