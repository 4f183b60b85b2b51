"""What producers did: send attempts and the starts of producer processes."""

from __future__ import annotations

from hindsight.schemas.column_types import BooleanType, IntegerType, LongType, StringType, StructType, TimestampType
from hindsight.schemas.common_columns import CLUSTER, DOUBTS, LINEAGE, LONGS, SOURCE, event_date
from hindsight.schemas.table_contract import Part, Table, column

SEND_STATUSES = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
MODES = ("mode", ("SYNC", "ASYNC", "ONEWAY"))

PRODUCER = [
    column("producer_group", StringType(), "Producer group.", required=True),
    column(
        "client_id",
        StringType(),
        "Producer client id, `<ip>@<instance>`; one fault table each. Of a trace, which names none: `process <hex>`.",
        required=True,
    ),
]

THREAD = column("thread", StringType(), "Thread that began the attempt; null where the hook does not say.")
MODE = column("mode", StringType(), "SYNC, ASYNC or ONEWAY.", required=True)
BEGIN_AT = column("begin_at", TimestampType(), "When the attempt began, UTC, ms.", required=True)
TOPIC_SENT_TO = column("topic", StringType(), "Topic sent to.", required=True)
ATTEMPT = column(
    "attempt",
    IntegerType(),
    "0 for the first attempt of a send; null for ASYNC, whose retries no hook sees, and trace.",
)
LAST_BROKER_NAME = column(
    "last_broker_name",
    StringType(),
    "Broker of the previous attempt of the same send; null: the first, or not recorded.",
)
MSG_ID = column("msg_id", StringType(), "Client's unique message id; attempts of one send share it.", required=True)

_SEND_ATTEMPT_COLUMNS = StructType(
    [
        CLUSTER,
        event_date("begin_at"),
        *PRODUCER,
        THREAD,
        TOPIC_SENT_TO,
        column(
            "broker_name",
            StringType(),
            "Broker the attempt went to; of a trace by its address, null while no route shows that.",
        ),
        column("broker_address", StringType(), "Its address; null where the hook does not say."),
        column(
            "broker_named_as",
            StringType(),
            "The broker as the source itself names it: its name, or its address (trace).",
            required=True,
        ),
        column("queue_id", IntegerType(), "Queue the attempt went to, >= 0; null: a trace does not say."),
        column("mode", StringType(), "SYNC, ASYNC or ONEWAY; null: a trace does not say (never ONEWAY)."),
        ATTEMPT,
        LAST_BROKER_NAME,
        column("queue_selected_by", StringType(), "`client`, or who chose the queue; null: not recorded."),
        BEGIN_AT,
        column(
            "end_at",
            TimestampType(),
            "When its result came (ASYNC: callback, else submit), UTC, ms.",
            required=True,
        ),
        column(
            "latency_ms",
            LongType(),
            "end_at - begin_at; negative when the clock stepped back.",
            required=True,
        ),
        column(
            "outcome",
            StringType(),
            "SendStatus of the answer, EXCEPTION, SUBMITTED (handed over, no answer is awaited or seen), "
            "UNKNOWN (a callback ran, the hook saw no result), or NOT_STORE_OK (a trace: any status but SEND_OK).",
            required=True,
        ),
        column("exception", StringType(), "Java class of the exception; null when none was thrown."),
        column("error", StringType(), "Its message, bounded."),
        column("response_code", IntegerType(), "Broker's response code in the message; null when it names none."),
        MSG_ID,
        column("offset_msg_id", StringType(), "Broker's offset message id; null without an answer."),
        column("message_key", StringType(), "Business key; null when the message has none."),
        column("message_type", StringType(), "Trace: Normal_Msg, Trans_Msg_Half, Trans_msg_Commit or Delay_Msg."),
        column(
            "body_length",
            IntegerType(),
            "Bytes of the body, of a trace as it was sent, compressed or not; null: not recorded.",
        ),
        column("delay_level", IntegerType(), "Delay level, 1 to 18; 0 or null: none, or not recorded."),
        column("client_version", StringType(), "Release, only if the line itself says so."),
        column("latency_fault_enabled", BooleanType(), "sendLatencyFaultEnable, only if the line itself says so."),
        column(
            "phase",
            StringType(),
            "Which line the result is from: callback, no_result, result or submit.",
            required=True,
        ),
        column(
            "exceptions_observable",
            BooleanType(),
            "False: the source has no attempts that ended in an exception (trace), so windows from it are partial.",
            required=True,
        ),
        DOUBTS,
        *SOURCE,
        column("submit_end_at", TimestampType(), "ASYNC: when the request was handed over, UTC; null: not seen."),
        column("submit_file", StringType(), "File of the submit line."),
        column("submit_line", LongType(), "Its line."),
        column("callback_end_at", TimestampType(), "ASYNC: when the callback ran, UTC; null: not seen."),
        column("callback_outcome", StringType(), "ASYNC: outcome of the callback; null: not seen."),
        column("callback_file", StringType(), "File of the callback line."),
        column("callback_line", LongType(), "Its line."),
    ]
)

# What every table of attempts tells them by, besides the broker, queue and begin.
SEND_KEY = ("cluster", "event_date", "producer_group", "client_id", "msg_id", "mode", "attempt")
_ATTEMPT_KEY = (*SEND_KEY, "broker_named_as", "queue_id", "begin_at", "source")
_SUBMIT = ("submit_end_at", "submit_file", "submit_line")
_CALLBACK = ("callback_end_at", "callback_outcome", "callback_file", "callback_line")

SEND_ATTEMPT = Table(
    name="send_attempt",
    comment="One row per attempt of a producer to send a message; an ASYNC submit and its callback are one row.",
    schema=_SEND_ATTEMPT_COLUMNS,
    key=_ATTEMPT_KEY,
    lineage=LINEAGE,
    values=(
        MODES,
        ("outcome", (*SEND_STATUSES, "EXCEPTION", "SUBMITTED", "UNKNOWN", "NOT_STORE_OK")),
        ("phase", ("callback", "no_result", "result", "submit")),
    ),
    parts=(
        # The phases' alphabetical order is their rank: a callback's result wins over a submit's.
        Part(
            tuple(n for n in _SEND_ATTEMPT_COLUMNS.names if n not in (*_ATTEMPT_KEY, *_SUBMIT, *_CALLBACK)),
            ("{r}.phase", "{r}.source_file", "{r}.source_line"),
        ),
        Part(_SUBMIT, ("{r}.submit_file", "{r}.submit_line"), ("submit_file", "submit_line")),
        Part(
            _CALLBACK,
            ("{r}.callback_outcome IS NULL", "{r}.callback_file", "{r}.callback_line"),
            ("callback_file", "callback_line"),
        ),
    ),
)

PRODUCER_INSTANCE = Table(
    name="producer_instance",
    comment="One row per start of a producer process, with the configuration it recorded itself.",
    schema=StructType(
        [
            CLUSTER,
            event_date("started_at"),
            *PRODUCER,
            column("started_at", TimestampType(), "When the process started, UTC.", required=True),
            column("language", StringType(), "As the start says: JAVA, GO, CPP, GRPC, ...; JAVA where it does not."),
            column(
                "client_version",
                StringType(),
                "Client release as recorded, another language's after the language (`GO 2.1.2`); null: not recorded.",
            ),
            column("latency_fault_enabled", BooleanType(), "sendLatencyFaultEnable; null: not recorded."),
            column("detector_enabled", BooleanType(), "startDetectorEnable (5.1.4 on); null: not recorded."),
            column("latency_max_ms", LONGS, "latencyMax ladder, ms; null: not recorded."),
            column("not_available_ms", LONGS, "notAvailableDuration ladder, ms; null: not recorded."),
            column("retry_times_sync", IntegerType(), "retryTimesWhenSendFailed; null: not recorded."),
            column("retry_times_async", IntegerType(), "retryTimesWhenSendAsyncFailed; null: not recorded."),
            column("retry_another_broker", BooleanType(), "retryAnotherBrokerWhenNotStoreOK; null: not recorded."),
            column("send_timeout_ms", LongType(), "sendMsgTimeout, ms; null: not recorded."),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "producer_group", "client_id", "started_at"),
    lineage=LINEAGE,
)

LOST_LINES = Table(
    name="lost_lines",
    comment="One row per report of a send recorder that it lost lines: attempts of the producer that no table has.",
    schema=StructType(
        [
            CLUSTER,
            event_date("told_at"),
            *PRODUCER,
            column("told_at", TimestampType(), "When it told, UTC: all that it lost was lost before.", required=True),
            column("lines", LongType(), "How many lines it lost since it told last.", required=True),
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "producer_group", "client_id", "told_at"),
    lineage=LINEAGE,
)

MESSAGE_TRACE = Table(
    name="message_trace",
    comment="One row per record of the trace topic that is no send: consumption, end of a transaction, recall.",
    schema=StructType(
        [
            CLUSTER,
            event_date("born_at", "the trace message"),
            column("born_at", TimestampType(), "When the client wrote the trace message, UTC.", required=True),
            column("trace_msg_id", StringType(), "Id of the trace message.", required=True),
            column("kind", StringType(), "sub_before, sub_after, end_transaction or recall.", required=True),
            column("traced_at", TimestampType(), "When it happened, UTC; null: sub_after of 4.4.0-4.7.1 and 4.9.1."),
            column("client_group", StringType(), "Consumer or producer group; null as traced_at."),
            column(
                "request_id", StringType(), "Joins before and after of one consumption; '' for others.", required=True
            ),
            column("msg_id", StringType(), "Unique id of the message consumed, ended or recalled.", required=True),
            column("topic", StringType(), "Its topic; null: consumption does not say."),
            column("message_key", StringType(), "Its business keys; null without any."),
            column("retry_times", IntegerType(), "sub_before: redeliveries so far."),
            column("cost_ms", LongType(), "sub_after: how long the listener took, ms."),
            column("success", BooleanType(), "sub_after, recall: whether it succeeded."),
            column(
                "return_type",
                StringType(),
                "sub_after: SUCCESS, TIME_OUT, EXCEPTION, RETURNNULL or FAILED; a number: a later one's; null: C++.",
            ),
            column("client_host", StringType(), "sub_before: address of the client (4.8.0 only)."),
            column("broker_address", StringType(), "end_transaction: address of the broker."),
            column("transaction_id", StringType(), "end_transaction: its id."),
            column("transaction_state", StringType(), "end_transaction: e.g. COMMIT_MESSAGE."),
            column("from_transaction_check", BooleanType(), "end_transaction: the broker had asked."),
            DOUBTS,
            *SOURCE,
        ]
    ),
    key=("cluster", "event_date", "kind", "request_id", "msg_id", "traced_at", "trace_msg_id"),
    lineage=LINEAGE,
    values=(("kind", ("sub_before", "sub_after", "end_transaction", "recall")),),
)
