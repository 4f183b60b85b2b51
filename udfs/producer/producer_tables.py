"""The tables that the producer fold gives, as Arrow schemas: the contracts' columns but for those of the run.

Windows carry two more, which the findings need: ``opened_at``, when the whole stretch opened, and ``last_attempt_at``
of the process.
"""

from __future__ import annotations

import pyarrow as pa

from hindsight.schemas import TABLES
from hindsight.schemas.arrow_types import kernel_schema

INSTANT = pa.timestamp("us", "UTC")
REPLAY = kernel_schema(TABLES["producer_replay"])
WINDOW = kernel_schema(TABLES["broker_availability_window"], opened_at=INSTANT, last_attempt_at=INSTANT)
ITEM_STATE = kernel_schema(TABLES["fault_item_state"])
VERDICT = kernel_schema(TABLES["send_verdict"])
SEND_CALL = kernel_schema(TABLES["send_call"])
RELEASE = kernel_schema(TABLES["producer_release"])
FINDING = kernel_schema(TABLES["producer_finding"])
FLEET_MINUTE = kernel_schema(TABLES["fleet_minute"])
OF_ATTEMPT = ("topic", "thread", "msg_id", "mode", "attempt", "broker_name", "queue_id", "begin_at", "last_broker_name")
