"""The contracts of all tables, each made of its text in ``schemas/tables``."""

from __future__ import annotations

from dataclasses import replace

from hindsight.schemas.table_contract import Part, table_of
from hindsight.schemas.table_contract import Table as Table

# Raised when a contract changes; a publication records it.
SCHEMA_VERSION = 4

INGESTED_FILE = table_of("ingested_file")
_SUBMIT = ("submit_end_at", "submit_file", "submit_line")
_CALLBACK = ("callback_end_at", "callback_outcome", "callback_file", "callback_line")
SEND_ATTEMPT = table_of("send_attempt")
SEND_ATTEMPT = replace(
    SEND_ATTEMPT,
    parts=(
        # The phases' alphabetical order is their rank: a callback's result wins over a submit's.
        Part(
            tuple(n for n in SEND_ATTEMPT.schema.names if n not in (*SEND_ATTEMPT.key, *_SUBMIT, *_CALLBACK)),
            ("phase", "source_file", "source_line"),
        ),
        Part(_SUBMIT, ("submit_file", "submit_line"), ("submit_file", "submit_line")),
        Part(
            _CALLBACK,
            ("callback_outcome IS NULL", "callback_file", "callback_line"),
            ("callback_file", "callback_line"),
        ),
    ),
)
PRODUCER_INSTANCE = table_of("producer_instance")
LOST_LINES = table_of("lost_lines")
MESSAGE_TRACE = table_of("message_trace")
CONSUMER_RECORDING = table_of("consumer_recording")
COLLECTION_ROUND = table_of("collection_round")
SNAPSHOT_CAPTURE = table_of("snapshot_capture")
CONSUMER_HEARTBEAT = table_of("consumer_heartbeat")
QUEUE_OWNERSHIP = table_of("queue_ownership")
POP_ASSIGNMENT = table_of("pop_assignment")
QUEUE_PROGRESS = table_of("queue_progress")
TOPIC_ROUTE = table_of("topic_route")
PRODUCER_CONNECTION = table_of("producer_connection")
TOPIC_STATUS = table_of("topic_status")
TOPIC_CONFIG = table_of("topic_config")
SUBSCRIPTION_GROUP = table_of("subscription_group")
MESSAGE_REQUEST_MODE = table_of("message_request_mode")
SCHEDULE_PROGRESS = table_of("schedule_progress")
BROKER_STATUS = table_of("broker_status")
REBALANCE_RESULT = table_of("rebalance_result")
CLIENT_EVENT = table_of("client_event")
CLIENT_HEARTBEAT = table_of("client_heartbeat")
MEMBERSHIP_EVENT = table_of("membership_event")
QUARANTINE = table_of("quarantine")
BROKER_AVAILABILITY_WINDOW = table_of("broker_availability_window")
FAULT_ITEM_STATE = table_of("fault_item_state")
PRODUCER_REPLAY = table_of("producer_replay")
SEND_VERDICT = table_of("send_verdict")
SEND_CALL = table_of("send_call")
PRODUCER_RELEASE = table_of("producer_release")
WINDOW_CONFIRMATION = table_of("window_confirmation")
FLEET_MINUTE = table_of("fleet_minute")
PRODUCER_FINDING = table_of("producer_finding")
GROUP_ROUND = table_of("group_round")
EXPECTED_ALLOCATION = table_of("expected_allocation")
BROKER_ASSIGNMENT = table_of("broker_assignment")
ALLOCATION_DRIFT = table_of("allocation_drift")
DRIFT_INCIDENT = table_of("drift_incident")
INCIDENT_EVENT = table_of("incident_event")
MEMBERSHIP_CHANGE = table_of("membership_change")
REBALANCE_EVENT = table_of("rebalance_event")
GROUP_DRIFT_STATE = table_of("group_drift_state")
CLIENT_STRATEGY_STATE = table_of("client_strategy_state")
REBALANCE_STATE = table_of("rebalance_state")
QUALITY_RESULT = table_of("quality_result")
PUBLICATION = table_of("publication")

TABLES: dict[str, Table] = {table.name: table for table in tuple(globals().values()) if isinstance(table, Table)}
INVARIANTS = {table.name: table.rules for table in TABLES.values() if table.rules}
SEVERITIES = ALLOCATION_DRIFT.known("severity")
