"""Twenty-five questions that operators ask: each has its answer, and the queries give what the document promises."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import CAPTURES
from tests.lake_rows import LakeRows
from tests.pipeline.local_runs import OF_CONSUMERS, run_here
from tests.pipeline.test_for_readers import cells, gives

DOCS = Path(__file__).parent.parent.parent / "docs"
SECTION = re.compile(r"^## (\d+)\. (.+?\?)$\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(r"```sql\n(.+?)\n```\n\n(All|Some) rows( \(mixed groups\))?:\n\n(.+?)(?:\n\n|\Z)", re.DOTALL)
SECTIONS = SECTION.findall((DOCS / "operators-questions.md").read_text(encoding="utf-8"))
RECIPE = re.compile(r"\(cookbook\.md#(\d+)-([a-z0-9_-]+)\)")


def queries(place: str):
    """Question by question: SQL, whether all rows are promised, and the rows."""
    for number, question, text in SECTIONS:
        for sql, extent, of, table in ANSWER.findall(text):
            if of == place:
                yield pytest.param(sql, extent == "All", cells(table.strip()), id=f"{number}. {question}")


@pytest.fixture(scope="module")
def mixed_groups(settings, tmp_path_factory):
    """The capture of a cluster with proxies, POP, pull and static topics, with its clients' logs."""
    root = tmp_path_factory.mktemp("mixed")
    for name in ("admin_snapshots", "client_log"):
        shutil.copytree(CAPTURES / "scope" / name, root / "landing" / name)
    run_here(settings, root / "landing", root / "lake", OF_CONSUMERS)
    return LakeRows(root / "lake").asker


def test_there_are_twenty_five_and_each_is_answered():
    assert [int(number) for number, *_ in SECTIONS] == list(range(1, 26))
    recipes = re.findall(r"^## (\d+)\. (.+)$", (DOCS / "cookbook.md").read_text(encoding="utf-8"), re.MULTILINE)
    known = {(number, re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")) for number, title in recipes}
    for _, question, text in SECTIONS:
        linked = RECIPE.findall(text)
        assert ANSWER.search(text) or linked, question
        assert set(linked) <= known, question


@pytest.mark.parametrize(("sql", "all_rows", "promised"), list(queries("")))
def test_a_question_is_answered_on_the_capture(asker, sql, all_rows, promised):
    gives(asker, sql, promised, all_rows=all_rows)


@pytest.mark.parametrize(("sql", "all_rows", "promised"), list(queries(" (mixed groups)")))
def test_a_question_is_answered_on_the_capture_of_mixed_groups(mixed_groups, sql, all_rows, promised):
    gives(mixed_groups, sql, promised, all_rows=all_rows)
