"""Values by series in, a bounded number of series out: the highest by name, and what is left joined as ``other``.

Groups and brokers come and go, and a monitoring system keeps every name that it ever saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

OTHER = "other"
Labels = tuple[str, ...]  # the cluster, the name, and what else there is


class Bounded(NamedTuple):
    """What is shown, and how many series were joined as ``OTHER``."""

    series: dict[Labels, float]
    left_out: int


def bounded(
    values: Mapping[Labels, float],
    most: int,
    joined: Callable[[Iterable[float]], float],
    weight: Callable[[Labels, float], Any] = lambda labels, value: value,
) -> Bounded:
    """At most ``most`` series by name; what is left is joined as ``OTHER``, by cluster and further labels.

    All series of a name stay together. Names with the highest ``weight`` come first, as long as there is room; equal
    ones go by name, so the same values give the same series. A name that is called ``OTHER`` is joined too.
    """
    of_name: dict[Labels, list[Labels]] = {}
    for labels in values:
        of_name.setdefault(labels[:2], []).append(labels)
    heaviest = {name: max(weight(each, values[each]) for each in of_name[name]) for name in of_name}
    by_name = sorted(name for name in of_name if name[1] != OTHER)
    series: dict[Labels, float] = {}
    for name in sorted(by_name, key=heaviest.__getitem__, reverse=True):
        if len(series) + len(of_name[name]) > most:
            break
        series |= {labels: values[labels] for labels in of_name[name]}
    rest: dict[Labels, list[float]] = {}
    for labels in sorted(values.keys() - series.keys()):
        rest.setdefault((labels[0], OTHER, *labels[2:]), []).append(values[labels])
    series |= {labels: joined(of_rest) for labels, of_rest in rest.items()}
    return Bounded(dict(sorted(series.items())), sum(map(len, rest.values())))
