"""What the findings of a group's rounds make together: incidents, churn, and the state that a date hands on."""

from __future__ import annotations

from hindsight.schemas.collection import TOPIC
from hindsight.schemas.column_types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)
from hindsight.schemas.common_columns import CLUSTER, COLLECTOR, LINEAGE, RUN, STRINGS, event_date
from hindsight.schemas.consumers import GROUP
from hindsight.schemas.drift import CAUSE_KEY, DISTURBANCE, ROOT_CAUSE, ROOT_CAUSES, SEVERITIES
from hindsight.schemas.table_contract import Table, column

INCIDENT_STATES = ("OPEN", "CLEARING", "RESOLVED", "FLAPPING")

DRIFT_INCIDENT = Table(
    name="drift_incident",
    comment="One row per incident: a cause in a group, everything it explains, from when to when. It lies in the date "
    "on which it ended, or in the cluster's last date while it may still change.",
    schema=StructType(
        [
            CLUSTER,
            event_date("event_date", "the end of the incident, or of the cluster's last record while it lasts"),
            COLLECTOR,
            GROUP,
            column(
                "incident_id",
                StringType(),
                "Digest of cluster, group, root cause, cause key, and date and order of the first opening.",
                required=True,
            ),
            ROOT_CAUSE,
            CAUSE_KEY,
            column("also", STRINGS, "Other causes that match some of its findings.", required=True),
            column(
                "state",
                StringType(),
                "OPEN, CLEARING (false, not yet long enough), RESOLVED, or FLAPPING (opens and closes too often).",
                required=True,
            ),
            column("severity", StringType(), "The worst so far: CRITICAL, HIGH, MEDIUM, LOW or INFO.", required=True),
            column("trust", StringType(), "certain if one of its findings last was, else possible.", required=True),
            column("first_seen_at", TimestampType(), "First read that showed one of its findings, UTC.", required=True),
            column("opened_at", TimestampType(), "When it first opened, UTC.", required=True),
            column("last_seen_at", TimestampType(), "Last read that showed one of its findings, UTC.", required=True),
            column("resolved_at", TimestampType(), "When it was closed, UTC; null: it is not."),
            column("reopened", IntegerType(), "How often it opened again.", required=True),
            column("rounds_true", IntegerType(), "Rounds since its opening that showed it.", required=True),
            column(
                "rounds_informative", IntegerType(), "Rounds since its opening that could have shown it.", required=True
            ),
            column("codes", STRINGS, "Codes of its findings.", required=True),
            column(
                "findings",
                ArrayType(
                    StructType(
                        [
                            column("code", StringType(), "Drift code, as it was last.", required=True),
                            column("kind", StringType(), "Variant; FOLDED: stands for many queues; null: none."),
                            column("severity", StringType(), "Severity, as it was last.", required=True),
                            column("trust", StringType(), "certain or possible, as it was last.", required=True),
                            column("topic", StringType(), "Topic; null: the whole group, or many."),
                            column("broker_name", StringType(), "Broker of the queue; null: not about one queue."),
                            column("queue_id", IntegerType(), "Queue; null: not about one queue."),
                            column("client_id", StringType(), "Client; null: not about one client."),
                            column("queues", IntegerType(), "Queues that it stands for; 0: not about queues."),
                            column("sample", STRINGS, "Some of them, where it stands for many.", required=True),
                            column("first_seen_at", TimestampType(), "First read that showed it, UTC.", required=True),
                            column("last_seen_at", TimestampType(), "Last read that showed it, UTC.", required=True),
                            column("is_open", BooleanType(), "It is not closed yet.", required=True),
                        ]
                    ),
                    containsNull=False,
                ),
                "Everything that was attached to it, closed ones too; a code of more than half of the queues is one.",
                required=True,
            ),
            column("lag_at_open", LongType(), "Lag of its queues when it took them in; null: no reading."),
            column("lag_now", LongType(), "Lag of its queues when it was last seen; null: no reading."),
            column("messages_accrued", LongType(), "Messages that its queues took since then; null: no two readings."),
            column("ordered", BooleanType(), "The group consumes in order.", required=True),
            column(
                "last_disturbance", DISTURBANCE, "The last change of the group before it opened; null: none was seen."
            ),
            column("evidence", STRINGS, "Landing files and lines of the finding that opened it.", required=True),
            column("settled", BooleanType(), "False: a later round may still change it.", required=True),
            column("sentence", StringType(), "The cause, the worst that came of it, how much in all.", required=True),
            *RUN,
        ]
    ),
    key=("cluster", "event_date", "collector", "consumer_group", "incident_id"),
    lineage=LINEAGE,
    values=(
        ("state", INCIDENT_STATES),
        ("severity", SEVERITIES),
        ("trust", ("certain", "possible")),
        ("root_cause", ROOT_CAUSES),
    ),
)

MEMBERSHIP_CHANGE = Table(
    name="membership_change",
    comment="One row per membership change of a group and topic: how many queues moved, and how many had to.",
    schema=StructType(
        [
            CLUSTER,
            event_date("event_date", "the round that settled it"),
            COLLECTOR,
            GROUP,
            TOPIC,
            column("changed_at", TimestampType(), "First list of members that differed, UTC.", required=True),
            column("settled_at", TimestampType(), "First complete round after its grace, UTC.", required=True),
            column("joined", STRINGS, "Members that were not there before.", required=True),
            column("left", STRINGS, "Members that are not there any more.", required=True),
            column("queues", IntegerType(), "Queues there before and after.", required=True),
            column("moved", IntegerType(), "Of these, with another owner than before.", required=True),
            column("necessary", IntegerType(), "Of these, which the strategy gives to another.", required=True),
            column("excess", IntegerType(), "Moved although the strategy left them where they were.", required=True),
            column("unavoidable", IntegerType(), "Of these, whose owner left.", required=True),
            *RUN,
        ]
    ),
    key=("cluster", "event_date", "collector", "consumer_group", "topic", "changed_at", "settled_at"),
    lineage=LINEAGE,
)

GROUP_DRIFT_STATE = Table(
    name="group_drift_state",
    comment="One row per group and date: its open incidents and what the next date needs of this one to go on.",
    schema=StructType(
        [
            CLUSTER,
            event_date("event_date", "the day that closed"),
            COLLECTOR,
            GROUP,
            column("state", StringType(), "JSON: counters, open incidents, what was last seen.", required=True),
            column(
                "evidence",
                ArrayType(
                    StructType(
                        [
                            column("incident_id", StringType(), "Incident in the state.", required=True),
                            column("lines", STRINGS, "Landing files and lines that opened it.", required=True),
                        ]
                    ),
                    containsNull=False,
                ),
                "Evidence of the incidents in the state, which itself names no file.",
                required=True,
            ),
            column("open_incidents", IntegerType(), "Incidents that are not resolved.", required=True),
            column("last_round_at", TimestampType(), "Last read of the group, UTC.", required=True),
            *RUN,
        ]
    ),
    key=("cluster", "event_date", "collector", "consumer_group"),
    lineage=LINEAGE,
)
