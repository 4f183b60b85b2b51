"""A lake and premises in; the tables as they would be, in a lake of their own, and what would differ, out.

Open loop: what was recorded stays. A producer that would have chosen another broker still has the latencies that it
had, and so everything after the first send that moves is what would follow from the record, not from that choice.
The rows say so themselves: ``run_id`` is that of a what-if.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from hindsight.conf.premises_file import PremiseError, PremisesFile, microseconds
from hindsight.conf.settings import Settings
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.runner import Runner
from hindsight.jobs.engines.sql_files import query
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.lake.what_ifs import remember, table_prefix, what_ifs
from hindsight.jobs.publishing.publication import Derivation
from hindsight.jobs.running.run_context import NoSuchDatesError, RunContext
from hindsight.jobs.scenarios.derived_again import derive_again
from hindsight.jobs.scenarios.scenario_place import opened_scenario
from hindsight.udfs.allocation import UnknownStrategyError, resolve_strategy
from hindsight.udfs.release_profiles import UnknownReleaseError, profile_for
from hindsight.udfs.scenarios.premises import ALWAYS, GroupPremise, Premises, TopicPremise

EFFECTS = ("windows", "sends", "shares", "findings")
_DATES = "what_if_date"  # the dates of clusters that were derived again, for the queries
# What derives a job's tables under premises, of which it is told with the settings and what runs kernels.
Derives = Callable[[Settings, Runner, Premises], Derivation[Any]]


class Made(NamedTuple):
    """What a what-if is: dates of clusters that were derived again, and how many the published tables lack."""

    dates: list[ClusterDate]
    not_computed: int


def premises_of(read: PremisesFile) -> Premises:
    """Premises as the derivations take them.

    Raises: PremiseError: there is no such release or strategy.
    """
    for release in [entry.client_version for entry in read.producer] + [entry.client_version for entry in read.group]:
        _check_release(release)
    for group in read.group:
        _check_strategy(group.strategy)
    groups = [GroupPremise(**{**entry.model_dump(), "since": _since(entry.since)}) for entry in read.group]
    topics = [TopicPremise(**{**entry.model_dump(), "since": _since(entry.since)}) for entry in read.topic]
    return Premises([entry.model_dump() for entry in read.producer], groups, topics)


def _check_release(client_version: str | None) -> None:
    try:
        if client_version is not None:
            profile_for(client_version)
    except UnknownReleaseError as error:
        raise PremiseError(f"premises: {error}") from error


def _check_strategy(strategy: str | None) -> None:
    try:
        if strategy is not None:
            resolve_strategy(strategy)
    except UnknownStrategyError as error:
        raise PremiseError(f"premises: {error}") from error


def _since(since: datetime | None) -> int:
    found = microseconds(since)
    return ALWAYS if found is None else found


def made(
    lake_root: str,
    name: str,
    premises: PremisesFile,
    settings: Settings,
    context: RunContext,
    derivations: Iterable[Derives],
) -> Made:
    """Derive the dates of the context again under premises, into a lake of the what-if's own.

    Nothing that is published is touched. A what-if of that name that is there is made anew; it shows when it is whole.
    Raises: PremiseError, WhatIfNameError, NoSuchDatesError, LakeHeldError.
    """
    supposed = premises_of(premises)
    context = replace(context, run_id=f"what-if {name} (open loop) {context.run_id}")
    with opened_scenario("local", lake_root, name, settings, context, command="what-if", master=None) as held:
        dates: set[ClusterDate] = set()
        not_computed = 0
        for derives in derivations:
            derivation = derives(settings, held.runner, supposed)
            done = derive_again(held.published, held.into, derivation, held.context)
            dates.update(done.dates)
            not_computed = max(not_computed, done.not_computed)
        if not dates:
            raise NoSuchDatesError(f"nothing is recorded in {lake_root} of {context.dates}; no what-if was made.")
        _note(lake_root, name, premises, sorted(dates))
    return Made(sorted(dates), not_computed)


def _note(lake_root: str, name: str, premises: PremisesFile, dates: list[ClusterDate]) -> None:
    told: dict[str, Any] = {
        "premises": premises.model_dump(mode="json", exclude_defaults=True),
        "dates": [[at.cluster, str(at.event_date)] for at in dates],
        "made_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    }
    remember(None, lake_root, name, told)


def effects(lake_root: str, name: str, settings: Settings) -> Iterator[tuple[str, pa.Table]]:
    """What a what-if that is whole says otherwise than what is published of its dates, by ``EFFECTS``.

    ``windows``: those that would come, go or be others. ``sends``: for each producer and broker, seconds that it was
    and would be avoided, and sends that move or could. ``shares``: for each group, topic and stretch of rounds, who
    would hold which queue. ``findings``: how often each code was and would be found.
    """
    lake = LocalLake(lake_root, retention_days=settings.delta.retention_days)
    dates = what_ifs(None, lake_root)[name]["dates"]
    with closing(LocalAsker(lake)) as asker:
        asker.name(_DATES, _dated(dates))
        for effect in EFFECTS:
            asked = query("queries", effect, of="scenarios").format(of=table_prefix(name))
            yield effect, asker.answer(asked).read_all()


def _dated(dates: list[list[str]]) -> pa.Table:
    clusters, days = zip(*dates, strict=True)
    return pa.table({"cluster": pa.array(clusters), "event_date": pa.array(map(date.fromisoformat, days), pa.date32())})
