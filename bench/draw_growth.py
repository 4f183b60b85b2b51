"""A series of measurements as JSON on stdin in, a figure out; runs in the peers' environment, which has matplotlib."""

from __future__ import annotations

import json
import sys
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter, StrMethodFormatter


def main() -> None:
    """Draw CPU seconds over what grows, a line for each contestant, and what linear growth would be."""
    given = json.load(sys.stdin)
    mpl.rcParams.update({"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for name in dict.fromkeys(point["contestant"] for point in given["points"]):
        _line(axes, name, [point for point in given["points"] if point["contestant"] == name])
    axes.set(xscale="log", yscale="log", xlabel=given["title"], ylabel="CPU seconds")
    at = sorted({point["at"] for point in given["points"]})
    axes.set_xticks(at)
    # A share of 0.3 is no 300m.
    axes.xaxis.set_major_formatter(EngFormatter(sep="") if at[0] >= 1 else StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, alpha=0.3)
    linear = Line2D([], [], label="linear", linestyle=":", linewidth=0.8, color="gray")
    axes.legend(handles=[*axes.get_legend_handles_labels()[0], linear], frameon=False)
    figure.savefig(given["figure"], metadata={"Date": None})


def _line(axes: Any, name: str, points: list[dict[str, Any]]) -> None:
    at, cost = [point["at"] for point in points], [point["cpu_s"] for point in points]
    (drawn,) = axes.plot(at, cost, marker="o", label=name)
    axes.plot(at, [cost[0] * x / at[0] for x in at], linestyle=":", linewidth=0.8, color=drawn.get_color())


if __name__ == "__main__":
    main()
