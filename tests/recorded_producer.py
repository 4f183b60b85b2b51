"""A captured producer judged one choice at a time, from what a hook sees: what the jobs' verdicts must equal."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import replace

from tests.conftest import CAPTURES
from udfs.choice_readings import BrokerRecord, NearUpdate, Removals, item_readings, route_readings
from udfs.fault_tolerance import FaultTable, profile_for
from udfs.send_outcome import fault_update
from udfs.send_verdicts import Choice, KnownBroker, judge

TOLERANCE_MS = 3


class Recorded:
    """One captured producer: its choices, and per broker its updates with the item after each."""

    def __init__(self, name, version=None):
        with gzip.open(CAPTURES / "producers" / f"producer_{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            start, *attempts = [json.loads(line) for line in lines]
        self.profile = replace(
            profile_for(version or start["version"]),
            latency_max_ms=tuple(start["latencyMax"]),
            not_available_ms=tuple(start["notAvailableDuration"]),
        )
        self.enabled = start["sendLatencyFaultEnable"]
        self.detector = start["spec"].get("detector") == "1"
        self.choices, updates, self.used = [], defaultdict(list), defaultdict(list)
        submitted = set()
        for a in attempts:
            phase = {"SYNC": "result", "ONEWAY": "submit"}.get(a["mode"])
            if phase is None:
                phase = "callback" if a["status"] or a["exception"] or a["msgId"] in submitted else "submit"
            if phase == "submit":
                submitted.add(a["msgId"])
            if phase != "callback":
                self.choices.append(a)
                self.used[a["topic"], a["broker"]].append(a["beginMs"])
            told = fault_update(
                self.profile,
                mode=a["mode"],
                phase=phase,
                exception=a["exception"],
                error=a["error"],
                detector_enabled=self.detector,
            )
            if told is not None and self.enabled:
                updates[a["broker"]].append((a, phase, told))
        self.updates, self.at, self.items = {}, {}, {}
        for broker, made in updates.items():
            made.sort(key=lambda u: (u[0]["endMs"], u[0]["beginMs"], u[0]["thread"], u[0]["msgId"], u[0]["times"] or 0))
            table, after = FaultTable(self.profile), [None]
            for a, _, told in made:
                latency = a["endMs"] - a["beginMs"]
                table.update(broker, latency_ms=latency, now_ms=a["endMs"], **told._asdict())
                after.append(table.items()[broker])
            self.updates[broker], self.items[broker] = made, after
            self.at[broker] = [a["endMs"] for a, _, _ in made]
        for begins in self.used.values():
            begins.sort()
        self.brokers = sorted({broker for _, broker in self.used})

    def record(self, broker, a, tolerance_ms):
        now, at = a["beginMs"], self.at.get(broker, [])
        first, last = bisect_left(at, now - tolerance_ms), bisect_right(at, now + tolerance_ms)
        near = tuple(
            NearUpdate(
                u["endMs"],
                u["endMs"] - u["beginMs"],
                told.isolation,
                told.reachable,
                phase != "callback" and u["thread"] == a["thread"] and u["beginMs"] < now,
            )
            for u, phase, told in self.updates.get(broker, [])[first:last]
            if not (u["msgId"] == a["msgId"] and (u["times"] or 0) >= (a["times"] or 0))
        )
        used = self.used.get((a["topic"], broker), [])
        i = bisect_right(used, now)
        return BrokerRecord(
            broker,
            self.items[broker][first] if broker in self.items else None,
            at[first - 1] if first else None,
            near,
            used[i - 1] if i else None,
            used[i] if i < len(used) else None,
        )

    def verdicts(self, tolerance_ms=TOLERANCE_MS):
        removals = Removals(tolerance_ms)
        for a in sorted(self.choices, key=lambda a: (a["beginMs"], a["thread"], a["msgId"])):
            choice = Choice(a["broker"], a["lastBrokerName"], a["beginMs"])
            records = [self.record(broker, a, tolerance_ms) for broker in self.brokers]
            known = [
                KnownBroker(
                    r.broker_name,
                    item_readings(
                        r,
                        choice.now_ms,
                        self.profile,
                        tolerance_ms=tolerance_ms,
                        detector_enabled=self.detector,
                        removal=removals.last(r.broker_name),
                    ),
                    route_readings(r, choice, self.profile),
                )
                for r in records
            ]
            judgement = judge(choice, known, self.profile, enabled=self.enabled)
            removals.note(judgement, choice, records)
            yield a, judgement
