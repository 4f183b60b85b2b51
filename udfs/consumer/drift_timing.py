"""Settings values in, the numbers by which findings become incidents out. Seconds, unless the name says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Opening(NamedTuple):
    """When a code may open an incident: true in so many consecutive informative rounds, and seen so long ago."""

    rounds: int = 1
    age_s: float = 0


class Maintenance(NamedTuple):
    """A stretch, epoch milliseconds, in which differing subscriptions of the group are expected."""

    begin: int
    end: int


@dataclass(frozen=True)
class Timing:
    """Grace, ages and bounds; each is set and explained in conf/default.toml. ``opens``: of each drift code."""

    membership_grace_s: float
    broker_grace_s: float
    route_grace_s: float
    broker_death_s: float
    ordered_extra_s: float
    critical_grace_s: float
    subscription_grace_s: float
    interval_rounds: int
    progress_valid_s: float
    close_rounds: int
    close_s: float
    data_gap_s: float
    flapping_changes: int
    flapping_rounds: int
    standstill_s: float
    falling_s: float
    owner_changes: int
    owner_changes_s: float
    slow_handover_s: float
    lock_starved_s: float
    pull_idle_s: float
    consume_blocked_s: float
    offset_slack_s: float
    offset_commit_s: float
    offset_shown_s: float
    retries_a_minute: float
    revive_lag_s: float
    fold_share: float
    opens: Mapping[str, Opening]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Timing:
        """From the settings section ``timing``, which names every code, and ``progress_valid_s``."""
        opens = {code: Opening(**entry) for code, entry in values["opens"].items()}
        return cls(**{name: values[name] for name in cls.__dataclass_fields__ if name != "opens"}, opens=opens)
