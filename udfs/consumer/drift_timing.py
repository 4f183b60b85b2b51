"""Settings values in, the numbers by which findings become incidents out. Seconds, unless the name says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Opening(NamedTuple):
    """When a code may open an incident: true in so many consecutive informative rounds, and seen so long ago."""

    rounds: int = 1
    age_s: float = 0


class Maintenance(NamedTuple):
    """A stretch, epoch milliseconds, in which differing subscriptions of the group are expected."""

    begin: int
    end: int


# Defaults are those of conf/default.toml; a test compares them.
OPENS: Mapping[str, Opening] = {
    "ORPHAN_QUEUE": Opening(2, 60),
    "UNSERVED_QUEUE": Opening(2, 0),
    "ORPHAN_BY_DESIGN": Opening(1, 0),
    "DOUBLE_OWNED": Opening(2, 0),
    "WRONG_OWNER": Opening(3, 60),
    "IDLE_CONSUMER": Opening(3, 0),
    "IDLE_BY_DESIGN": Opening(1, 0),
    "UNREACHABLE_CLIENT": Opening(2, 0),
    "GHOST_OWNER": Opening(2, 0),
    "DUPLICATE_CLIENT_ID": Opening(2, 130),
    "SUBSCRIPTION_INCONSISTENT": Opening(2, 0),
    "MIXED_CLIENTS": Opening(2, 0),
    "MIXED_STRATEGY": Opening(2, 0),
    "VIEW_DIVERGENCE": Opening(2, 50),
    "REBALANCE_FLAP": Opening(1, 0),
    "SLOW_HANDOVER": Opening(1, 0),
    "LOCK_STARVED": Opening(2, 0),
    "PULL_IDLE": Opening(2, 0),
    "CONSUME_BLOCKED": Opening(2, 0),
    "POP_ASSIGNMENT_DIFFERS": Opening(3, 60),
    "REVIVE_LAG": Opening(2, 0),
    "GROUP_DOWN": Opening(1, 150),
    "DATA_GAP": Opening(1, 0),
    "OFFSET_REWOUND": Opening(1, 0),
    "OFFSET_JUMPED": Opening(1, 0),
    "MESSAGES_LOST": Opening(2, 0),
    "MESSAGES_AT_RISK": Opening(2, 0),
    "QUEUE_LAGS_ALONE": Opening(2, 240),
    "RETRIES_GROW": Opening(2, 60),
    "DEAD_LETTERS": Opening(1, 0),
}


@dataclass(frozen=True)
class Timing:
    """Grace, ages and bounds; each is explained where it is set, in conf/default.toml."""

    membership_grace_s: float = 20
    broker_grace_s: float = 50
    route_grace_s: float = 50
    broker_death_s: float = 125
    ordered_extra_s: float = 60
    subscription_grace_s: float = 600
    interval_rounds: int = 20
    progress_valid_s: float = 120
    close_rounds: int = 3
    close_s: float = 60
    data_gap_s: float = 600
    flapping_changes: int = 4
    flapping_rounds: int = 20
    standstill_s: float = 60
    owner_changes: int = 3
    owner_changes_s: float = 600
    slow_handover_s: float = 40
    lock_starved_s: float = 60
    pull_idle_s: float = 120
    consume_blocked_s: float = 60
    offset_slack_s: float = 60
    offset_commit_s: float = 10
    offset_shown_s: float = 600
    retries_a_minute: float = 60
    revive_lag_s: float = 360
    fold_share: float = 0.5
    opens: Mapping[str, Opening] = field(default_factory=lambda: OPENS)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Timing:
        """From the settings section ``timing``; codes that it does not name open as by default."""
        own = {code: Opening(**entry) for code, entry in values.get("opens", {}).items()}
        names = cls.__dataclass_fields__.keys() - {"opens"}
        return cls(**{name: values[name] for name in names if name in values}, opens={**OPENS, **own})
