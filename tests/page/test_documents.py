"""Documents that must say what the code says: an entry in the runbook per code, the contract of each table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hindsight.schemas import ALLOCATION_DRIFT, PRODUCER_FINDING, TABLES
from hindsight.schemas.contract_page import contract_page
from hindsight.udfs.drift.drift_rules import RULES

CODES = [*ALLOCATION_DRIFT.known("code"), *PRODUCER_FINDING.known("code")]
ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
THREAT = re.compile(r"^\| (.+) \| (.*) \| (?:`(tests/[\w/]+\.py)::(test_\w+)`)? *\|$", re.MULTILINE)


def runbook() -> dict[str, str]:
    """Each entry's text by its code."""
    parts = re.split(r"^### (.+)$", (DOCS / "runbook.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_code_has_an_entry_in_the_runbook_and_every_entry_a_code():
    assert sorted(runbook()) == sorted({*RULES, *CODES})


@pytest.mark.parametrize("code", CODES)
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


def test_ruff_before_a_commit_is_the_one_that_is_pinned():
    lock, hooks = (ROOT / name for name in ("requirements-checks.lock", ".pre-commit-config.yaml"))
    pinned = re.search(r"^ruff==([\d.]+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
    assert f"rev: v{pinned[1]} " in hooks.read_text(encoding="utf-8")


# -- README, and the pages of the manual -------------------------------------------------------------------------------

PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *sorted(DOCS.rglob("*.md"))]
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
    assert 8_000 < len((ROOT / "README.md").read_bytes()) < 9_000


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


# -- pages in Chinese: what a reader copies, counts by or follows is as in English -----------------------------------

TRANSLATED = {
    "README.zh.md": "README.md",
    **{f"docs/zh/{page.name}": f"docs/{page.name}" for page in sorted((DOCS / "zh").glob("*.md"))},
}
IN_ENGLISH = {ROOT / own: ROOT / english for own, english in TRANSLATED.items()}


def leads_to(page: Path, link: str) -> str:
    """The page in English, and its heading but where pages in two languages name it differently."""
    path, _, heading = link.partition("#")
    target = (page.parent / path).resolve()
    return str(IN_ENGLISH.get(target, target)) + ("" if target in {*IN_ENGLISH, *IN_ENGLISH.values()} else heading)


def held(page: Path) -> tuple[list[str], list[str], list[str], list[str]]:
    """Blocks of code, code in sentences, numbers of sentences, and what links lead to, of pages in English."""
    text = page.read_text(encoding="utf-8")
    prose = CODE.sub("", text)
    inline = re.findall(r"`[^`]+`", prose)
    links = [leads_to(page, link) for link in LINK.findall(prose)]
    numbers = re.findall(r"\d+(?:\.\d+)*", LINK.sub("", re.sub(r"`[^`]+`|^\d\. ", "", prose, flags=re.MULTILINE)))
    return CODE.findall(text), sorted(inline), sorted(numbers), sorted(links)


@pytest.mark.parametrize("chinese", TRANSLATED)
def test_commands_numbers_and_links_are_equal_in_both_languages(chinese):
    of_both = zip(held(ROOT / chinese), held(ROOT / TRANSLATED[chinese]), strict=True)
    for own, english in of_both:
        assert own == english
    assert re.search(r"[\u4e00-\u9fff]", (ROOT / chinese).read_text(encoding="utf-8"))
