"""A row that somebody names in; what a bundle of it must hold out: whose, which dates, and which rows are claimed.

What a bundle says of the release that made it, and what differs in the one that replays it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, timedelta
from typing import Any

import hindsight.schemas as schemas
from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.jobs.engines.asker import Asker
from hindsight.jobs.explaining.explain_row import incident_named, the_row
from hindsight.jobs.running.own_release import own_release
from hindsight.schemas import SCHEMA_VERSION, TABLES, Table
from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.release_profiles import PROFILES

OF_GROUPS = (
    schemas.DRIFT_INCIDENT,
    schemas.ALLOCATION_DRIFT,
    schemas.GROUP_ROUND,
    schemas.EXPECTED_ALLOCATION,
    schemas.MEMBERSHIP_CHANGE,
    schemas.REBALANCE_EVENT,
    schemas.BROKER_ASSIGNMENT,
)
_OF_ONE_PRODUCER = (
    schemas.BROKER_AVAILABILITY_WINDOW,
    schemas.SEND_VERDICT,
    schemas.SEND_CALL,
    schemas.PRODUCER_REPLAY,
)
OF_ALL_PRODUCERS = (*_OF_ONE_PRODUCER, schemas.PRODUCER_FINDING, schemas.FLEET_MINUTE, schemas.WINDOW_CONFIRMATION)
# Findings that follow from one producer's record alone.
_OWN_FINDINGS = ("LONG_ISOLATION", "FAULT_OFF_SLOW", "IMPOSSIBLE_CHOICE")
BUNDLED = tuple(table.name for table in (*OF_GROUPS, *OF_ALL_PRODUCERS))
_MOST_DATES = 7  # of an incident that has lasted for longer the state is taken that the date before handed on


class NothingToBundleError(ExpectedError):
    """Raised where no row is named, or where there is none."""

    exit_code = WRONG_USAGE


@dataclass(frozen=True)
class Subject:
    """Whose rows a bundle holds.

    Attributes:
        table: of the row that was named; ``row`` itself.
        of: columns by which rows of input and derived tables are its own; empty: those of all producers.
        claimed: the tables of which every row of its own is claimed.
        first, last: the dates that are derived.
    """

    table: Table
    row: dict[str, Any]
    cluster: str
    of: dict[str, str]
    claimed: Sequence[Table]
    first: date
    last: date

    @property
    def is_of_group(self) -> bool:
        """About a consumer group, not about producers."""
        return self.table in OF_GROUPS


def subject_of(asker: Asker, what: str, where: str | None, first: date | None) -> Subject:
    """The subject of a row: an incident by its id, or the row of a table that SQL picks, as ``explain`` takes it.

    ``first``: the first date to derive; None: the row's own, of an incident the one on which it was first seen.

    Raises: NothingToBundleError; NotOneRowError.
    """
    if where is None:
        named = incident_named(asker, what)
        if named is None:
            raise NothingToBundleError(
                f"there is no incident {what!r}; `hindsight drift` lists those that are open. Of another table name "
                f"the table and SQL that picks the row: {', '.join(BUNDLED)}."
            )
        what, where = named
    if what not in BUNDLED:
        raise NothingToBundleError(f"a row of {what!r} cannot be bundled; one of {', '.join(BUNDLED)} can.")
    row, table = the_row(asker, what, where), schemas.TABLES[what]
    last = row["event_date"]
    return Subject(table, row, row["cluster"], _of(table, row), _claimed(table, row), first or _first(row, last), last)


def _first(row: dict[str, Any], last: date) -> date:
    seen = row.get("first_seen_at")
    return last if seen is None else max(seen.date(), last - timedelta(days=_MOST_DATES - 1))


def _of(table: Table, row: dict[str, Any]) -> dict[str, str]:
    if table in OF_GROUPS:
        return {"consumer_group": row["consumer_group"]}
    if table in _OF_ONE_PRODUCER or (table == schemas.PRODUCER_FINDING and row["code"] in _OWN_FINDINGS):
        return {name: row[name] for name in ("producer_group", "client_id")}
    return {}


def _claimed(table: Table, row: dict[str, Any]) -> Sequence[Table]:
    if table in OF_GROUPS:
        return OF_GROUPS
    if not _of(table, row):
        return OF_ALL_PRODUCERS
    return (*_OF_ONE_PRODUCER, schemas.PRODUCER_FINDING) if table == schemas.PRODUCER_FINDING else _OF_ONE_PRODUCER


def is_claimed(table: Table, of: Mapping[str, str], row: Mapping[str, Any]) -> bool:
    """Whether a bundle claims a derived row: of one producer only the findings that others do not bear on."""
    return not (table == schemas.PRODUCER_FINDING and of and row["code"] not in _OWN_FINDINGS)


def versions() -> dict[str, Any]:
    """Of this release: hindsight, the contracts, and what it knows of RocketMQ's releases."""
    rules = "\n".join(_spelled(rule) for rule in (*PROFILES.values(), *CLIENT_FAMILIES.values()))
    return {"hindsight": own_release(), "contracts": SCHEMA_VERSION, "release_profiles": _digest(rules)}


def _spelled(rule: Any) -> str:
    """A rule in words that are the same in every process: the order of a set is not."""
    told = {field.name: getattr(rule, field.name) for field in fields(rule)}
    return repr([(name, sorted(value) if isinstance(value, frozenset) else value) for name, value in told.items()])


def contract_of(table: Table) -> str:
    """A digest of a table's columns."""
    return _digest(f"{table.name} {table.schema.simpleString()}")


def differences(told: Mapping[str, Any]) -> list[str]:
    """What of the rules by which a bundle was made differs here, in sentences; ``told``: its manifest.

    Another release of hindsight alone is no difference: rows may differ where rules or columns do.
    """
    theirs, ours = told.get("versions"), versions()
    theirs = theirs if isinstance(theirs, dict) else {}
    words = {"contracts": "contracts of tables", "release_profiles": "release profiles"}
    found = [
        f"made with {word} {theirs.get(name)}, replayed with {ours[name]}"
        for name, word in words.items()
        if theirs.get(name) != ours[name]
    ]
    contracts = told.get("contracts")
    for name, digest in sorted(contracts.items() if isinstance(contracts, dict) else ()):
        if name in TABLES and digest != contract_of(TABLES[name]):
            found.append(f"the columns of {name} differ")
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
