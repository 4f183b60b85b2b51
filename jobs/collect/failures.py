"""Why a question has no answer, in the words that rocketmq-tools prints: the ``error`` of its line."""

from __future__ import annotations

import os

from hindsight.conf.failure import ExpectedError

_CLIENT = "org.apache.rocketmq.client.exception"
_REMOTING = "org.apache.rocketmq.remoting.exception"


class CollectError(ExpectedError):
    """Raised where nothing can be collected: nobody answers, nothing is named to a proxy, no line can be kept."""


class NoAnswerError(Exception):
    """Raised where a question has no answer; its text is the line's ``error``."""


class NotSentError(NoAnswerError):
    """Raised where a question was not sent at all: it was left out, or its server is left alone for a while."""


class SilentServerError(NoAnswerError):
    """Raised where a server did not answer in time."""


class RefusedError(NoAnswerError):
    """Raised where a server answers with a code other than 0 (SUCCESS)."""

    def __init__(self, code: int, remark: str | None, exception: str, broker_address: str | None) -> None:
        # The lines after the first are advice and links.
        said = (remark or "").partition("\n")[0].rstrip("\r")
        broker = f" BROKER: {broker_address}" if broker_address and exception == "MQBrokerException" else ""
        super().__init__(f"{_CLIENT}.{exception}: CODE: {code}  DESC: {said}{broker}")
        self.code = code


def timed_out(address: str, timeout_s: float) -> SilentServerError:
    """The answer did not come in time."""
    told = f"wait response on the channel <{address}> timeout, {timeout_s * 1000:.0f}(ms)"
    return SilentServerError(f"{_REMOTING}.RemotingTimeoutException: {told}")


def not_connected(address: str, why: str) -> NoAnswerError:
    """No connection could be had."""
    return NoAnswerError(f"{_REMOTING}.RemotingConnectException: connect to <{address}> failed: {why}")


def connection_lost(address: str, why: str) -> NoAnswerError:
    """The connection went away while the answer was awaited."""
    return NoAnswerError(f"{_REMOTING}.RemotingSendRequestException: send request to <{address}> failed: {why}")


def unreadable(address: str, why: str) -> NoAnswerError:
    """What came is no answer."""
    return NoAnswerError(f"{_REMOTING}.RemotingCommandException: decode answer of <{address}> failed: {why}")


def not_asked(why: str) -> NotSentError:
    """The question was left out, on purpose."""
    return NotSentError(f"not asked: {why}")


def reason(error: BaseException) -> str:
    """An error of the operating system or of TLS in a few words."""
    if isinstance(error, TimeoutError):
        return "no connection in time"
    number = getattr(error, "errno", None)
    # asyncio's own text hides which of the system's errors it was.
    said = os.strerror(number) if isinstance(error, ConnectionError) and number else str(error)
    return " ".join(said.split()) or type(error).__name__
