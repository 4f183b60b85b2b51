"""A producer judged one choice at a time, from what its hook wrote: what the jobs' verdicts must equal."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import replace

from hindsight.udfs.fault_tolerance import FaultTable, profile_for
from hindsight.udfs.not_available_duration import not_available_duration
from hindsight.udfs.producer.attempt_updates import fault_update
from hindsight.udfs.producer.choice_readings import (
    BrokerRecord,
    NearUpdate,
    Other,
    Removal,
    Removals,
    item_readings,
    other_readings,
    route_readings,
    unlisted_readings,
    unseen_readings,
)
from hindsight.udfs.producer.send_verdicts import Choice, KnownBroker, judge
from hindsight.udfs.producer.unseen_life import CLOCK_TOLERANCE, LADDER_EDGE, UNSEEN_RETRIES, Gap
from tests.conftest import CAPTURES

TOLERANCE_MS = 3
NO_CALLBACK_MS = 30_000


class Recorded:
    """One producer as its hook's lines show it: its choices, and per broker its updates with the item after each."""

    @classmethod
    def captured(cls, name, version=None):
        with gzip.open(CAPTURES / "producers" / f"producer_{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            start, *attempts = [json.loads(line) for line in lines]
        return cls(start, attempts, version)

    def __init__(self, start, attempts, version=None):
        self.profile = replace(
            profile_for(version or start["version"]),
            latency_max_ms=tuple(start["latencyMax"]),
            not_available_ms=tuple(start["notAvailableDuration"]),
        )
        self.enabled = start["sendLatencyFaultEnable"]
        self.detector = start["spec"].get("detector") == "1"
        self.choices, updates, self.used = [], defaultdict(list), defaultdict(list)
        submitted, over = set(), {}
        for a in attempts:
            if a["mode"] == "ASYNC":
                begin, end = a["beginMs"], a["beginMs"] + NO_CALLBACK_MS
                over[a["msgId"]] = (
                    begin,
                    min(a["endMs"] if a["status"] or a["exception"] else end, over.get(a["msgId"], (0, end))[1]),
                )
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
        # What ASYNC sends hide: from the first on to the last one's end.
        sinces, untils = [begin for begin, _ in over.values()], [end for _, end in over.values()]
        self.gaps = [Gap(min(sinces), max(untils), UNSEEN_RETRIES)] if over else []
        self.others = {broker: self._others(made) for broker, made in updates.items()}
        # Brokers that ``verdicts`` found surely forgotten, and when; and those perhaps forgotten.
        self.removed, self.doubted = [], []
        self.brokers = sorted({broker for _, broker in self.used})

    def _others(self, made):
        """What the item may have been otherwise: a rung that was just missed, or two threads in the other order."""
        found = []

        def held(told, latency):
            return not_available_duration(latency, isolation=told.isolation, profile=self.profile)

        ends = [a["endMs"] for a, _, _ in made]
        for place, (a, phase, told) in enumerate(made):
            latency, at = a["endMs"] - a["beginMs"], a["endMs"]
            if self.profile.extend_only:
                longer = held(told, latency + TOLERANCE_MS)
                if longer > held(told, latency):
                    found.append(Other(at, None, at + longer, LADDER_EDGE))
                continue
            for b, earlier, before in made[bisect_left(ends, at - TOLERANCE_MS) : place]:
                other = b["endMs"] - b["beginMs"]
                one_thread = a["thread"] == b["thread"] and "callback" not in (phase, earlier)
                ordered = one_thread or (a["msgId"], a["times"]) == (b["msgId"], b["times"])
                if held(told, latency) != held(before, other) and not ordered:
                    found.append(Other(at, other, at + held(before, other), CLOCK_TOLERANCE))
        return found

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

    def unseen(self, broker, record, choice, tolerance_ms, fell_back):
        now, others = choice.now_ms, self.others.get(record.broker_name, ())
        items = (
            *other_readings(record, now, others, tolerance_ms=tolerance_ms),
            *unseen_readings(record, now, self.profile, self.gaps, tolerance_ms=tolerance_ms),
        )
        routes = unlisted_readings(record, choice, self.profile, fell_back)
        return broker._replace(items=(*broker.items, *items), routes=(*broker.routes, *routes))

    def is_beyond_doubt(self, a, tolerance_ms):
        """The broker was not held at the time and no rule looks back: no fallback ran, so none forgot a broker."""
        now, broker, last, rule = a["beginMs"], a["broker"], a["lastBrokerName"], self.profile.last_broker_rule
        if last is not None and (rule == "equals" or (rule in ("not_equal", "filter") and last == broker)):
            return False
        at = self.at.get(broker, [])
        before, until = bisect_left(at, now - tolerance_ms), bisect_right(at, now + tolerance_ms)
        near = range(max(before, 1), until + 1)
        if self.profile.reachable_gates_availability and not all(self.items[broker][i].reachable for i in near):
            return False
        starts = [(self.items[broker][i].start_ms, at[i - 1]) for i in near]
        return not any(start is not None and start > max(made, now - tolerance_ms - 1) for start, made in starts)

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
            judgement = judge(choice, known, self.profile, enabled=self.enabled, tolerance_ms=tolerance_ms)
            if judgement.verdict == "impossible" and self.enabled:
                fell_back = removals.fell_back(a["topic"])
                both = [self.unseen(k, r, choice, tolerance_ms, fell_back) for k, r in zip(known, records, strict=True)]
                judgement = judge(choice, both, self.profile, enabled=True, tolerance_ms=tolerance_ms)
            is_judged = not self.is_beyond_doubt(a, tolerance_ms)
            if is_judged:
                removals.note_rule(judgement, choice, a["topic"])
            for r in records if is_judged else ():
                surely = r.broker_name == judgement.surely_removed and not r.near
                removal = Removal(r.broker_name, choice.now_ms, surely)
                if r.broker_name in judgement.removable and removals.note(removal, r.updated_at_ms):
                    told = self.removed if removal.surely else self.doubted
                    told.append((removal.broker_name, removal.at_ms))
            yield a, judgement
