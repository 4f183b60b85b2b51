"""What collectors read of a cluster: rounds, each read that was tried, routes, producers' connections."""

from __future__ import annotations

from hindsight.schemas.column_types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)
from hindsight.schemas.common_columns import (
    CAPTURED_AT,
    CLUSTER,
    COLLECTOR,
    DOUBTS,
    LINEAGE,
    ROUND_AT,
    SOURCE,
    STRINGS,
    SUBSCRIPTION,
    event_date,
)
from hindsight.schemas.table_contract import Table, column

TOPIC = column("topic", StringType(), "Topic.", required=True)
BROKER = column("broker_name", StringType(), "Broker that holds the queue.", required=True)
CAPTURE = [CLUSTER, event_date("captured_at"), COLLECTOR]
BROKER_ASKED = column(
    "broker_name",
    StringType(),
    "Broker that was asked, where the line names one, after mqadmin -b by its address; null: one unnamed place.",
)
NAME_SERVER = column(
    "name_server", StringType(), "Name server that was asked, where the line names one; null: one unnamed place."
)
LOGICAL_QUEUE = StructType(
    [
        column("logical_id", IntegerType(), "Logical queue of the static topic.", required=True),
        column("queue_id", IntegerType(), "The broker's own queue that it is written to now.", required=True),
    ]
)
SLAVE = StructType(
    [
        column("broker_id", LongType(), "Broker id, from 1.", required=True),
        column("address", StringType(), "Its address.", required=True),
    ]
)
# Values of `client_kind`: what a consumer is, as far as its running info or its connection says.
CLIENT_KINDS = ("push", "pull", "lite_pull", "pop", "grpc", "remoting_proxy", "other", "unknown")

COLLECTION_ROUND = Table(
    name="collection_round",
    comment="One row per collection sweep: where its marker stands, or where a pause in the captures began one.",
    schema=StructType(
        [
            CLUSTER,
            event_date("round_at"),
            COLLECTOR,
            column(
                "round_at",
                TimestampType(),
                "Instant of the marker, or of the first capture after a pause.",
                required=True,
            ),
            column("kind", StringType(), "marker, or gap (no marker was recorded).", required=True),
            column("round_number", LongType(), "The collector's own number; null without one."),
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "collector", "round_at"),
    lineage=LINEAGE,
    values=(("kind", ("marker", "gap")),),
)

SNAPSHOT_CAPTURE = Table(
    name="snapshot_capture",
    comment="One row per read that a collector tried: whether it was answered, and what a client said of itself.",
    schema=StructType(
        [
            *CAPTURE,
            column("kind", StringType(), "Admin call: topicRoute, consumerConnection, ...", required=True),
            column("subject", StringType(), "What was asked for, as the collector wrote it.", required=True),
            BROKER_ASKED,
            NAME_SERVER,
            CAPTURED_AT,
            column("captured_end_at", TimestampType(), "When the answer or the failure came, UTC."),
            ROUND_AT,
            column("consumer_group", StringType(), "Consumer group asked for; null for others."),
            column("client_id", StringType(), "Client asked for; null for a group or topic."),
            column("producer_group", StringType(), "Producer group asked for; null for others."),
            column("topic", StringType(), "Topic asked for; null for a consumer group or client."),
            column(
                "answered",
                BooleanType(),
                "False: the read was tried and failed, or its answer could not be read: then the line is in "
                "`quarantine`.",
                required=True,
            ),
            column("error", StringType(), "Why it failed, as recorded; of an answer that could not be read, why not."),
            column("error_code", IntegerType(), "RocketMQ response code in the error; null when it names none."),
            column("client_version", StringType(), "Running info: PROP_CLIENT_VERSION."),
            column(
                "consume_type",
                StringType(),
                "Running info: CONSUME_PASSIVELY, CONSUME_ACTIVELY or CONSUME_POP.",
            ),
            column("message_model", StringType(), "Running info or connection: CLUSTERING or BROADCASTING."),
            column("consume_from_where", StringType(), "Running info: where a new group begins to consume."),
            column("consume_orderly", BooleanType(), "Running info: PROP_CONSUMEORDERLY."),
            column(
                "client_rebalance",
                BooleanType(),
                "Running info: false where the broker assigns; null before 5.0.",
            ),
            column(
                "strategy",
                StringType(),
                "Running info: strategy of RocketMQ's own classes by name, else `class:<name>`.",
            ),
            column("client_started_at", TimestampType(), "Running info: when the client started, UTC."),
            column(
                "client_kind",
                StringType(),
                "Running info: push, pull, lite_pull or pop, by what the client says of itself; null: it does not say.",
            ),
            column(
                "member_ids",
                STRINGS,
                "consumerIdList: the client ids that the broker lists, as it returned them; null for other kinds.",
            ),
            column(
                "subscriptions",
                ArrayType(SUBSCRIPTION, containsNull=False),
                "Running info: the client's own; connection: the table of whichever member sent the last heartbeat.",
            ),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "collector", "kind", "subject", "broker_name", "name_server", "captured_at"),
    lineage=LINEAGE,
)

TOPIC_ROUTE = Table(
    name="topic_route",
    comment="One row per round, name server, topic and broker that the name server's route names.",
    schema=StructType(
        [
            *CAPTURE,
            NAME_SERVER,
            TOPIC,
            BROKER,
            CAPTURED_AT,
            ROUND_AT,
            column("read_queue_nums", IntegerType(), "Queues that consumers see.", required=True),
            column("write_queue_nums", IntegerType(), "Queues that producers see.", required=True),
            column("perm", IntegerType(), "Permission bits: 4 read, 2 write, 1 inherit.", required=True),
            column("has_master", BooleanType(), "The route has an address with broker id 0.", required=True),
            column("master_address", StringType(), "That address; null without a master."),
            column(
                "slaves",
                ArrayType(SLAVE, containsNull=False),
                "The addresses with other broker ids, in the order of these; null: not told.",
            ),
            column(
                "order_topic_conf",
                StringType(),
                "orderTopicConf, `broker:queues;...`: what producers go by instead of the counts; null without one.",
            ),
            column(
                "place_in_answer",
                IntegerType(),
                "Place of the broker in the name server's answer, from 0, which Go's producers go by; null: not told.",
            ),
            column("is_static_topic", BooleanType(), "The topic has logical queues (5.0 on).", required=True),
            column(
                "logical_broker_name",
                StringType(),
                "Static topic: the name under which clients of 5.0 on hold its logical queues, `__syslo__<scope>`.",
            ),
            column(
                "logical_queue_nums",
                IntegerType(),
                "Static topic: logical queues in all, as this broker's mapping says; null for other topics.",
            ),
            column(
                "logical_queues",
                ArrayType(LOGICAL_QUEUE, containsNull=False),
                "Static topic: the logical queues that this broker holds now, and its own queue for each.",
            ),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "collector", "name_server", "topic", "broker_name", "captured_at"),
    lineage=LINEAGE,
)

PRODUCER_CONNECTION = Table(
    name="producer_connection",
    comment="One row per capture, producer group and listed connection: which producers a broker says are there.",
    schema=StructType(
        [
            *CAPTURE,
            column("producer_group", StringType(), "Producer group.", required=True),
            column("topic", StringType(), "Topic by whose route the broker was found; null where not recorded."),
            column("client_id", StringType(), "Producer client id.", required=True),
            column("address", StringType(), "Client's remote address.", required=True),
            CAPTURED_AT,
            ROUND_AT,
            column("language", StringType(), "Client language as reported."),
            column("client_version", IntegerType(), "MQVersion ordinal as reported, e.g. 409 is 4.9.8."),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "collector", "producer_group", "topic", "client_id", "address", "captured_at"),
    lineage=LINEAGE,
)
