"""Documents that must say what the code says: an entry in the runbook per code, the contract of each table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hindsight.schemas import TABLES
from hindsight.schemas.contract_page import contract_page
from hindsight.schemas.drift import DRIFT_CODES
from hindsight.schemas.findings import FINDING_SEVERITY
from hindsight.udfs.drift.drift_rules import RULES

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
THREAT = re.compile(r"^\| (.+) \| (.*) \| (?:`(tests/[\w/]+\.py)::(test_\w+)`)? *\|$", re.MULTILINE)


def runbook() -> dict[str, str]:
    """Each entry's text by its code."""
    parts = re.split(r"^### (.+)$", (DOCS / "runbook.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_code_has_an_entry_in_the_runbook_and_every_entry_a_code():
    assert sorted(runbook()) == sorted({*RULES, *DRIFT_CODES, *FINDING_SEVERITY})


@pytest.mark.parametrize("code", [*DRIFT_CODES, *FINDING_SEVERITY])
def test_an_entry_says_what_the_code_means_what_to_check_and_what_to_do(code):
    for part in ("Means", "Check", "Do"):
        assert re.search(rf"^\*\*{part}\*\* [`\w]+", runbook()[code], re.MULTILINE), part


def test_the_contracts_in_the_documents_are_current():
    told = (DOCS / "contracts.md").read_text(encoding="utf-8")
    assert told == contract_page(), "run `make contracts`"


def threats() -> list[tuple[str, str, str, str]]:
    """The threats in the document: what, what bounds it, and its test's file and name."""
    table = (DOCS / "threat-model.md").read_text(encoding="utf-8").split("| threat |")[1].split("\n\n")[0]
    rows = [line for line in table.splitlines()[2:] if not re.fullmatch(r"\| \*\*[\w ]+\*\* \| \| \|", line)]
    found = [match.groups() for line in rows if (match := THREAT.fullmatch(line))]
    assert len(found) == len(rows) > 30
    return found


@pytest.mark.parametrize(("threat", "bound", "file", "test"), threats(), ids=lambda text: str(text)[:40])
def test_each_threat_has_what_bounds_it_and_a_test_that_exists(threat, bound, file, test):
    assert threat and bound
    assert re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


# -- README, and the pages of the manual -------------------------------------------------------------------------------

PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`((?:bench|collectors|conf|data_samples|docs|jobs|schemas|tests|udfs)/[\w./-]*)`")
NAMED = re.compile(r"`([\w.]+)` of `((?:jobs|schemas|udfs)/[\w/]+\.py)`")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """What a link may name of a page after #, as GitHub makes it of headings."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_link_of_a_page_leads_to_a_file_and_a_heading(page):
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_path_that_a_page_names_exists(page):
    for path in PATH.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_name_of_a_module_that_a_page_names_is_there(page):
    for word, path in NAMED.findall(page.read_text(encoding="utf-8")):
        assert re.search(rf"^{word}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), (word, path)


def test_the_readme_is_one_that_one_reads():
    assert 8_000 < len((ROOT / "README.md").read_bytes()) < 10_240


def test_the_contents_name_every_page_of_the_manual():
    contents = (DOCS / "README.md").read_text(encoding="utf-8")
    linked = {(DOCS / link).resolve() for link in LINK.findall(contents)}
    assert {page for page in PAGES if page.parent != DOCS / "schedules"} - {DOCS / "README.md"} <= linked
    assert DOCS / "schedules" / "README.md" in linked


def test_the_manual_names_every_table_view_and_setting():
    results, settings = ((DOCS / page).read_text(encoding="utf-8") for page in ("results.md", "settings.md"))
    for word in (*TABLES, *(view.stem for view in (ROOT / "schemas/views").glob("*.sql"))):
        assert f"`{word}`" in results, word
    for section in re.findall(r"^\[(\w+)[\].]", (ROOT / "conf/default.toml").read_text(encoding="utf-8"), re.MULTILINE):
        assert f"`[{section}]`" in settings, section
