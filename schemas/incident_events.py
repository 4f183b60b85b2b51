"""What happened to incidents, as it was told: one row per change of one, counted through the lake."""

from __future__ import annotations

from hindsight.schemas.column_types import BooleanType, IntegerType, LongType, StringType, StructType, TimestampType
from hindsight.schemas.common_columns import CLUSTER, STRINGS
from hindsight.schemas.drift import SEVERITIES
from hindsight.schemas.table_contract import Table, column

EVENT_KINDS = ("opened", "worsened", "reopened", "lasting", "corrected", "resolved", "withdrawn")
EVENT_SOURCES = ("drift", "producer")

INCIDENT_EVENT = Table(
    name="incident_event",
    comment="One row per change of an incident, noted by `hindsight events`. The last row of an incident says how it "
    "stands. What is noted depends on when the command ran, so this table is outside the promise that a rebuild gives "
    "equal contents; a row is never changed.",
    schema=StructType(
        [
            column("number", LongType(), "Counts the events of the lake from 1, in the order noted.", required=True),
            column(
                "event_id",
                StringType(),
                "Digest of the incident's key, the count of its events and what changed: who gets one twice knows it.",
                required=True,
            ),
            column(
                "what",
                StringType(),
                "opened; worsened (severity up, or a new code); reopened; lasting (told as backfill, and it lasts to "
                "this day); corrected (late records or a rerun changed what was told, not for the worse while open); "
                "resolved; withdrawn (late records or a rerun made it vanish).",
                required=True,
            ),
            column(
                "incident_key",
                StringType(),
                "Which incident: it stays the same where late records move begin or end.",
                required=True,
            ),
            column(
                "incident_id",
                StringType(),
                "Its incident_id in drift_incident when this was noted; null: of producers.",
            ),
            column(
                "source",
                StringType(),
                "drift: from drift_incident; producer: from producer_finding, findings of one group, code, topic and "
                "broker with short pauses as one.",
                required=True,
            ),
            CLUSTER,
            column("collector", StringType(), "Collector whose captures show it; '' of producers.", required=True),
            column(
                "group_name",
                StringType(),
                "Consumer group; of producers the producer group, '' where it is about the fleet.",
                required=True,
            ),
            column("cause", StringType(), "Root cause; of producers the code.", required=True),
            column(
                "subject",
                StringType(),
                "Cause key; of producers topic and broker, as far as it is about one; '' for the group.",
                required=True,
            ),
            column("codes", STRINGS, "Codes of its findings.", required=True),
            column("severity", StringType(), "CRITICAL, HIGH, MEDIUM, LOW or INFO: its worst.", required=True),
            column("severity_before", StringType(), "What was told before this; null: nothing was."),
            column(
                "at",
                TimestampType(),
                "When it happened, UTC: opened: opened_at; resolved: resolved_at; else last_seen_at, so at the latest.",
                required=True,
            ),
            column("opened_at", TimestampType(), "When the incident opened, UTC.", required=True),
            column("last_seen_at", TimestampType(), "Last record that showed it then, UTC.", required=True),
            column("resolved_at", TimestampType(), "When it was closed, UTC; null: it was open after this."),
            column("reopened", IntegerType(), "How often it had opened again.", required=True),
            column(
                "backfill",
                BooleanType(),
                "True: it was over, or last seen, longer ago than `events.backfill_after_h`: no pager hears of it.",
                required=True,
            ),
            column("sentence", StringType(), "The incident in plain words.", required=True),
            column("noted_at", TimestampType(), "When the event was noted, UTC (lineage).", required=True),
            column("run_id", StringType(), "Run that noted it (lineage).", required=True),
        ]
    ),
    key=("number",),
    dated=False,
    lineage=frozenset({"noted_at", "run_id"}),
    values=(("what", EVENT_KINDS), ("source", EVENT_SOURCES), ("severity", SEVERITIES)),
)
