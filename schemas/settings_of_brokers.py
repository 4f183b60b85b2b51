"""What single brokers say of topics and groups: where each queue begins and ends, and how both are set up."""

from __future__ import annotations

from hindsight.schemas.collection import BROKER, BROKER_ASKED, CAPTURE, TOPIC
from hindsight.schemas.column_types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)
from hindsight.schemas.common_columns import CAPTURED_AT, DOUBTS, LINEAGE, ROUND_AT, SOURCE
from hindsight.schemas.consumers import GROUP, QUEUE_ID
from hindsight.schemas.table_contract import Table, column

TOPIC_STATUS = Table(
    name="topic_status",
    comment="One row per capture, topic and queue: the first offset that its broker still has, and the next it writes.",
    schema=StructType(
        [
            *CAPTURE,
            TOPIC,
            BROKER,
            QUEUE_ID,
            CAPTURED_AT,
            ROUND_AT,
            column("broker_asked", StringType(), "Broker that was asked; null: all brokers of the topic."),
            column("min_offset", LongType(), "First offset that is still there.", required=True),
            column("max_offset", LongType(), "Next offset the broker will write.", required=True),
            column("last_update_at", TimestampType(), "When the last message was stored, UTC; null: never."),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "collector", "topic", "broker_name", "queue_id", "captured_at"),
    lineage=LINEAGE,
)

SCHEDULE_PROGRESS = Table(
    name="schedule_progress",
    comment="One row per capture, broker and delay level: how far the broker has delivered delayed messages "
    "(scheduleMessageOffset of its runtime info). Levels that nobody used have none.",
    schema=StructType(
        [
            *CAPTURE,
            BROKER_ASKED,
            column("delay_level", IntegerType(), "Delay level, from 1; by default 1s, 5s, 10s, ... 2h.", required=True),
            CAPTURED_AT,
            ROUND_AT,
            column(
                "delay_offset", LongType(), "Next offset of the level's queue that is to be delivered.", required=True
            ),
            column("max_offset", LongType(), "Next offset that will be written there.", required=True),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "collector", "broker_name", "delay_level", "captured_at"),
    lineage=LINEAGE,
)

TOPIC_CONFIG = Table(
    name="topic_config",
    comment="One row per capture, topic and broker: how the broker has the topic set up.",
    schema=StructType(
        [
            *CAPTURE,
            TOPIC,
            BROKER_ASKED,
            CAPTURED_AT,
            ROUND_AT,
            column("read_queue_nums", IntegerType(), "Queues that consumers see.", required=True),
            column("write_queue_nums", IntegerType(), "Queues that producers see.", required=True),
            column("perm", IntegerType(), "Permission bits: 4 read, 2 write, 1 inherit.", required=True),
            column("ordered", BooleanType(), "The topic is set up as ordered; null: not said."),
            column(
                "hosted_queues",
                ArrayType(
                    StructType(
                        [
                            column("logical_id", IntegerType(), "Logical queue of the static topic.", required=True),
                            column("broker_name", StringType(), "Broker that holds this part of it.", required=True),
                            column("queue_id", IntegerType(), "That broker's own queue.", required=True),
                            column(
                                "logic_offset", LongType(), "Logical offset at which the part begins.", required=True
                            ),
                            column("start_offset", LongType(), "The own queue's offset there.", required=True),
                        ]
                    ),
                    containsNull=False,
                ),
                "Static topic (5.0 on): where its logical queues lie and lay, oldest first; empty for other topics.",
                required=True,
            ),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "collector", "topic", "broker_name", "captured_at"),
    lineage=LINEAGE,
)

SUBSCRIPTION_GROUP = Table(
    name="subscription_group",
    comment="One row per capture, consumer group and broker: how the broker has the group set up.",
    schema=StructType(
        [
            *CAPTURE,
            GROUP,
            BROKER_ASKED,
            CAPTURED_AT,
            ROUND_AT,
            column("consume_enable", BooleanType(), "The group may consume; null: not said."),
            column("consume_broadcast_enable", BooleanType(), "It may consume by broadcasting; null: not said."),
            column("consume_from_min_enable", BooleanType(), "It may begin at the first offset; null: not said."),
            column("consume_message_orderly", BooleanType(), "It consumes in order (5.0 on); null: not said."),
            column("notify_consumer_ids_changed", BooleanType(), "Members are told of changes; null: not said."),
            column("retry_queue_nums", IntegerType(), "Queues of its retry topic on this broker; null: not said."),
            column("retry_max_times", IntegerType(), "Deliveries before the dead letter queue; null: not said."),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "collector", "consumer_group", "broker_name", "captured_at"),
    lineage=LINEAGE,
)

REQUEST_MODES = ("PULL", "POP")

MESSAGE_REQUEST_MODE = Table(
    name="message_request_mode",
    comment="One row per capture, broker, topic and group: how the broker hands out queues to members that let it "
    "assign (5.0 on). Rows without topic and group say what holds for all that the broker does not name.",
    schema=StructType(
        [
            *CAPTURE,
            column("topic", StringType(), "Topic; null: every topic and group that the broker does not name."),
            column("consumer_group", StringType(), "Consumer group; null: as for the topic."),
            BROKER_ASKED,
            column(
                "told_by",
                StringType(),
                "messageRequestModes: what was set by setMessageRequestMode; brokerConfig: the broker's own settings.",
                required=True,
            ),
            CAPTURED_AT,
            ROUND_AT,
            column(
                "mode",
                StringType(),
                "PULL: a queue has one owner; POP: members may share it; null: as the broker's own settings say.",
            ),
            column(
                "pop_share_queue_num",
                IntegerType(),
                "POP: with so many members that follow it one shares its queues; 0 or less: with all; null: not said.",
            ),
            column(
                "server_load_balancer",
                BooleanType(),
                "The broker's serverLoadBalancerEnable; false: each member is given every queue; null: not said here.",
            ),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "collector", "topic", "consumer_group", "broker_name", "told_by", "captured_at"),
    lineage=LINEAGE,
    values=(("mode", REQUEST_MODES), ("told_by", ("messageRequestModes", "brokerConfig"))),
)
