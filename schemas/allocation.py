"""Who should have owned which queue, and where what was observed differs: per round, group and topic."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from schemas.common_columns import CLUSTER, COLLECTOR, LINEAGE, QUEUES, RUN, STRINGS, event_date
from schemas.consumers import CLIENT, GROUP, TOPIC
from schemas.table_contract import Table, column

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
    "MIXED_STRATEGY",
    "VIEW_DIVERGENCE",
    "REBALANCE_FLAP",
    "LOCK_STARVED",
    "PULL_IDLE",
    "CONSUME_BLOCKED",
    "GROUP_DOWN",
    "DATA_GAP",
)
ROOT_CAUSES = (
    "DATA_GAP",
    "GROUP_DOWN",
    "DUPLICATE_CLIENT_ID",
    "SUBSCRIPTION_INCONSISTENT",
    "MIXED_STRATEGY",
    "VIEW_DIVERGENCE",
    "UNREACHABLE_CLIENT",
    "ROUTE_LAG",
    "CLIENT_STALLED",
    "BY_DESIGN",
    "UNEXPLAINED",
)
FINDING_STATES = ("SUPPRESSED", "PENDING", "OPEN")
INCIDENT_STATES = ("OPEN", "CLEARING", "RESOLVED", "FLAPPING")
SEVERITIES = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO")
STRATEGY_SOURCES = ("client_log", "running_info", "settings", "default")

_ROUND_AT = column("round_at", TimestampType(), "Round, UTC.", required=True)
_STRATEGY = column("strategy", StringType(), "Strategy by which the group is expected to share its queues.")
_PARAMETERS = column("strategy_parameters", StringType(), "Its parameters; '' for none or the defaults.", required=True)
_PROFILE = column("profile", StringType(), "Release family of the majority of the members.")
_QUEUE_HASH = column("queue_list_hash", StringType(), "Digest of the sorted queue list; null: no route was read.")
_MEMBER_HASH = column("member_list_hash", StringType(), "Digest of the sorted member list, duplicates kept.")
_CLAIMS_HASH = column("claims_hash", StringType(), "Digest of each member's own strategy and release.")

MEMBER_RULES = ArrayType(
    StructType(
        [
            column("client_id", StringType(), "Member.", required=True),
            column("strategy", StringType(), "Strategy it was seen to use; null: not known."),
            column("source", StringType(), "client_log, running_info or settings; null: not known."),
            column("profile", StringType(), "Its release family; null: not known."),
        ]
    ),
    containsNull=False,
)

_DISTURBANCE = StructType(
    [
        column("kind", StringType(), "join, start, leave, new_broker, broker_gone, ...", required=True),
        column("at", TimestampType(), "When, UTC.", required=True),
        column("subject", StringType(), "Client, broker or topic.", required=True),
    ]
)

GROUP_ROUND = Table(
    name="group_round",
    comment="One row per round, group and topic: what was read, by which rule it is judged, and the verdict.",
    columns=StructType(
        [
            CLUSTER,
            event_date("round_at"),
            COLLECTOR,
            GROUP,
            TOPIC,
            _ROUND_AT,
            column("message_model", StringType(), "CLUSTERING or BROADCASTING; null: not read."),
            column("members", STRINGS, "Listed client ids in RocketMQ's order, duplicates kept.", required=True),
            column("queues", QUEUES, "Readable queues of the topic in RocketMQ's order; null: no route was read."),
            _MEMBER_HASH,
            _QUEUE_HASH,
            _CLAIMS_HASH,
            column("member_rules", MEMBER_RULES, "By which rule each member decides.", required=True),
            _STRATEGY,
            _PARAMETERS,
            _PROFILE,
            column("strategy_source", StringType(), "Where the strategy is known from; default: nowhere, AVG assumed."),
            column(
                "spread_ms", LongType(), "From the first to the last successful read of the group, ms.", required=True
            ),
            column(
                "loose",
                BooleanType(),
                "The spread is too wide for doubles and wrong owners to be certain.",
                required=True,
            ),
            column(
                "missing_inputs", STRINGS, "What was not read, refused or is not known; empty: nothing.", required=True
            ),
            column(
                "verdict",
                StringType(),
                "ok, drift, unknown (an input is missing); null: group or route was not asked for, no verdict.",
            ),
            column("informative", BooleanType(), "The group was read and nothing is missing.", required=True),
            column(
                "inferred_strategies",
                STRINGS,
                "Where no record names the strategy: those that explain the owners of all settled rounds; empty: "
                "none does; null: named, or the round is not settled.",
            ),
            column(
                "findings",
                IntegerType(),
                "Findings about the topic; INFO ones and those about the whole group excepted.",
                required=True,
            ),
            *RUN,
        ]
    ),
    key=("cluster", "event_date", "collector", "consumer_group", "topic", "round_at"),
    lineage=LINEAGE,
    values=(("verdict", ("ok", "drift", "unknown")), ("strategy_source", STRATEGY_SOURCES)),
)

EXPECTED_ALLOCATION = Table(
    name="expected_allocation",
    comment="One row per date and distinct set of inputs of a group and topic: the owner of each queue.",
    columns=StructType(
        [
            CLUSTER,
            event_date("event_date", "the rounds it serves"),
            GROUP,
            TOPIC,
            _STRATEGY,
            _PARAMETERS,
            _PROFILE,
            _QUEUE_HASH,
            _MEMBER_HASH,
            _CLAIMS_HASH,
            column(
                "allocation",
                ArrayType(
                    StructType(
                        [
                            column("broker_name", StringType(), "Broker.", required=True),
                            column("queue_id", IntegerType(), "Queue.", required=True),
                            column("owner", StringType(), "Owner by the group's rule; null: nobody, or everybody."),
                            column("claimants", STRINGS, "Members whose own rule takes it.", required=True),
                        ]
                    ),
                    containsNull=False,
                ),
                "Each queue with its owner by the group's rule and its claimants by their own; null: see refusal.",
            ),
            column(
                "refusal", StringType(), "Why nothing can be expected: RocketMQ's own error, or a rule without kernel."
            ),
            *RUN,
        ]
    ),
    key=(
        "cluster",
        "event_date",
        "consumer_group",
        "topic",
        "strategy",
        "strategy_parameters",
        "profile",
        "queue_list_hash",
        "member_list_hash",
        "claims_hash",
    ),
    lineage=LINEAGE,
)

ALLOCATION_DRIFT = Table(
    name="allocation_drift",
    comment="One row per round and finding: what was expected, what was observed, and from which evidence.",
    columns=StructType(
        [
            CLUSTER,
            event_date("round_at"),
            COLLECTOR,
            GROUP,
            _ROUND_AT,
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
            column("root_cause", StringType(), "What it comes of; UNEXPLAINED: nothing that is known.", required=True),
            column("cause_key", StringType(), "Which one: client, kind or topic; '' for the group.", required=True),
            column("also", STRINGS, "Other causes that match.", required=True),
            column("last_disturbance", _DISTURBANCE, "The last change of the group so far; null: none was seen."),
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
            _STRATEGY,
            column("strategy_source", StringType(), "Where the strategy is known from."),
            _PARAMETERS,
            column("message_model", StringType(), "CLUSTERING or BROADCASTING."),
            column("queue_count", IntegerType(), "Queues of the topic; null for a group finding."),
            column("member_count", IntegerType(), "Listed members.", required=True),
            _MEMBER_HASH,
            _QUEUE_HASH,
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

DRIFT_INCIDENT = Table(
    name="drift_incident",
    comment="One row per incident: a cause in a group, everything it explains, from when to when. It lies in the date "
    "on which it ended, or in the cluster's last date while it may still change.",
    columns=StructType(
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
            column("root_cause", StringType(), "What it comes of; UNEXPLAINED: nothing that is known.", required=True),
            column("cause_key", StringType(), "Which one: client, kind or topic; '' for the group.", required=True),
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
                "last_disturbance", _DISTURBANCE, "The last change of the group before it opened; null: none was seen."
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
    columns=StructType(
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
    columns=StructType(
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

CLIENT_STRATEGY_STATE = Table(
    name="client_strategy_state",
    comment="One row per consumer and date: the strategy it was last seen to use. The next date begins with it.",
    columns=StructType(
        [
            CLUSTER,
            event_date("event_date", "the day that closed"),
            GROUP,
            CLIENT,
            column("strategy", StringType(), "Strategy name.", required=True),
            column("strategy_source", StringType(), "client_log or running_info.", required=True),
            column("known_since", TimestampType(), "When it was last shown, UTC.", required=True),
            *RUN,
        ]
    ),
    key=("cluster", "event_date", "consumer_group", "client_id", "strategy_source"),
    lineage=LINEAGE,
    values=(("strategy_source", STRATEGY_SOURCES),),
)
