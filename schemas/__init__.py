"""The contracts of all tables, by name."""

from hindsight.schemas.allocation import CLIENT_STRATEGY_STATE, EXPECTED_ALLOCATION, GROUP_ROUND
from hindsight.schemas.assignments import BROKER_ASSIGNMENT
from hindsight.schemas.availability import BROKER_AVAILABILITY_WINDOW, FAULT_ITEM_STATE, PRODUCER_REPLAY, SEND_VERDICT
from hindsight.schemas.bookkeeping import INGESTED_FILE, PUBLICATION, QUALITY_RESULT, QUARANTINE
from hindsight.schemas.collection import COLLECTION_ROUND, PRODUCER_CONNECTION, SNAPSHOT_CAPTURE, TOPIC_ROUTE
from hindsight.schemas.confirmations import WINDOW_CONFIRMATION
from hindsight.schemas.consumers import (
    CONSUMER_HEARTBEAT,
    POP_ASSIGNMENT,
    QUEUE_OWNERSHIP,
    QUEUE_PROGRESS,
    REBALANCE_RESULT,
)
from hindsight.schemas.drift import ALLOCATION_DRIFT
from hindsight.schemas.events import CLIENT_EVENT, CLIENT_HEARTBEAT, MEMBERSHIP_EVENT
from hindsight.schemas.findings import FLEET_MINUTE, PRODUCER_FINDING
from hindsight.schemas.incident_events import INCIDENT_EVENT
from hindsight.schemas.incidents import DRIFT_INCIDENT, GROUP_DRIFT_STATE, MEMBERSHIP_CHANGE
from hindsight.schemas.rebalances import REBALANCE_EVENT, REBALANCE_STATE
from hindsight.schemas.releases import PRODUCER_RELEASE
from hindsight.schemas.send_calls import SEND_CALL
from hindsight.schemas.sends import LOST_LINES, MESSAGE_TRACE, PRODUCER_INSTANCE, SEND_ATTEMPT
from hindsight.schemas.settings_of_brokers import (
    MESSAGE_REQUEST_MODE,
    SCHEDULE_PROGRESS,
    SUBSCRIPTION_GROUP,
    TOPIC_CONFIG,
    TOPIC_STATUS,
)
from hindsight.schemas.table_contract import Part, Table, column

# Raised when a contract changes; a publication records it.
SCHEMA_VERSION = 4

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        INGESTED_FILE,
        SEND_ATTEMPT,
        PRODUCER_INSTANCE,
        LOST_LINES,
        MESSAGE_TRACE,
        COLLECTION_ROUND,
        SNAPSHOT_CAPTURE,
        CONSUMER_HEARTBEAT,
        QUEUE_OWNERSHIP,
        POP_ASSIGNMENT,
        QUEUE_PROGRESS,
        TOPIC_ROUTE,
        PRODUCER_CONNECTION,
        TOPIC_STATUS,
        TOPIC_CONFIG,
        SUBSCRIPTION_GROUP,
        MESSAGE_REQUEST_MODE,
        SCHEDULE_PROGRESS,
        REBALANCE_RESULT,
        CLIENT_EVENT,
        CLIENT_HEARTBEAT,
        MEMBERSHIP_EVENT,
        QUARANTINE,
        BROKER_AVAILABILITY_WINDOW,
        FAULT_ITEM_STATE,
        PRODUCER_REPLAY,
        SEND_VERDICT,
        SEND_CALL,
        PRODUCER_RELEASE,
        WINDOW_CONFIRMATION,
        FLEET_MINUTE,
        PRODUCER_FINDING,
        GROUP_ROUND,
        EXPECTED_ALLOCATION,
        BROKER_ASSIGNMENT,
        ALLOCATION_DRIFT,
        DRIFT_INCIDENT,
        INCIDENT_EVENT,
        MEMBERSHIP_CHANGE,
        REBALANCE_EVENT,
        GROUP_DRIFT_STATE,
        CLIENT_STRATEGY_STATE,
        REBALANCE_STATE,
        QUALITY_RESULT,
        PUBLICATION,
    )
}

__all__ = [
    "ALLOCATION_DRIFT",
    "BROKER_ASSIGNMENT",
    "BROKER_AVAILABILITY_WINDOW",
    "CLIENT_EVENT",
    "CLIENT_HEARTBEAT",
    "CLIENT_STRATEGY_STATE",
    "COLLECTION_ROUND",
    "CONSUMER_HEARTBEAT",
    "DRIFT_INCIDENT",
    "EXPECTED_ALLOCATION",
    "FAULT_ITEM_STATE",
    "FLEET_MINUTE",
    "GROUP_DRIFT_STATE",
    "GROUP_ROUND",
    "INCIDENT_EVENT",
    "INGESTED_FILE",
    "LOST_LINES",
    "MEMBERSHIP_CHANGE",
    "MEMBERSHIP_EVENT",
    "MESSAGE_REQUEST_MODE",
    "MESSAGE_TRACE",
    "POP_ASSIGNMENT",
    "PRODUCER_CONNECTION",
    "PRODUCER_FINDING",
    "PRODUCER_INSTANCE",
    "PRODUCER_RELEASE",
    "PRODUCER_REPLAY",
    "PUBLICATION",
    "QUALITY_RESULT",
    "QUARANTINE",
    "QUEUE_OWNERSHIP",
    "QUEUE_PROGRESS",
    "REBALANCE_EVENT",
    "REBALANCE_RESULT",
    "REBALANCE_STATE",
    "SCHEDULE_PROGRESS",
    "SCHEMA_VERSION",
    "SEND_ATTEMPT",
    "SEND_CALL",
    "SEND_VERDICT",
    "SNAPSHOT_CAPTURE",
    "SUBSCRIPTION_GROUP",
    "TABLES",
    "TOPIC_CONFIG",
    "TOPIC_ROUTE",
    "TOPIC_STATUS",
    "WINDOW_CONFIRMATION",
    "Part",
    "Table",
    "column",
]
