"""What callers of producers got: one row per send whose story is more than one good answer."""

from __future__ import annotations

from hindsight.schemas.availability import STARTED_AT
from hindsight.schemas.column_types import ArrayType, IntegerType, LongType, StringType, StructType, TimestampType
from hindsight.schemas.common_columns import CLUSTER, LINEAGE, RUN, STRINGS, event_date
from hindsight.schemas.sends import MODES, MSG_ID, PRODUCER, TOPIC_SENT_TO
from hindsight.schemas.table_contract import Table, column

_ATTEMPT = StructType(
    [
        column("begin_at", TimestampType(), "When it began, UTC."),
        column("end_at", TimestampType(), "When its result came, UTC."),
        column("broker_name", StringType(), "Broker it went to; null: not known."),
        column("queue_id", IntegerType(), "Queue it went to; null: not recorded."),
        column("outcome", StringType(), "As in send_attempt."),
        column("exception", StringType(), "Java class of the exception; null when none was thrown."),
        column("response_code", IntegerType(), "Broker's response code; null when none is told."),
        column("latency_ms", LongType(), "end_at - begin_at."),
    ]
)

SEND_CALL = Table(
    name="send_call",
    comment="One row per send that failed, was tried again or was answered with another status than SEND_OK. Sends "
    "without a row were one attempt that was answered SEND_OK, or of which no result was seen (view send_result has "
    "them all).",
    schema=StructType(
        [
            CLUSTER,
            event_date("begin_at"),
            *PRODUCER,
            STARTED_AT,
            TOPIC_SENT_TO,
            MSG_ID,
            column("mode", StringType(), "SYNC, ASYNC or ONEWAY; null: a trace does not say."),
            column("begin_at", TimestampType(), "When its first recorded attempt began, UTC, ms.", required=True),
            column("end_at", TimestampType(), "When its last recorded attempt ended, UTC, ms.", required=True),
            column(
                "attempts",
                ArrayType(_ATTEMPT),
                "Its attempts in order. One that must have been made (by the numbers of those around it, or as lines "
                "were lost), and of which no line tells, has neither instants nor an outcome; the client's own ASYNC "
                "retries are in no hook's record.",
                required=True,
            ),
            column(
                "brokers_sent",
                STRINGS,
                "Brokers of the attempts, in order, without those not known (BrokersSent).",
                required=True,
            ),
            column(
                "timeout_ms",
                LongType(),
                "sendMsgTimeout, ms, as recorded or by default; from 4.3.0 on of all attempts together, before "
                "of each. A time-out that the application gives with the send is in no record.",
                required=True,
            ),
            column("cost_ms", LongType(), "End of the last attempt - begin of the first.", required=True),
            column(
                "used_up_by",
                IntegerType(),
                "Place, from 0, of the attempt in which timeout_ms ran out; null: in none, or the release is unknown.",
            ),
            column(
                "result",
                StringType(),
                "What the caller got: ok; not_ok (another SendStatus); exception; timeout (sendDefaultImpl call "
                "timeout); unknown.",
                required=True,
            ),
            column(
                "result_text",
                StringType(),
                "The SendStatus, or the exception's message as the client words it, without its link; null: not known.",
            ),
            column(
                "retry_verdict",
                StringType(),
                "Whether each retry, or its absence, follows from the release's rules: right; missing (they ask for "
                "an attempt that is not recorded); not_allowed (they ask for none: the application sent again, or the "
                "settings are others); beyond_budget (it began after the time-out); unknown.",
                required=True,
            ),
            column("retry_reason", StringType(), "Which attempt and why; of unknown: what lacks. Null: right."),
            column(
                "stored_twice",
                StringType(),
                "Whether brokers may hold the message more than once: no, possible, unknown (retries unseen).",
                required=True,
            ),
            column(
                "stored_twice_reasons",
                STRINGS,
                "What was retried though it may have stored: timeout_retried, not_store_ok_retried, no_answer_retried, "
                "stored_and_retried; empty: nothing.",
                required=True,
            ),
            column(
                "assumed",
                STRINGS,
                "Settings that retry_verdict rests on and no record tells: taken as the client's defaults.",
                required=True,
            ),
            column("profile", StringType(), "Release family whose rules were applied; null: not known."),
            *RUN,
        ]
    ),
    key=("cluster", "event_date", "producer_group", "client_id", "topic", "msg_id", "mode", "begin_at"),
    lineage=LINEAGE,
    values=(
        MODES,
        ("result", ("ok", "not_ok", "exception", "timeout", "unknown")),
        ("retry_verdict", ("right", "missing", "not_allowed", "beyond_budget", "unknown")),
        ("stored_twice", ("no", "possible", "unknown")),
    ),
)
