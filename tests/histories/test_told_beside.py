"""What logs and brokers' settings add to findings: causes of a lag, who set an offset, subscriptions that flip."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hindsight.jobs.drift.drift_cut import LOGGED_SCHEMA
from hindsight.udfs.drift.finding import Finding, clock
from hindsight.udfs.drift.group_history import GroupHistory
from hindsight.udfs.drift.told_beside import BESIDE_MS, CHANGED, Beside, Setting
from tests.default_timing import default_timing
from tests.histories.test_backlogs import at, codes, holding, incidents, keeps_up, stands, walk
from tests.histories.test_incident_fixtures import world


def line(second, kind, **columns):
    return {"at": at(second), "kind": kind, "source_file": "client_log/cluster=c/a.log", "source_line": 7, **columns}


def beside(*lines, settings=()):
    schema = pa.schema([*LOGGED_SCHEMA, ("at", pa.int64())])
    return Beside(pa.Table.from_pylist(sorted(lines, key=lambda one: one["at"]), schema=schema), settings)


def history(told):
    return GroupHistory(("c", "", "g"), default_timing(), beside=told)


def found(rounds, code):
    return [j.finding for one in rounds for j in one.judged if j.finding.code == code]


def test_a_lag_names_what_its_clients_logged():
    flows = [
        line(s, "flow_control", topic="T", detail="the cached message count exceeds the threshold 1000")
        for s in (300, 330)
    ]
    refused = [line(310, "pull_failed", topic="T", response_code=25)]
    others = [line(320, "flow_control", topic="U", detail="of another topic"), line(10_000, "pull_failed", topic="T")]
    _, rounds = walk([(11, keeps_up, holding), (20, stands, holding)], history(beside(*flows, *refused, *others)))
    last = found(rounds, "CONSUMES_NOTHING")[-1]
    assert (
        "2 times pulls put off by flow control (the cached message count exceeds the threshold 1000)" in last.sentence
    )
    assert "1 times pulls failed (code 25, the subscription is not the newest)" in last.sentence
    assert "another topic" not in last.sentence and "client_log/cluster=c/a.log:7" in last.evidence
    assert found(rounds, "CONSUMES_NOTHING")[0].sentence.count("flow control") == 0  # it was not logged by then


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            line(95, "offset_reset", topic="T", detail="timestamp=1", broker_address="10.1.0.11:10911"),
            "an operator's command reset the offsets of T (timestamp=1), sent by 10.1.0.11:10911",
        ),
        (
            line(95, "offset_illegal", topic="T", offset=9, new_offset=5, min_offset=0, max_offset=5),
            "the broker did not have 9, but 0 to 5: the client goes on at 5",
        ),
        (line(95, "offset_fixed", topic="T", broker_name="broker-x", queue_id=3, new_offset=5), None),  # another queue
        (line(95 - BESIDE_MS // 1000 - 30, "offset_fixed", topic="T", new_offset=5), None),  # long before
    ],
)
def test_an_offset_that_went_back_names_who_set_it(told, said):
    finding = Finding("OFFSET_REWOUND", "HIGH", "it went back.", topic="T", queue=("broker-a", 1), since=at(100))
    joined = beside(told).joined(finding, at(160))
    assert (said in joined.sentence) if said else joined == finding


def flip(broker="broker-a", topic="T", at_s=100, old="TagA", new="TagB", **columns):
    return line(at_s, CHANGED, topic=topic, broker_name=broker, old_sub_string=old, sub_string=new, **columns)


def back_and_forth(*seconds, **columns):
    turns = [("TagA", "TagB"), ("TagB", "TagA")]
    return [
        flip(at_s=s, old=turns[n % 2][0], new=turns[n % 2][1], **columns) | {"source_line": s}
        for n, s in enumerate(seconds)
    ]


def test_a_subscription_that_flips_at_a_broker_is_found_though_captures_repeat_themselves():
    told = beside(*back_and_forth(300, 330, 360))
    made, rounds = walk([(60, keeps_up, holding)], history(told))
    first = found(rounds, "SUBSCRIPTION_INCONSISTENT")[0]
    assert (first.topic, first.kind, first.difference) == ("T", "TAG_DIFF", "TagA and TagB")
    assert incidents(made)["SUBSCRIPTION_INCONSISTENT"].severity == "HIGH"
    assert "SUBSCRIPTION_INCONSISTENT" not in codes(
        walk([(60, keeps_up, holding)], history(beside(*back_and_forth(300))))[1]
    )
    # Ten minutes after the last flip members tell that they agree.
    assert incidents(walk([(70, keeps_up, holding)], made, 900)[0])["SUBSCRIPTION_INCONSISTENT"].state == "RESOLVED"


def test_of_lists_alone_a_flip_is_found_too_and_ends_when_it_is_long_over():
    def listed(now):
        return world(now, reads=[])

    made, rounds = walk([(60, keeps_up, listed)], history(beside(*back_and_forth(300, 330, 360))))
    assert "SUBSCRIPTION_INCONSISTENT" in codes(rounds)
    assert incidents(walk([(80, keeps_up, listed)], made, 900)[0])["SUBSCRIPTION_INCONSISTENT"].state == "RESOLVED"


def test_a_group_that_may_not_consume_at_a_broker_says_so_as_root_cause():
    settings = [Setting(at(s), "broker-a", not 150 <= s < 600, "admin.jsonl:9") for s in range(0, 1200, 15)]
    settings += [Setting(at(s), "broker-b", True, "admin.jsonl:8") for s in range(0, 1200, 15)]
    told = beside(settings=settings)
    made, rounds = walk([(11, keeps_up, holding), (20, stands, holding)], history(told))
    named = found(rounds, "CONSUME_DISABLED")[-1]
    assert named.kind == "broker-a" and named.severity == "HIGH" and "admin.jsonl:9" in named.evidence
    assert "consumeEnable of the group is false at broker-a: g cannot consume there" in named.sentence
    incident = incidents(made)["CONSUME_DISABLED"]
    assert incident.cause.key == "broker-a" and "CONSUMES_NOTHING" in {a.code for a in incident.attached.values()}
    after = walk([(40, lambda s: (9000 + s, 9000 + s), holding)], made, 600)[0]
    assert incidents(after)["CONSUME_DISABLED"].state == "RESOLVED"


def test_a_flip_says_what_flipped_how_often_since_when_and_where():
    [one] = beside(*back_and_forth(100, 110, 120, 130)).flips(at(140))
    assert (one.topic, one.broker_name, one.expressions, one.changes) == ("T", "broker-a", ("TagA", "TagB"), 4)
    assert one.since == at(100)
    assert one.evidence == tuple(f"client_log/cluster=c/a.log:{number}" for number in (110, 120, 130))


@pytest.mark.parametrize(
    ("lines", "second", "flips"),
    [
        (back_and_forth(100, 110, 120), 119, 0),  # the third comes later
        (back_and_forth(100, 110, 120), 120, 1),
        (back_and_forth(100, 110, 120), 100 + BESIDE_MS // 1000, 1),
        (back_and_forth(100, 110, 120), 101 + BESIDE_MS // 1000, 0),
        ([flip(at_s=100), flip(at_s=110, old="TagB", new="TagC"), flip(at_s=120, old="TagC", new="TagD")], 130, 0),
        ([*back_and_forth(100, 110), *back_and_forth(120, broker="broker-b")], 130, 0),
        ([*back_and_forth(100, 110), *back_and_forth(120, topic="U")], 130, 0),
        # The same tags in another order are the same subscription.
        ([flip(at_s=s, old="TagA || TagB", new="TagB||TagA") for s in (100, 110, 120)], 130, 0),
    ],
)
def test_a_subscription_flips_where_it_comes_back_at_one_broker_within_ten_minutes(lines, second, flips):
    told = beside(*lines)
    assert len(told.flips(at(second))) == flips
    assert told.speaks(at(second)) == ({"SUBSCRIPTION_INCONSISTENT"} if flips else set())


@pytest.mark.parametrize(
    ("second", "held"),
    [(99, {}), (100, {"broker-a": "admin.jsonl:9"}), (109, {"broker-a": "admin.jsonl:9"}), (110, {}), (130, {})],
)
def test_a_broker_holds_a_group_back_by_what_it_told_last(second, held):
    settings = [
        Setting(at(110), "broker-a", True, "admin.jsonl:10"),
        Setting(at(100), "broker-a", False, "admin.jsonl:9"),
    ]
    settings += [Setting(at(90), "broker-b", True, "admin.jsonl:8")]
    told = beside(settings=settings)
    assert told.held_back(at(second)) == held
    assert told.speaks(at(second)) == ({"CONSUME_DISABLED"} if held else set())


@pytest.mark.parametrize(("second", "is_held"), [(100 + BESIDE_MS // 1000, True), (101 + BESIDE_MS // 1000, False)])
def test_a_setting_counts_for_ten_minutes(second, is_held):
    told = beside(settings=[Setting(at(100), "broker-a", False, "admin.jsonl:9")])
    assert bool(told.held_back(at(second))) == bool(told.speaks(at(second))) == is_held


LAGS = Finding("QUEUE_LAGS_ALONE", "HIGH", "it lags.", topic="T", queue=("broker-a", 1), evidence=("own",))
WENT = LAGS._replace(code="OFFSET_REWOUND", sentence="it went back.", since=at(100))


@pytest.mark.parametrize(
    ("finding", "told", "counts"),
    [
        (LAGS, line(100, "pull_failed", topic="T", broker_name="broker-a", queue_id=1), True),
        (LAGS, line(100, "pull_failed", topic="T", broker_name="broker-b", queue_id=1), False),
        (LAGS, line(100, "pull_failed", topic="T", broker_name="broker-a", queue_id=2), False),
        (LAGS, line(700, "pull_failed"), True),  # of the round's own instant
        (LAGS, line(99, "pull_failed"), False),  # ten minutes before it, and one second
        (LAGS, line(100, "offset_fixed", new_offset=5), False),  # who set an offset is not why messages wait
        (LAGS._replace(since=at(50)), line(60, "pull_failed"), False),  # it has lagged long: only of late
        (WENT, line(100, "pull_failed"), False),
        (WENT, line(60, "offset_fixed", new_offset=5), True),  # before it was seen to go back
        (WENT._replace(code="END_WENT_BACK"), line(60, "offset_fixed", new_offset=5), True),
        (WENT._replace(since=None), line(60, "offset_fixed", new_offset=5), False),
        (LAGS._replace(code="ORPHAN_QUEUE"), line(100, "pull_failed"), False),
        (LAGS._replace(code="FALLS_BEHIND"), line(100, "consumer_suspended"), True),
    ],
)
def test_a_line_is_told_with_a_finding_that_it_bears_on(finding, told, counts):
    joined = beside(told).joined(finding, at(700))
    assert (joined != finding) == counts
    if counts:
        assert joined.evidence == (*finding.evidence, "client_log/cluster=c/a.log:7")
        assert joined.sentence.startswith(f"{finding.sentence} Its clients' logs: ")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"response_code": 16}, "pulls failed (code 16, no permission)"),
        ({"response_code": 24}, "pulls failed (code 24, the broker does not know the subscription)"),
        ({"response_code": 1, "exception": "a.b.C"}, "pulls failed (code 1)"),
        ({"response_code": 0}, "pulls failed (code 0)"),
        ({"exception": "org.apache.rocketmq.remoting.exception.RemotingTimeoutException"}, "pulls failed (RemotingTim"),
        ({"detail": "no route"}, "pulls failed (no route)"),
        ({}, "pulls failed, the last at"),
    ],
)
def test_why_a_pull_failed_is_said_by_code_exception_or_words(columns, said):
    assert f"1 times {said}" in beside(line(650, "pull_failed", **columns)).joined(LAGS, at(700)).sentence


def test_the_three_most_frequent_reasons_are_told_each_with_its_last_instant_and_last_lines():
    kinds = [(620, "pull_failed"), *((630 + n, "consume_failed") for n in range(4)), (640, "pull_suspended")]
    kinds += [(650, "flow_control"), (651, "flow_control"), (652, "pull_suspended"), (653, "flow_control")]
    joined = beside(*(line(s, kind) | {"source_line": s} for s, kind in kinds)).joined(LAGS, at(700))
    counts = ["4 times the listener failed", "3 times pulls put off by flow control", "2 times pulls suspended"]
    assert [part.split(", the last at ")[0] for part in joined.sentence.split("logs: ")[1].split("; ")] == counts
    assert f"the listener failed, the last at {clock(at(633))}" in joined.sentence
    assert [int(place.rpartition(":")[2]) for place in joined.evidence[1:]] == [
        *(650, 651, 653, 640, 652, 620, 631, 632, 633),  # by kind; of one that came four times the last three
    ]


def test_who_set_an_offset_is_told_last_first():
    lines = [line(90, "offset_went_back", offset=9, new_offset=4), line(95, "offset_fixed", new_offset=5)]
    assert beside(*lines).joined(WENT, at(700)).sentence == (
        f"it went back. Its clients' logs: the client stored 5, at {clock(at(95))}; "
        f"a pull's answer went back from 9 to 4, at {clock(at(90))}."
    )
