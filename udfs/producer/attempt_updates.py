"""Send attempts in, what each told its producer's fault table out: the calls of updateFaultItem.

An attempt that the client itself chose tells its end; an ASYNC one tells twice, when it is handed over and when its
callback runs, and its callback tells of a pinned queue too. Whatever was thrown decides the rest: of attempts that
sendDefaultImpl itself saw end, and of ASYNC callbacks, each with its releases. So each distinct (mode, phase,
exception, error) is judged once, however many attempts ended so.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from hindsight.udfs.not_available_duration import compute_not_available_duration
from hindsight.udfs.producer.attempt_columns import NEVER, ONEWAY, SYNC, Attempts, Texts, attempts_of
from hindsight.udfs.release_profiles import PROFILES, FaultProfile
from hindsight.udfs.values.columns import DAY_MS, BoolArray, IntArray

FINE = -1  # the outcome of an update whose attempt threw nothing
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


class Calls(NamedTuple):
    """m calls of updateFaultItem, in no order.

    Attributes:
        row: place of the attempt.
        at: when it was made, ms of the date.
        phase: 1: by an ASYNC callback; 0: by the sending thread.
        outcome: what the attempt threw, as a place in ``outcomes``; ``FINE``: nothing.
    """

    row: IntArray
    at: IntArray
    phase: IntArray
    outcome: IntArray
    outcomes: tuple[Outcome, ...]

    def taken(self, which: Any) -> Calls:
        """These calls alone."""
        return Calls(self.row[which], self.at[which], self.phase[which], self.outcome[which], self.outcomes)


class Outcome(NamedTuple):
    """How an attempt ended that threw something."""

    mode: str
    phase: str
    exception: str
    error: str | None

    def told(self, profile: FaultProfile, detector_enabled: bool) -> FaultUpdate | None:
        """The update under this release; None: there is none."""
        return fault_update(profile, **self._asdict(), detector_enabled=detector_enabled)


def calls_of(a: Attempts) -> Calls:
    """Every call that the attempts made, of those whose broker is known.

    An attempt without mode (a trace) tells of the broker's answer only. An attempt after whose end no release updates
    its table makes no call.
    """
    named = a.texts("broker_name").codes >= 0
    own = np.flatnonzero(named & ~a.is_async & ~a.pinned)
    submitted = np.flatnonzero(named & a.is_async & ~a.pinned & (a.submit_end != NEVER))
    called_back = np.flatnonzero(named & a.is_async & (a.callback_end != NEVER))
    row = np.concatenate([own, submitted, called_back])
    sizes = len(own), len(submitted), len(called_back)
    phase = np.repeat([0, 0, 1], sizes)
    outcome, outcomes = _outcomes(a, row, phase, np.repeat([True, False, True], sizes))
    calls = Calls(
        row,
        np.concatenate([a.end[own], a.submit_end[submitted], a.callback_end[called_back]]),
        phase,
        outcome,
        outcomes,
    )
    # Whether there is an update at all is the same in every release.
    silent = [o.told(PROFILES["P40"], False) is None for o in outcomes]
    return calls.taken(~np.array([*silent, False], dtype=np.bool_)[outcome]) if any(silent) else calls


def told_on_date(a: Attempts, rows: IntArray) -> IntArray:
    """Those of these attempts that told the fault table on the date; one may come twice."""
    if not len(rows):
        return rows
    calls = calls_of(attempts_of(a.table.take(pa.array(rows)), a.midnight_ms))
    told: IntArray = rows[calls.row[(calls.at >= 0) & (calls.at < DAY_MS)]]
    return told


def _outcomes(
    a: Attempts, row: IntArray, phase: IntArray, may_throw: BoolArray
) -> tuple[IntArray, tuple[Outcome, ...]]:
    exceptions, errors, modes = (a.texts(name) for name in ("exception", "error", "mode"))
    threw = np.flatnonzero(may_throw & (exceptions.codes[row] >= 0))
    of = row[threw]
    ends = np.stack([phase[threw], modes.codes[of], exceptions.codes[of], errors.codes[of]], axis=1)
    distinct, place = np.unique(ends, axis=0, return_inverse=True)
    outcome = np.full(len(row), FINE, dtype=np.int64)
    outcome[threw] = place.ravel()
    return outcome, tuple(_outcome(each, modes, exceptions, errors) for each in distinct.tolist())


def _outcome(codes: list[int], modes: Texts, exceptions: Texts, errors: Texts) -> Outcome:
    phase, mode, exception, error = codes
    name = modes.values[mode] if mode >= 0 else SYNC
    of_phase = "callback" if phase else "submit" if name == ONEWAY else "result"
    return Outcome(name, of_phase, exceptions.values[exception], errors.values[error] if error >= 0 else None)


class Judged(NamedTuple):
    """What m calls told, and for how long the broker is shunned after each, ms.

    ``longest``: for how long it is if the client measured a little longer than the hook; ``duration`` itself where that
    is the same for all.
    """

    latency: IntArray
    isolation: BoolArray
    reachable: BoolArray
    duration: IntArray
    longest: IntArray


def judged(
    calls: Calls, latency: IntArray, rule_of: IntArray, rules: list[tuple[FaultProfile, bool]], *, tolerance_ms: int
) -> Judged:
    """The calls under their clients' rules.

    Args:
        latency: of each call, ms, as the hook measured it; ``tolerance_ms``: how much longer the client may have.
        rule_of: for each call its place in ``rules``: a release with the producer's own ladders, and whether its
            detector runs.

    Few calls are slow or failed, and only they go to the ladder.
    Raises: LadderTooShortError: where the client would throw.
    """
    flags = [[*(outcome.told(*rule) or _NO_FAILURE for outcome in calls.outcomes), _NO_FAILURE] for rule in rules]
    told = np.array(flags, dtype=np.bool_).reshape(len(rules), len(calls.outcomes) + 1, 2)
    isolation, reachable = (told[rule_of, calls.outcome, n] for n in (0, 1))
    duration, longest = (np.zeros(len(latency), dtype=np.int64) for _ in range(2))
    slow = np.array([least_slow_ms(profile) for profile, _ in rules], dtype=np.int64)
    striking = np.flatnonzero(isolation | (latency >= slow[rule_of] - tolerance_ms))
    for rule in np.unique(rule_of[striking]).tolist():
        own = striking[rule_of[striking] == rule]
        seen, more = (
            compute_not_available_duration(latency[own] + ms, isolation[own], rules[rule][0])
            for ms in (0, tolerance_ms)
        )
        duration[own], longest[own] = seen, np.maximum(seen, more)
    if np.array_equal(duration, longest):
        longest = duration
    return Judged(latency, isolation, reachable, duration, longest)


def least_slow_ms(profile: FaultProfile) -> int:
    """The least latency, ms, for which the ladder holds a broker back; what is quicker is not looked up on it."""
    rungs = zip(profile.latency_max_ms, profile.not_available_ms, strict=False)
    return min((lowest for lowest, held in rungs if held > 0), default=np.iinfo(np.int64).max)


class FaultUpdate(NamedTuple):
    """Arguments of one updateFaultItem; reachable is always true in releases before 5.1.4, which know none."""

    isolation: bool
    reachable: bool


_NO_FAILURE = FaultUpdate(isolation=False, reachable=True)


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
        return _NO_FAILURE
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
        return _NO_FAILURE
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
