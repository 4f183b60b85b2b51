"""A name server, broker or proxy: one connection that is kept, asked politely, and opened anew when it is lost."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from hindsight.jobs.collect.connection import Connection
from hindsight.jobs.collect.failures import (
    NoAnswerError,
    NotSentError,
    connection_lost,
    not_connected,
    reason,
    timed_out,
)
from hindsight.udfs.remoting.remoting_acl import Credentials, signed_fields
from hindsight.udfs.remoting.remoting_frames import Frame

DEFAULT_PORT = 9876
_IDLE_S = 60.0  # servers close what is idle for 120 s; asking just then would fail
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
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
        self._opening = asyncio.Lock()
        self._connection: Connection | None = None
        self._used_at = 0.0
        self._next_turn_at = 0.0
        self._failures = 0  # in a row, to connect or to answer anything
        self._unanswered = 0
        self._left_alone_until = 0.0
        self._last_failure = ""

    async def pace(self) -> None:
        """Wait until the rate allows one more question; what was left unused in the last second may be made up for."""
        now = asyncio.get_running_loop().time()
        self._next_turn_at = max(self._next_turn_at, now - 1.0) + 1.0 / self._manners.per_second
        if self._next_turn_at > now:
            await asyncio.sleep(self._next_turn_at - now)

    async def ask(self, code: int, fields: Mapping[str, str], *, silence_tells: bool = True) -> Frame:
        """The answer to a request, whatever its code.

        ``silence_tells``: a server that does not answer this is silent.
        Raises: NoAnswerError: no connection, no answer in time, or one that cannot be read.
        """
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
        self._left_alone_until = asyncio.get_running_loop().time() + pause * random.uniform(0.5, 1.0)
        self._last_failure = why
