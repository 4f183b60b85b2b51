"""Which columns of a table are its verdicts: a row whose key stays and one of these changes has flipped.

The one place that says so. A code that is part of a key (``allocation_drift.code``) cannot flip: such a row vanishes,
and another appears. Tables that are not here hold facts or states; their rows change.
"""

from __future__ import annotations

from collections.abc import Mapping

VERDICTS: Mapping[str, tuple[str, ...]] = {
    "broker_availability_window": ("end_reason", "trigger_kind", "certainty"),
    "producer_replay": ("verdict", "certainty"),
    "send_verdict": ("verdict",),
    "send_call": ("result", "retry_verdict", "stored_twice"),
    "window_confirmation": ("shows",),
    "producer_finding": ("severity", "certainty"),
    "group_round": ("verdict",),
    "expected_allocation": ("refusal",),
    "broker_assignment": ("agrees",),
    "allocation_drift": ("severity", "trust", "finding_state", "root_cause"),
    "drift_incident": ("state", "severity", "trust", "root_cause"),
    "rebalance_event": ("trigger_kind", "certainty"),
}
