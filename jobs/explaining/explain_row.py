"""One row in, the inputs from which it follows out, in the order in which a person would redo it by hand.

A window follows from the attempts to its broker and the ladder in force; a verdict from what was held at the time and
the list of brokers; a drift row from the lists, rules and answers of its round.
"""

from __future__ import annotations

from collections.abc import Sequence

from hindsight.jobs.engines.asker import Asker, BadQueryError, Record, records
from hindsight.jobs.explaining.explained_choice import explained_choice, explained_send, explained_window
from hindsight.jobs.explaining.explained_finding import (
    explained_allocation,
    explained_confirmation,
    explained_finding,
    explained_item,
    explained_minute,
    explained_replay,
    explained_round,
    explained_state,
    explained_strategy,
)
from hindsight.jobs.explaining.explained_incident import (
    explained_assignment,
    explained_change,
    explained_drift,
    explained_incident,
    explained_rebalance,
    explained_rebalances_of_date,
)
from hindsight.jobs.explaining.explanation import MOST, Section, explained_release
from hindsight.schemas import DRIFT_INCIDENT, TABLES

__all__ = ["EXPLAINED", "NotOneRowError", "Section", "explain", "incident_named", "the_row"]


class NotOneRowError(ValueError):
    """Raised when the condition picks no row or several, or cannot be read."""


def explain(asker: Asker, table: str, where: str) -> list[Section]:
    """The inputs of one row of ``table``. ``where``: SQL that picks exactly that row.

    Raises: NotOneRowError: with how many rows it picks, and the columns that tell them apart.
    """
    row = the_row(asker, table, where)
    return [Section(f"The row of {table}", "", [row]), *EXPLAINED[table](asker, row)]


def as_values(table: str, where: str, sections: Sequence[Section], most: int | None = None) -> Record:
    """The same for a machine: sections by title, each with the words and at most so many of the rows."""
    told = {section.title: {"words": section.words, "rows": section.rows[:most]} for section in sections}
    return {"row_of": {"table": table, "where": where}, **told}


def incident_named(asker: Asker, incident: str) -> tuple[str, str] | None:
    """The table of incidents, with SQL that picks the one of this id; None: there is none."""
    picked = f"incident_id = {asker.literal(incident)}"
    table = DRIFT_INCIDENT.name
    return (table, picked) if records(asker, f"SELECT 1 AS one FROM {table} WHERE {picked} LIMIT 1") else None


def the_row(asker: Asker, table: str, where: str) -> Record:
    """The one row of ``table`` that ``where`` picks. Raises: NotOneRowError."""
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


EXPLAINED = {
    "broker_availability_window": explained_window,
    "send_verdict": explained_choice,
    "send_call": explained_send,
    "producer_finding": explained_finding,
    "fleet_minute": explained_minute,
    "producer_replay": explained_replay,
    "producer_release": explained_release,
    "fault_item_state": explained_item,
    "window_confirmation": explained_confirmation,
    "allocation_drift": explained_drift,
    "drift_incident": explained_incident,
    "membership_change": explained_change,
    "group_round": explained_round,
    "expected_allocation": explained_allocation,
    "group_drift_state": explained_state,
    "client_strategy_state": explained_strategy,
    "rebalance_event": explained_rebalance,
    "rebalance_state": explained_rebalances_of_date,
    "broker_assignment": explained_assignment,
}
