"""Which setups remain of producers whose real one is known, as the tables of docs/which-release.md.

``python -m tests.release_matrix [FOLDER]``: FOLDER has vectors of more releases and loops than the tests keep.
"""

from __future__ import annotations

import gzip
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.release_profiles import profile_for
from tests.conftest import CAPTURES, GOLDEN
from tests.folded import OPTIONS, folded, rows_of
from tests.recorded_rows import captured
from tests.release_vectors import VERSIONS, loops

NAMES = (
    *("4.7.1_laton", "4.7.1_short", "4.7.1_latoff", "4.7.1_oneway", "4.9.8_short", "4.9.8_async"),
    *("5.3.3_laton", "5.3.3_detect", "5.3.3_async", "5.3.3_oneway"),
)
COLUMNS = ("P40, P43", "P48 to P510", "P498", "P511", "P514", "P520 to P533", "off")
_FIRST = {"P40": 0, "P48": 1, "P49b": 1, "P498": 2, "P511": 3, "P514": 4, "P520": 5, "P530": 5, "P531": 5}


class Truth(NamedTuple):
    """How a producer was really set up; ``ladder``: as producer_release calls it."""

    family: str
    enabled: bool
    detector: bool
    ladder: str


class Told(NamedTuple):
    """What is said of a producer of which nothing but its attempts is known."""

    name: str
    truth: Truth
    rows: list
    replay: dict

    def truth_remains(self):
        """Whether what it really was is among what remains."""
        own = [row for row in self.rows if self.truth.family in row["families"].split("|") and self._is_setup(row)]
        return len(own) == 1 and own[0]["state"] == "remains"

    def _is_setup(self, row):
        if row["latency_fault_enabled"] != self.truth.enabled:
            return False
        return not self.truth.enabled or (row["ladder"], row["detector_enabled"]) == (
            self.truth.ladder,
            self.truth.detector,
        )

    def remaining(self):
        """The columns of which some family remains, under any ladder."""
        rows = [row for row in self.rows if row["state"] == "remains"]
        return {
            COLUMNS[_FIRST[row["families"].split("|")[0]]] if row["latency_fault_enabled"] else "off" for row in rows
        }


def of_capture(name, routes=()):
    """A captured producer without its start; a ladder of its own has a name."""
    attempts, (start,) = captured(name)
    family = profile_for(start["client_version"])
    own = (family.latency_max_ms, family.not_available_ms) != (
        tuple(start["latency_max_ms"]),
        tuple(start["not_available_ms"]),
    )
    ladder = {"name": "own", **{key: start[key] for key in ("latency_max_ms", "not_available_ms")}}
    detector = bool(start["detector_enabled"]) and family.has_reachable
    truth = Truth(family.id, start["latency_fault_enabled"], detector, "own" if own else "default")
    return _told(name, truth, rows_of(attempts, [], routes), (ladder,) if own else ())


def of_loop(version, init, attempts):
    """A send loop of the real classes."""
    family = profile_for(version)
    own = (*map(tuple, (init["latencyMax"], init["notAvailableDuration"])),) != (
        family.latency_max_ms,
        family.not_available_ms,
    )
    ladder = {
        "name": "own",
        "latency_max_ms": init["latencyMax"],
        "not_available_ms": init["notAvailableDuration"],
    }
    detector = bool(init["startDetectorEnable"]) and family.has_reachable
    truth = Truth(family.id, init["sendLatencyFaultEnable"], detector, "own" if own else "default")
    return _told(f"{version} {init['trace']}", truth, rows_of(attempts, []), (ladder,) if own else ())


def _told(name, truth, given, ladders):
    made = folded(given, OPTIONS._replace(ladder=ladders))
    (replay,) = made["producer_replay"].to_pylist()
    return Told(name, truth, made["producer_release"].to_pylist(), replay)


def recorded_routes():
    """Rows of topic_route that were read while the captured producers ran."""
    found = []
    with gzip.open(CAPTURES / "producers" / "admin_snapshots.jsonl.gz", "rt", encoding="utf-8") as lines:
        for number, text in enumerate(lines):
            for parsed in parse_admin_snapshots([Line(number, 0, len(text), text.rstrip("\n"), None)]):
                found += [record.row for record in parsed.records if record.table == "topic_route"]
    read = [{**row, "captured_at": datetime.fromtimestamp(row["captured_at"] / 1000, UTC)} for row in found]
    return [{**row, "cluster": "c", "event_date": row["captured_at"].date()} for row in read]


def table_of(told, first):
    """A matrix in Markdown: of the producers of each kind, those of which a column's families remain."""
    lines = [f"| {first} | producers | {' | '.join(COLUMNS)} | inferred |", f"|{'---|' * (len(COLUMNS) + 3)}"]
    kinds = list(dict.fromkeys((each.truth.family, each.truth.enabled) for each in told))
    for family, enabled in kinds:
        own = [each for each in told if (each.truth.family, each.truth.enabled) == (family, enabled)]
        remaining = [str(sum(column in each.remaining() for each in own)) for column in COLUMNS]
        inferred = sum(each.replay["certainty"] == "inferred" for each in own)
        switch = "on" if enabled else "off"
        lines.append(f"| {family}, {switch} | {len(own)} | {' | '.join(remaining)} | {inferred} |")
    return "\n".join(lines)


def captures():
    """The captured producers without their starts, with the routes of their time."""
    routes = recorded_routes()
    return [of_capture(name, routes) for name in NAMES]


def send_loops(folder=GOLDEN / "vectors"):
    """The send loops of the real classes."""
    return [of_loop(version, *loop) for version in VERSIONS for loop in loops(version, folder)]


def named(told):
    """The captured producers one by one, in Markdown."""
    lines = ["| producer | what remains | inferred |", "|---|---|---|"]
    for each in told:
        remaining = ", ".join(column for column in COLUMNS if column in each.remaining())
        every = "all" if len(each.remaining()) == len(COLUMNS) else remaining
        inferred = each.replay["verdict"] if each.replay["certainty"] == "inferred" else ""
        lines.append(f"| {each.name} | {every} | {inferred} |")
    return "\n".join(lines)


if __name__ == "__main__":
    every = send_loops(Path(sys.argv[1])) if len(sys.argv) > 1 else send_loops()
    found = captures()
    print(named(found), table_of(every, "send loops"), sep="\n\n")
    lost = [told.name for told in (*found, *every) if not told.truth_remains()]
    print(f"\n{len(found) + len(every)} producers, real setup ruled out: {lost or 'none'}")
