"""One row in, the inputs from which it follows out, in the order in which a person would redo it by hand.

A window follows from the attempts to its broker and the ladder in force; a verdict from what was held at the time and
the list of brokers; a drift row from the lists, rules and answers of its round.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobs.engines.asker import Asker, BadQueryError, Record, records
from jobs.explained_assignment import explained_assignment
from jobs.explained_drift import explained_drift
from jobs.explained_send import explained_send
from jobs.explained_window import explained_window
from jobs.explanation import MOST, Section, at_instant, queried, rules_in_force, same
from schemas import TABLES

__all__ = ["EXPLAINED", "NotOneRowError", "Section", "explain"]


class NotOneRowError(ValueError):
    """Raised when the condition picks no row or several, or cannot be read."""


def explain(asker: Asker, table: str, where: str) -> list[Section]:
    """The inputs of one row of ``table``. ``where``: SQL that picks exactly that row.

    Raises: NotOneRowError: with how many rows it picks, and the columns that tell them apart.
    """
    row = _the_row(asker, table, where)
    return [Section(f"The row of {table}", "", [row]), *EXPLAINED[table](asker, row)]


def _the_row(asker: Asker, table: str, where: str) -> Record:
    try:
        rows = records(asker, f"SELECT * FROM {table} WHERE {where} LIMIT {MOST}")
    except BadQueryError as error:
        raise NotOneRowError(f"the condition cannot be read: {error}") from error
    if len(rows) == 1:
        return rows[0]
    key = TABLES[table].key
    told = [name for name in key if len({str(row[name]) for row in rows}) > 1]
    many = f"at least {MOST}" if len(rows) == MOST else str(len(rows) or "no")
    help_ = f"say which {', '.join(told)}" if told else f"its key is {', '.join(key)}"
    raise NotOneRowError(f"the condition picks {many} rows of {table}, not one; {help_}.")


# -- a verdict -----------------------------------------------------------------------------------------------------


def _verdict(asker: Asker, verdict: Record) -> Iterator[Section]:
    yield rules_in_force(asker, verdict)
    producer = same(asker, verdict, "cluster", "event_date", "producer_group", "client_id")
    at = at_instant(verdict["begin_at"])
    yield queried(
        asker,
        "What the producer held at the begin of the attempt (broker_availability_window)",
        "A broker is left out of the choice from window_start on, up to window_end.",
        f"""SELECT broker_name, state, window_start, window_end, trigger_kind, trigger_latency_ms, certainty
            FROM broker_availability_window WHERE {producer}
            AND window_start <= {at} + INTERVAL 1 SECOND
            AND (window_end > {at} - INTERVAL 1 SECOND OR window_end IS NULL)
            ORDER BY broker_name, window_start LIMIT {MOST}""",
    )
    near = f"begin_at BETWEEN {at} - INTERVAL 30 SECONDS AND {at} + INTERVAL 30 SECONDS"
    yield queried(
        asker,
        "Brokers that it used for the topic within 30 s",
        "A broker used before and after was in the client's list; so was the one that was chosen.",
        f"""SELECT broker_name, COUNT_IF(begin_at < {at}) AS before, COUNT_IF(begin_at > {at}) AS after
            FROM send_attempt WHERE {producer} AND {same(asker, verdict, "topic")} AND {near}
            GROUP BY broker_name ORDER BY broker_name LIMIT {MOST}""",
    )
    yield queried(
        asker,
        "Recorded routes of the topic around that time (topic_route)",
        "",
        f"""SELECT captured_at, broker_name, write_queue_nums, perm, has_master, order_topic_conf
            FROM topic_route
            WHERE {same(asker, verdict, "cluster", "event_date", "topic")}
            AND captured_at BETWEEN {at} - INTERVAL 300 SECONDS AND {at} + INTERVAL 60 SECONDS
            ORDER BY captured_at DESC, broker_name LIMIT {MOST}""",
    )
    yield queried(
        asker,
        "The send's attempts",
        "lastBrokerName is the broker of the attempt before.",
        f"""SELECT attempt, begin_at, end_at, broker_name, queue_id, last_broker_name, outcome, queue_selected_by,
            source_file || ':' || source_line AS line FROM send_attempt
            WHERE {producer} AND {same(asker, verdict, "msg_id")} ORDER BY begin_at LIMIT {MOST}""",
    )


EXPLAINED = {
    "broker_availability_window": explained_window,
    "send_verdict": _verdict,
    "send_call": explained_send,
    "allocation_drift": explained_drift,
    "broker_assignment": explained_assignment,
}
