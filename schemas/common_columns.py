"""Columns that several tables share, and the shapes nested in them."""

from __future__ import annotations

from hindsight.schemas.column_types import (
    ArrayType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from hindsight.schemas.table_contract import column

CLUSTER = column("cluster", StringType(), "RocketMQ cluster, from the landing folder `cluster=<name>`.", required=True)


def event_date(of: str, what: str | None = None) -> StructField:
    """The partition column: the UTC date of the column ``of``, described as ``what`` where ``of`` says too little."""
    comment = f"UTC date of {what or of}; partition column."
    return StructField("event_date", DateType(), nullable=False, metadata={"comment": comment, "date_of": of})


COLLECTOR = column(
    "collector",
    StringType(),
    "Which collector took the capture; '' where the line names none.",
    required=True,
)
CAPTURED_AT = column("captured_at", TimestampType(), "When the read began, UTC.", required=True)
ROUND_AT = column(
    "round_at",
    TimestampType(),
    "Round the capture belongs to: the latest marker at or before it, else the first capture after a pause. "
    "Set when the round is settled, corrected by late markers.",
)

SOURCE = [
    column("source", StringType(), "Landing format the row came from.", required=True),
    column("source_file", StringType(), "Landing file, relative to the landing root.", required=True),
    column("source_line", LongType(), "Line in that file, from 1.", required=True),
    column("ingested_at", TimestampType(), "When the row was stored (lineage).", required=True),
    column("run_id", StringType(), "Run that stored it (lineage).", required=True),
]
OCCURRENCE = column(
    "occurrence",
    IntegerType(),
    "1 for the first such line of that instant in its file. Equal lines of one instant in two files count as copies.",
    required=True,
)
LANGUAGE = column("language", StringType(), "GO, CPP or GRPC: a line of such a client; null: of a Java client.")
DOUBTS = column(
    "doubts",
    ArrayType(StringType(), containsNull=False),
    "Codes of the rules that find the row doubtful, e.g. NEGATIVE_LATENCY; null: none.",
)
RUN = [
    column("computed_at", TimestampType(), "When the row was computed (lineage).", required=True),
    column("run_id", StringType(), "Run that computed it (lineage).", required=True),
]
LINEAGE = frozenset({"ingested_at", "computed_at", "run_id"})

QUEUE = StructType(
    [
        column("broker_name", StringType(), "Broker that holds the queue.", required=True),
        column("queue_id", IntegerType(), "Queue id on that broker, from 0.", required=True),
    ]
)
QUEUES = ArrayType(QUEUE, containsNull=False)
STRINGS = ArrayType(StringType(), containsNull=False)
LONGS = ArrayType(LongType(), containsNull=False)
SUBSCRIPTION = StructType(
    [
        column("topic", StringType(), "Subscribed topic.", required=True),
        column("expression_type", StringType(), "TAG or SQL92; null where the client does not say."),
        column("sub_string", StringType(), "Expression as written by the client."),
        column("tags", STRINGS, "Tags of a TAG expression, in UTF-16 order; empty for `*`."),
    ]
)
