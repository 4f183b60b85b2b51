"""Whether a recorded route lists a broker: by its counts, or by its orderTopicConf."""

import json
from collections import Counter
from pathlib import Path

import pytest

from hindsight.udfs.clients.client_kinds import ordered_queues
from hindsight.udfs.producer.choice_readings import BrokerRecord, RouteEntry, route_readings
from hindsight.udfs.producer.fleet_fold import writable_brokers
from hindsight.udfs.producer.send_verdicts import Choice
from hindsight.udfs.release_profiles import PROFILES

P533 = PROFILES["P533"]


# What the class itself made of each text, which 4.0.0, 4.9.8, 5.3.1 and 5.4.0 do alike; null: it threw.
CONFS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "golden" / "order_topic_conf.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("case", CONFS, ids=lambda case: case["orderTopicConf"])
def test_order_topic_conf_is_read_as_the_client_reads_it(case):
    queues = ordered_queues(case["orderTopicConf"])
    if case["queues"] is None:
        assert queues is None
    else:
        assert {name: count for name, count in queues.items() if count} == Counter(name for name, _ in case["queues"])


def test_a_broker_has_as_many_queues_as_an_int_can_say():
    assert ordered_queues("a:2147483647;b:0;c:-1") == {"a": 2147483647, "b": 0, "c": 0}


def test_a_text_that_the_client_throws_on_names_no_broker_that_it_keeps():
    counts = {"topic": "T", "broker_name": "a", "perm": 6, "has_master": True, "write_queue_nums": 4}
    kept = {conf: writable_brokers([{**counts, "order_topic_conf": conf}]).get("T") for conf in ("a:4;b:1", "a:4;b")}
    assert kept == {"a:4;b:1": {"a", "b"}, "a:4;b": frozenset()}


@pytest.mark.parametrize(
    ("entry", "listed"),
    [
        (RouteEntry(4, True, True), True),
        (RouteEntry(4, False, True), False),
        (RouteEntry(4, True, False), False),
        (RouteEntry(0, True, True), False),
        (RouteEntry(None, False, False), False),
        (RouteEntry(4, False, False, ordered_queues=1), True),  # no permission and no master is asked for
        (RouteEntry(None, False, False, ordered_queues=1), True),
        (RouteEntry(4, True, True, ordered_queues=0), False),
    ],
)
def test_an_order_topic_conf_counts_instead_of_the_entry(entry, listed):
    (reading,) = route_readings(BrokerRecord("b", None, None, (), None, None, (entry,)), Choice("a", None, 0), P533)
    assert reading.listed is listed
    assert reading.write_queue_nums == entry.write_queue_nums  # what the fallback looks up
