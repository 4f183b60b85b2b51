"""Pages of single groups and brokers, where a fleet has more of them than the first page lists.

They lie in a folder beside it and hold no script. They say what stays so until something happens: what every round
counts further is left to the first page, so a healthy group's page stays as it was written.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from hindsight.jobs.engines.asker import Asker, Record, as_records, query
from hindsight.jobs.lake.small_files import Store
from hindsight.jobs.report.report_page import asset, part_page
from hindsight.jobs.report.report_queries import plain, with_families, with_worst
from hindsight.jobs.running.own_release import own_build

FOLDER = "report"
WINDOWS_OF_EACH = 50
_INDEX = "written.json"
_ALL = 1_000_000  # rows of a list, of all groups or brokers together

Column = tuple[str, str, str]


class _List(NamedTuple):
    """A list on a page: its query, the column of the page's name, its heading, and its columns."""

    query: str
    by: str
    heading: str
    columns: list[Column]


@cache
def _lists() -> dict[str, list[_List]]:
    """Those of ``parts.toml``, by kind of page."""
    told = tomllib.loads(asset("parts.toml"))
    return {
        kind: [
            _List(one["query"], one["by"], one["heading"].format(longest=WINDOWS_OF_EACH), _columns(one["shown"]))
            for one in lists
        ]
        for kind, lists in told.items()
    }


def _columns(shown: str) -> list[Column]:
    """Each column as its name, heading and kind."""
    cut = (line.partition(" ") for line in shown.strip().splitlines())
    return [(named.partition(":")[0], heading, named.partition(":")[2]) for named, _, heading in cut]


# Whose rows say which groups and brokers there are, and in which column.
_NAMING = {
    "group": ("consumer_group", ("groups",)),
    "broker": ("broker_name", ("sends", "fleet_brokers", "windows")),
}


class Part(NamedTuple):
    """A page: of a group or of a broker, in which cluster, its name, and its lists' rows."""

    kind: str
    cluster: str
    name: str
    lists: list[tuple[str, list[Column], list[Record]]]

    @property
    def file(self) -> str:
        """Its file's name, which no recorded name gets into."""
        return f"{self.kind}-{_digest([self.cluster, self.name])[:16]}.html"


def parts(asker: Asker, data: Mapping[str, Any]) -> list[Part]:
    """The pages beside a first page of this data; none: that lists all groups and brokers by itself."""
    bounds, groups, brokers = data["bounds"], data["groups"], data["send_totals"]
    if not any(rows and rows[0]["of_all"] > len(rows) for rows in (groups, brokers)):
        return []
    of_all = brokers[0]["of_all"] if brokers else 1
    wide = {**bounds, "rows": _ALL, "brokers": _ALL, "groups": _ALL, "windows": WINDOWS_OF_EACH * of_all}
    names = sorted({each.query for lists in _lists().values() for each in lists} | {"sends"})
    answers = asker.answers([query("queries", name).format(**wide) for name in names])
    found = {name: as_records(rows) for name, rows in zip(names, answers, strict=True)}
    found["groups"] = [with_families(row) for row in found["groups"]]
    found["fleet_brokers"] = [row for row in map(with_worst, found["fleet_brokers"]) if row["refused"]]
    return [part for kind in _lists() for part in _of_kind(kind, found)]


def _of_kind(kind: str, found: Mapping[str, list[Record]]) -> Iterable[Part]:
    column, naming = _NAMING[kind]
    names = {(row["cluster"], row[column]) for each in naming for row in found[each]}
    lists = [
        (each.heading, each.columns, _by_name(each.by, each.columns, found[each.query])) for each in _lists()[kind]
    ]
    for cluster, name in sorted(names):
        own = [(heading, columns, of[cluster, name]) for heading, columns, of in lists if (cluster, name) in of]
        yield Part(kind, cluster, name, own)


def _by_name(by: str, columns: list[Column], rows: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """Rows of a list by cluster and name, with what it shows of them."""
    found: dict[tuple[str, str], list[Record]] = {}
    for row in rows:
        found.setdefault((row["cluster"], row[by]), []).append({key: plain(row[key]) for key, _, _ in columns})
    return found


def write_parts(store: Store, made: Iterable[Part]) -> int:
    """Write those that say something else than before, and remove those that are gone; how many were written."""
    there, known = {*store.names()}, json.loads(store.read(_INDEX) or "{}")
    own, by_file = own_build(), {part.file: part for part in made}
    digests = {file: _digest([own, part]) for file, part in by_file.items()}
    changed = [file for file in by_file if file not in there or known.get(file) != digests[file]]
    gone = {file for file in there if file.endswith(".html")} - by_file.keys()
    if changed or gone:
        store.delete(_INDEX)  # a run that ends in between leaves all to be written anew
        for file in changed:
            store.write(file, part_page(by_file[file]))
        for file in gone:
            store.delete(file)
        store.write(_INDEX, json.dumps(digests))
    return len(changed)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
