"""Whether a recorded route lists a broker: by its counts, or by its orderTopicConf."""

import pytest

from udfs.choice_readings import BrokerRecord, RouteEntry, route_readings
from udfs.order_topic_conf import ordered_queues
from udfs.release_profiles import PROFILES
from udfs.send_verdicts import Choice

P533 = PROFILES["P533"]


@pytest.mark.parametrize(
    ("text", "queues"),
    [
        ("a:4", {"a": 4}),
        ("b:2;a:4", {"b": 2, "a": 4}),
        ("a:4;", {"a": 4}),  # Java's split drops what is empty at the end, and there alone
        (";a:4", None),
        (";", {}),
        ("a:0;b:-1", {"a": 0, "b": 0}),
        ("a:1;a:2", {"a": 3}),
        ("a:4:9", {"a": 4}),
        ("a:2147483647;b:00000000001", {"a": 2147483647, "b": 1}),
        ("a:2147483648", None),
        ("a", None),
        ("a:", None),
        ("a: 4", None),
        ("a:four", None),
    ],
)
def test_order_topic_conf_is_read_as_the_client_reads_it(text, queues):
    assert ordered_queues(text) == queues


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
