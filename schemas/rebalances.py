"""When each client of a group took other queues: what set it off, how long it took, and what nobody read meanwhile."""

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
from hindsight.schemas.common_columns import CLUSTER, COLLECTOR, LINEAGE, RUN, STRINGS, event_date
from hindsight.schemas.consumers import CLIENT, GROUP
from hindsight.schemas.table_contract import Table, column

TRIGGER_KINDS = (
    "start",
    "member_joined",
    "member_left",
    "member_died",
    "member_gone",
    "route_changed",
    "subscription_changed",
    "lock_acquired",
    "pull_expired",
    "timer",
    "unknown",
)

_HAND_OVER = StructType(
    [
        column("topic", StringType(), "Topic.", required=True),
        column("broker_name", StringType(), "Broker.", required=True),
        column("queue_id", IntegerType(), "Queue.", required=True),
        column("from_client_id", StringType(), "Who had it before; null: nobody is known to have had it."),
        column("released_at", TimestampType(), "When that showed it no more, UTC; null: not before it was taken."),
        column("unread_ms", LongType(), "For how long nobody had it, ms, at most; null: not known."),
        column("unread_at_least_ms", LongType(), "For how long nobody had it, ms, at least.", required=True),
        column("lock_failures", IntegerType(), "How often a broker refused its lock before.", required=True),
    ]
)
_EXCEPTION = StructType(
    [
        column("at", TimestampType(), "When it was logged, UTC.", required=True),
        column("kind", StringType(), "As in client_event; e.g. rebalance_failed.", required=True),
        column("exception", StringType(), "Java class; null: the line has none."),
        column("error", StringType(), "Its message, first 300 characters."),
        column("certain", BooleanType(), "False: another client of the log may have met it.", required=True),
    ]
)

REBALANCE_EVENT = Table(
    name="rebalance_event",
    comment="One row per client and rebalance that gave it other queues, or that failed: what set it off, how long it "
    "took, for how long nobody read the queues that it took. A client's log tells it exactly, rounds as an interval.",
    schema=StructType(
        [
            CLUSTER,
            event_date("changed_at", "changed_at, or of the round that shows it and began right before midnight"),
            COLLECTOR,
            GROUP,
            CLIENT,
            column(
                "changed_at",
                TimestampType(),
                "When it had its new queues, UTC: its last result, or the first answer that shows them.",
                required=True,
            ),
            column(
                "changed_after",
                TimestampType(),
                "Its last answer before, UTC: it changed later than that; null: changed_at is logged.",
            ),
            column("told_by", StringType(), "client_log, or running_info: what rounds show.", required=True),
            column("outcome", StringType(), "applied, or failed: an exception and no result.", required=True),
            column(
                "trigger_kind",
                StringType(),
                "start, member_joined, member_left (unregistered), member_died (its connection broke or expired), "
                "member_gone (left or died), route_changed, subscription_changed, lock_acquired, pull_expired, timer "
                "(nothing else is known) or unknown.",
                required=True,
            ),
            column("trigger_subjects", STRINGS, "Which clients or topics; empty: not known.", required=True),
            column("trigger_at", TimestampType(), "When that was, UTC, at the latest; null: not known."),
            column("trigger_after", TimestampType(), "Not before this, UTC; null: trigger_at is exact."),
            column("also", STRINGS, "Other kinds of triggers that match.", required=True),
            column("woken_by", StringType(), "notification, timer or start; null: no log tells."),
            column("took_ms", LongType(), "From the trigger to its new queues, ms, at most; null: not known."),
            column("took_at_least_ms", LongType(), "The same, at least; null: not known."),
            column(
                "certainty",
                StringType(),
                "exact (both ends are logged), interval (an end lies between two reads) or trigger_unknown.",
                required=True,
            ),
            column("results", IntegerType(), "Results that it logged, 5 s apart at most; 0: no log.", required=True),
            column("topics", STRINGS, "Topics of these queues.", required=True),
            column("members_before", IntegerType(), "Members that it counted before; null: not told."),
            column(
                "members_after", IntegerType(), "Members that it counted then, or that were listed; null: not told."
            ),
            column("queues_gained", IntegerType(), "Queues that it took.", required=True),
            column("queues_lost", IntegerType(), "Queues that it gave up.", required=True),
            column("queues_held", IntegerType(), "Queues that it had then, of all topics.", required=True),
            column("hand_overs", ArrayType(_HAND_OVER, False), "The queues that it took.", required=True),
            column("longest_unread_ms", LongType(), "Longest hand_overs.unread_ms; null: of none is it known."),
            column("unread_ms", LongType(), "Sum of hand_overs.unread_ms; null: of none is it known."),
            column("unread_at_least_ms", LongType(), "Sum of hand_overs.unread_at_least_ms.", required=True),
            column(
                "held_twice_ms", LongType(), "Longest time another had had a queue that it gave up, ms.", required=True
            ),
            column("lock_failures", IntegerType(), "Refusals of locks of the queues that it took.", required=True),
            column(
                "exceptions",
                ArrayType(_EXCEPTION, False),
                "The first 20 that its log has since its rebalance before, and that nobody but the log was told of.",
                required=True,
            ),
            column("exception_count", IntegerType(), "How many there are.", required=True),
            column("ordered", BooleanType(), "The group consumes in order; null: not known."),
            column("evidence", STRINGS, "Landing files and lines it rests on, `file:line`.", required=True),
            column("sentence", StringType(), "The rebalance in one plain sentence.", required=True),
            *RUN,
        ]
    ),
    key=("cluster", "event_date", "collector", "consumer_group", "client_id", "changed_at", "told_by", "outcome"),
    lineage=LINEAGE,
    values=(
        ("told_by", ("client_log", "running_info")),
        ("outcome", ("applied", "failed")),
        ("trigger_kind", TRIGGER_KINDS),
        ("woken_by", ("notification", "timer", "start")),
        ("certainty", ("exact", "interval", "trigger_unknown")),
    ),
)

REBALANCE_STATE = Table(
    name="rebalance_state",
    comment="One row per group and date: who had which queues as it closed, and what the next date needs to go on.",
    schema=StructType(
        [
            CLUSTER,
            event_date("event_date", "the day that closed"),
            GROUP,
            column("state", StringType(), "JSON: queues by client, counts, signs of the last minutes.", required=True),
            column("last_told_at", TimestampType(), "Last instant that anything tells of, UTC.", required=True),
            *RUN,
        ]
    ),
    key=("cluster", "event_date", "consumer_group"),
    lineage=LINEAGE,
)
