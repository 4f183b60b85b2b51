"""What a producer's fault table made it believe: windows, the items as a date closed, and how it was replayed."""

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
from hindsight.schemas.common_columns import CLUSTER, LINEAGE, LONGS, RUN, STRINGS, event_date
from hindsight.schemas.sends import (
    ATTEMPT,
    BEGIN_AT,
    LAST_BROKER_NAME,
    MODE,
    MODES,
    MSG_ID,
    PRODUCER,
    SEND_KEY,
    THREAD,
    TOPIC_SENT_TO,
)
from hindsight.schemas.table_contract import Table, column

STARTED_AT = column(
    "started_at", TimestampType(), "When the producer process started, UTC; null: no start was recorded."
)
BROKER_NAME = column("broker_name", StringType(), "Broker the item is about.", required=True)
CERTAINTY = column(
    "certainty",
    StringType(),
    "certain; possible (something unseen may have changed it, e.g. the detector); "
    "partial (ASYNC: the hook does not see the client's own retries; or known by its trace, which has no exceptions); "
    "inferred (so are the release and the switch, from what the producer chose: see producer_release).",
    required=True,
)
UNSEEN_REASONS = (
    "unseen_retries (of ASYNC sends, inside of the client), unseen_failures (a trace has none), lost_lines (the "
    "recorder lost some), two_processes (under one group and client id), clock_step (the host's clock stepped back), "
    "settings_changed (while it ran)"
)
REASON = column(
    "reason",
    StringType(),
    f"Why it is not certain, several joined by ` + `: {UNSEEN_REASONS}, detector, ladder_edge (the client's own "
    "measure may have reached the next rung), possibly_absent (the fallback may have forgotten the broker), inferred. "
    "Null: certain, or computed by an earlier release.",
)
CERTAINTIES = ("certainty", ("certain", "possible", "partial", "inferred"))

BROKER_AVAILABILITY_WINDOW = Table(
    name="broker_availability_window",
    comment="One row per maximal stretch in which a producer held a broker NOT available or not reachable, "
    "half-open [window_start, window_end), cut at UTC midnight.",
    schema=StructType(
        [
            CLUSTER,
            event_date("window_start"),
            *PRODUCER,
            STARTED_AT,
            BROKER_NAME,
            column(
                "state",
                StringType(),
                "unavailable: inside notAvailableDuration; unreachable: flag of 5.1.4 on.",
                required=True,
            ),
            column(
                "window_start",
                TimestampType(),
                "When the update that opened it was made, UTC, inclusive.",
                required=True,
            ),
            column(
                "window_end",
                TimestampType(),
                "First instant no longer held so, UTC, exclusive; null: not known.",
            ),
            column(
                "end_reason",
                StringType(),
                "expired, overwritten, removed, reachable_again, restarted, cut_at_midnight, or open: the producer's "
                "record ends inside the window, which ends at window_end unless something not recorded changed it.",
                required=True,
            ),
            column(
                "continues_previous",
                BooleanType(),
                "True: it began before this date's midnight.",
                required=True,
            ),
            column("trigger_kind", StringType(), "What opened it: latency or isolation.", required=True),
            column("trigger_latency_ms", LongType(), "Latency of the opening update, ms.", required=True),
            column(
                "not_available_ms",
                LongType(),
                "Duration the opening update gave, ms; 0 for unreachable.",
                required=True,
            ),
            column("attempts", LongType(), "Updates of this date that opened or extended it.", required=True),
            column("profile", StringType(), "Release family whose rules were replayed.", required=True),
            CERTAINTY,
            REASON,
            *RUN,
        ]
    ),
    key=(
        "cluster",
        "event_date",
        "producer_group",
        "client_id",
        "started_at",
        "broker_name",
        "state",
        "window_start",
    ),
    lineage=LINEAGE,
    values=(
        ("state", ("unavailable", "unreachable")),
        (
            "end_reason",
            ("expired", "overwritten", "removed", "reachable_again", "restarted", "cut_at_midnight", "open"),
        ),
        ("trigger_kind", ("latency", "isolation")),
        CERTAINTIES,
    ),
)

FAULT_ITEM_STATE = Table(
    name="fault_item_state",
    comment="One row per producer, broker and date: the fault item as the date closed. The next date begins with it.",
    schema=StructType(
        [
            CLUSTER,
            event_date("event_date", "the day that closed"),
            *PRODUCER,
            STARTED_AT,
            BROKER_NAME,
            column("current_latency_ms", LongType(), "currentLatency of the last update, ms.", required=True),
            column(
                "start_at",
                TimestampType(),
                "startTimestamp: available again from then on, UTC; null: never isolated.",
            ),
            column(
                "start_at_most",
                TimestampType(),
                "The latest that start_at may be, if the client measured up to the next rung, UTC; null: as start_at.",
            ),
            column("reachable", BooleanType(), "reachableFlag (5.1.4 on); true before.", required=True),
            column("last_update_at", TimestampType(), "When the item was last updated, UTC.", required=True),
            column(
                "opened_at",
                TimestampType(),
                "When the stretch that still lasts was opened; null: none lasts.",
            ),
            column("trigger_kind", StringType(), "Of that stretch's opening update."),
            column("trigger_latency_ms", LongType(), "Of that stretch's opening update, ms."),
            column("not_available_ms", LongType(), "Of that stretch's opening update, ms."),
            column("unreachable_since", TimestampType(), "When the broker became unreachable; null: reachable."),
            column("unreachable_latency_ms", LongType(), "Latency of the update that made it so, ms."),
            column(
                "forgotten_at",
                TimestampType(),
                "From then on the fallback may have removed the item unseen, UTC; null: it has not.",
            ),
            column("profile", StringType(), "Release family whose rules were replayed.", required=True),
            *RUN,
        ]
    ),
    key=("cluster", "event_date", "producer_group", "client_id", "started_at", "broker_name"),
    lineage=LINEAGE,
)

PRODUCER_REPLAY = Table(
    name="producer_replay",
    comment="One row per producer process and date: under which rules it was replayed, or why it could not be.",
    schema=StructType(
        [
            CLUSTER,
            event_date("event_date", "the day"),
            *PRODUCER,
            STARTED_AT,
            column(
                "client_version",
                StringType(),
                "Release, from its start, its lines, or settings; null: unknown.",
            ),
            column(
                "profile",
                StringType(),
                "Release family whose rules apply; inferred ones that say the same as `P514|P520`; null: unknown.",
            ),
            column(
                "latency_fault_enabled",
                BooleanType(),
                "sendLatencyFaultEnable, recorded or inferred; null: not recorded, taken as off.",
            ),
            column(
                "detector_enabled",
                BooleanType(),
                "startDetectorEnable; taken as off where not recorded.",
                required=True,
            ),
            column(
                "recorded",
                StructType(
                    [
                        column("client_version", StringType(), "Release."),
                        column("latency_fault_enabled", BooleanType(), "sendLatencyFaultEnable."),
                        column("detector_enabled", BooleanType(), "startDetectorEnable."),
                        column("latency_max_ms", LONGS, "latencyMax ladder, ms."),
                        column("not_available_ms", LONGS, "notAvailableDuration ladder, ms."),
                        column("retry_times_sync", IntegerType(), "retryTimesWhenSendFailed."),
                        column("retry_times_async", IntegerType(), "retryTimesWhenSendAsyncFailed."),
                        column("retry_another_broker", BooleanType(), "retryAnotherBrokerWhenNotStoreOK."),
                        column("send_timeout_ms", LongType(), "sendMsgTimeout, ms."),
                    ]
                ),
                "What the start or the lines recorded up to this date, before settings and defaults fill in.",
                required=True,
            ),
            column("latency_max_ms", LONGS, "Ladder in force, ms; null: profile unknown."),
            column(
                "not_available_ms",
                LONGS,
                "Ladder in force, ms; a rung of more than 366 days stands as 366 days. Null: profile unknown.",
            ),
            column(
                "verdict",
                StringType(),
                "replayed; off (the switch is off: no windows); not_applicable (a client of another language, see "
                "reasons); unknown (see reasons: no windows are claimed).",
                required=True,
            ),
            column("reasons", STRINGS, "What is missing or doubtful; empty: nothing.", required=True),
            CERTAINTY,
            REASON,
            column(
                "unseen",
                ArrayType(
                    StructType(
                        [
                            column("since", TimestampType(), "From when on, UTC; null: from before all records."),
                            column("until", TimestampType(), "Until when, UTC.", required=True),
                            column(
                                "reason",
                                StringType(),
                                f"{UNSEEN_REASONS[0].upper()}{UNSEEN_REASONS[1:]}.",
                                required=True,
                            ),
                        ]
                    ),
                    False,
                ),
                "Stretches in which its fault table may have been updated unseen, as far as they bear on this date "
                "or a later one. Null: none, or computed by an earlier release.",
            ),
            column("attempts", LongType(), "Attempts that began on this date.", required=True),
            column(
                "sources",
                STRINGS,
                "Landing formats of these attempts: of several that tell of the producer the nearest to it, the others "
                "are not replayed; empty: no attempt began.",
                required=True,
            ),
            column(
                "last_attempt_at",
                TimestampType(),
                "Last recorded instant of the process up to this date, UTC.",
                required=True,
            ),
            *RUN,
        ]
    ),
    key=("cluster", "event_date", "producer_group", "client_id", "started_at"),
    lineage=LINEAGE,
    values=(("verdict", ("replayed", "off", "not_applicable", "unknown")), CERTAINTIES),
    # Counts of one date do not matter to the next: a late attempt must not recompute all history after it.
    carried=(
        "cluster",
        "event_date",
        "producer_group",
        "client_id",
        "started_at",
        "recorded",
        "certainty",
        "unseen",
        "last_attempt_at",
    ),
)

SEND_VERDICT = Table(
    name="send_verdict",
    comment="One row per attempt whose choice of a broker was in doubt: could its client have made it? Attempts "
    "without a row went to a broker that was available to them (view send_choice has them all). Go and C++ producers "
    "take queues in turn: each of their attempts has a row, which judges the queue.",
    schema=StructType(
        [
            CLUSTER,
            event_date("begin_at"),
            *PRODUCER,
            STARTED_AT,
            TOPIC_SENT_TO,
            THREAD,
            MSG_ID,
            MODE,
            ATTEMPT,
            column("broker_name", StringType(), "Broker chosen.", required=True),
            column("queue_id", IntegerType(), "Queue chosen.", required=True),
            BEGIN_AT,
            LAST_BROKER_NAME,
            column(
                "choice_assumed",
                BooleanType(),
                "True: no record says that the client chose the queue itself; it is assumed.",
                required=True,
            ),
            column("admissible", STRINGS, "Brokers that the client could have chosen; null: not known."),
            column(
                "rule",
                StringType(),
                "Rule that decided: available, reachable, best_half (pickOneAtLeast), round_robin, retry (Go, C++); "
                "null: not known.",
            ),
            column(
                "verdict",
                StringType(),
                "consistent; possible (reason says what has to be assumed); impossible; unknown (reason: what lacks).",
                required=True,
            ),
            column(
                "reason",
                StringType(),
                "Of possible: same_millisecond, clock_tolerance, near_latencies, ladder_edge, detector, "
                "possibly_absent, stale_route, stale_route_or_rewritten_list, unseen_retries, lost_lines, "
                "two_processes, clock_step, settings_changed, or several joined by ` + `; of Go and C++ "
                "unseen_attempts, concurrent_sends, active_mode, stale_route. Of unknown: what is missing. Of "
                "impossible, for Go and C++ alone: which queue was next, or why the send was not to be tried again.",
            ),
            column(
                "profile",
                StringType(),
                "Release family whose rules were applied, several that give the same as `G5|G6|G7`; null: not known.",
            ),
            *RUN,
        ]
    ),
    key=(*SEND_KEY, "broker_name", "queue_id", "begin_at"),
    lineage=LINEAGE,
    values=(
        MODES,
        ("rule", ("available", "reachable", "best_half", "round_robin", "retry")),
        ("verdict", ("consistent", "possible", "impossible", "unknown")),
    ),
)
