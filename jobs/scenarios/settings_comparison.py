"""A lake and settings in; what they say otherwise than what is published, or than other settings, out.

Nothing that is published is touched: each of the settings gives a lake of its own, which is gone afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any, NamedTuple

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.lake.lake_lease import held
from hindsight.jobs.lake.removed_folders import remove_folder
from hindsight.jobs.lake.what_ifs import what_if_root
from hindsight.jobs.publishing.publication import Derivation
from hindsight.jobs.running.run_context import DateRange, RunContext
from hindsight.jobs.scenarios.derived_again import derive_again
from hindsight.jobs.scenarios.difference_causes import Causes, Side, derived_side, published_side
from hindsight.jobs.scenarios.lake_comparison import DateDifferences, NothingComparedError, compared
from hindsight.jobs.scenarios.scenario_place import opened_scenario

# What derives a job's tables, of which it is told with the settings and what runs kernels.
Derives = Callable[[Settings, Runner], Derivation[Any]]
_PLACE, _BEFORE, _AFTER = "compared", "compared_before", "compared_after"


class _Derived(NamedTuple):
    """By job: what its dates were derived to, and which dates these are."""

    sides: dict[str, Side]
    days: dict[str, set[date]]


def derivations(deriving: Iterable[Derives], settings: Settings) -> list[Derivation[Any]]:
    """What jobs derive, to look at; it runs nothing."""
    with LocalRunner(1) as runner:
        return [derives(settings, runner) for derives in deriving]


def under_settings(
    deriving: Sequence[Derives], lake: LocalLake, settings: Settings, against: Settings | None, dates: DateRange
) -> list[DateDifferences]:
    """What ``settings`` say otherwise than what is published; with ``against`` what these say otherwise than they do.

    Raises: NothingComparedError: no file that was taken in touches one of these dates.
    """
    with _place(lake.root) as context:
        derived = _derived(deriving, lake, settings, _AFTER if against is None else _BEFORE, dates)
        if not any(derived.days.values()):
            raise NothingComparedError(f"{lake.root} holds no input of {dates}; nothing was compared.")
        context.confirm()
        published = published_side(lake)
        others = None if against is None else _derived(deriving, lake, against, _AFTER, dates)
        found: list[DateDifferences] = []
        for derivation in derivations(deriving, settings):
            own = derived.sides[derivation.job]
            before, after = (published, own) if others is None else (own, others.sides[derivation.job])
            causes = Causes(before, after, [derivation])
            found += compared(before.lake, after.lake, causes, derived.days[derivation.job], derivation.tables)
        return found


@contextmanager
def _place(root: str) -> Iterator[RunContext]:
    """Hold the place in which settings are compared, and leave nothing there."""
    with held(None, what_if_root(root, _PLACE), RunContext(root)) as context:
        try:
            yield context
        finally:
            for name in (_BEFORE, _AFTER):
                remove_folder(None, what_if_root(root, name))
    remove_folder(None, what_if_root(root, _PLACE))


def _derived(deriving: Iterable[Derives], lake: LocalLake, settings: Settings, name: str, dates: DateRange) -> _Derived:
    context = RunContext(lake.root, dates)
    done = _Derived({}, {})
    with opened_scenario("local", lake.root, name, settings, context, command="compare", master=None) as scenario:
        for derives in deriving:
            derivation = derives(settings, scenario.runner)
            again = derive_again(scenario.published, scenario.into, derivation, scenario.context)
            done.sides[derivation.job] = derived_side(scenario.published, scenario.into, derivation)
            done.days[derivation.job] = {at.event_date for at in again.dates}
    return done
