"""What an attempt's end tells the fault table: one line for each way of ending, before and since 5.1.4."""

import pytest

from hindsight.udfs.producer.attempt_updates import FaultUpdate, fault_update
from hindsight.udfs.release_profiles import PROFILES, FaultProfile

REMOTING = "org.apache.rocketmq.remoting.exception."
CLIENT = "org.apache.rocketmq.client.exception."

BEFORE_5_1_4 = [profile for profile in PROFILES.values() if not profile.has_reachable]
SINCE_5_1_4 = [profile for profile in PROFILES.values() if profile.has_reachable]

HEALTHY = FaultUpdate(isolation=False, reachable=True)
ISOLATED = FaultUpdate(isolation=True, reachable=True)
ISOLATED_AND_UNREACHABLE = FaultUpdate(isolation=True, reachable=False)


def end_of(
    profile: FaultProfile,
    exception: str | None,
    error: str | None = "",
    mode: str = "SYNC",
    phase: str = "result",
    detector_enabled: bool = False,
) -> FaultUpdate | None:
    return fault_update(
        profile, mode=mode, phase=phase, exception=exception, error=error, detector_enabled=detector_enabled
    )


@pytest.mark.parametrize(
    ("exception", "before", "since", "since_with_detector"),
    [
        (None, HEALTHY, HEALTHY, HEALTHY),
        (REMOTING + "RemotingException", ISOLATED, ISOLATED, ISOLATED_AND_UNREACHABLE),
        (REMOTING + "RemotingConnectException", ISOLATED, ISOLATED, ISOLATED_AND_UNREACHABLE),
        (REMOTING + "RemotingSendRequestException", ISOLATED, ISOLATED, ISOLATED_AND_UNREACHABLE),
        (REMOTING + "RemotingTimeoutException", ISOLATED, ISOLATED, ISOLATED_AND_UNREACHABLE),
        (REMOTING + "RemotingTooMuchRequestException", ISOLATED, ISOLATED, ISOLATED_AND_UNREACHABLE),
        (REMOTING + "RemotingCommandException", ISOLATED, ISOLATED, ISOLATED_AND_UNREACHABLE),
        (CLIENT + "MQClientException", ISOLATED, HEALTHY, HEALTHY),
        (CLIENT + "MQBrokerException", ISOLATED, ISOLATED_AND_UNREACHABLE, ISOLATED_AND_UNREACHABLE),
        ("java.lang.InterruptedException", HEALTHY, HEALTHY, HEALTHY),
        ("java.lang.IllegalStateException", None, None, None),
        ("com.example.MQBrokerExceptionOfOurOwn", None, None, None),
    ],
)
def test_an_attempt_that_the_send_call_saw_end(
    exception: str | None,
    before: FaultUpdate | None,
    since: FaultUpdate | None,
    since_with_detector: FaultUpdate | None,
) -> None:
    for mode, phase in (("SYNC", "result"), ("ASYNC", "submit"), ("ONEWAY", "submit")):
        for profile in BEFORE_5_1_4:
            for detector_enabled in (False, True):
                assert end_of(profile, exception, "", mode, phase, detector_enabled) == before
        for profile in SINCE_5_1_4:
            assert end_of(profile, exception, "", mode, phase, False) == since
            assert end_of(profile, exception, "", mode, phase, True) == since_with_detector


def test_simple_class_names_are_read_as_qualified_ones() -> None:
    assert end_of(PROFILES["P533"], "MQBrokerException") == ISOLATED_AND_UNREACHABLE


@pytest.mark.parametrize(
    ("exception", "since"),
    [
        (None, HEALTHY),
        (CLIENT + "MQClientException", ISOLATED),  # "wait response timeout", "send request failed", wrapped
        (CLIENT + "MQBrokerException", ISOLATED),  # the broker's answer, not wrapped
        (REMOTING + "RemotingCommandException", ISOLATED),  # an answer that cannot be decoded
        (REMOTING + "RemotingConnectException", ISOLATED_AND_UNREACHABLE),  # thrown by invokeAsync
        (REMOTING + "RemotingTooMuchRequestException", ISOLATED_AND_UNREACHABLE),
        ("java.lang.InterruptedException", ISOLATED_AND_UNREACHABLE),
        ("java.lang.NullPointerException", ISOLATED),
    ],
)
def test_a_failed_callback_isolates_whatever_the_class(exception: str | None, since: FaultUpdate) -> None:
    for detector_enabled in (False, True):
        for profile in SINCE_5_1_4:
            assert end_of(profile, exception, None, "ASYNC", "callback", detector_enabled) == since
        for profile in BEFORE_5_1_4:
            before = HEALTHY if exception is None else ISOLATED
            assert end_of(profile, exception, None, "ASYNC", "callback", detector_enabled) == before


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_a_call_timeout_counts_against_a_broker_only_inside_of_an_attempt(profile: FaultProfile) -> None:
    too_much = REMOTING + "RemotingTooMuchRequestException"
    assert end_of(profile, too_much, "sendKernelImpl call timeout") == ISOLATED
    assert end_of(profile, too_much, f"{too_much}: sendKernelImpl call timeout") == ISOLATED
    assert end_of(profile, too_much, "invokeSync call the addr[10.0.0.1:10911] timeout") == ISOLATED
    assert end_of(profile, too_much, "sendDefaultImpl call timeout") is None
    assert end_of(profile, too_much, f"{too_much}: sendDefaultImpl call timeout") is None
    assert end_of(profile, too_much, "call timeout", "ASYNC", "submit") is None
    broker_error = end_of(profile, CLIENT + "MQBrokerException", "CODE: 1  DESC: call timeout")
    assert broker_error is not None
    assert broker_error.isolation


def test_what_an_async_send_throws_before_its_request_is_no_callback_s() -> None:
    """sendKernelImpl throws it, so sendDefaultImpl catches it: only a detector can find the broker again."""
    too_much = REMOTING + "RemotingTooMuchRequestException"
    for error in ("sendKernelImpl call timeout", f"{too_much}: sendKernelImpl call timeout"):
        for profile in PROFILES.values():
            assert end_of(profile, too_much, error, "ASYNC", "callback") == ISOLATED
        for profile in SINCE_5_1_4:
            told = end_of(profile, too_much, error, "ASYNC", "callback", detector_enabled=True)
            assert told == ISOLATED_AND_UNREACHABLE


@pytest.mark.parametrize(
    ("mode", "phase"),
    [("SYNC", "submit"), ("SYNC", "callback"), ("ASYNC", "result"), ("ONEWAY", "callback"), ("sync", "result")],
)
def test_a_phase_that_the_mode_does_not_have_is_refused(mode: str, phase: str) -> None:
    with pytest.raises(ValueError, match=f"mode '{mode}' has no phase '{phase}' .known: SYNC result"):
        end_of(PROFILES["P533"], None, None, mode, phase)
