"""What is counted of attempts by the minute, where a record says what no table of counts should break on."""

from __future__ import annotations

from datetime import UTC, date, datetime

from jobs.transforms.fleet_minutes import minute_counts

AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
ATTEMPTS = (
    "cluster string, producer_group string, client_id string, started_at timestamp, life_at timestamp, "
    "event_date date, topic string, broker_name string, begin_at timestamp, outcome string, attempt int, "
    "queue_selected_by string, latency_ms long, queue_id int"
)


def test_the_highest_queue_id_that_java_has_is_counted(spark):
    attempt = ("c", "g", "p", AT, AT, date(2026, 11, 21), "T", "a", AT, "SEND_OK", 0, "client", 5, 2**31 - 1)
    (row,) = minute_counts(spark.createDataFrame([attempt], ATTEMPTS), slow_ms=500).collect()
    assert (row.attempts, row.queues) == (1, 2**31)
