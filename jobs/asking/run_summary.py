"""The closing summary of a run: the longest isolations, the groups that drift, what was refused, what left no row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

from hindsight.jobs.asking.open_drift import not_judged, told_of
from hindsight.jobs.engines.asker import Asker, Record, query, records
from hindsight.jobs.landing.landing_lines import nothing_stored

_MOST = 10
_MOST_SENTENCES = 5


def summary(asker: Asker) -> Iterator[str]:
    """Lines for a person."""
    (taken_in,) = _rows(asker, "taken_in")
    if not taken_in["files"]:
        yield "Nothing has been taken in yet, so nothing is known about any producer or group"
        return
    yield "Longest isolations (a producer refused a broker)"
    yield from _lines(asker, "isolations", _isolation, "no producer isolated a broker")
    yield ""
    yield "Producers that could not be replayed"
    yield from _lines(asker, "not_replayed", _unknown, "none")
    yield ""
    yield "Consumer groups that were not judged of late"
    yield from ([f"  {line}" for line in told_of(not_judged(asker))] or ["  none"])
    yield ""
    yield "Consumer groups that drift"
    yield from _groups(asker)
    yield ""
    yield "Refused input"
    yield from _lines(asker, "refused_by_reason", _refused, "none")
    yield ""
    yield "Files from which nothing was stored"
    yield from _without_rows(asker)


def _rows(asker: Asker, name: str) -> list[Record]:
    return records(asker, query("summary", name).format(most=_MOST))


def _lines(asker: Asker, name: str, line: Callable[[Record], str], nothing: str) -> Iterator[str]:
    rows = _rows(asker, name)
    yield from (f"  {line(row)}" for row in rows)
    if not rows:
        yield f"  {nothing}"


def _isolation(row: Record) -> str:
    length = "open" if row["seconds"] is None else f"{row['seconds']:,.1f} s"
    still = ", the record ends inside it" if row["end_reason"] == "open" else f", {row['end_reason']}"
    return (
        f"{length:>10}  {row['broker_name']}  by {row['client_id']} ({row['producer_group']})  "
        f"from {row['window_start']:%H:%M:%S}  {row['trigger_kind']} at {row['trigger_latency_ms']} ms{still}, "
        f"{row['certainty']}"
    )


def _unknown(row: Record) -> str:
    return f"{row['client_id']} ({row['producer_group']}): {'; '.join(row['reasons'])}"


def _groups(asker: Asker) -> Iterator[str]:
    """One line a group: its codes with how many rounds show each; below it the worst of its sentences."""
    rows = _rows(asker, "drifting_groups")
    for (_, name), codes in groupby(rows, lambda row: (row["cluster"], row["consumer_group"])):
        of_group = list(codes)
        in_rounds = sorted(f"{r['code']} in {r['rounds']} round{'s' if r['rounds'] > 1 else ''}" for r in of_group)
        yield f"  {name}: {', '.join(in_rounds)}"
        yield from (f"      {row['sentence']}" for row in of_group[:_MOST_SENTENCES])
    if not rows:
        yield "  none"


def _refused(row: Record) -> str:
    where = f"{row['example_file']}:{row['example_line']}"
    return f"{row['lines']} x {row['reason_code']} ({row['format']}), e.g. {where}: {row['example_detail']}"


def _without_rows(asker: Asker) -> Iterator[str]:
    rows = _rows(asker, "without_rows")
    for row in rows:
        yield f"  {row['file']}: {nothing_stored(row['read'], row['ignored'], row['quarantined'])}"
    more = rows[0]["files"] - len(rows) if rows else 0
    if more or not rows:
        yield f"  and {more:,} more" if more else "  none"
