"""Dates derived again without a premise: the rows that are published, and nothing published touched."""

from __future__ import annotations

from datetime import date

import pytest

from hindsight.jobs import flag_allocation_drift, rebuild_availability
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.lake.what_ifs import WhatIfNameError
from hindsight.jobs.running.run_context import EVERY_DATE, DateRange, RunContext
from hindsight.jobs.scenarios.derived_again import PublishedTouchedError, derive_again, opened_scenario
from hindsight.schemas import SEND_VERDICT, TABLES, Table
from tests.scenarios.scenario_lakes import versions, whole_rows

JOBS = (rebuild_availability, flag_allocation_drift)


def _scenario(lake, settings, dates=EVERY_DATE):
    return opened_scenario(
        "local", str(lake), "same", settings, RunContext(str(lake), dates), command="what-if", master=None
    )


def test_identity_gives_the_published_rows(sampled, settings):
    before = versions(sampled)
    with _scenario(sampled, settings) as held:
        for job in JOBS:
            derivation = job.derivation(settings, held.runner)
            done = derive_again(held.published, held.into, derivation, held.context)
            assert done.not_computed == 0
            assert done.dates
            assert sum(done.rows.values()) > 1000
            for table in derivation.tables:
                assert whole_rows(held.into, table) == whole_rows(held.published, table), table.name
    assert versions(sampled) == before


@pytest.mark.parametrize("job", JOBS, ids=["producers", "consumers"])
def test_later_dates_begin_with_what_the_published_date_before_handed_over(midnight, settings, job):
    last = date(2026, 1, 6)
    with _scenario(midnight, settings, DateRange(last)) as held:
        derivation = job.derivation(settings, held.runner)
        done = derive_again(held.published, held.into, derivation, held.context)
        assert min(at.event_date for at in done.dates) == last
        for table in derivation.tables:
            published = whole_rows(held.published, table)
            assert whole_rows(held.into, table) == [row for row in published if '"event_date": "2026-01-05"' not in row]


def test_only_the_clusters_that_were_asked_for(sampled, settings):
    with _scenario(sampled, settings) as held:
        derivation = flag_allocation_drift.derivation(settings, held.runner)
        done = derive_again(held.published, held.into, derivation, held.context, clusters="example*")
    assert done.dates == [ClusterDate(name, date(2026, 11, 21)) for name in ("example", "example-4.7.1")]


def test_no_dates_give_empty_tables(sampled, settings):
    day = date(2020, 1, 1)
    with _scenario(sampled, settings, DateRange(day, day)) as held:
        derivation = rebuild_availability.derivation(settings, held.runner)
        done = derive_again(held.published, held.into, derivation, held.context)
        assert not done.dates
        assert held.into.exists(SEND_VERDICT)


def test_the_published_lake_cannot_be_written(sampled, settings):
    with _scenario(sampled, settings) as held, pytest.raises(PublishedTouchedError):
        held.published.create(Table("t", "", SEND_VERDICT.schema, ()))


@pytest.mark.parametrize("name", ["", "A", "a b", "1a", "a__b", "a_", "../x", "a" * 41])
def test_names_that_sql_cannot_carry_are_refused(sampled, settings, name):
    with pytest.raises(WhatIfNameError), _scenario_named(sampled, settings, name):
        pass


def _scenario_named(lake, settings, name):
    return opened_scenario("local", str(lake), name, settings, RunContext(str(lake)), command="", master=None)


def test_every_derived_table_is_of_one_derivation(settings):
    own = [table.name for job in JOBS for table in job.derivation(settings, None).tables]
    assert len(own) == len(set(own))
    assert set(own) <= set(TABLES)
