"""What a bundle says of the release that made it, and what differs in the one that replays it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hindsight.jobs.running.own_release import own_release
from hindsight.schemas import SCHEMA_VERSION, TABLES, Table
from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.release_profiles import PROFILES


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
