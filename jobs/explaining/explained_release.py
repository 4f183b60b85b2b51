"""A row of producer_release in, what else its producer may have been and the attempts that told, out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from hindsight.jobs.engines.asker import Asker, Record
from hindsight.jobs.explaining.explanation import MOST, REPLAYED, Section, at_instant, queried, rules_in_force, same

_PROCESS = ("cluster", "event_date", "producer_group", "client_id", "started_at")
_AROUND = timedelta(seconds=30)


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
