"""What clients' own logs say of the windows that were replayed for them."""

from __future__ import annotations

from hindsight.schemas.availability import STARTED_AT
from hindsight.schemas.column_types import IntegerType, LongType, StringType, StructType, TimestampType
from hindsight.schemas.common_columns import CLUSTER, LINEAGE, RUN, event_date
from hindsight.schemas.events import LINE_KEY, LOG_FOLDER, LOGGED_AT
from hindsight.schemas.table_contract import Table, column

WINDOW_CONFIRMATION = Table(
    name="window_confirmation",
    comment="One row per log line in which a client (5.1.4 on) tells of its fault table, with the replayed window that "
    "it shows. View window_match_rate counts by producer.",
    schema=StructType(
        [
            CLUSTER,
            event_date("logged_at"),
            LOGGED_AT,
            LOG_FOLDER,
            column("thread", StringType(), "Thread that wrote the line."),
            column("kind", StringType(), "broker_isolated, broker_unreachable or broker_reachable.", required=True),
            column("broker_name", StringType(), "Broker the line is about.", required=True),
            column("duration_ms", LongType(), "broker_isolated: for how long, ms."),
            column(
                "shows",
                StringType(),
                "Of the window: opened; lasted (a later update inside it, which may have extended it); ended (the "
                "detector reached the broker; offset_ms < 0: earlier than replayed); nothing: no replayed window fits, "
                "e.g. the line is of a producer that nothing was recorded of.",
                required=True,
            ),
            column("producer_group", StringType(), "Of the window; null: none."),
            column("client_id", StringType(), "Of the window; null: none."),
            STARTED_AT,
            column("window_start", TimestampType(), "Start of the window, UTC; null: none."),
            column(
                "offset_ms",
                LongType(),
                "opened, ended: the line's instant after the replayed one, ms; null for others.",
            ),
            column(
                "candidates",
                IntegerType(),
                "Windows whose opening or end the line may tell of; over 1: the nearest was taken.",
                required=True,
            ),
            column(
                "line_digest", StringType(), "BLAKE2b (96 bits) of the whole line, as in client_event.", required=True
            ),
            column("occurrence", IntegerType(), "As in client_event.", required=True),
            *RUN,
        ]
    ),
    key=LINE_KEY,
    lineage=LINEAGE,
    values=(
        ("kind", ("broker_isolated", "broker_unreachable", "broker_reachable")),
        ("shows", ("opened", "lasted", "ended", "nothing")),
    ),
)
