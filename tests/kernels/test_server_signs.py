"""What each question says of the server that was asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from hindsight.schemas import SNAPSHOT_CAPTURE, TOPIC_ROUTE
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.servers.server_fold import signs_of, signs_of_routes

AT = datetime(2026, 11, 21, 10, tzinfo=UTC)
_REMOTING = "org.apache.rocketmq.remoting.exception."
DEAD = f"CODE: 1  DESC: invoke consumer <g> <c> Exception: {_REMOTING}RemotingSendRequestException: send failed"
IDLE = {"answered": False, "error": None, "error_code": None, "consumer_group": "g", "collector": "", "round_at": AT}


def capture(error=None, second=0, **columns):
    own = {"kind": "consumeStats", "broker_name": "broker-a", "answered": error is None, "error": error}
    lines = {"captured_at": AT + timedelta(seconds=second), "source_file": "a.jsonl", "source_line": 5 + second}
    return IDLE | own | lines | columns


def signs(*captures):
    return signs_of(pa.Table.from_pylist(list(captures), arrow_schema(SNAPSHOT_CAPTURE))).to_pylist()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (capture(), "answered"),
        (capture("CODE: 206  DESC: not online", error_code=206), "answered"),  # a refusal is an answer
        (capture("answer not readable: not JSON"), "answered"),
        (capture(f"{_REMOTING}RemotingCommandException: decode failed"), "answered"),
        (capture(f"{_REMOTING}RemotingConnectException: connect to <b> failed"), "unreached"),
        (capture(f"{_REMOTING}RemotingConnectException: connect to <b> failed: Connection refused"), "refuses"),
        (capture(f"{_REMOTING}RemotingSendRequestException: send request to <b> failed"), "unreached"),
        (capture(f"{_REMOTING}RemotingTimeoutException: wait response timeout"), "silent"),
        (capture("no connection in time"), "silent"),
        (capture("not asked: it did not answer before, RemotingTimeoutException"), None),
        (capture("something else"), None),
        (capture(kind="notAsked"), None),
        (capture(broker_name=None), None),  # nobody is named that was asked
        (capture(kind="consumerRunningInfo"), "answered"),
        (capture(f"{_REMOTING}RemotingTimeoutException: timeout", kind="consumerRunningInfo"), None),
        (capture(DEAD, kind="consumerRunningInfo", error_code=1), "dead channel"),
        (capture(DEAD, error_code=1), "answered"),  # such words in another question's error are no channel's
    ],
)
def test_an_answer_says_that_a_server_is_there_and_an_error_how_it_is_lost(asked, said):
    found = signs(asked)
    assert [(one["broker_name"], one["name_server"], one["said"]) for one in found] == (
        [("broker-a", None, said)] if said else []
    )
    assert [one["consumer_group"] for one in found] == (["g" if said == "dead channel" else None] if said else [])


def test_a_route_that_came_counts_for_its_name_server_and_for_the_sweep():
    route = {"kind": "topicRoute", "broker_name": None, "name_server": "ns:9876"}
    stats = capture(name_server="ns:9876", broker_name=None)
    lost = capture(f"{_REMOTING}RemotingTimeoutException: timeout", **route)
    assert [(one["name_server"], one["said"], one["count"]) for one in signs(capture(**route), stats, lost)] == [
        ("ns:9876", "answered", 2),
        ("ns:9876", "silent", 1),
        (None, "routes read", 1),
    ]


def test_questions_of_one_kind_are_counted_with_the_first_and_last_instant_and_one_line():
    [one] = signs(capture(second=3), capture(second=1), capture(second=2))
    first = int(AT.timestamp() * 1_000_000)
    assert (one["count"], one["first_us"] - first, one["last_us"] - first) == (3, 1_000_000, 3_000_000)
    assert (one["evidence"], one["round_us"]) == ("a.jsonl:6", first)


@pytest.mark.parametrize(
    ("perm", "said"), [(6, "writable"), (2, "writable"), (4, "read only"), (0, "read only"), (5, "read only")]
)
def test_a_route_says_whether_a_broker_may_be_written_to(perm, said):
    lines = {"captured_at": AT, "round_at": AT, "source_file": "a.jsonl", "source_line": 5}
    row = {"collector": "", "topic": "T", "broker_name": "broker-a", "perm": perm, "name_server": "ns:9876", **lines}
    [one] = signs_of_routes(pa.Table.from_pylist([row], arrow_schema(TOPIC_ROUTE))).to_pylist()
    assert (one["broker_name"], one["name_server"], one["said"]) == ("broker-a", None, said)
