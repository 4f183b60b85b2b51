"""What a lake may hold at its worst, as ``report_data`` would read it: every name is markup."""

from __future__ import annotations

from collections.abc import Sequence

SCRIPT = "<script>alert(1)</script>"
NAMES = (
    SCRIPT,
    "</script><img src=x onerror=alert(2)>",
    "{{ 7 * 7 }}",
    "\u202egnp.exe",
    "a\u2028b",
    "'\"&amp;`",
    "x" * 300,
)
_T0 = 1795252689347
_MINUTE = _T0 - _T0 % 60_000


def hostile_data(names: Sequence[str] = NAMES) -> dict:
    """One broker, producer, group and incident per hostile name."""
    lists = (
        "strip sends send_totals releases choices replayed findings assignments files refused refused_lines checks "
        "failed_checks publications producers brokers windows groups rounds cells incidents "
        "fleet_brokers fleet_cells producer_findings producer_finding_codes failures call_results doubts "
        "route_changes routes_missing delays rebalances rebalance_events"
    )
    data: dict = {name: [] for name in [*lists.split(), "parts"]}
    data["dates"] = {"first": "2026-11-15", "last": "2026-11-21"}
    data["stretch"] = {"begin": _T0, "end": _T0 + 600_000, "recorded": _T0 + 600_000, "step": 2500, "send_step": 5000}
    data["unjudged"] = list(names)
    data["fleet_stretch"] = {"begin": _MINUTE, "step": 120_000}
    for n, name in enumerate(names):
        for of, rows in _rows(n, name).items():
            data[of] += rows
    return data


def _rows(n: int, name: str) -> dict[str, list[dict]]:
    producer = {"cluster": name, "producer_group": name, "client_id": name}
    group = {"cluster": name, "collector": name, "consumer_group": name, "topic": name}
    queue = {
        **group,
        "round_at": _T0,
        "broker_name": name,
        "queue_id": 0,
        "expected_owner": name,
        "observed": [name, f"{name}2"],
    }
    counted = {"of_all": len(NAMES) + 1}
    window = {"window_start": _T0 + n, "window_end": _T0 + 60_000, "state": "unavailable", "end_reason": "expired"}
    trigger = {"trigger_kind": "latency", "trigger_latency_ms": 1, "certainty": "certain"}
    return {
        "brokers": [{"cluster": name, "broker_name": name, "windows": 1, "producers": 1, "seconds": 60.0, **counted}],
        "replayed": [{"cluster": name, "producers": 1}],
        "strip": [{"cluster": name, "broker_name": name, "bucket": 0, "producers": 1}],
        "producers": [
            {**producer, "client_version": name, "verdict": "replayed", "reasons": [name], "certainty": "certain"}
            | {"attempts": 1, "windows": 1, "brokers": 1, "seconds": 60.0, **counted}
        ],
        "windows": [{**producer, "broker_name": name, **window, **trigger, **counted}],
        "sends": [{"cluster": name, "broker_name": name, "bucket": 0, "attempts": 5, "failed": 1, "p99": 10}],
        "fleet_brokers": [
            {"cluster": name, "broker_name": name, "judged": 4, "refused": 1, "by_half": 1}
            | {"worst": {"isolating": 1, "active": 2, "minute_at": _MINUTE + 60_000}, **counted}
        ],
        "fleet_cells": [
            {"cluster": name, "broker_name": name, "bucket": 0, "judged": 2, "refused": 1}
            | {"worst": {"isolating": 1, "active": 2, "active_unknown": 3, "minute_at": _MINUTE + 60_000}},
            {"cluster": name, "broker_name": name, "bucket": 1, "judged": 2, "refused": 0}
            | {"worst": {"isolating": 0, "active": 2, "active_unknown": 0, "minute_at": _MINUTE + 120_000}},
        ],
        "producer_findings": [
            {"cluster": name, "code": "FLEET_SLOW", "severity": "HIGH", "subject": name, "from": _T0, "to": None}
            | {"certainty": "certain", "sentence": name, **counted}
        ],
        "groups": [
            {**group, "rounds": 1, "ok": 0, "drift": 1, "unknown": 0, "unjudged": 0, "matrix": True, "strategy": name}
            | {"message_model": "CLUSTERING", "strategy_source": "client_log", **counted}
            | {"queue_kind": "logical", "scope_reason": name, "kinds": [name], "families": [name]}
        ],
        "rounds": [{**group, "round_at": _T0, "verdict": "drift", "missing": 0}],
        "cells": [{**queue, "code": "DOUBLE_OWNED", "finding_state": "OPEN"}],
        "assignments": [
            {
                **dict.fromkeys(("cluster", "consumer_group", "topic", "client_id", "reason"), name),
                "rounds": 1,
                "agreed": 1,
                "differed": 0,
                "handed_out": [name],
                "taken": [name],
                "last_at": _T0,
                **counted,
            }
        ],
        "incidents": [
            {
                **group,
                "incident_id": "0",
                "root_cause": "MIXED_STRATEGY",
                "cause_key": name,
                "also": [],
                "state": "OPEN",
            }
            | {"severity": "HIGH", "trust": "certain", "opened_at": _T0, "last_seen_at": _T0, "resolved_at": None}
            | {"codes": ["DOUBLE_OWNED"], "rounds_true": 1, "rounds_informative": 1, "lag_now": None, "sentence": name}
            | {"messages_accrued": None, "evidence": [name], **counted}
        ],
        "failures": [
            {"cluster": name, "broker_name": name, "failed_with": name, "response_code": None, "attempts": 3}
            | {"gone_on": 1, "saved": 1, "lost": 1, "minutes": 2, **counted}
        ],
        "call_results": [
            {"mode": None, "result": "exception", "retry_verdict": "right", "stored_twice": "no", "sends": 1}
            | {"longest": 3000}
        ],
        "doubts": [
            {"cluster": name, "table_name": "send_attempt", "source": "f", "doubt": "NEGATIVE_LATENCY", "doubted": 2}
            | {"files": 1, "example_file": name, "example_line": 1, **counted}
        ],
        "route_changes": [
            {"cluster": name, "topic": name, "broker_name": name, "what": "perm", "unchanged_until": _T0 - 60_000}
            | {"changed_at": _T0, "perm_before": 6, "perm": 4, "write_queue_nums_before": 4, "write_queue_nums": 4}
            | counted
        ],
        "routes_missing": [
            {"cluster": name, "topic": name, "name_servers_say": "differ", "times": 2, "minutes": 1}
            | {"first_minute": _MINUTE, "last_minute": _MINUTE, **counted}
        ],
        "delays": [
            {"cluster": name, "consumer_group": name, "topic": name, "queues": 4, "at_least": 7, "at_most": None}
            | {"messages": 12, **counted}
        ],
        "rebalances": [
            {"cluster": name, "consumer_group": name, "day": "2026-11-21", "trigger_kind": "start", "rebalances": 1}
            | {"client_rebalances": 1, "failed": 0, "queues_moved": 1, "longest_took_s": None, "unread_s": 1.0}
            | {"longest_unread_s": 1.0, "lock_failures": 0, "exceptions": 0, **counted}
        ],
        "rebalance_events": [
            {"cluster": name, "consumer_group": name, "client_id": name, "changed_at": _T0, "trigger_kind": "start"}
            | {"told_by": "client_log", "certainty": "exact", "took_s": None, "queues_gained": 1, "queues_lost": 0}
            | {"longest_unread_s": 1.0, "exception_count": 0, "sentence": name, **counted}
        ],
        "refused_lines": [
            {"cluster": name, "format": "f", "source_file": name, "line_number": 1, "reason_code": "NOT_JSON"}
            | {"detail": name, "raw_text": name, **counted}
        ],
    }
