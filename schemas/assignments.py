"""What brokers hand out to members that let them assign (5.0 on), and what these take."""

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
from hindsight.schemas.common_columns import CLUSTER, COLLECTOR, LINEAGE, RUN, event_date
from hindsight.schemas.consumers import CLIENT, GROUP
from hindsight.schemas.table_contract import Table, column

_QUEUES = ArrayType(
    StructType(
        [
            column("mode", StringType(), "PULL or POP.", required=True),
            column("broker_name", StringType(), "Broker.", required=True),
            column("queue_id", IntegerType(), "Queue id on that broker; -1: all of its queues.", required=True),
            column("certain", BooleanType(), "False: only some of the brokers hand it out.", required=True),
        ]
    ),
    containsNull=False,
)

BROKER_ASSIGNMENT = Table(
    name="broker_assignment",
    comment="One row per topic, member and stretch of rounds of a date in which the brokers handed the same out to it "
    "and it took the same: of groups whose brokers assign the queues, by POP or not (5.0 on).",
    schema=StructType(
        [
            CLUSTER,
            event_date("from_at"),
            COLLECTOR,
            GROUP,
            TOPIC,
            CLIENT,
            column("from_at", TimestampType(), "First round of the stretch, UTC.", required=True),
            column("until_at", TimestampType(), "Its last round, UTC.", required=True),
            column("rounds", LongType(), "Rounds of the stretch, >= 1.", required=True),
            column("handed_out", _QUEUES, "What a broker of the topic hands out to it; null: not known, see reason."),
            column("taken", _QUEUES, "What it showed that it pulls and pops; null: it did not answer."),
            column(
                "agrees",
                BooleanType(),
                "It took just what one of the brokers hands out, or handed out a round before; null: not known.",
            ),
            column("reason", StringType(), "Why it is not known, in words; null: it is, or the member did not answer."),
            *RUN,
        ]
    ),
    key=("cluster", "event_date", "collector", "consumer_group", "topic", "client_id", "from_at"),
    lineage=LINEAGE,
)
