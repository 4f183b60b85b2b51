"""The unit in which derived tables are computed and replaced."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple


class ClusterDate(NamedTuple):
    """A UTC date of one cluster: the unit in which derived tables are replaced."""

    cluster: str
    event_date: date
