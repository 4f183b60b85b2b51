"""What a doubtful choice's row says beside the verdict of the kernel."""

from udfs.choice_rows import ChoiceJudge


def judged(enabled):
    """4.7.1 goes to a again, which just failed, with b to choose beside it."""
    unused = {"item": None, "near": None, "used_before_ms": 0, "used_after_ms": None, "on_date": True}
    return ChoiceJudge(tolerance_ms=3).verdict(
        {
            "profile": "P43",
            "latency_max_ms": None,
            "not_available_ms": None,
            "latency_fault_enabled": enabled,
            "detector_enabled": False,
            "event_date": None,
            "begin_ms": 1000,
            "routes": None,
            "msg_id": "m",
            "broker_name": "a",
            "last_broker_name": "a",
            "thread": "t",
            "attempt": 1,
            "brokers": [{"known_broker": "a", **unused}, {"known_broker": "b", **unused, "used_after_ms": 2000}],
        }
    )


def test_what_only_a_client_without_the_switch_could_not_choose_is_not_called_impossible_where_it_is_not_recorded():
    assert judged(False)["verdict"] == "impossible"
    told = judged(None)
    assert (told["verdict"], told["admissible"], told["rule"], told["removals"]) == ("unknown", None, None, [])
    assert told["reason"] == "latency_fault_enabled is not recorded: with the switch off the choice would be impossible"
