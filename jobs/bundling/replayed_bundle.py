"""A bundle in; each row that it claims beside the one that this release derives from its inputs, out."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hindsight.conf.failure import REPLAY_DIFFERS, ExpectedError
from hindsight.jobs.bundling.bundle_file import BadBundleError
from hindsight.jobs.bundling.derived_again import derived_again, own_rows
from hindsight.jobs.bundling.made_bundle import Bundle, as_table
from hindsight.jobs.bundling.renamed_settings import settings_of
from hindsight.jobs.engines.arrow_columns import NullInColumnError
from hindsight.jobs.engines.runner import KernelFailedError
from hindsight.schemas import Table
from hindsight.udfs.bundles.column_kinds import DIGESTS
from hindsight.udfs.bundles.ring_record import GivenRing

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
        for place in range(max(len(wanted), len(made))):
            one = wanted[place] if place < len(wanted) else None
            other = made[place] if place < len(made) else None
            columns = () if one is None or other is None else tuple(n for n in one if one[n] != other[n])
            yield Verdict(table, one, other, columns)


def _key(table: Table, row: Row) -> str:
    return json.dumps([row[name] for name in table.key if name not in DIGESTS], default=str)
