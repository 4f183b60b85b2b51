"""Producers folded in buckets, cut from files and in stretches of dates, against the fold of all of them at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise, product

import pyarrow as pa
import pytest

from hindsight.jobs.engines.arrow_columns import conformed_rows
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.producers import producer_cut, producer_derivation
from hindsight.jobs.producers.producer_derivation import DERIVED, derive
from hindsight.jobs.publishing.publication import Stretch
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import TABLES
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.producer.producer_date import Options
from hindsight.udfs.producer.producer_finding import Thresholds
from tests import dated_cases
from tests.finding_cases import EAGER
from tests.folded import INPUTS, TABLES_OF_FOLD, arrow, comparable, folded, rows_of
from tests.odd_producers import odd
from tests.random_examples import SOAKING
from tests.random_producers import PRODUCERS, lines_of, name_of
from tests.recorded_rows import attempt_rows, start_row
from tests.restless_producers import restless, unpaired
from tests.sent_producer import over_midnight

CASES = {
    "two dates": lambda: rows_of(dated_cases.ATTEMPTS, dated_cases.STARTS, dated_cases.ROUTES),
    "sends over midnight": lambda: rows_of(
        [*dated_cases.ATTEMPTS, *over_midnight().attempts],
        [*dated_cases.STARTS, *over_midnight().starts],
        dated_cases.ROUTES,
    ),
    "odd": lambda: rows_of(*odd(count=120 if SOAKING else 5)),
    "restless": lambda: rows_of(*restless(count=36 if SOAKING else 4)),
    "unpaired": lambda: rows_of(*unpaired(12 if SOAKING else 3)),
    "random": lambda: rows_of(
        [row for producer in PRODUCERS[:6] for row in attempt_rows(lines_of(*producer))],
        [start_row(producer[0], name_of(*producer)) for producer in PRODUCERS[:6]],
    ),
}
CONTEXT = RunContext("nowhere", run_id="r", started_at=datetime(2026, 1, 7, tzinfo=UTC))
HANDED_OVER = ("producer_replay", "fault_item_state")


def test_a_farther_source_of_the_same_producers_changes_nothing(tmp_path, monkeypatch, settings, runner):
    given = CASES["two dates"]()
    hooked = [{**row, "source": "producer_hook"} for row in given["send_attempt"]]
    given["send_attempt"] = hooked
    traced = [
        {**row, "source": "trace_topic", "client_id": f"process {row['client_id']}", "exceptions_observable": False}
        for row in hooked
    ]
    both = {**given, "send_attempt": [*hooked, *traced]}
    days = sorted({row["event_date"] for rows in given.values() for row in rows})
    monkeypatch.setattr(producer_derivation, "_buckets", lambda files: 3)
    formats = frozenset({"producer_hook", "trace_topic"})
    alone, beside = (
        derived(stored(tmp_path / name, own, 2), days, settings, runner, formats=formats)
        for name, own in (("alone", given), ("beside", both))
    )
    for name in TABLES_OF_FOLD:
        columns = TABLES[name].contract_columns
        assert comparable(beside[name], columns) == comparable(alone[name], columns), name


def test_a_stretch_may_begin_with_a_date_without_records(tmp_path, monkeypatch, settings, runner):
    """Windows of some producers last into it, so it has rows of all of them, whichever bucket they are in."""
    given = CASES["two dates"]()
    first = min(row["event_date"] for row in given["send_attempt"])
    given = {name: [row for row in rows if row["event_date"] == first] for name, rows in given.items()}
    days, recorded = [first, first + timedelta(days=1)], [first, first + timedelta(days=5)]
    made = []
    for buckets in (1, 7):
        monkeypatch.setattr(producer_derivation, "_buckets", lambda files, buckets=buckets: buckets)
        lake = stored(tmp_path / str(buckets), given, 1)
        made.append(derived(lake, days, settings, runner, sizes=[1], recorded=recorded))
    for name in TABLES_OF_FOLD:
        whole, parts = (comparable(each[name], TABLES[name].contract_columns) for each in made)
        assert parts == whole, name
    assert days[1] in made[0]["broker_availability_window"]["event_date"].to_pylist()


def stored(root, given, files):
    """A lake with the rows; attempts in so many files, every producer in each."""
    lake = LocalLake(str(root), retention_days=7)
    for table in INPUTS:
        rows = given[table.name]
        for number in range(files):
            own = rows[number::files]
            if own:
                lake.append(table, conformed_rows(arrow(table, own), table))
    return lake


def stretches_of(lake, days, sizes, formats, recorded):
    """The dates cut into stretches of these sizes, one after the other."""
    edges = [0, *sizes, len(days)]
    for since, until in pairwise(edges):
        yield Stretch(
            lake,
            CONTEXT,
            [ClusterDate("c", day) for day in days[since:until]],
            {"c": days[since - 1]} if since else {},
            {"c": days[until]} if until < len(days) else {},
            {"c": recorded[-1]},
            frozenset(ClusterDate("c", day) for day in recorded),
            frozenset(),
            formats,
        )


def derived(lake, days, settings, runner, sizes=(), formats=frozenset({"producer_hook"}), recorded=None):
    made = {table.name: [arrow_schema(table).empty_table()] for table in DERIVED}
    for stretch in stretches_of(lake, days, sizes, formats, recorded or days):
        found = derive(stretch, settings, runner)
        for table in DERIVED:
            rows = list(found.rows(table.name, arrow_schema(table)))
            made[table.name] += rows
            if table.name in HANDED_OVER:
                lake.replace_dates(table, pa.concat_tables(rows), _dates_in(rows))
    return {name: pa.concat_tables(parts) for name, parts in made.items()}


def _dates_in(rows):
    return {ClusterDate("c", day) for table in rows for day in table["event_date"].to_pylist()}


@pytest.fixture(scope="module")
def runner():
    with LocalRunner(1) as made:
        yield made


@pytest.fixture(scope="module")
def expected_of():
    """What all producers of a case together give, worked out once: by table its rows and the columns that they show."""
    known = {}

    def found(case, eager):
        if case not in known:
            limits = Thresholds(**eager.producer_findings.model_dump())
            whole = folded(CASES[case](), Options(**eager.replay.model_dump(), limits=limits))
            columns = {name: TABLES[name].contract_columns for name in TABLES_OF_FOLD}
            known[case] = {name: (comparable(whole[name], shown), shown) for name, shown in columns.items()}
        return known[case]

    return found


# Buckets, rows of a cut and of a slice, files.
CUT = {
    "whole": (1, 50_000, 250_000, 1),
    "in some pieces": (7, 300, 1_000, 2),
    "in many pieces": (31 if SOAKING else 11, 50, 400, 3),
}
STRETCHES = {"at once": (), "date by date": (1,)}
# Every producer in some pieces, those of two dates in many too, and at once; others are for the soak.
SOON = ("date by date", "in some pieces")
OF_TWO_DATES = (("at once", "whole"), ("date by date", "in many pieces"))


def cut_cases():
    for case, (how, sizes), (name, cut) in product(CASES, STRETCHES.items(), CUT.items()):
        is_soon = (how, name) == SOON or (case == "two dates" and (how, name) in OF_TWO_DATES)
        marks = () if is_soon else pytest.mark.soak
        yield pytest.param(case, *cut, sizes, id=f"{how}-{case} {name}", marks=marks)


@pytest.mark.parametrize(("case", "buckets", "cut_rows", "slice_rows", "files", "sizes"), list(cut_cases()))
def test_buckets_give_what_all_producers_together_give(
    tmp_path, monkeypatch, settings, runner, expected_of, case, buckets, cut_rows, slice_rows, files, sizes
):
    given = CASES[case]()
    days = sorted({row["event_date"] for rows in given.values() for row in rows})
    sizes = sizes[: len(days) - 1]
    findings = settings.producer_findings.model_copy(update=EAGER)
    eager = settings.model_copy(update={"producer_findings": findings})
    monkeypatch.setattr(producer_derivation, "_buckets", lambda files: buckets)
    monkeypatch.setattr(producer_cut, "CUT_ROWS", cut_rows)
    monkeypatch.setattr(producer_cut, "SLICE_ROWS", slice_rows)
    monkeypatch.setattr(producer_cut, "_SAMPLED", 10)
    made = derived(stored(tmp_path / "lake", given, files), days, eager, runner, sizes)
    for name, (expected, columns) in expected_of(case, eager).items():
        assert comparable(made[name], columns) == expected, name
        # Random producers go by the release that they name.
        assert made[name].num_rows or (case, name) == ("random", "producer_release")
