"""The producer fold on producers of whom much is missing or odd, against rows that two ways of computing them gave.

The other way was window functions and joins of Spark over all producers at once; its rows were these. No Spark.
"""

from __future__ import annotations

import gzip
import json
from typing import ClassVar

import pytest

from hindsight.udfs.producer import choice_fold, producer_date
from hindsight.udfs.producer.choice_fold import ChoiceJudge
from hindsight.udfs.producer.choice_readings import BrokerRecord, route_readings
from hindsight.udfs.producer.producer_finding import DEFAULT_LIMITS
from hindsight.udfs.producer.send_verdicts import KnownBroker, judge
from tests.conftest import GOLDEN
from tests.finding_cases import EAGER
from tests.folded import OPTIONS, folded, rows_of
from tests.odd_producers import OVERRIDES, odd

LIMITS = DEFAULT_LIMITS._replace(**EAGER)
CASES = {"odd": (7, ()), "odd_overridden": (8, OVERRIDES)}


def rows_made(case):
    seed, overrides = CASES[case]
    return folded(rows_of(*odd(seed=seed, count=120)), OPTIONS._replace(limits=LIMITS, override=overrides))


def as_texts(table, columns):
    return sorted(json.dumps(row, default=str) for row in table.select(columns).to_pylist())


@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_that_both_ways_gave(case):
    with gzip.open(GOLDEN / "producer_fold" / f"{case}.json.gz", "rt", encoding="utf-8") as file:
        expected = json.load(file)
    made = rows_made(case)
    for name, (columns, rows) in expected.items():
        assert as_texts(made[name], columns) == rows, name
        assert len(rows) > 200


class JudgedTwice(ChoiceJudge):
    """Judges each choice also by an object for each broker and each thing that it may have been."""

    seen: ClassVar[list[bool]] = []  # of each choice whether routes were recorded

    def _first(self, n, process, own, columns, more=choice_fold.NOTHING_MORE):
        settings, profile = self._day.processes[process].rules.settings, self._day.profile_of(process)
        enabled, choice = bool(settings.latency_fault_enabled), columns.choices[n]
        held = self._routes.held(columns.topics[n], choice.now_ms)
        records = [columns.record(n, pair, enabled=enabled) for pair in own]
        routed = choice_fold._only_routed(held, {r.broker_name for r in records})
        records += [BrokerRecord(name, None, None, (), None, None) for name in routed]
        if held:
            records = [r._replace(routes=tuple(route.entry(r.broker_name) for route in held)) for r in records]
        known = []
        for r in records:
            items, routes = more.get(r.broker_name, ((), ()))
            items = (*self._items(r, process, choice), *items)
            known.append(KnownBroker(r.broker_name, items, (*route_readings(r, choice, profile), *routes)))
        judgement = super()._first(n, process, own, columns, more)
        assert judgement == judge(choice, known, profile, enabled=enabled, tolerance_ms=self._tolerance_ms)
        self.seen.append(bool(held))
        return judgement


def test_a_choice_is_judged_as_by_an_object_for_each_broker(monkeypatch):
    monkeypatch.setattr(producer_date, "ChoiceJudge", JudgedTwice)
    folded(rows_of(*odd(seed=9, count=40)))
    assert min(JudgedTwice.seen.count(routed) for routed in (True, False)) > 50
