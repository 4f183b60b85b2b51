"""A bundle as one ZIP file: the same bytes for the same bundle, and read as what a stranger may have made.

Entries: README.txt; manifest.json, settings.json and ring.json; inputs/<table>.parquet and claims/<table>.parquet.
"""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.parquet as pq

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.conf.settings import Settings
from hindsight.jobs.bundling.derived_again import KnownDates
from hindsight.jobs.bundling.made_bundle import Bundle, made_bundle
from hindsight.jobs.bundling.subject import OF_ALL_PRODUCERS, OF_GROUPS, contract_of, subject_of, versions
from hindsight.jobs.engines.arrow_columns import conformed_rows
from hindsight.jobs.engines.asker import Asker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import TABLES, Table
from hindsight.udfs.lines.archive_blocks import BLOCK_BYTES, refused_as_bomb

FORM = 1
_README, _MANIFEST, _SETTINGS, _RING = "README.txt", "manifest.json", "settings.json", "ring.json"
_TABLE = re.compile(r"(inputs|claims)/([a-z_]+)\.parquet")
_AT = (1980, 1, 1, 0, 0, 0)
_MOST_BYTES = 1 << 30
_MOST_VALUES = 200_000_000  # of a table, nulls too, which take no room in a file
_PLAIN = {"PLAIN", "RLE", "BIT_PACKED"}


class BadBundleError(ExpectedError):
    """Raised where a file is no bundle that can be read: damaged, made by hand, or of another form."""


def packed(bundle: Bundle) -> bytes:
    """The file's bytes."""
    manifest = {
        "form": FORM,
        "versions": versions(),
        "cluster": bundle.cluster,
        "of": dict(bundle.of),
        "of_groups": bundle.of_groups,
        "dates": bundle.dates._asdict(),
        "named": {"table": bundle.named[0], "row": bundle.named[1]},
        "contracts": {table.name: contract_of(table) for table in (*bundle.inputs, *bundle.claims)},
    }
    entries = {
        _README: readme(bundle).encode(),
        _MANIFEST: _json(manifest),
        _SETTINGS: _json(bundle.settings),
        _RING: _json(bundle.ring),
        **{f"inputs/{table.name}.parquet": _parquet(_sorted(rows)) for table, rows in bundle.inputs.items()},
        **{f"claims/{table.name}.parquet": _parquet(rows) for table, rows in bundle.claims.items()},
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(entries.items()):
            entry = zipfile.ZipInfo(name, _AT)
            entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            archive.writestr(entry, content)
    return file.getvalue()


def unpacked(path: Path) -> tuple[Bundle, Mapping[str, Any]]:
    """The bundle in a file, and its manifest. Raises: BadBundleError."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadBundleError(f"{path.name} has more than {_MOST_BYTES} bytes; no bundle has.")
        with zipfile.ZipFile(path) as archive:
            entries = _entries(archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise BadBundleError(f"{path.name} is no whole ZIP file: {error}; copy it anew.") from error
    manifest = _object(entries, _MANIFEST)
    if manifest.get("form") != FORM:
        raise BadBundleError(f"the bundle is of form {manifest.get('form')!r}, this release reads form {FORM}.")
    try:
        return _bundle(manifest, entries), manifest
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadBundleError(f"{_MANIFEST} does not say what it must: {type(error).__name__}: {error}.") from error


def _bundle(manifest: Mapping[str, Any], entries: Mapping[str, bytes]) -> Bundle:
    tables: dict[str, dict[Table, pa.Table]] = {"inputs": {}, "claims": {}}
    for name, content in entries.items():
        if found := _TABLE.fullmatch(name):
            table = TABLES[found[2]]
            tables[found[1]][table] = _rows(content, table, name, manifest["contracts"].get(table.name))
    of_groups = bool(manifest["of_groups"])
    known = OF_GROUPS if of_groups else OF_ALL_PRODUCERS
    if not tables["claims"] or not tables["claims"].keys() <= {*known}:
        raise BadBundleError("the bundle claims nothing, or rows of a table that no such bundle claims.")
    told = manifest["dates"]
    dates = KnownDates(
        [date.fromisoformat(day) for day in told["dates"]],
        told["previous"] and date.fromisoformat(told["previous"]),
        told["following"] and date.fromisoformat(told["following"]),
        date.fromisoformat(told["last_recorded"]),
        [date.fromisoformat(day) for day in told["recorded"]],
        [str(name) for name in told["formats"]],
    )
    of = {name: str(manifest["of"][name]) for name in manifest["of"]}
    named = TABLES[manifest["named"]["table"]].name, dict(manifest["named"]["row"])
    settings, ring = _object(entries, _SETTINGS), _ring(_object(entries, _RING))
    cluster = str(manifest["cluster"])
    return Bundle(cluster, of, of_groups, dates, settings, tables["inputs"], tables["claims"], named, ring)


def _entries(archive: zipfile.ZipFile) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in archive.infolist():
        name = entry.filename
        table = _TABLE.fullmatch(name)
        if name not in (_README, _MANIFEST, _SETTINGS, _RING) and not (table and table[2] in TABLES):
            raise BadBundleError(f"the file holds {name[:80]!r}, which is no part of a bundle; nothing was unpacked.")
        if name in found:
            raise BadBundleError(f"the file holds {name!r} twice.")
        if entry.flag_bits & 1:
            raise BadBundleError(f"{name} is encrypted.")
        found[name] = _content(archive, entry)
    for name in (_MANIFEST, _SETTINGS, _RING):
        if name not in found:
            raise BadBundleError(f"the file lacks {name}: it is no bundle, or not a whole one.")
    return found


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """What an entry unpacks to, in bounded memory whatever it says of its size."""
    blocks, size = [], 0
    with archive.open(entry) as opened:
        while block := opened.read(BLOCK_BYTES):
            blocks.append(block)
            size += len(block)
            if (bomb := refused_as_bomb(entry.compress_size, size)) or size > _MOST_BYTES:
                raise BadBundleError(f"{entry.filename}: {bomb.detail if bomb else 'it unpacks to over 1 GiB'}.")
    return b"".join(blocks)


def _object(entries: Mapping[str, bytes], name: str) -> dict[str, Any]:
    try:
        told = json.loads(entries[name])
    except (ValueError, RecursionError) as error:
        raise BadBundleError(f"{name} is not JSON: {error}.") from error
    if not isinstance(told, dict):
        raise BadBundleError(f"{name} is no JSON object.")
    return cast("dict[str, Any]", told)


def _ring(told: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    for positions in told.values():
        if not isinstance(positions, dict) or not all(type(one) is int for one in positions.values()):
            raise BadBundleError(f"{_RING} holds something else than positions.")
    return cast("dict[str, dict[str, int]]", told)


def _rows(content: bytes, table: Table, name: str, contract: object) -> pa.Table:
    try:
        with pq.ParquetFile(io.BytesIO(content)) as file:
            _require_plain(file.metadata, name)
            rows = file.read()
            rows.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadBundleError(f"{name} cannot be read: {error}.") from error
    columns = set(rows.column_names)
    if columns != set(table.contract_columns) and (
        contract == contract_of(table) or not columns <= {*table.schema.names}
    ):
        raise BadBundleError(f"{name} has other columns than {table.name}; replay it with the release that made it.")
    try:
        return conformed_rows(rows, table, table.contract_columns)
    except pa.ArrowException as error:
        raise BadBundleError(f"{name} has columns of other types than {table.name}: {error}.") from error


def _require_plain(told: pq.FileMetaData, name: str) -> None:
    """Refuse what would take more memory than the file has bytes."""
    groups = [told.row_group(place) for place in range(told.num_row_groups)]
    columns = [group.column(place) for group in groups for place in range(group.num_columns)]
    if any(one.compression != "UNCOMPRESSED" or not {*one.encodings} <= _PLAIN for one in columns):
        raise BadBundleError(f"{name} is packed in a way that no bundle is.")
    if max([told.num_rows, *(sum(one.num_values for one in columns),)]) > _MOST_VALUES:
        raise BadBundleError(f"{name} says that it holds more than {_MOST_VALUES} values.")


def _sorted(rows: pa.Table) -> pa.Table:
    """Input rows in an order that does not depend on a lake's files."""
    plain = [f.name for f in rows.schema if not pa.types.is_nested(f.type)]
    return rows.sort_by([(name, "ascending") for name in plain]) if plain else rows


def _parquet(rows: pa.Table) -> bytes:
    file = pa.BufferOutputStream()
    pq.write_table(rows, file, compression="none", use_dictionary=False, write_statistics=False, store_schema=False)
    return bytes(file.getvalue())


def _json(told: Any) -> bytes:
    return json.dumps(told, sort_keys=True, ensure_ascii=True, indent=1, default=str).encode() + b"\n"


def readme(bundle: Bundle) -> str:
    """Plain text, as ``readme.txt`` has it."""
    page = files("hindsight.jobs").joinpath("bundling", "readme.txt").read_text(encoding="utf-8")
    days = bundle.dates.dates
    of = "one consumer group" if bundle.of_groups else "one producer" if bundle.of else "all producers of one cluster"
    return page.format(
        table=bundle.named[0],
        of=of,
        days=f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}",
        hindsight=versions()["hindsight"],
        inputs=_counts(bundle.inputs),
        claims=_counts(bundle.claims),
    )


def _counts(tables: Mapping[Table, pa.Table]) -> str:
    rows_of = sorted((table.name, len(rows)) for table, rows in tables.items())
    return "\n".join(f"  {name}: {rows} rows" for name, rows in rows_of)


class NotIntoTheLakeError(ExpectedError):
    """Raised where a bundle would be written into the lake that it is made of."""

    exit_code = WRONG_USAGE


class Written(NamedTuple):
    """A bundle's file: its dates, and how many rows of each table are in it."""

    file: str
    bytes: int
    first: date
    last: date
    inputs: dict[str, int]
    claims: dict[str, int]

    def told(self) -> Iterator[str]:
        """For people."""
        yield f"{self.file}: {self.bytes} bytes, {self.first} to {self.last}"
        for word, tables in (("inputs", self.inputs), ("claims", self.claims)):
            yield f"{word}: {', '.join(f'{rows} {table}' for table, rows in tables.items())}"
        yield "Every claimed row was derived again from these inputs under the new names, and is what the lake holds."
        yield "Look into it before you send it: instants, counts and releases stay as they are (docs/bundle.md)."


def written_bundle(
    asker: Asker, settings: Settings, what: str, where: str | None, first: date | None, output: Path
) -> Written:
    """Write it; the file is whole or not there.

    Raises: NothingToBundleError, NotOneRowError, DoesNotFollowError, NotIntoTheLakeError.
    """
    lake = cast("LocalLake", asker.lake)
    if output.resolve().is_relative_to(Path(lake.root).resolve()):
        raise NotIntoTheLakeError(f"{output} lies in the lake, which a bundle changes nothing of; name another place.")
    bundle = made_bundle(lake, settings, subject_of(asker, what, where, first))
    content = packed(bundle)
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
    days = bundle.dates.dates
    inputs, claims = (
        {table.name: len(rows) for table, rows in tables.items() if len(rows)}
        for tables in (bundle.inputs, bundle.claims)
    )
    return Written(str(output), len(content), days[0], days[-1], inputs, claims)
