"""Derive what a bundle claims again from the inputs in it, and compare; exit code 4 if a row differs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from hindsight.conf.failure import REPLAY_DIFFERS, ExpectedError
from hindsight.jobs.bundling.bundle_file import BadBundleError, unpacked
from hindsight.jobs.bundling.derived_again import derived_again, own_rows
from hindsight.jobs.bundling.made_bundle import Bundle, as_table
from hindsight.jobs.bundling.renamed_rows import DIGESTS, settings_of
from hindsight.jobs.bundling.subject import differences
from hindsight.jobs.commands.command_options import Json, show
from hindsight.jobs.engines.arrow_columns import NullInColumnError
from hindsight.jobs.engines.runner import KernelFailedError
from hindsight.schemas import Table
from hindsight.udfs.bundles.new_names import GivenRing

Row = Mapping[str, Any]


class ReplayDiffersError(ExpectedError):
    """Raised where a claimed row is not derived, or another one is."""

    exit_code = REPLAY_DIFFERS


class Verdict(NamedTuple):
    """A claimed row beside the derived one; None: there is none. ``columns``: which differ."""

    table: Table
    claimed: Row | None
    derived: Row | None
    columns: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Both are there, and equal."""
        return self.claimed is not None and self.derived is not None and not self.columns


def replayed(bundle: Bundle) -> list[Verdict]:
    """A verdict of each row, by table and key.

    Raises: BadBundleError: settings or rows are none that can be derived from.
    """
    try:
        settings = settings_of(bundle.settings)
    except ValueError as error:
        raise BadBundleError(f"settings.json cannot be used: {error}.") from error
    try:
        derived = derived_again(
            bundle.inputs, bundle.dates, bundle.cluster, settings, GivenRing(bundle.ring), of_groups=bundle.of_groups
        )
    except (KernelFailedError, NullInColumnError, ValueError, KeyError, TypeError) as error:
        said = str(error).strip().rsplit("\n", 1)[-1]
        raise BadBundleError(f"nothing can be derived from the bundle's rows: {said}.") from error
    found: list[Verdict] = []
    for table, rows in bundle.claims.items():
        own = own_rows(derived[table.name], table, bundle.of, bundle.dates.dates)
        found += _verdicts(table, as_table(own, table).to_pylist(), rows.to_pylist())
    return found


def is_named(bundle: Bundle, verdict: Verdict) -> bool:
    """Whether it is of the row that the bundle was made for."""
    name, row = bundle.named
    claimed = verdict.claimed or {}
    return verdict.table.name == name and json.loads(json.dumps(claimed, default=str)) == row


def _verdicts(table: Table, derived: list[Row], claimed: list[Row]) -> Iterator[Verdict]:
    pairs: defaultdict[str, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((claimed, derived)):
        for row in rows:
            pairs[_key(table, row)][side].append(row)
    for _, (wanted, made) in sorted(pairs.items()):
        for one, other in zip_longest(wanted, made):
            columns = () if one is None or other is None else tuple(n for n in one if one[n] != other[n])
            yield Verdict(table, one, other, columns)


def _key(table: Table, row: Row) -> str:
    return json.dumps([row[name] for name in table.key if name not in DIGESTS], default=str)


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


def as_values(bundle: Bundle, verdicts: Sequence[Verdict], different: Sequence[str]) -> Iterator[Row]:
    """Each note, and each row with its verdict."""
    yield from ({"note": sentence} for sentence in different)
    for verdict in verdicts:
        row = verdict.claimed or verdict.derived or {}
        yield {
            "verdict": _word(verdict),
            "table": verdict.table.name,
            "named": is_named(bundle, verdict),
            "key": {name: row.get(name) for name in verdict.table.key},
            "differs_in": list(verdict.columns),
            "claimed": verdict.claimed is not None,
            "derived": verdict.derived is not None,
        }


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


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("replay", help=__doc__)
def replay(
    bundle: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A file that `hindsight bundle` wrote.")],
    every: Annotated[bool, typer.Option("--all", help="Each row, not only those that differ.")] = False,
    as_lines: Json = False,
) -> None:
    """Needs no lake, and writes nothing but what it prints."""
    found, manifest = unpacked(bundle)
    verdicts, different = replayed(found), differences(manifest)
    show(as_lines, as_values(found, verdicts, different), told(found, verdicts, different, every=every))
    lacking = sum(not verdict.is_same for verdict in verdicts)
    if lacking:
        raise ReplayDiffersError(f"{lacking} of {len(verdicts)} rows are not what the bundle claims.")
