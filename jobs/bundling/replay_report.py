"""What a replay found, for people and for machines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from hindsight.jobs.bundling.made_bundle import Bundle
from hindsight.jobs.bundling.replayed_bundle import Verdict, is_named

_MOST = 20  # rows that differ, of each table


def told(bundle: Bundle, verdicts: Sequence[Verdict], different: Sequence[str], *, every: bool) -> Iterator[str]:
    """Lines: what was asked for first, then each table; ``every``: each row."""
    for sentence in different:
        yield f"note: {sentence}; rows may differ for that alone"
    for verdict in verdicts:
        if is_named(bundle, verdict):
            yield f"{_word(verdict)}  {_row(verdict)}  (what the bundle was made for)"
    for table in bundle.claims:
        own = [verdict for verdict in verdicts if verdict.table == table]
        counts = Counter(_word(verdict) for verdict in own)
        yield f"{table.name}: {counts['same']} same, {counts['differs']} differ"
        shown = own if every else [verdict for verdict in own if not verdict.is_same][:_MOST]
        for verdict in shown:
            yield f"  {_word(verdict)}  {_row(verdict)}{_how(verdict)}"


def as_json(bundle: Bundle, verdicts: Sequence[Verdict], different: Sequence[str]) -> Iterator[str]:
    """A line of JSON for each note and each row."""
    for sentence in different:
        yield json.dumps({"note": sentence})
    for verdict in verdicts:
        row = verdict.claimed or verdict.derived or {}
        line = {
            "verdict": _word(verdict),
            "table": verdict.table.name,
            "named": is_named(bundle, verdict),
            "key": {name: row.get(name) for name in verdict.table.key},
            "differs_in": list(verdict.columns),
            "claimed": verdict.claimed is not None,
            "derived": verdict.derived is not None,
        }
        yield json.dumps(line, default=str)


def _word(verdict: Verdict) -> str:
    return "same" if verdict.is_same else "differs"


def _row(verdict: Verdict) -> str:
    row = verdict.claimed or verdict.derived or {}
    names = [
        name for name in verdict.table.key if name not in ("cluster", "event_date") and row[name] not in (None, "")
    ]
    said = " ".join(f"{name}={row[name]}" for name in names)
    sentence = row.get("sentence") or row.get("verdict")
    return f"{verdict.table.name} {said}{f': {sentence}' if sentence else ''}"


def _how(verdict: Verdict) -> str:
    if verdict.claimed is None:
        return "  [derived, and not claimed]"
    if verdict.derived is None:
        return "  [claimed, and not derived]"
    told = ", ".join(f"{n}: claimed {verdict.claimed[n]}, derived {verdict.derived[n]}" for n in verdict.columns)
    return f"  [{told}]" if told else ""
