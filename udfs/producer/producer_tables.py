"""The tables that the producer fold gives, as Arrow schemas.

Each has the contract's columns but for its lineage. Windows carry two more, which the findings need: ``opened_at``,
when the whole stretch opened, and ``last_attempt_at`` of the process.
"""

from __future__ import annotations

import pyarrow as pa

INSTANT = pa.timestamp("us", "UTC")
LONGS, STRINGS = pa.list_(pa.int64()), pa.list_(pa.string())
WHO = [
    ("cluster", pa.string()),
    ("event_date", pa.date32()),
    ("producer_group", pa.string()),
    ("client_id", pa.string()),
    ("started_at", INSTANT),
]
RECORDED = pa.struct(
    [
        ("client_version", pa.string()),
        ("latency_fault_enabled", pa.bool_()),
        ("detector_enabled", pa.bool_()),
        ("latency_max_ms", LONGS),
        ("not_available_ms", LONGS),
        ("retry_times_sync", pa.int32()),
        ("retry_times_async", pa.int32()),
        ("retry_another_broker", pa.bool_()),
        ("send_timeout_ms", pa.int64()),
    ]
)
UNSEEN = pa.list_(pa.struct([("since", INSTANT), ("until", INSTANT), ("reason", pa.string())]))
REPLAY = pa.schema(
    [
        *WHO,
        ("client_version", pa.string()),
        ("profile", pa.string()),
        ("latency_fault_enabled", pa.bool_()),
        ("detector_enabled", pa.bool_()),
        ("recorded", RECORDED),
        ("latency_max_ms", LONGS),
        ("not_available_ms", LONGS),
        ("verdict", pa.string()),
        ("reasons", STRINGS),
        ("certainty", pa.string()),
        ("reason", pa.string()),
        ("unseen", UNSEEN),
        ("attempts", pa.int64()),
        ("sources", STRINGS),
        ("last_attempt_at", INSTANT),
    ]
)
WINDOW = pa.schema(
    [
        *WHO,
        ("broker_name", pa.string()),
        ("state", pa.string()),
        ("window_start", INSTANT),
        ("window_end", INSTANT),
        ("end_reason", pa.string()),
        ("continues_previous", pa.bool_()),
        ("trigger_kind", pa.string()),
        ("trigger_latency_ms", pa.int64()),
        ("not_available_ms", pa.int64()),
        ("attempts", pa.int64()),
        ("profile", pa.string()),
        ("certainty", pa.string()),
        ("reason", pa.string()),
        ("opened_at", INSTANT),
        ("last_attempt_at", INSTANT),
    ]
)
ITEM_STATE = pa.schema(
    [
        *WHO,
        ("broker_name", pa.string()),
        ("current_latency_ms", pa.int64()),
        ("start_at", INSTANT),
        ("start_at_most", INSTANT),
        ("reachable", pa.bool_()),
        ("last_update_at", INSTANT),
        ("opened_at", INSTANT),
        ("trigger_kind", pa.string()),
        ("trigger_latency_ms", pa.int64()),
        ("not_available_ms", pa.int64()),
        ("unreachable_since", INSTANT),
        ("unreachable_latency_ms", pa.int64()),
        ("forgotten_at", INSTANT),
        ("profile", pa.string()),
    ]
)
OF_ATTEMPT = ("topic", "thread", "msg_id", "mode", "attempt", "broker_name", "queue_id", "begin_at", "last_broker_name")
VERDICT = pa.schema(
    [
        *WHO,
        *((name, pa.int32() if name in ("attempt", "queue_id") else pa.string()) for name in OF_ATTEMPT[:7]),
        ("begin_at", INSTANT),
        ("last_broker_name", pa.string()),
        ("choice_assumed", pa.bool_()),
        ("admissible", STRINGS),
        ("rule", pa.string()),
        ("verdict", pa.string()),
        ("reason", pa.string()),
        ("profile", pa.string()),
    ]
)
ATTEMPT_OF_CALL = pa.struct(
    [
        ("begin_at", INSTANT),
        ("end_at", INSTANT),
        ("broker_name", pa.string()),
        ("queue_id", pa.int32()),
        ("outcome", pa.string()),
        ("exception", pa.string()),
        ("response_code", pa.int32()),
        ("latency_ms", pa.int64()),
    ]
)
SEND_CALL = pa.schema(
    [
        *WHO,
        ("topic", pa.string()),
        ("msg_id", pa.string()),
        ("mode", pa.string()),
        ("begin_at", INSTANT),
        ("end_at", INSTANT),
        ("attempts", pa.list_(ATTEMPT_OF_CALL)),
        ("brokers_sent", STRINGS),
        ("timeout_ms", pa.int64()),
        ("cost_ms", pa.int64()),
        ("used_up_by", pa.int32()),
        ("result", pa.string()),
        ("result_text", pa.string()),
        ("retry_verdict", pa.string()),
        ("retry_reason", pa.string()),
        ("stored_twice", pa.string()),
        ("stored_twice_reasons", STRINGS),
        ("assumed", STRINGS),
        ("profile", pa.string()),
    ]
)
