"""What stands out on the producer side: who isolated what minute by minute, and findings in plain sentences."""

from __future__ import annotations

from typing import Literal

from hindsight.schemas.availability import CERTAINTIES, STARTED_AT
from hindsight.schemas.column_types import LongType, StringType, StructType, TimestampType
from hindsight.schemas.common_columns import CLUSTER, LINEAGE, RUN, STRINGS, event_date
from hindsight.schemas.drift import SEVERITIES
from hindsight.schemas.table_contract import Table, column

# How bad each finding is by itself.
FINDING_SEVERITY: dict[str, Literal["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"]] = {
    "FLEET_SLOW": "HIGH",  # the broker, not a producer: most of those who send are affected
    "BROKER_REFUSES": "HIGH",  # the broker: whoever sends to it gets an error, or less safety than was asked for
    "ALL_ISOLATED": "HIGH",  # nothing is left to choose from: sends go to brokers that just failed
    "NOT_RETURNING": "HIGH",  # heals only at the next route change; until then the others carry the load
    "LONG_ISOLATION": "MEDIUM",  # capacity is missing to one producer, for a known time
    "OVER_ISOLATION": "MEDIUM",  # one producer's own network or ladder: the broker serves the others
    "IMPOSSIBLE_CHOICE": "MEDIUM",  # what is said of this producer rests on a wrong profile, clock or assumption
    "RELEASE_DIFFERS": "MEDIUM",  # what is said of this producer rests on a record that its choices contradict
    "FAULT_OFF_SLOW": "LOW",  # advice: the switch would have helped
}

FLEET_MINUTE = Table(
    name="fleet_minute",
    comment="One row per cluster, minute in which a producer was active, and broker of the date: how many active "
    "producers held the broker NOT available. Active: at least min_sends_per_minute sends (30 by default) in the "
    "minute.",
    schema=StructType(
        [
            CLUSTER,
            event_date("minute_at"),
            column("minute_at", TimestampType(), "First instant of the minute, UTC.", required=True),
            column("broker_name", StringType(), "Broker, sent to or held not available on this date.", required=True),
            column(
                "active",
                LongType(),
                "Active producer processes whose fault table was replayed; 0: nobody can tell.",
                required=True,
            ),
            column(
                "isolating",
                LongType(),
                "Of `active`, those that held the broker not available at some instant of the minute.",
                required=True,
            ),
            column(
                "isolating_at_least",
                LongType(),
                "Of `isolating`, those whose windows are certain.",
                required=True,
            ),
            column(
                "isolating_at_most",
                LongType(),
                "`isolating`, others of `active` of whom too little is known to rule it out, and `active_unknown`.",
                required=True,
            ),
            column(
                "active_unknown",
                LongType(),
                "Active producer processes that could not be replayed or whose switch is not recorded.",
                required=True,
            ),
            column(
                "active_off",
                LongType(),
                "Active producer processes with the switch off: they isolate nothing and are left aside.",
                required=True,
            ),
            column(
                "attempts",
                LongType(),
                "Attempts to the broker that began in this minute, of any producer.",
                required=True,
            ),
            *RUN,
        ]
    ),
    key=("cluster", "event_date", "minute_at", "broker_name"),
    lineage=LINEAGE,
)

PRODUCER_FINDING = Table(
    name="producer_finding",
    comment="One row per finding about a producer process and a broker, or about a broker and the whole fleet. "
    "Producers that could not be replayed have none of their isolations here. Write `from` and `to` in backticks.",
    schema=StructType(
        [
            CLUSTER,
            event_date("event_date", "the finding: when its condition became true, or when what lasts began this date"),
            column(
                "code",
                StringType(),
                "FLEET_SLOW, BROKER_REFUSES, OVER_ISOLATION, ALL_ISOLATED, LONG_ISOLATION, NOT_RETURNING, "
                "FAULT_OFF_SLOW, RELEASE_DIFFERS or IMPOSSIBLE_CHOICE.",
                required=True,
            ),
            column("severity", StringType(), "CRITICAL, HIGH, MEDIUM, LOW or INFO, by code.", required=True),
            column("subject", StringType(), "What it is about, as text: producer, topic, broker.", required=True),
            column("producer_group", StringType(), "Producer group; null: about the fleet."),
            column("client_id", StringType(), "Producer client id; null: about the fleet."),
            STARTED_AT,
            column("topic", StringType(), "Topic; null: not about one topic."),
            column("broker_name", StringType(), "Broker; null: about every broker of the topic."),
            column(
                "kind",
                StringType(),
                "LONG_ISOLATION: state of the window (unavailable, unreachable); NOT_RETURNING: queue_list_rewritten "
                "(releases that do so), not_chosen (others); BROKER_REFUSES: busy (SYSTEM_BUSY), not_store_ok (stored, "
                "not yet flushed or copied); null: the code says it all.",
            ),
            column(
                "from",
                TimestampType(),
                "When it began, UTC; LONG_ISOLATION: on an earlier date where it lasted over midnight.",
                required=True,
            ),
            column("to", TimestampType(), "When it ended, UTC; null: it lasts over its date, or its end is unknown."),
            column(
                "certainty",
                StringType(),
                "certain; possible (what is not recorded may have made it otherwise); partial (ASYNC: the hook does "
                "not see the client's own retries); inferred (so are the release and switch).",
                required=True,
            ),
            column("evidence", STRINGS, "Table and key of the rows it rests on.", required=True),
            column("sentence", StringType(), "The finding in one plain sentence; clock times are UTC.", required=True),
            *RUN,
        ]
    ),
    key=(
        "cluster",
        "event_date",
        "code",
        "producer_group",
        "client_id",
        "started_at",
        "topic",
        "broker_name",
        "kind",
        "from",
    ),
    lineage=LINEAGE,
    values=(
        ("code", tuple(FINDING_SEVERITY)),
        ("severity", SEVERITIES),
        ("kind", ("unavailable", "unreachable", "queue_list_rewritten", "not_chosen", "busy", "not_store_ok")),
        CERTAINTIES,
    ),
)
