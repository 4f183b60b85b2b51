"""How one send attempt ended in, what the producer then told its fault table out.

Two behaviours, each with its releases: of an attempt that sendDefaultImpl itself saw end, and of an ASYNC callback.
"""

from typing import Literal, NamedTuple

from hindsight.udfs.release_profiles import FaultProfile

Failure = Literal["remoting", "client", "broker", "interrupted"]

# The classes that sendDefaultImpl catches, with all their subclasses in the client and remoting jars.
_FAILURES: dict[str, Failure] = {
    "RemotingException": "remoting",
    "RemotingCommandException": "remoting",
    "RemotingConnectException": "remoting",
    "RemotingSendRequestException": "remoting",
    "RemotingTimeoutException": "remoting",
    "RemotingTooMuchRequestException": "remoting",
    "RpcException": "remoting",
    "MQClientException": "client",
    "MQBrokerException": "broker",
    "OffsetNotFoundException": "broker",
    "InterruptedException": "interrupted",
}
# Thrown outside of any attempt.
_NOT_AN_ATTEMPT = ("sendDefaultImpl call timeout", "sendSelectImpl call timeout", "call timeout")
# Thrown inside of one, and isolates; an ASYNC send's too goes back to sendDefaultImpl, before invokeAsync is called.
_BEFORE_THE_REQUEST = ("sendKernelImpl call timeout",)
TOLD_BY_MESSAGE = frozenset((*_NOT_AN_ATTEMPT, *_BEFORE_THE_REQUEST))  # messages that rules look for
_PHASES = (("SYNC", "result"), ("ASYNC", "submit"), ("ASYNC", "callback"), ("ONEWAY", "submit"))


class FaultUpdate(NamedTuple):
    """Arguments of one updateFaultItem; reachable is always true in releases before 5.1.4, which know none."""

    isolation: bool
    reachable: bool


def fault_update(
    profile: FaultProfile,
    *,
    mode: str,
    phase: str,
    exception: str | None,
    error: str | None,
    detector_enabled: bool,
) -> FaultUpdate | None:
    """What the attempt's end told the fault table; None: nothing.

    Args:
        profile: family of the producer's release.
        mode: SYNC, ASYNC or ONEWAY.
        phase: "result" of a SYNC attempt; "submit" of the others, when it was handed to the network layer;
            "callback" of an ASYNC attempt.
        exception: Java class, qualified or simple; None: the attempt returned, whatever its SendStatus.
        error: the exception's message.
        detector_enabled: the producer's startDetectorEnable; of no effect before 5.1.4.

    Returns: None as well for a class that sendDefaultImpl does not catch (a RuntimeException, say): it leaves the
        send call without an update. A callback isolates whatever the class; what is thrown before there is a request
        goes back to sendDefaultImpl, though an ASYNC line tells it as a callback.
    Raises: ValueError: for a mode and phase that do not belong together.
    Source: DefaultMQProducerImpl#sendDefaultImpl and MQClientAPIImpl#sendMessageAsync, 4.2.0 to 5.5.0.
    """
    if (mode, phase) not in _PHASES:
        known = ", ".join(" ".join(pair) for pair in _PHASES)
        raise ValueError(
            f"an attempt in mode {mode!r} has no phase {phase!r} (known: {known}). Correct the send record's reader."
        )
    if exception is None:
        return FaultUpdate(isolation=False, reachable=True)
    simple_name = exception.rpartition(".")[2]
    if _is_too_much_request(simple_name, error, _NOT_AN_ATTEMPT):
        return None
    failure = _FAILURES.get(simple_name)
    if phase == "callback" and not _is_too_much_request(simple_name, error, _BEFORE_THE_REQUEST):
        return _after_failed_callback(profile, simple_name, failure)
    if failure is None:
        return None
    return _after_failed_attempt(profile, failure, detector_enabled)


def failure_of(exception: str) -> Failure | None:
    """Which catch block of sendDefaultImpl takes a class, qualified or simple; None: none does."""
    return _FAILURES.get(exception.rpartition(".")[2])


def is_before_the_request(exception: str, error: str | None) -> bool:
    """An ASYNC send's time was over before its request: sendDefaultImpl sees that, as it sees a SYNC attempt end."""
    return _is_too_much_request(exception.rpartition(".")[2], error, _BEFORE_THE_REQUEST)


def _is_too_much_request(simple_name: str, error: str | None, messages: tuple[str, ...]) -> bool:
    message = (error or "").rpartition(": ")[2].strip()  # hooks may write Throwable#toString: class and message
    return simple_name == "RemotingTooMuchRequestException" and message in messages


def _after_failed_attempt(profile: FaultProfile, failure: Failure, detector_enabled: bool) -> FaultUpdate:
    if failure == "interrupted" or (failure == "client" and not profile.client_exception_isolates):
        return FaultUpdate(isolation=False, reachable=True)
    if not profile.has_reachable:
        return FaultUpdate(isolation=True, reachable=True)
    # A broker's error makes it unreachable even where no detector runs to find it reachable again.
    return FaultUpdate(isolation=True, reachable=failure == "remoting" and not detector_enabled)


def _after_failed_callback(profile: FaultProfile, simple_name: str, failure: Failure | None) -> FaultUpdate:
    """Every failed callback isolates; since 5.1.4 a request that never left makes the broker unreachable too.

    A missing answer is wrapped in an MQClientException; an answer that is an error, or cannot be decoded, is shown as
    it is. Any other exception of the remoting layer was thrown by invokeAsync. After retries, which the client
    makes by itself, it is the last broker's, and the line names the first: the nearest that a log can say.
    """
    never_left = failure in ("remoting", "interrupted") and simple_name != "RemotingCommandException"
    return FaultUpdate(isolation=True, reachable=not (profile.has_reachable and never_left))
