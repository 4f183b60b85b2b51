"""The worked examples in the docstrings of hard modules: they run, and give what they say."""

from __future__ import annotations

import doctest
import importlib
import json
import re

import pytest

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.local_runner import LocalRunner
from hindsight.jobs.running.run_context import RunContext
from hindsight.udfs.drift.group_history import GroupHistory
from tests.default_timing import default_timing
from tests.histories.test_incident_fixtures import A0, BEGIN_MS, STEP_S, world

RUN = (
    "hindsight.jobs.engines.runner",
    "hindsight.udfs.lines.bounded_lines",
    "hindsight.udfs.producer.choice_readings",
    "hindsight.udfs.producer.family_choices",
    "hindsight.udfs.formats.fastjson",
    "hindsight.udfs.producer.fault_fold",
    "hindsight.udfs.producer.release_counted",
    "hindsight.udfs.producer.release_turns",
    "hindsight.udfs.producer.release_counted",
    "hindsight.udfs.producer.send_verdicts",
    "hindsight.udfs.producer.send_verdicts",
)


@pytest.mark.parametrize("name", RUN)
def test_an_example_gives_what_it_says(name):
    module = importlib.import_module(name)
    failed, tried = doctest.testmod(module)
    assert failed == 0 and tried > 0


def table_in(module_name: str) -> list[list[str]]:
    """The cells of the table in a module's docstring, the header first: two blanks or more part them."""
    text = importlib.import_module(module_name).__doc__ or ""
    block = max(re.findall(r"(?:^    \S.*\n)+", text, re.MULTILINE), key=len)
    return [re.split(r" {2,}", line.strip()) for line in block.splitlines()]


def test_an_incident_opens_and_closes_as_the_example_says():
    rows = table_in("hindsight.udfs.drift.group_history")[1:]
    said = {int(seconds): (queue, state, incident) for seconds, queue, state, incident in rows}
    history, shown = GroupHistory(("c", "", "g"), default_timing()), {}
    for second in range(0, max(said) + 1, STEP_S):
        nobody = 120 <= second < 225
        judged = history.step(world(BEGIN_MS + second * 1000, {A0: None} if nobody else None)).judged
        finding = next((each.judgement.state for each in judged if each.finding.code == "ORPHAN_QUEUE"), "-")
        incident = next((each.state for each in history.ledger.incidents.values()), "-")
        shown[second] = ("nobody's" if nobody else "owned", finding, incident)
    assert said == {second: shown[second] for second in said}


def test_files_are_counted_as_the_example_says(tmp_path, settings):
    from hindsight.jobs import ingest_send_records
    from hindsight.schemas import INGESTED_FILE

    header, *rows = table_in("hindsight.jobs.intake.ingestion")
    folder = tmp_path / "landing/producer_hook/cluster=c"
    folder.mkdir(parents=True)

    def start(client_id: str) -> str:
        return json.dumps({"type": "start", "ts": 1_795_253_591_125, "group": "pg", "clientId": client_id}) + "\n"

    (folder / "a.jsonl").write_text(start("1") + start("2") + "no JSON\n" + '{"type": "other"}\n')
    (folder / "b.jsonl").write_text(start("1") + start("3"))
    lake = LocalLake(str(tmp_path / "lake"), retention_days=7)
    for _ in range(2):
        with LocalRunner(1) as runner:
            ingest_send_records.run_on(lake, runner, settings, RunContext(str(tmp_path / "landing")))
        counted = sorted(lake.rows(INGESTED_FILE, header).to_pylist(), key=lambda row: row["file"])
        assert [[row["file"].rsplit("/", 1)[-1], *(str(row[name]) for name in header[1:])] for row in counted] == rows
