"""One open connection: requests out, each answer to whoever waits for its ``opaque``, in whatever order they come."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hindsight.jobs.collect.failures import NoAnswerError, connection_lost, reason, unreadable
from hindsight.udfs.remoting.remoting_frames import Frame, FrameDecoder, FrameError, encode_request

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
