"""The timing of conf/default.toml, as the kernels take it, and the same with changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hindsight.conf.settings_file import load_settings
from hindsight.udfs.consumer.drift_timing import Timing
from hindsight.udfs.consumer.group_round import GroupRound
from hindsight.udfs.drift import drift_rules
from hindsight.udfs.drift.drift_rules import Finding

_SETTINGS = load_settings()
_DEFAULT = Timing.of(_SETTINGS.timing.model_dump() | {"progress_valid_s": _SETTINGS.drift.progress_valid_s})
OPENS = _DEFAULT.opens


def default_timing(**changes: Any) -> Timing:
    return replace(_DEFAULT, **changes)


def findings(group: GroupRound) -> list[Finding]:
    """All findings of a round."""
    return drift_rules.findings(group, _DEFAULT)
