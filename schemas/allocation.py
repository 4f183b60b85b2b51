"""By which rule each group shares its queues, per round and topic, and who should own which."""

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
from hindsight.schemas.common_columns import CLUSTER, COLLECTOR, LINEAGE, QUEUES, RUN, STRINGS, event_date
from hindsight.schemas.consumers import CLIENT, GROUP
from hindsight.schemas.table_contract import Table, column

STRATEGY_SOURCES = ("client_log", "running_info", "settings", "release", "default")

GROUP_ROUND_AT = column("round_at", TimestampType(), "Round, UTC.", required=True)
STRATEGY = column("strategy", StringType(), "Strategy by which the group is expected to share its queues.")
STRATEGY_PARAMETERS = column(
    "strategy_parameters", StringType(), "Its parameters; '' for none or the defaults.", required=True
)
_PROFILE = column("profile", StringType(), "Release family of the majority of the members.")
QUEUE_LIST_HASH = column("queue_list_hash", StringType(), "Digest of the sorted queue list; null: no route was read.")
MEMBER_LIST_HASH = column("member_list_hash", StringType(), "Digest of the sorted member list, duplicates kept.")
_CLAIMS_HASH = column("claims_hash", StringType(), "Digest of each member's own strategy and release.")

MEMBER_RULES = ArrayType(
    StructType(
        [
            column("client_id", StringType(), "Member.", required=True),
            column("strategy", StringType(), "Strategy it was seen to use; null: not known."),
            column(
                "source",
                StringType(),
                "client_log, running_info, settings, or release (its clients know AVG only); null: not known.",
            ),
            column(
                "profile",
                StringType(),
                "Its family: of Java (P...), Go (G...), C++ (C...) or gRPC (R) clients; several as `G1|G2` where "
                "records cannot tell them apart; null: not known.",
            ),
        ]
    ),
    containsNull=False,
)

_MEMBER_HEARTBEATS = ArrayType(
    StructType(
        [
            column("client_id", StringType(), "Member.", required=True),
            column("last_heartbeat_at", TimestampType(), "When a broker last received one, UTC; null: none near."),
            column("age_ms", LongType(), "Its age when the group was last read in the round, ms."),
            column("stale", BooleanType(), "Older than a broker waits (120 s); null: not known."),
        ]
    ),
    containsNull=False,
)

GROUP_ROUND = Table(
    name="group_round",
    comment="One row per round, group and topic: what was read, by which rule it is judged, and the verdict.",
    schema=StructType(
        [
            CLUSTER,
            event_date("round_at"),
            COLLECTOR,
            GROUP,
            TOPIC,
            GROUP_ROUND_AT,
            column("message_model", StringType(), "CLUSTERING or BROADCASTING; null: not read."),
            column("members", STRINGS, "Listed client ids in RocketMQ's order, duplicates kept.", required=True),
            column(
                "queues",
                QUEUES,
                "Readable queues of the topic in RocketMQ's order; null: no route was read, or one of over 65,536.",
            ),
            column(
                "queue_kind",
                StringType(),
                "physical; logical: a static topic, whose queues clients of 5.0 on hold as `__syslo__<scope>`; null: "
                "no route was read.",
            ),
            MEMBER_LIST_HASH,
            QUEUE_LIST_HASH,
            _CLAIMS_HASH,
            column("member_rules", MEMBER_RULES, "By which rule each member decides.", required=True),
            column(
                "member_heartbeats",
                _MEMBER_HEARTBEATS,
                "How old each listed member's last heartbeat is; null: of this group none was recorded near the round.",
            ),
            STRATEGY,
            STRATEGY_PARAMETERS,
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
                "scope_reason",
                StringType(),
                "Why the rules of ownership do not apply to the topic in this round, in words; null: they do.",
            ),
            column(
                "verdict",
                StringType(),
                "ok, drift, unknown (an input is missing, or see scope_reason); null: group or route was not asked for",
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
    values=(
        ("verdict", ("ok", "drift", "unknown")),
        ("queue_kind", ("physical", "logical")),
        ("strategy_source", STRATEGY_SOURCES),
    ),
)

EXPECTED_ALLOCATION = Table(
    name="expected_allocation",
    comment="One row per date and distinct set of inputs of a group and topic: the owner of each queue.",
    schema=StructType(
        [
            CLUSTER,
            event_date("event_date", "the rounds it serves"),
            GROUP,
            TOPIC,
            STRATEGY,
            STRATEGY_PARAMETERS,
            _PROFILE,
            QUEUE_LIST_HASH,
            MEMBER_LIST_HASH,
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

CLIENT_STRATEGY_STATE = Table(
    name="client_strategy_state",
    comment="One row per consumer and date: the strategy it was last seen to use. The next date begins with it.",
    schema=StructType(
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
