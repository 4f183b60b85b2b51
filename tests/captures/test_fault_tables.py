"""The fault table replayed from what a hook sees, against the client's own dumps of it. No Spark."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest

from hindsight.udfs.fault_tolerance import FaultTable, profile_for
from hindsight.udfs.producer.attempt_updates import fault_update
from tests.conftest import CAPTURES

SYNC_AND_ONEWAY = ("4.7.1_laton", "4.7.1_short", "4.9.8_short", "5.3.3_laton", "4.7.1_oneway", "5.3.3_oneway")


def records(name):
    with gzip.open(CAPTURES / "producers" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def updates(attempts):
    """(instant, order, attempt, phase) of every updateFaultItem that the hook's lines show."""
    seen = set()
    for a in attempts:
        if a["mode"] != "ASYNC":
            phase = "result" if a["mode"] == "SYNC" else "submit"
        else:
            first = a["status"] is None and a["exception"] is None and (a["msgId"], "submit") not in seen
            phase = "submit" if first else "callback"
            seen.add((a["msgId"], phase))
        yield (a["endMs"], a["beginMs"], a["thread"], a["msgId"], a["times"], phase), a, phase


def compared(producer):
    """Per dumped item: does available or not agree, and how far apart are the starts (None: neither was isolated)?"""
    start, *attempts = records(f"producer_{producer}")
    profile = replace(
        profile_for(start["version"]),
        latency_max_ms=tuple(start["latencyMax"]),
        not_available_ms=tuple(start["notAvailableDuration"]),
    )
    detector = start["spec"].get("detector") == "1"
    table = FaultTable(profile, enabled=start["sendLatencyFaultEnable"])
    pending = sorted(updates(attempts), key=lambda u: u[0], reverse=True)
    for dump in records(f"fault_{producer}"):
        while pending and pending[-1][0][0] <= dump["ts"]:
            (at, *_), a, phase = pending.pop()
            told = fault_update(
                profile,
                mode=a["mode"],
                phase=phase,
                exception=a["exception"],
                error=a["error"],
                detector_enabled=detector,
            )
            if told is not None:
                table.update(
                    a["broker"],
                    latency_ms=at - a["beginMs"],
                    isolation=told.isolation,
                    now_ms=at,
                    reachable=told.reachable,
                )
        ours = table.items()
        for item in dump["items"]:
            mine = ours.get(item["name"])
            if mine is None:
                yield item["startTimestamp"] <= dump["ts"], None
                continue
            agrees = ((mine.start_ms or 0) > dump["ts"]) == (item["startTimestamp"] > dump["ts"])
            both = mine.start_ms is not None and item["startTimestamp"] > 0
            yield agrees, abs(mine.start_ms - item["startTimestamp"]) if both else None


def shares(producer):
    results = list(compared(producer))
    apart = [distance for _, distance in results if distance is not None]
    near = sum(distance <= 20 for distance in apart) / len(apart) if apart else 1.0
    return sum(agrees for agrees, _ in results) / len(results), near


@pytest.mark.parametrize("producer", SYNC_AND_ONEWAY)
def test_attempts_alone_reproduce_the_table_of_sync_and_oneway_producers(producer):
    agrees, near = shares(producer)
    assert agrees >= 0.999, f"{agrees:.4%} of the dumped states agree"
    assert near >= 0.99, f"{near:.4%} of the starts lie within 20 ms"


def test_a_detector_removes_items_unseen():
    agrees, _ = shares("5.3.3_detect")
    assert agrees >= 0.99


@pytest.mark.parametrize("producer", ["4.9.8_async", "5.3.3_async"])
def test_a_hook_does_not_see_the_clients_own_async_retries(producer):
    agrees, _ = shares(producer)
    assert 0.80 <= agrees < 1, f"{agrees:.4%}"


def test_a_switched_off_producer_records_nothing():
    assert list(compared("4.7.1_latoff")) == []
