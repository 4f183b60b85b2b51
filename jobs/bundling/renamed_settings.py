"""The settings in; what the derivations of a bundle go by, out: patterns as the names that they match, renamed.

What no derivation reads is not in it: neither landing, nor Spark's options, nor where anything lies.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ValidationError

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import load_settings
from hindsight.udfs.bundles.new_names import NewNames
from hindsight.udfs.values.shell_patterns import is_like

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
