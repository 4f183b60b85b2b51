"""Documents that must say what the code says: an entry in the runbook per code, the contract of each table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schemas.contract_page import contract_page
from schemas.drift import DRIFT_CODES
from schemas.findings import FINDING_SEVERITY
from udfs.drift_rules import RULES

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
