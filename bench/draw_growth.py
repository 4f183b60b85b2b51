"""A series of measurements as JSON on stdin in, a figure out; runs in the peers' environment, which has matplotlib."""

from __future__ import annotations

import json
import sys
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure


def main() -> None:
    """Draw CPU seconds over what grows, a line for each contestant; linear growth is the slope of the dotted line."""
    given = json.load(sys.stdin)
    mpl.rcParams.update({"svg.hashsalt": "growth", "font.size": 9})
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for name in dict.fromkeys(point["contestant"] for point in given["points"]):
        _line(axes, name, [point for point in given["points"] if point["contestant"] == name])
    axes.set(xscale="log", yscale="log", xlabel=given["title"], ylabel="CPU seconds")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(given["figure"], metadata={"Date": None})


def _line(axes: Any, name: str, points: list[dict[str, Any]]) -> None:
    at, cost = [point["at"] for point in points], [point["cpu_s"] for point in points]
    (drawn,) = axes.plot(at, cost, marker="o", label=name)
    axes.plot(at, [cost[0] * x / at[0] for x in at], linestyle=":", linewidth=0.8, color=drawn.get_color())


if __name__ == "__main__":
    main()
