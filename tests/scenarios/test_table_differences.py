"""Two versions of a table in: what differs, beside a plain comparison row by row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.jobs.scenarios.table_differences import CHANGES, counts, differences
from hindsight.schemas import DRIFT_INCIDENT, SEND_VERDICT, TABLES, Table
from hindsight.schemas.arrow_types import arrow_schema
from tests.engines.random_rows import rows
from tests.pipeline.random_tables import one_row
from tests.random_examples import examples

COMPARED = [table for table in TABLES.values() if table.name not in ("publication", "quality_result")]
OWN = {"change", "columns", "before", "after"}


def test_verdicts_are_columns_outside_the_key_and_no_lineage():
    assert sum(bool(table.verdicts) for table in TABLES.values()) == 12
    for table in TABLES.values():
        assert set(table.verdicts) <= set(table.contract_columns) - set(table.key), table.name


def test_no_contract_has_a_column_of_the_name_of_one_that_the_differences_have():
    assert not [name for table in TABLES.values() for name in table.key if name in OWN]


def plain(found: pa.Table, table: Table) -> Counter[str]:
    return Counter(text_of(row, table.contract_columns) for row in found.to_pylist())


def text_of(row: dict[str, Any], columns: Iterable[str]) -> str:
    """A row's values, of which 0.0 and -0.0 are equal."""
    return re.sub(r"-0\.0\b", "0.0", repr([row[name] for name in columns]))


def expected(table: Table, before: pa.Table, after: pa.Table) -> Counter[str]:
    """How often each kind of difference occurs at each key."""
    own, other = plain(before, table), plain(after, table)

    def by_key(found: pa.Table, odd: Counter[str]) -> dict[str, list[dict[str, Any]]]:
        left, of_key = odd.copy(), {}
        for row in found.to_pylist():
            text = text_of(row, table.contract_columns)
            if left[text]:
                left[text] -= 1
                of_key.setdefault(text_of(row, table.key), []).append(row)
        return of_key

    gone, come = by_key(before, own - other), by_key(after, other - own)
    kinds: Counter[str] = Counter()
    for key in {*gone, *come}:
        b, a = gone.get(key, []), come.get(key, [])
        kinds["vanishes"] += max(len(b) - len(a), 0)
        kinds["appears"] += max(len(a) - len(b), 0)
        kinds["met"] += min(len(a), len(b))
    return +kinds


@pytest.mark.parametrize("table", COMPARED, ids=lambda table: table.name)
@examples(2, 100)
@given(data=st.data())
def test_differences_are_those_of_a_comparison_row_by_row(table, data):
    base = data.draw(rows(table, max_size=8))
    other = data.draw(rows(table, max_size=8))
    kept = data.draw(st.lists(st.sampled_from(range(len(base))), max_size=8)) if len(base) else []
    # some rows of the first version, in another order and some twice, and one column of these from others
    after = pa.concat_tables([base.take(pa.array(kept, pa.int64())), other])
    names = [name for name in table.contract_columns if name not in table.key]
    swapped = data.draw(st.sampled_from(names))
    if len(after) and data.draw(st.booleans()):
        order = data.draw(st.permutations(range(len(after))))
        values = after.column(swapped).take(pa.array(order))
        after = after.set_column(after.schema.get_field_index(swapped), after.schema.field(swapped), values)
    found = counts(differences(table, base, after)["change"])
    assert Counter({**found, "met": found["flips"] + found["changes"]}) - Counter(
        {"flips": found["flips"], "changes": found["changes"]}
    ) == expected(table, base, after)


@pytest.mark.parametrize("table", COMPARED, ids=lambda table: table.name)
@examples(2, 100)
@given(data=st.data())
def test_what_is_the_same_in_another_order_does_not_differ_and_lineage_is_outside(table, data):
    """Rows that break the contract too: a key that several have."""
    found = data.draw(rows(table, max_size=8))
    found = pa.concat_tables([found, found.slice(0, 2)])
    order = data.draw(st.permutations(range(len(found))))
    turned = found.take(pa.array(order, pa.int64()))
    for name in table.lineage & {*table.schema.names}:
        kind = arrow_schema(table).field(name).type
        turned = turned.set_column(turned.schema.get_field_index(name), name, pa.nulls(len(turned), kind))
    assert len(differences(table, found, turned)) == 0


def test_a_row_says_what_differs_and_what_each_version_has():
    before = one_row(SEND_VERDICT, verdict="possible", reason="detector", msg_id="m")
    after = one_row(SEND_VERDICT, verdict="consistent", reason=None, msg_id="m")
    (row,) = differences(SEND_VERDICT, before, after).to_pylist()
    assert (row["change"], row["columns"], row["msg_id"]) == ("flips", ["verdict", "reason"], "m")
    assert (row["before"]["verdict"], row["after"]["verdict"]) == ("possible", "consistent")
    assert "run_id" not in row["before"] and "msg_id" not in row["before"]
    (back,) = differences(SEND_VERDICT, after, before).to_pylist()
    assert (back["before"], back["after"]) == (row["after"], row["before"])


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"sentence": "another"}, "changes"),
        ({"state": "RESOLVED"}, "flips"),
        ({"severity": "LOW", "sentence": "another"}, "flips"),
        ({"run_id": "another"}, None),
    ],
    ids=str,
)
def test_only_a_column_of_a_verdict_flips_a_row(changed, kind):
    was = {"state": "OPEN", "severity": "HIGH", "sentence": "one", "run_id": "one"}
    found = differences(DRIFT_INCIDENT, one_row(DRIFT_INCIDENT, **was), one_row(DRIFT_INCIDENT, **was | changed))
    assert counts(found["change"]) == dict.fromkeys(CHANGES, 0) | ({kind: 1} if kind else {})


def test_a_row_of_one_version_alone_appears_or_vanishes():
    row = one_row(DRIFT_INCIDENT, state="OPEN")
    (gone,) = differences(DRIFT_INCIDENT, row, row.slice(0, 0)).to_pylist()
    (come,) = differences(DRIFT_INCIDENT, row.slice(0, 0), row).to_pylist()
    assert (gone["change"], gone["columns"], gone["after"], gone["before"]["state"]) == ("vanishes", [], None, "OPEN")
    assert (come["change"], come["columns"], come["before"], come["after"]["state"]) == ("appears", [], None, "OPEN")
