"""The page's section on the fleet: the names of its queries, and what its script draws.

A strip per broker in time: what share of the active producers held it not available. A cell of a strip shows the worst
minute in it, so that a short refusal by all is not thinned out by a quiet hour.
"""

from __future__ import annotations

from typing import Any

CELLS = 160
"""Cells of a strip, at most; the setting ``brokers`` bounds the strips."""

QUERIES = ("fleet_brokers", "fleet_cells", "producer_findings", "producer_finding_codes")
"""Its queries, by name."""

OF_WORST_MINUTES = ("fleet_brokers", "fleet_cells")
_OF_A_MINUTE = ("isolating", "active", "active_unknown", "minute_at")


def with_worst(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a broker or a cell with what its worst minute showed as one value, ``worst``; None: there is none."""
    worst = {name: row[name] for name in _OF_A_MINUTE if name in row}
    rest = {name: value for name, value in row.items() if name not in worst}
    return {**rest, "worst": worst if worst["minute_at"] is not None else None}


def fleet_strips(data: dict[str, Any]) -> dict[str, Any]:
    """What the script draws: ``begin`` and ``step`` in ms, and per broker its figures and cells.

    A cell: place in time, then of its worst minute how many refused the broker, of how many active, how many more could
    not be judged; where somebody refused it also that minute's place in the cell, and in how many minutes of how many
    judged ones that was so.
    """
    stretch = data["fleet_stretch"]
    cells: dict[tuple[str, str], list[list[int]]] = {}
    for row in data["fleet_cells"]:
        worst, begun = row["worst"], stretch["begin"] + row["bucket"] * stretch["step"]
        cell = [row["bucket"], worst["isolating"], worst["active"], worst["active_unknown"]]
        if worst["isolating"]:
            cell += [(worst["minute_at"] - begun) // 60_000, row["refused"], row["judged"]]
        cells.setdefault((row["cluster"], row["broker_name"]), []).append(cell)
    return {
        **stretch,
        "brokers": [_strip(b, cells.get((b["cluster"], b["broker_name"]), [])) for b in data["fleet_brokers"]],
    }


def _strip(broker: dict[str, Any], cells: list[list[int]]) -> list[Any]:
    worst = broker["worst"] and [broker["worst"][name] for name in ("isolating", "active", "minute_at")]
    return [*(broker[name] for name in ("cluster", "broker_name", "judged", "refused", "by_half")), worst, cells]
