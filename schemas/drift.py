"""Where the observed ownership differs from the expected one: findings per round, with what they come of."""

from __future__ import annotations

from hindsight.schemas.allocation import (
    GROUP_ROUND_AT,
    MEMBER_LIST_HASH,
    QUEUE_LIST_HASH,
    STRATEGY,
    STRATEGY_PARAMETERS,
)
from hindsight.schemas.column_types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)
from hindsight.schemas.common_columns import CLUSTER, COLLECTOR, LINEAGE, RUN, STRINGS, event_date
from hindsight.schemas.consumers import GROUP
from hindsight.schemas.table_contract import Table, column

DRIFT_CODES = (
    "ORPHAN_QUEUE",
    "UNSERVED_QUEUE",
    "ORPHAN_BY_DESIGN",
    "DOUBLE_OWNED",
    "WRONG_OWNER",
    "IDLE_CONSUMER",
    "IDLE_BY_DESIGN",
    "UNREACHABLE_CLIENT",
    "GHOST_OWNER",
    "DUPLICATE_CLIENT_ID",
    "SUBSCRIPTION_INCONSISTENT",
    "MIXED_CLIENTS",
    "MIXED_STRATEGY",
    "VIEW_DIVERGENCE",
    "REBALANCE_FLAP",
    "SLOW_HANDOVER",
    "LOCK_STARVED",
    "PULL_IDLE",
    "CONSUME_BLOCKED",
    "POP_ASSIGNMENT_DIFFERS",
    "REVIVE_LAG",
    "GROUP_DOWN",
    "DATA_GAP",
    "OFFSET_REWOUND",
    "OFFSET_JUMPED",
    "MESSAGES_LOST",
    "MESSAGES_AT_RISK",
    "QUEUE_LAGS_ALONE",
    "OFFSET_BEYOND_END",
    "END_WENT_BACK",
    "CONSUMES_NOTHING",
    "FALLS_BEHIND",
    "RETRIES_GROW",
    "DEAD_LETTERS",
)
ROOT_CAUSES = (
    "DATA_GAP",
    "GROUP_DOWN",
    "DUPLICATE_CLIENT_ID",
    "SUBSCRIPTION_INCONSISTENT",
    "MIXED_CLIENTS",
    "MIXED_STRATEGY",
    "VIEW_DIVERGENCE",
    "UNREACHABLE_CLIENT",
    "CONSUMES_NOTHING",
    "ROUTE_LAG",
    "CLIENT_STALLED",
    "SLOW_HANDOVER",
    "BY_DESIGN",
    "OFFSET_REWOUND",
    "OFFSET_JUMPED",
    "OFFSET_BEYOND_END",
    "END_WENT_BACK",
    "MESSAGES_LOST",
    "MESSAGES_AT_RISK",
    "FALLS_BEHIND",
    "QUEUE_LAGS_ALONE",
    "RETRIES_GROW",
    "DEAD_LETTERS",
    "UNEXPLAINED",
)
SEVERITIES = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO")
FINDING_STATES = ("SUPPRESSED", "PENDING", "OPEN")

ROOT_CAUSE = column("root_cause", StringType(), "What it comes of; UNEXPLAINED: nothing that is known.", required=True)
CAUSE_KEY = column("cause_key", StringType(), "Which one: client, kind or topic; '' for the group.", required=True)

DISTURBANCE = StructType(
    [
        column("kind", StringType(), "join, start, leave, new_broker, broker_gone, ...", required=True),
        column("at", TimestampType(), "When, UTC.", required=True),
        column("subject", StringType(), "Client, broker or topic.", required=True),
    ]
)

ALLOCATION_DRIFT = Table(
    name="allocation_drift",
    comment="One row per round and finding: what was expected, what was observed, and from which evidence.",
    schema=StructType(
        [
            CLUSTER,
            event_date("round_at"),
            COLLECTOR,
            GROUP,
            GROUP_ROUND_AT,
            column("captured_at", TimestampType(), "Instant of the read that shows it, UTC."),
            column(
                "judged_at",
                TimestampType(),
                "Instant of the round's last read of the group, UTC: times of incidents are of these.",
                required=True,
            ),
            column("code", StringType(), "Drift code.", required=True),
            column("severity", StringType(), "CRITICAL, HIGH, MEDIUM, LOW or INFO.", required=True),
            column("trust", StringType(), "certain or possible.", required=True),
            column(
                "finding_state",
                StringType(),
                "SUPPRESSED (within grace), PENDING (not yet long enough) or OPEN (belongs to an open incident).",
                required=True,
            ),
            column("topic", StringType(), "Topic; null for a finding about the whole group."),
            column("broker_name", StringType(), "Broker of the queue; null unless about one queue."),
            column("queue_id", IntegerType(), "Queue; null unless about one queue."),
            column("client_id", StringType(), "Client; null unless about one client."),
            column("kind", StringType(), "Variant of the code; null: none."),
            column(
                "folded",
                BooleanType(),
                "The code holds for more than half of the group's queues: its incident shows them as one.",
                required=True,
            ),
            column("since_at", TimestampType(), "From when the condition is known to hold, UTC.", required=True),
            column("grace_until", TimestampType(), "Until when it is muted, UTC; null: no change is recent."),
            column("grace_reason", StringType(), "The change that mutes it; null: none is recent."),
            ROOT_CAUSE,
            CAUSE_KEY,
            column("also", STRINGS, "Other causes that match.", required=True),
            column("last_disturbance", DISTURBANCE, "The last change of the group so far; null: none was seen."),
            column("expected_client_ids", STRINGS, "Who should own it by the group's rule.", required=True),
            column(
                "observed",
                ArrayType(
                    StructType(
                        [
                            column("client_id", StringType(), "Client seen to own it.", required=True),
                            column("locked", BooleanType(), "Ordered: it believes it holds the lock.", required=True),
                            column("last_pull_at", TimestampType(), "Its last pull, UTC; null: never."),
                            column("last_consume_at", TimestampType(), "Its last consumption, UTC; null: never."),
                        ]
                    ),
                    containsNull=False,
                ),
                "Who was seen to own it.",
                required=True,
            ),
            STRATEGY,
            column("strategy_source", StringType(), "Where the strategy is known from."),
            STRATEGY_PARAMETERS,
            column("message_model", StringType(), "CLUSTERING or BROADCASTING."),
            column("queue_count", IntegerType(), "Queues of the topic; null for a group finding."),
            column("member_count", IntegerType(), "Listed members.", required=True),
            MEMBER_LIST_HASH,
            QUEUE_LIST_HASH,
            column(
                "distinct_views",
                IntegerType(),
                "Different member lists among the brokers that answered.",
                required=True,
            ),
            column("lag_now", LongType(), "Messages not consumed at the last valid reading; null: no valid reading."),
            column("lag_before", LongType(), "The same at the reading before; null: none."),
            column("lag_at_open", LongType(), "The same when its incident took it in; null: in none, or no reading."),
            column(
                "messages_accrued",
                LongType(),
                "Messages that the queue took since the finding was first seen; null: no two readings.",
            ),
            column("subscription_difference", StringType(), "Who subscribes what; null: not about subscriptions."),
            column("ordered", BooleanType(), "The group consumes in order; null: not read."),
            column("coverage", DoubleType(), "Share of the listed members that answered, 0 to 1.", required=True),
            column("missing_inputs", STRINGS, "What was not read, refused or is not known.", required=True),
            column("evidence", STRINGS, "Landing files and lines it rests on, `file:line`.", required=True),
            column("sentence", StringType(), "The finding in one plain sentence.", required=True),
            *RUN,
        ]
    ),
    key=(
        "cluster",
        "event_date",
        "collector",
        "consumer_group",
        "round_at",
        "code",
        "topic",
        "broker_name",
        "queue_id",
        "client_id",
        "kind",
    ),
    lineage=LINEAGE,
    values=(
        ("code", DRIFT_CODES),
        ("severity", SEVERITIES),
        ("trust", ("certain", "possible")),
        ("finding_state", FINDING_STATES),
        ("root_cause", ROOT_CAUSES),
    ),
)
