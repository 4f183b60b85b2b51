"""Which releases, ladders and switches a producer may have run under, by what it chose."""

from __future__ import annotations

from hindsight.schemas.availability import STARTED_AT
from hindsight.schemas.column_types import BooleanType, DoubleType, LongType, StringType, StructType, TimestampType
from hindsight.schemas.common_columns import CLUSTER, LINEAGE, RUN, event_date
from hindsight.schemas.sends import PRODUCER
from hindsight.schemas.table_contract import Table, column

PRODUCER_RELEASE = Table(
    name="producer_release",
    comment="One row per producer process, date and way in which it may have been set up, for processes whose release "
    "or switch is not recorded, and for those whose choices contradict their record. View release_candidates has a row "
    "for each process.",
    schema=StructType(
        [
            CLUSTER,
            event_date("event_date", "the day"),
            *PRODUCER,
            STARTED_AT,
            column(
                "families",
                StringType(),
                "Release families that nothing in the record can tell apart, as `P48|P49a`.",
                required=True,
            ),
            column(
                "ladder",
                StringType(),
                "default (the families' own), recorded (the producer's), a name from `[[replay.ladder]]`, or none (the "
                "switch is off).",
                required=True,
            ),
            column("latency_fault_enabled", BooleanType(), "sendLatencyFaultEnable, if so.", required=True),
            column("detector_enabled", BooleanType(), "startDetectorEnable, if so.", required=True),
            column(
                "state",
                StringType(),
                "remains; ruled_out: so many of its chances went against it that misread lines do not explain it.",
                required=True,
            ),
            column("recorded", BooleanType(), "True: this is what the record or the settings say.", required=True),
            column(
                "ruled_out_by",
                StringType(),
                "choices (brokers chosen that it avoids), retries (to brokers that it does not take), turns (brokers "
                "that did not get their turn), response_codes; null: it remains.",
            ),
            column("against", LongType(), "Chances that went against it; of all kinds if it remains.", required=True),
            column("chances", LongType(), "Chances that it had, of the same kinds.", required=True),
            column("msg_id", StringType(), "First attempt that went against it, in ruled_out_by; null: it remains."),
            column("begin_at", TimestampType(), "When this attempt began, UTC."),
            column("broker_name", StringType(), "Broker that this attempt went to."),
            column(
                "attempts",
                LongType(),
                "Attempts of the date that were looked at: from the first slow or failed one on, at most 5,000.",
                required=True,
            ),
            column(
                "log_likelihood",
                DoubleType(),
                "Of the brokers of its first attempts, less that of the likeliest setup; it rules nothing out. "
                "Null: nothing was looked at.",
            ),
            column("reason", StringType(), "Why nothing was looked at; null: something was."),
            *RUN,
        ]
    ),
    key=(
        "cluster",
        "event_date",
        "producer_group",
        "client_id",
        "started_at",
        "families",
        "ladder",
        "latency_fault_enabled",
        "detector_enabled",
    ),
    lineage=LINEAGE,
    values=(
        ("state", ("remains", "ruled_out")),
        ("ruled_out_by", ("choices", "retries", "turns", "response_codes")),
    ),
)
