"""The contracts of all tables, by name."""

from schemas.allocation import ALLOCATION_DRIFT, CLIENT_STRATEGY_STATE, EXPECTED_ALLOCATION, GROUP_ROUND
from schemas.availability import BROKER_AVAILABILITY_WINDOW, FAULT_ITEM_STATE, PRODUCER_REPLAY
from schemas.bookkeeping import INGESTED_FILE, PUBLICATION, QUALITY_RESULT, QUARANTINE
from schemas.consumers import (
    COLLECTION_ROUND,
    CONSUMER_HEARTBEAT,
    POP_ASSIGNMENT,
    PRODUCER_CONNECTION,
    QUEUE_OWNERSHIP,
    QUEUE_PROGRESS,
    REBALANCE_RESULT,
    SNAPSHOT_CAPTURE,
    TOPIC_ROUTE,
)
from schemas.events import CLIENT_EVENT
from schemas.sends import MESSAGE_TRACE, PRODUCER_INSTANCE, SEND_ATTEMPT
from schemas.table_contract import Part, Table, column

# Raised when a contract changes; a publication records it.
SCHEMA_VERSION = 2

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        INGESTED_FILE,
        SEND_ATTEMPT,
        PRODUCER_INSTANCE,
        MESSAGE_TRACE,
        COLLECTION_ROUND,
        SNAPSHOT_CAPTURE,
        CONSUMER_HEARTBEAT,
        QUEUE_OWNERSHIP,
        POP_ASSIGNMENT,
        QUEUE_PROGRESS,
        TOPIC_ROUTE,
        PRODUCER_CONNECTION,
        REBALANCE_RESULT,
        CLIENT_EVENT,
        QUARANTINE,
        BROKER_AVAILABILITY_WINDOW,
        FAULT_ITEM_STATE,
        PRODUCER_REPLAY,
        GROUP_ROUND,
        EXPECTED_ALLOCATION,
        ALLOCATION_DRIFT,
        CLIENT_STRATEGY_STATE,
        QUALITY_RESULT,
        PUBLICATION,
    )
}

__all__ = [
    "ALLOCATION_DRIFT",
    "BROKER_AVAILABILITY_WINDOW",
    "CLIENT_EVENT",
    "CLIENT_STRATEGY_STATE",
    "COLLECTION_ROUND",
    "CONSUMER_HEARTBEAT",
    "EXPECTED_ALLOCATION",
    "FAULT_ITEM_STATE",
    "GROUP_ROUND",
    "INGESTED_FILE",
    "MESSAGE_TRACE",
    "POP_ASSIGNMENT",
    "PRODUCER_CONNECTION",
    "PRODUCER_INSTANCE",
    "PRODUCER_REPLAY",
    "PUBLICATION",
    "QUALITY_RESULT",
    "QUARANTINE",
    "QUEUE_OWNERSHIP",
    "QUEUE_PROGRESS",
    "REBALANCE_RESULT",
    "SCHEMA_VERSION",
    "SEND_ATTEMPT",
    "SNAPSHOT_CAPTURE",
    "TABLES",
    "TOPIC_ROUTE",
    "Part",
    "Table",
    "column",
]
