"""What rounds and logs show of consumer groups: connections, ownership, progress, rebalance results."""

from __future__ import annotations

from hindsight.schemas.collection import BROKER, CAPTURE, CLIENT_KINDS, TOPIC
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
from hindsight.schemas.common_columns import (
    CAPTURED_AT,
    CLUSTER,
    DOUBTS,
    LANGUAGE,
    LINEAGE,
    OCCURRENCE,
    QUEUES,
    ROUND_AT,
    SOURCE,
    SUBSCRIPTION,
    event_date,
)
from hindsight.schemas.table_contract import Table, column

GROUP = column("consumer_group", StringType(), "Consumer group.", required=True)
CLIENT = column("client_id", StringType(), "Consumer client id.", required=True)
QUEUE_ID = column("queue_id", IntegerType(), "Queue id on that broker, >= 0.", required=True)

CONSUMER_HEARTBEAT = Table(
    name="consumer_heartbeat",
    comment="One row per round, broker view, group and listed connection: who a broker says the members are.",
    schema=StructType(
        [
            *CAPTURE,
            column("broker_name", StringType(), "Broker that answered; null: not recorded, one unnamed view."),
            GROUP,
            CLIENT,
            column(
                "address",
                StringType(),
                "Client's remote address; two addresses of one id are two rows.",
                required=True,
            ),
            CAPTURED_AT,
            ROUND_AT,
            column("language", StringType(), "Client language as reported."),
            column("client_version", IntegerType(), "MQVersion ordinal as reported, e.g. 409 is 4.9.8."),
            column(
                "client_kind",
                StringType(),
                "push, pull, lite_pull, pop: by its running info of the same round; grpc, remoting_proxy, other (see "
                "language): by its connection; unknown: neither says.",
            ),
            column("consume_type", StringType(), "Of the group, from the last heartbeat the broker received."),
            column("message_model", StringType(), "Of the group, from the last heartbeat the broker received."),
            column(
                "consume_from_where",
                StringType(),
                "Of the group, from the last heartbeat the broker received.",
            ),
            column(
                "subscriptions",
                ArrayType(SUBSCRIPTION, containsNull=False),
                "The member's own, from its running info of the same round; null: not read or not answered.",
            ),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=(
        "cluster",
        "event_date",
        "collector",
        "broker_name",
        "consumer_group",
        "client_id",
        "address",
        "captured_at",
    ),
    lineage=LINEAGE,
    values=(("client_kind", CLIENT_KINDS),),
)

QUEUE_OWNERSHIP = Table(
    name="queue_ownership",
    comment="One row per round, group, client and queue that the client's running info shows as its own.",
    schema=StructType(
        [
            *CAPTURE,
            GROUP,
            CLIENT,
            TOPIC,
            BROKER,
            QUEUE_ID,
            CAPTURED_AT,
            ROUND_AT,
            column(
                "locked",
                BooleanType(),
                "Ordered consumption: the client believes it holds the broker's lock.",
                required=True,
            ),
            column("dropped", BooleanType(), "Given up and on its way out: not ownership.", required=True),
            column("last_pull_at", TimestampType(), "Last pull, UTC; null: never."),
            column("last_consume_at", TimestampType(), "Last consumption, UTC; null: never."),
            column("last_lock_at", TimestampType(), "Last lock, UTC; null: never."),
            column("cached_messages", LongType(), "Messages pulled and not yet consumed."),
            column("commit_offset", LongType(), "Offset the client last committed."),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=(
        "cluster",
        "event_date",
        "collector",
        "consumer_group",
        "client_id",
        "topic",
        "broker_name",
        "queue_id",
        "captured_at",
    ),
    lineage=LINEAGE,
)

POP_ASSIGNMENT = Table(
    name="pop_assignment",
    comment="One row per round, group, client and queue that the client's running info shows as consumed by POP (5.0 "
    "on): members may share a queue, so this is no ownership.",
    schema=StructType(
        [
            *CAPTURE,
            GROUP,
            CLIENT,
            TOPIC,
            BROKER,
            column("queue_id", IntegerType(), "Queue id on that broker; -1: all of its queues.", required=True),
            CAPTURED_AT,
            ROUND_AT,
            column("dropped", BooleanType(), "Given up and on its way out.", required=True),
            column("wait_ack_count", LongType(), "Messages popped and not yet acknowledged."),
            column("last_pop_at", TimestampType(), "Last pop, UTC; null: never."),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=QUEUE_OWNERSHIP.key,
    lineage=LINEAGE,
)

QUEUE_PROGRESS = Table(
    name="queue_progress",
    comment="One row per round, group and queue: the group's offset beside the broker's.",
    schema=StructType(
        [
            *CAPTURE,
            GROUP,
            TOPIC,
            BROKER,
            QUEUE_ID,
            CAPTURED_AT,
            ROUND_AT,
            column(
                "broker_asked",
                StringType(),
                "Broker that was asked, where the line names one: it tells of its own queues, of a static topic too of "
                "physical ones; null: all brokers of the group.",
            ),
            column("broker_offset", LongType(), "Next offset the broker will write.", required=True),
            column(
                "consumer_offset",
                LongType(),
                "Next offset the group will consume; -1: none committed.",
                required=True,
            ),
            column("lag", LongType(), "broker_offset - consumer_offset, messages.", required=True),
            column("client_ip", StringType(), "mqadmin: address of the queue's owner; null: none shown."),
            column("pull_offset", LongType(), "Next offset the group will pull; null before 5.0."),
            column(
                "last_timestamp",
                TimestampType(),
                "Store time of the last consumed message, UTC; null: none was committed, or the message is deleted.",
            ),
            column(
                "consume_tps",
                DoubleType(),
                "Messages a second that the broker handed to the group in the last minute, all topics together, of the "
                "brokers that were asked; null: not said.",
            ),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=(
        "cluster",
        "event_date",
        "collector",
        "consumer_group",
        "topic",
        "broker_name",
        "queue_id",
        "captured_at",
    ),
    lineage=LINEAGE,
)

REBALANCE_RESULT = Table(
    name="rebalance_result",
    comment="One row per `rebalanced result changed` line: what a client took, and what it saw when it decided.",
    schema=StructType(
        [
            CLUSTER,
            event_date("logged_at"),
            GROUP,
            TOPIC,
            CLIENT,
            column("logged_at", TimestampType(), "When the line was written, UTC.", required=True),
            column(
                "resolution_ms",
                IntegerType(),
                "1, or 1000 where the layout has no true milliseconds.",
                required=True,
            ),
            column(
                "strategy",
                StringType(),
                "allocateMessageQueueStrategyName, verbatim; AVG for C++ clients; '' for Go's, which do not tell.",
                required=True,
            ),
            LANGUAGE,
            column("queue_count", IntegerType(), "mqAllSize: queues the client saw.", required=True),
            column("member_count", IntegerType(), "cidAllSize: members the client saw.", required=True),
            column("queues", QUEUES, "The queues it took, in RocketMQ's order.", required=True),
            column("queues_text", StringType(), "The same as text, part of the key.", required=True),
            OCCURRENCE,
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=(
        "cluster",
        "event_date",
        "consumer_group",
        "topic",
        "client_id",
        "logged_at",
        "strategy",
        "queue_count",
        "member_count",
        "queues_text",
        "occurrence",
    ),
    lineage=LINEAGE,
)
