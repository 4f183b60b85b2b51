"""What an explanation is made of: sections of rows for a person, and the SQL that picks them.

A row of producer_release in, what else its producer may have been and the attempts that told, out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from hindsight.jobs.engines.asker import Asker, Record, records
from hindsight.jobs.running.terminal import legible, upright, width_of

MOST = 60
# The attempts that the replay went by: of some producers several sources tell.
REPLAYED = """send_attempt AS a SEMI JOIN producer_replay AS r
            ON a.cluster = r.cluster AND a.event_date = r.event_date AND a.producer_group = r.producer_group
            AND a.client_id = r.client_id AND ARRAY_CONTAINS(r.sources, a.source)"""
_PROCESS = ("cluster", "event_date", "producer_group", "client_id", "started_at")
_AROUND = timedelta(seconds=30)


@dataclass(frozen=True)
class Section:
    """Some of the inputs: what they are, how the row follows from them, and the rows themselves."""

    title: str
    words: str
    rows: list[Record]

    def text(self, width: int | None = None) -> str:
        """For a terminal; a single row stands upright, and so do rows that are wider than ``width``."""
        head = f"== {self.title} ==" + (f"\n{self.words}" if self.words else "")
        if not self.rows:
            return f"{head}\n  (no row)"
        if len(self.rows) == 1:
            return "\n".join([head, *(f"  {name}: {shown(value)}" for name, value in self.rows[0].items())])
        lines = [list(self.rows[0]), *([shown(value) for value in row.values()] for row in self.rows)]
        widths = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
        if width is not None and sum(widths) + len(widths) > width:
            return "\n".join([head, *upright(lines)])
        table = (
            " ".join(" " * (each - width_of(text)) + text for text, each in zip(line, widths, strict=True))
            for line in lines
        )
        return "\n".join([head, *table])


def queried(asker: Asker, title: str, words: str, query: str) -> Section:
    """A section whose rows a bounded query picks."""
    return Section(title, words, records(asker, query))


def rules_in_force(asker: Asker, row: Record) -> Section:
    """The rules by which the row's producer was replayed on its date."""
    kept = (
        "client_version, profile, latency_fault_enabled, detector_enabled, latency_max_ms, not_available_ms, verdict, "
        "reasons, certainty"
    )
    process = same(asker, row, "cluster", "event_date", "producer_group", "client_id", "started_at")
    return queried(
        asker,
        "The rules in force (producer_replay)",
        "A start record wins over the settings, and these over the release's own.",
        f"SELECT {kept} FROM producer_replay WHERE {process}",
    )


def same(asker: Asker, row: Record, *names: str) -> str:
    """SQL: these columns hold what they hold in ``row``, null included; plain conditions leave files unread."""
    told = {name: row[name] for name in names}
    return " AND ".join(f"{n} IS NULL" if v is None else f"{n} = {_literal(asker, v)}" for n, v in told.items())


def _literal(asker: Asker, value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime):
        return at_instant(value)
    return f"DATE'{value}'" if isinstance(value, date) else asker.literal(value)


def at_instant(instant: datetime) -> str:
    """SQL of an instant, UTC."""
    return f"TIMESTAMP'{instant.isoformat(sep=' ')}'"


def on_date(instant: datetime) -> str:
    """SQL of an instant's UTC date."""
    return f"DATE'{instant.date().isoformat()}'"


def shown(value: Any) -> str:
    """A value as a person reads it."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, dict):
        return " ".join(f"{name}={shown(each)}" for name, each in value.items())
    return "; ".join(map(shown, value)) if isinstance(value, list) else "null" if value is None else legible(str(value))


def explained_release(asker: Asker, release: Record) -> Iterator[Section]:
    """How its process was replayed, all its setups, and the attempts around the first that went against this one."""
    yield rules_in_force(asker, release)
    yield candidates(asker, release)
    if release["begin_at"] is not None:
        yield _around(asker, release)


def candidates(asker: Asker, row: Record) -> Section:
    """What a process may have been; ``row``: of any table with a process and date."""
    return queried(
        asker,
        "What it may have been (producer_release)",
        "A setup is ruled out when more of its chances went against it than misread lines explain.",
        f"""SELECT families, ladder, latency_fault_enabled AS switch, detector_enabled AS detector, state, ruled_out_by,
            against, chances, log_likelihood, msg_id, begin_at, broker_name, reason
            FROM producer_release WHERE {same(asker, row, *_PROCESS)}
            ORDER BY state, families, ladder, switch, detector LIMIT {MOST}""",
    )


def _around(asker: Asker, release: Record) -> Section:
    since, until = release["begin_at"] - _AROUND, release["begin_at"]
    return queried(
        asker,
        "Attempts to the broker up to the first choice that went against it (send_attempt)",
        "The last slow or failed one before it opened the window in which this setup avoids the broker.",
        f"""SELECT begin_at, end_at, latency_ms, topic, thread, msg_id, attempt, last_broker_name, outcome, exception
            FROM {REPLAYED} WHERE {same(asker, release, "cluster", "producer_group", "client_id", "broker_name")}
            AND begin_at BETWEEN {at_instant(since)} AND {at_instant(until)}
            ORDER BY begin_at DESC, msg_id, attempt LIMIT 20""",
    )
