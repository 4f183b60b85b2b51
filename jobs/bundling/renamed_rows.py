"""Rows of a table in; the names that are in them, or the same rows with new names, out.

A column is known by its name, in whichever table and however deep it lies; the contracts say what it names. A text that
is no name and no word of the product's own is left out: null, or empty where a value must be.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from itertools import chain, repeat
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import load_settings
from hindsight.schemas import TABLES, Table
from hindsight.schemas.column_types import ArrayType, DataType, PlainType, StructType
from hindsight.udfs.bundles.new_names import NewNames
from hindsight.udfs.values.message_queues import is_like

Put = Callable[[str, str], str]  # kind and name: what to put in its place


class UnknownStateError(ValueError):
    """Raised where a state holds what its shape does not tell of."""


@dataclass(frozen=True)
class By:
    """Values by names of a kind."""

    kind: str
    of: Any = None


# The shape of a state. A word: a text names something of that kind. None: no text at all, however deep. A list: any
# number of its one shape. A tuple: what stands at each place; behind these, numbers alone. A dict: values by the
# product's own words. ``By``: values by names.
Shape = str | None | list[Any] | tuple[Any, ...] | dict[str, Any] | By
_SENTENCE = "sentence"  # a text for people: it is left out


def _shape(told: Any) -> Shape:
    """A shape as ``state_shapes.json`` tells it: ``names`` of a kind with what stands ``of`` each; words in one key."""
    match told:
        case {"names": kind, **of}:
            return By(kind, _shape(of.get("of")))
        case dict():
            return {word: _shape(of) for words, of in told.items() for word in words.split()}
        case [one]:
            return [_shape(one)]
        case list():
            return tuple(map(_shape, told))
    return cast("Shape", told)


@cache
def _states() -> Mapping[str, Shape]:
    """The shapes of states of several dates, by table and column: JSON, whose texts are told by their places in it."""
    text = files("hindsight.jobs").joinpath("bundling", "state_shapes.json").read_text(encoding="utf-8")
    return {column: _shape(told) for column, told in json.loads(text).items()}


def _state(text: str, shape: Shape, put: Put) -> str:
    """A state with each name put through ``put``. Raises: UnknownStateError."""
    state = _walked(json.loads(text), shape, put, "state")
    return json.dumps(state, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _walked(value: Any, shape: Shape, put: Put, place: str) -> Any:
    match value, shape:
        case None, _:
            return None
        case _, None:
            return _without_text(value, place)
        case str(), str():
            return "" if shape == _SENTENCE else value if shape == "day" else put(shape, value)
        case list(), list():
            return [_walked(one, shape[0], put, f"{place}[]") for one in value]
        case list(), tuple():
            places = enumerate(zip(value, chain(shape, repeat(None)), strict=False))
            return [_walked(one, of, put, f"{place}[{n}]") for n, (one, of) in places]
        case dict(), By():
            return {put(shape.kind, name): _walked(one, shape.of, put, f"{place}.*") for name, one in value.items()}
        case dict(), dict() if value.keys() <= shape.keys():
            return {name: _walked(one, shape[name], put, f"{place}.{name}") for name, one in value.items()}
    raise UnknownStateError(
        f"a state that is handed on holds at {place} what this release does not know how to rename."
    )


def _without_text(value: Any, place: str) -> Any:
    """Numbers alone, however deep."""
    if isinstance(value, list):
        return [_without_text(one, place) for one in value]
    if isinstance(value, (str, dict)):
        raise UnknownStateError(f"a state that is handed on holds a text at {place}, where numbers were.")
    return value


Change = Callable[[str, str], str | None]  # a column's name and a text of it: what it becomes
_LEFT_OUT = frozenset({"pid", "invoke_id"})  # numbers that name a process
# Digests of names: they differ with these, and are not compared.
DIGESTS = frozenset({"incident_id", "member_list_hash", "queue_list_hash", "claims_hash", "line_digest"})
# Columns that hold names inside of words, or words about names.
_TOLD = frozenset({("allocation_drift", "kind"), ("drift_incident", "findings"), ("rebalance_event", "exceptions")})


def _text_leaves(name: str, kind: DataType) -> list[tuple[str, str | None]]:
    """The texts in a column of a contract, and what each names."""
    if isinstance(kind, ArrayType):
        return _text_leaves(name, kind.elementType)
    if isinstance(kind, StructType):
        return [leaf for field in kind for leaf in _text_leaves(field.name, field.dataType)]
    return [(name, kind.names)] if isinstance(kind, PlainType) and kind.name == "string" else []


_KINDS = {
    name: kind
    for table in TABLES.values()
    for field in table.schema
    for name, kind in _text_leaves(field.name, field.dataType)
    if kind
}


def found_names(rows: pa.Table, table: Table, found: defaultdict[str, set[str]]) -> None:
    """Add the names of some rows to ``found``, by kind."""

    def note(kind: str, name: str) -> str:
        found[kind].add(name)
        return name

    _changed(rows, table, lambda column, text: _put(table, column, text, note))


def renamed(rows: pa.Table, table: Table, names: NewNames) -> pa.Table:
    """The rows with new names. Raises: KeyError: a name was not found before; UnknownStateError."""
    return _changed(rows, table, lambda column, text: _put(table, column, text, names.of))


def compared_columns(table: Table) -> list[str]:
    """The columns of which every text is a name or a word: with new names they are what the old ones are."""
    return [
        field.name
        for field in table.schema
        if field.name not in table.lineage | DIGESTS and (table.name, field.name) not in _TOLD
        if all(kind for _, kind in _text_leaves(field.name, field.dataType))
    ]


def _put(table: Table, column: str, text: str, put: Callable[[str, str], str]) -> str | None:
    if (shape := _states().get(f"{table.name}.{column}")) is not None:
        return _state(text, shape, put)
    kind = _KINDS.get(column)
    return put(kind, text) if kind else None


def _changed(rows: pa.Table, table: Table, change: Change) -> pa.Table:
    needed = {field.name for field in table.schema if not field.nullable}
    made = []
    for field in rows.schema:
        array = rows[field.name].combine_chunks()
        if field.name in _LEFT_OUT:
            array = pa.nulls(len(array), field.type)
        elif field.name not in table.lineage:
            array = _of_type(array, field.name, change)
        if field.name in needed and array.null_count and pa.types.is_string(field.type):
            array = pc.fill_null(array, "")
        made.append(array)
    return pa.table(made, schema=rows.schema)


def _of_type(array: pa.Array, name: str, change: Change) -> pa.Array:
    kind = array.type
    if pa.types.is_string(kind):
        return _texts(array, name, change)
    if pa.types.is_list(kind):
        ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32()))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        values = _of_type(array.flatten(), name, change)
        if pa.types.is_string(values.type) and values.null_count:
            values = pc.fill_null(values, "")
        return pa.ListArray.from_arrays(offsets, values, type=kind, mask=array.is_null())
    if pa.types.is_struct(kind):
        inner = [_of_type(pc.struct_field(array, field.name), field.name, change) for field in kind]
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=array.is_null())
    return array


def _texts(array: pa.Array, name: str, change: Change) -> pa.Array:
    """Each distinct text is looked at once."""
    encoded = array.dictionary_encode()
    new = pa.array([change(name, text) for text in encoded.dictionary.to_pylist()], pa.string())
    return new.take(encoded.indices)


_SECTIONS = ("rounds", "replay", "confirmation", "producer_findings", "drift", "timing")
_ENTRIES = (("replay", "override"), ("drift", "strategy"), ("drift", "client_family"), ("timing", "maintenance"))


def note_settings(settings: Settings, found: defaultdict[str, set[str]]) -> None:
    """Add the names in settings that no row has: rooms, strategies."""
    for entry in settings.drift.strategy:
        found["strategy"].add(entry.name)
        found["room"] |= {*(entry.machine_rooms or ()), *(entry.broker_rooms or {}).values()}
        found["room"] |= {*(entry.client_rooms or {}).values()}
    found["strategy"] |= {entry.strategy for entry in settings.drift.client_family if entry.strategy}
    found["release"] |= {entry.client_version for entry in settings.replay.override if entry.client_version}


def renamed_settings(settings: Settings, cluster: str, names: NewNames) -> dict[str, Any]:
    """The sections as JSON values."""
    told: dict[str, Any] = json.loads(settings.model_dump_json(include=set(_SECTIONS)))
    told["rounds"]["collector_gap_s"] = {}
    for section, name in _ENTRIES:
        own = (entry for entry in told[section][name] if is_like(cluster, entry["cluster"]))
        told[section][name] = [new for entry in own for new in _entries(entry, cluster, names)]
    return told


def settings_of(told: Mapping[str, Any]) -> Settings:
    """Settings for a replay: the sections as ``renamed_settings`` gave them, the rest by default.

    Raises: ValueError: they are of another form.
    """
    by_default = load_settings(None).model_dump()
    if not isinstance(told, dict) or not told.keys() <= {*_SECTIONS}:
        raise ValueError("there are other sections than those of a bundle")
    try:
        return Settings.model_validate(by_default | dict(told))
    except ValidationError as error:
        raise ValueError(f"{error.errors()[0]['loc']}: {error.errors()[0]['msg']}") from error


def _entries(entry: dict[str, Any], cluster: str, names: NewNames) -> Iterable[dict[str, Any]]:
    """An entry for each group, and each member, that it is of."""
    of = "producer_group" if "producer_group" in entry else "consumer_group"
    for group, new in sorted(names.known("group").items()):
        if is_like(group, entry[of]):
            own = entry | {"cluster": names.of("cluster", cluster), of: new}
            if entry.get("client_version"):
                own["client_version"] = names.of("release", entry["client_version"])
            if entry.get("strategy"):
                own["strategy"] = names.of("strategy", entry["strategy"])
            if "name" in entry:
                own |= {"name": names.of("strategy", entry["name"])} | _parameters(entry, names)
            if "client_id" not in entry:
                yield own
                continue
            clients = names.known("client")
            yield from (own | {"client_id": clients[c]} for c in sorted(clients) if is_like(c, entry["client_id"]))


def _parameters(entry: Mapping[str, Any], names: NewNames) -> dict[str, Any]:
    rooms, brokers, clients = (names.known(kind) for kind in ("room", "broker", "client"))
    made: dict[str, Any] = {}
    if entry["machine_rooms"] is not None:
        made["machine_rooms"] = [rooms[room] for room in entry["machine_rooms"]]
    for name, of in (("broker_rooms", brokers), ("client_rooms", clients)):
        if entry[name] is not None:
            made[name] = {new: rooms[room] for old, new in sorted(of.items()) if (room := _first(old, entry[name]))}
    if entry["configured_queues"] is not None:
        made["configured_queues"] = {
            new: [_queue(queue, brokers) for queue in queues]
            for old, new in sorted(clients.items())
            if (queues := _first(old, entry["configured_queues"])) is not None
        }
    return made


def _first(name: str, patterns: Mapping[str, Any]) -> Any:
    """What stands at the first pattern that a name matches."""
    return next((value for pattern, value in patterns.items() if fnmatchcase(name, pattern)), None)


def _queue(queue: str, brokers: Mapping[str, str]) -> str:
    """Of a broker that no row names the queue is nobody's, whatever it is called."""
    broker, _, queue_id = queue.rpartition(":")
    return f"{brokers.get(broker, 'another')}:{queue_id}"
