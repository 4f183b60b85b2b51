"""What clients and brokers wrote of themselves in their logs."""

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
    CLUSTER,
    DOUBTS,
    LANGUAGE,
    LINEAGE,
    OCCURRENCE,
    QUEUES,
    SOURCE,
    STRINGS,
    SUBSCRIPTION,
    event_date,
)
from hindsight.schemas.table_contract import Table, column

LOGGED_AT = column("logged_at", TimestampType(), "When the line was written, UTC.", required=True)
_RESOLUTION = column(
    "resolution_ms", IntegerType(), "1, or 1000 where the layout has no true milliseconds.", required=True
)
LOG_FOLDER = column(
    "log_folder",
    StringType(),
    "Folder of the log inside its cluster's landing folder, '' for none; of equal lines in two logs, the first's.",
    required=True,
)
_LEVEL = column("level", StringType(), "Log level as written; '' where a declared layout has none.", required=True)
_TEXT = column("text", StringType(), "The message as written, its first 1000 characters.", required=True)
_DIGEST = column("line_digest", StringType(), "BLAKE2b (96 bits) of the whole line.", required=True)
_DIGEST_OF_CLIENT = column(
    "line_digest",
    StringType(),
    "BLAKE2b (96 bits) of the whole line; if that is fixed words alone, of its exception's line too.",
    required=True,
)
# Not the folder: a log that lands twice brings each fact once.
LINE_KEY = ("cluster", "event_date", "logged_at", "line_digest", "occurrence")

ROUTE_BROKER = StructType(
    [
        column("broker_name", StringType(), "Broker.", required=True),
        column("read_queue_nums", IntegerType(), "Queues that consumers see.", required=True),
        column("write_queue_nums", IntegerType(), "Queues that producers see.", required=True),
        column("perm", IntegerType(), "Permission bits: 4 read, 2 write, 1 inherit.", required=True),
        column("master_address", StringType(), "Address with broker id 0; null without a master."),
    ]
)

CLIENT_EVENT_KINDS = (
    "queue_added",
    "lock_failed",
    "queue_add_failed",
    "queue_removed",
    "queue_kept",
    "queue_pull_expired",
    "queue_dropped",
    "unlock_blocked",
    "lock_acquired",
    "queue_unlocked",
    "queues_assigned",
    "broadcast_queues_changed",
    "member_not_listed",
    "members_changed",
    "member_list_failed",
    "topic_unknown",
    "allocation_failed",
    "rebalance_failed",
    "rebalance_applied",
    "route_changed",
    "route_missing",
    "route_read_failed",
    "broker_offline",
    "heartbeat_sent",
    "heartbeat_failed",
    "send_failed",
    "failed_message",
    "async_send_retried",
    "selection_failed",
    "broker_isolated",
    "broker_unreachable",
    "broker_reachable",
    "endpoint_isolated",
    "endpoint_rejoined",
    "assignments_changed",
    "assignments_empty",
    "send_given_up",
    "pull_failed",
    "pull_suspended",
    "consumer_suspended",
    "consumer_resumed",
    "flow_control",
    "offset_illegal",
    "offset_fixed",
    "offset_first_read",
    "offset_reset",
    "offset_not_stored",
    "offset_went_back",
    "consume_failed",
    "consume_not_locked",
    "message_expired",
    "send_back_failed",
    "result_dropped",
    "client_created",
    "client_started",
    "client_stopped",
)

CLIENT_EVENT = Table(
    name="client_event",
    comment="One row per line of a client's log that tells what it did or met, rebalance results excepted.",
    schema=StructType(
        [
            CLUSTER,
            event_date("logged_at"),
            LOG_FOLDER,
            LOGGED_AT,
            _RESOLUTION,
            column("kind", StringType(), "What happened; e.g. queue_added, lock_failed, send_failed.", required=True),
            _LEVEL,
            column("pid", LongType(), "Process id (5.1 on, or declared layouts); null before."),
            column("thread", StringType(), "Thread (4.1-4.2 and 5.1 on, or declared layouts); null elsewhere."),
            column("consumer_group", StringType(), "Consumer group; null where the line names none."),
            column("client_id", StringType(), "Client id; null: most lines name none, and a log may hold several."),
            column("topic", StringType(), "Topic; null where the line names none."),
            column(
                "broker_name",
                StringType(),
                "Broker; null where the line names none, or lost it. async_send_retried: the next one, not the one "
                "that failed.",
            ),
            column(
                "broker_address",
                StringType(),
                "Address of the broker, or a gRPC client's endpoints; null: none. async_send_retried: as broker_name.",
            ),
            column(
                "failed_address",
                StringType(),
                "Address of whom the request was for that failed, as the exception or its causes say; null: they do "
                "not. async_send_retried: who failed.",
            ),
            column("queue_id", IntegerType(), "Queue; negative where an overflown counter chose it (4.8.0-4.9.3)."),
            column("strategy", StringType(), "Allocation strategy as written; null where the line names none."),
            column("members", STRINGS, "member_not_listed: the ids that the broker listed, in their order."),
            column(
                "queues",
                QUEUES,
                "queues_assigned, broadcast_queues_changed, assignments_changed: the queues printed, sorted.",
            ),
            column("route", ArrayType(ROUTE_BROKER, False), "route_changed: the new route; empty where it is null."),
            column(
                "latency_ms",
                LongType(),
                "send_failed: RT, what updateFaultItem was given; send_given_up: of the whole send. Null: lost.",
            ),
            column(
                "time_left_ms",
                LongType(),
                "Time that the failed request was given, ms, as its exception says: what was left of the time-out of "
                "the whole call (4.3.0 on). Null: the exception does not say.",
            ),
            column("brokers_sent", STRINGS, "send_given_up: the brokers of the send's attempts, in their order."),
            column("attempts", IntegerType(), "send_given_up: attempts of the send; null: the exception does not say."),
            column("offset", LongType(), "Offset that the client asked for, or of the message; null: not said."),
            column(
                "new_offset",
                LongType(),
                "offset_illegal, offset_fixed, offset_first_read, offset_went_back: where the client goes on; null: "
                "not said.",
            ),
            column("min_offset", LongType(), "The queue's smallest offset, or of the messages held; null: not said."),
            column("max_offset", LongType(), "The queue's largest offset, or of the messages held; null: not said."),
            column("reconsume_times", IntegerType(), "consume_failed: how often a message had come again, at most."),
            column("invoke_id", LongType(), "send_failed: one send call's number; its attempts share it."),
            column("retry", IntegerType(), "async_send_retried: 1 for the first retry; null: lost."),
            column("duration_ms", LongType(), "broker_isolated: for how long, ms."),
            column(
                "msg_id", StringType(), "failed_message: the client's unique message id; of the first message consumed."
            ),
            column("message_key", StringType(), "failed_message: business keys."),
            column("client_version", StringType(), "client_created: the client's release, e.g. V4_7_1."),
            LANGUAGE,
            column("detail", StringType(), "What else the message says, as written."),
            column(
                "arguments_lost",
                BooleanType(),
                "The line's arguments were never filled in (5.1.0-5.2.0, async retries of 4.9.3) or it has none: "
                "broker and latency are unknown.",
                required=True,
            ),
            column("exception", StringType(), "Java class of the exception that follows; null without one."),
            column("error", StringType(), "Its message, bounded."),
            column("response_code", IntegerType(), "Broker's response code in that message; null when it names none."),
            column("stack_trace", StringType(), "Beginning of the lines that follow, at most 4000 characters."),
            _TEXT,
            _DIGEST_OF_CLIENT,
            OCCURRENCE,
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=LINE_KEY,
    lineage=LINEAGE,
    values=(("kind", CLIENT_EVENT_KINDS),),
)

CLIENT_HEARTBEAT = Table(
    name="client_heartbeat",
    comment="One row per heartbeat that a broker received, and group of the client in it.",
    schema=StructType(
        [
            CLUSTER,
            event_date("received_at"),
            column("received_at", TimestampType(), "When the broker received it, UTC.", required=True),
            column("broker_name", StringType(), "Broker that received it.", required=True),
            column("client_id", StringType(), "Client id.", required=True),
            column("role", StringType(), "consumer or producer.", required=True),
            column("client_group", StringType(), "Consumer or producer group.", required=True),
            column("address", StringType(), "Client's remote address; null where not recorded."),
            column("language", StringType(), "Client language; null where not recorded."),
            column("client_version", IntegerType(), "MQVersion ordinal, e.g. 409 is 4.9.8; null where not recorded."),
            column("consume_type", StringType(), "CONSUME_PASSIVELY, CONSUME_ACTIVELY or CONSUME_POP; null: producer."),
            column("message_model", StringType(), "CLUSTERING or BROADCASTING; null: producer."),
            column("consume_from_where", StringType(), "As sent; null: producer."),
            column("unit_mode", BooleanType(), "As sent; null: producer."),
            column("fingerprint", IntegerType(), "heartbeatFingerprint; 0: none (before 5.1.3, or V1).", required=True),
            column("without_sub", BooleanType(), "V2 heartbeat that leaves its subscriptions out.", required=True),
            column(
                "subscriptions",
                ArrayType(SUBSCRIPTION, containsNull=False),
                "The client's own; null: producer, or left out as those last sent under the same fingerprint.",
            ),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "received_at", "broker_name", "client_id", "role", "client_group", "address"),
    lineage=LINEAGE,
    values=(("role", ("consumer", "producer")),),
)

MEMBERSHIP_EVENT_KINDS = (
    "consumer_connected",
    "consumer_unregistered",
    "consumer_group_removed",
    "consumer_channel_closed",
    "consumer_channel_expired",
    "consumer_id_changed",
    "subscription_added",
    "subscription_changed",
    "subscription_removed",
    "producer_connected",
    "producer_unregistered",
    "producer_group_removed",
    "producer_channel_closed",
    "producer_channel_expired",
    "group_not_known",
    "group_without_clients",
    "assignment_failed",
    "queue_locked",
    "lock_taken_over",
    "lock_refused",
    "queue_unlocked",
    "unlock_refused",
    "proxy_client_gone",
    "proxy_handles_cleared",
    "broker_isolated",
    "broker_unreachable",
    "broker_reachable",
)

MEMBERSHIP_EVENT = Table(
    name="membership_event",
    comment="One row per line of a log of a broker or proxy that tells of a member, subscription or lock come or gone.",
    schema=StructType(
        [
            CLUSTER,
            event_date("logged_at"),
            column(
                "broker_name",
                StringType(),
                "Broker, from the file's folder or name, or the queue's, where the line is about one; '' where neither "
                "tells. proxy or proxy@<folder>: a proxy wrote it.",
                required=True,
            ),
            LOGGED_AT,
            _RESOLUTION,
            column(
                "kind", StringType(), "What happened; e.g. consumer_connected, consumer_channel_expired.", required=True
            ),
            _LEVEL,
            column("thread", StringType(), "Broker thread that wrote it."),
            column(
                "client_group",
                StringType(),
                "Consumer or producer group; '' in lines of a proxy that name none.",
                required=True,
            ),
            column("client_id", StringType(), "Client id; null where the line names only an address or a group."),
            column(
                "held_by",
                StringType(),
                "lock_refused, unlock_refused: the client that holds the lock; lock_taken_over: that held it.",
            ),
            column("queue_id", IntegerType(), "Locks: the queue, of topic and broker_name."),
            column(
                "isolated_broker",
                StringType(),
                "broker_isolated, broker_unreachable, broker_reachable: the broker, in the proxy's own fault table.",
            ),
            column("duration_ms", LongType(), "broker_isolated: for how long, ms."),
            column("address", StringType(), "Client's remote address; null where the line names none."),
            column(
                "broker_address", StringType(), "The channel's own end, which a route may name; null where not said."
            ),
            column("language", StringType(), "Client language; null where the line does not say."),
            column("client_version", IntegerType(), "MQVersion ordinal, e.g. 409; null where the line does not say."),
            column("last_update_at", TimestampType(), "The channel's last heartbeat, UTC; null where not said."),
            column("consume_type", StringType(), "consumer_connected: as the client sent it."),
            column("message_model", StringType(), "consumer_connected: as the client sent it."),
            column("topic", StringType(), "Topic of the subscription, or of the locked queue."),
            column("sub_string", StringType(), "Subscription: its expression, after the change."),
            column("old_sub_string", StringType(), "subscription_changed: its expression before."),
            column("sub_version", LongType(), "Subscription: subVersion, ms, after the change."),
            _TEXT,
            _DIGEST,
            OCCURRENCE,
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "broker_name", "logged_at", "line_digest", "occurrence"),
    lineage=LINEAGE,
    values=(("kind", MEMBERSHIP_EVENT_KINDS),),
)
