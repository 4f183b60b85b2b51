"""The page's section on the fleet: its queries, and what its script draws.

A strip per broker in time: what share of the active producers held it not available. A cell of a strip shows the worst
minute in it, so that a short refusal by all is not thinned out by a quiet hour.
"""

from __future__ import annotations

from typing import Any

CELLS = 240
"""Cells of a strip, at most; the setting ``brokers`` bounds the strips."""

SPAN = """
    SELECT COALESCE(MIN(unix_millis(minute_at)), 0) AS begin, COALESCE(MAX(unix_millis(minute_at)) + 60000, 0) AS end
    FROM fleet_minute WHERE {of_dates}"""

_BROKERS = """
    SELECT cluster, broker_name, COUNT_IF(active > 0) AS judged, COUNT_IF(isolating > 0) AS refused,
      COUNT_IF(isolating > 0 AND isolating * 2 >= active) AS by_half,
      MAX_BY(STRUCT(isolating, active, minute_at), STRUCT(isolating / NULLIF(active, 0), isolating,
        -unix_millis(minute_at))) FILTER (WHERE isolating > 0) AS worst,
      ROUND(SUM(COALESCE(isolating / NULLIF(active, 0), 0)), 3) AS weight, COUNT(*) OVER () AS of_all
    FROM fleet_minute WHERE {of_dates} GROUP BY cluster, broker_name
    ORDER BY weight DESC, cluster, broker_name LIMIT {brokers}"""

QUERIES = {
    "fleet_brokers": _BROKERS,
    "fleet_cells": f"""
    SELECT cluster, broker_name, (unix_millis(minute_at) - {{fleet_begin}}) DIV {{fleet_step}} AS bucket,
      COUNT_IF(active > 0) AS judged, COUNT_IF(isolating > 0) AS refused,
      MAX_BY(STRUCT(isolating, active, active_unknown, minute_at), STRUCT(
        COALESCE(isolating / NULLIF(active, 0), -1), isolating, active_unknown, -unix_millis(minute_at))) AS worst
    FROM fleet_minute JOIN (SELECT cluster, broker_name FROM ({_BROKERS})) USING (cluster, broker_name)
    WHERE {{of_dates}} GROUP BY cluster, broker_name, bucket ORDER BY cluster, broker_name, bucket""",
    "producer_findings": """
    SELECT cluster, code, severity, subject, `from`, `to`, certainty, sentence, COUNT(*) OVER () AS of_all
    FROM producer_finding WHERE {of_dates}
    ORDER BY ARRAY_POSITION({worst}, severity), unix_millis(`to`) - unix_millis(`from`) DESC NULLS FIRST, `from`,
      cluster, subject, code LIMIT {rows}""",
    "producer_finding_codes": """
    SELECT severity, code, COUNT(*) AS findings, COUNT(DISTINCT producer_group, client_id) AS producers,
      COUNT(DISTINCT cluster, broker_name) AS brokers
    FROM producer_finding WHERE {of_dates} GROUP BY severity, code
    ORDER BY ARRAY_POSITION({worst}, severity), findings DESC, code LIMIT {rows}""",
}


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
