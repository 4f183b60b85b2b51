"""One row in, the inputs from which it follows out, in the order in which a person would redo it by hand.

A window follows from the attempts to its broker and the ladder in force; a verdict from what was held at the time and
the list of brokers; a drift row from the lists, rules and answers of its round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from hindsight.jobs.engines.asker import Asker, BadQueryError, Record, records
from hindsight.jobs.explaining.explained_choice import explained_choice, explained_send, explained_window
from hindsight.jobs.explaining.explanation import MOST, Section, at_instant, section
from hindsight.schemas import DRIFT_INCIDENT, TABLES

__all__ = ["EXPLAINED", "NotOneRowError", "Section", "explain", "incident_named", "the_row"]

Explained = Callable[[Asker, Record], Iterator[Section]]


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


def _of(*names: str) -> Explained:
    """An explanation that is these sections, whatever the row is."""

    def explained(asker: Asker, row: Record) -> Iterator[Section]:
        for name in names:
            yield section(asker, name, row)

    return explained


def _finding(asker: Asker, finding: Record) -> Iterator[Section]:
    """The rows that its rule looks at; the runbook says what each code means."""
    if finding["client_id"] is not None:
        yield section(asker, "rules_in_force", finding)
    yield from _while_it_lasts(asker, finding, _OF_CODE[finding["code"]])


def _while_it_lasts(asker: Asker, row: Record, names: Sequence[str]) -> Iterator[Section]:
    """Sections of the time between ``from`` and ``to``; without an end to the end of its date."""
    since, to = row["from"], row["to"]
    day_end = (since + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    ended = f"(window_end > {at_instant(since)} OR window_end IS NULL)"
    overlapping = ended if to is None else f"window_start < {at_instant(to)} AND {ended}"
    span = row | {"until": to or day_end, "last": to or since}
    for name in names:
        yield section(asker, name, span, overlapping=overlapping)


# The rule of each code looks at these.
_OF_CODE = {
    "FLEET_SLOW": ("minutes", "windows_of_all"),
    "BROKER_REFUSES": ("answers_of_broker",),
    "OVER_ISOLATION": ("windows", "minutes"),
    "ALL_ISOLATED": ("windows", "shares"),
    "LONG_ISOLATION": ("windows",),
    "NOT_RETURNING": ("shares", "windows"),
    "FAULT_OFF_SLOW": ("latencies",),
    "IMPOSSIBLE_CHOICE": ("impossible_choices",),
    "RELEASE_DIFFERS": ("candidates", "impossible_choices"),
}


def _minute(asker: Asker, minute: Record) -> Iterator[Section]:
    """Who isolated the broker in the minute, and who sent."""
    span = {**minute, "from": minute["minute_at"], "to": minute["minute_at"] + timedelta(minutes=1)}
    return _while_it_lasts(asker, span, ("windows_of_all", "senders_of_minute"))


def _replay(asker: Asker, replay: Record) -> Iterator[Section]:
    """Where the rules of a producer process are known from; of one that is not told, what it may have been."""
    is_inferred = replay["profile"] is None or replay["certainty"] == "inferred"
    return _of("starts", "attempts_by_source", *(["candidates"] if is_inferred else []))(asker, replay)


def _release(asker: Asker, release: Record) -> Iterator[Section]:
    """How its process was replayed, all its setups, and the attempts around the first that went against this one."""
    against = ["before_the_first_against"] if release["begin_at"] is not None else []
    return _of("rules_in_force", "candidates", *against)(asker, release)


def _item(asker: Asker, item: Record) -> Iterator[Section]:
    """The last attempts to the broker, and the windows of the date."""
    until = item["last_update_at"] or item["forgotten_at"]
    attempts = ["last_attempts"] if until is not None else []
    return _of("rules_in_force", *attempts, "windows_of_date")(asker, item | {"until": until})


def _state(asker: Asker, state: Record) -> Iterator[Section]:
    """What is open as the date ends, and its last rounds; of servers the last questions to them."""
    last = "last_rounds" if state["consumer_group"] else "last_questions"
    return _of("incidents_of_date", last)(asker, state)


def _incident(asker: Asker, incident: Record) -> Iterator[Section]:
    """What opened it, what it took in, which rounds showed it, and what changed before; of a server, its effects."""
    of_group = ("findings_of_incident", "rounds_of_incident", "changes_before_incident")
    names = of_group if incident["consumer_group"] else ("effects_in_groups", "effects_in_producers")
    yield from _of(*names)(asker, incident | {"until": incident["resolved_at"] or incident["last_seen_at"]})
    lines = [{"line": line} for line in incident["evidence"][:MOST]]
    told = "Landing files and lines. A line with asBefore repeats, for each subject, the last whole answer above it."
    yield Section("Lines of the finding that opened it", told, lines)


def _drift(asker: Asker, drift: Record) -> Iterator[Section]:
    """The inputs, in the order in which a person would redo the finding."""
    is_assigned = drift["code"] == "POP_ASSIGNMENT_DIFFERS"
    of_queue = ("offsets", "ends") if drift["queue_id"] is not None else ()
    names = ("round", *(_ASSIGNED if is_assigned else ("expected",)), "answers_of_members", *of_queue, "incident")
    return _of(*names)(asker, drift | {"at": drift["round_at"]})


# How brokers hand out the topic's queues at an instant, and what members then took.
_ASSIGNED = ("modes", "handed_out", "popped")


def _assignment(asker: Asker, row: Record) -> Iterator[Section]:
    return _of("first_round", *_ASSIGNED)(asker, row | {"at": row["from_at"]})


def _rebalance(asker: Asker, event: Record) -> Iterator[Section]:
    """The inputs, in the order in which a person would redo the trigger, the times and the hand-overs."""
    first = min(at for at in (event["changed_at"], event["changed_after"], event["trigger_at"]) if at is not None)
    names = ("results_near", "events_near", "members_near", "shown_round_by_round")
    return _of(*names)(asker, event | {"first": first})


EXPLAINED: dict[str, Explained] = {
    "broker_availability_window": explained_window,
    "send_verdict": explained_choice,
    "send_call": explained_send,
    "producer_finding": _finding,
    "fleet_minute": _minute,
    "producer_replay": _replay,
    "producer_release": _release,
    "fault_item_state": _item,
    "window_confirmation": _of("line", "windows_near_line"),
    "allocation_drift": _drift,
    "drift_incident": _incident,
    "membership_change": _of("rounds_of_change", "owners_of_change"),
    "group_round": _of("asked_in_round", "queues_of_round", "found_in_round"),
    "expected_allocation": _of("rounds_of_allocation"),
    "group_drift_state": _state,
    "client_strategy_state": _of("rounds_by_rule", "logged_results"),
    "rebalance_event": _rebalance,
    "rebalance_state": _of("last_rebalances"),
    "broker_assignment": _assignment,
}
