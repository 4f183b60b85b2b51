"""Pages of single groups and brokers: made where the first page cannot list all, written only where they changed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hindsight.jobs import render_report
from hindsight.jobs.engines.asker import records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.small_files import LocalStore
from hindsight.jobs.report.report_page import part_page
from hindsight.jobs.report.report_parts import Part, write_parts
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import (
    ALLOCATION_DRIFT,
    BROKER_AVAILABILITY_WINDOW,
    DRIFT_INCIDENT,
    FLEET_MINUTE,
    GROUP_ROUND,
    PRODUCER_REPLAY,
    SEND_ATTEMPT,
    Table,
)
from tests.page.hostile import NAMES
from tests.page.test_report_page import Elements
from tests.pipeline.random_tables import one_row

LINK = re.compile(r'<a href="(report/[^"]+)"')


@pytest.fixture(scope="module")
def lake(sampled, tmp_path_factory) -> Path:
    """The samples' lake, to be written to."""
    folder = tmp_path_factory.mktemp("parts") / "lake"
    shutil.copytree(sampled, folder)
    return folder


@pytest.fixture
def rendered(lake, settings):
    """With a bound of the lists: the first page's text; what the pages beside it say, and when each was written."""

    def render(rows: int) -> tuple[str, dict[str, str], dict[str, int]]:
        report = settings.report.model_copy(update={"rows": rows, "brokers": rows})
        asker = LocalAsker(LocalLake(str(lake), retention_days=7))
        render_report.written(asker, settings.model_copy(update={"report": report}), RunContext(""))
        files = sorted((lake / "report").glob("*.html"))
        said = {f"report/{file.name}": file.read_text(encoding="utf-8") for file in files}
        first = (lake / "report.html").read_text(encoding="utf-8")
        return first, said, {f"report/{file.name}": file.stat().st_mtime_ns for file in files}

    return render


def titled(said: dict[str, str], what: str) -> str:
    (file,) = [file for file, text in said.items() if f"<title>{what} of oracle: hindsight report</title>" in text]
    return file


def test_each_group_and_broker_has_a_page_that_the_first_one_leads_to(rendered, lake):
    first, said, _ = rendered(1)
    asker = LocalAsker(LocalLake(str(lake), retention_days=7))
    groups = records(asker, "SELECT DISTINCT cluster, consumer_group FROM group_round")
    brokers = records(asker, "SELECT DISTINCT cluster, broker_name FROM send_attempt")
    assert len(groups) > 5 and len(brokers) == 3 + 2 and len(said) == len(groups) + len(brokers)
    assert {*LINK.findall(first)} == said.keys()
    page = said[titled(said, "group g_mix")].replace("<wbr>", "")
    assert "MIXED_STRATEGY" in page and "g_avg" not in page
    windows = records(
        asker, "SELECT client_id FROM broker_availability_window WHERE broker_name = 'broker-a' AND cluster = 'oracle'"
    )
    page = Elements(said[titled(said, "broker broker-a")])
    assert all(row["client_id"] in "".join(page.text) for row in windows)
    assert "script" not in page.tags


def test_only_what_changed_is_written_and_what_is_gone_removed(rendered, lake):
    _, _, before = rendered(1)
    assert rendered(1)[2] == before
    more = one_row(DRIFT_INCIDENT, cluster="oracle", consumer_group="g_avg", severity="HIGH", state="OPEN")
    LocalLake(str(lake), retention_days=7).append(DRIFT_INCIDENT, more)
    _, said, after = rendered(1)
    assert [file for file in after if after[file] != before[file]] == [titled(said, "group g_avg")]
    first, said, _ = rendered(200)
    assert (said, LINK.findall(first), "Pages of single groups" in first) == ({}, [], False)


def many(table: Table, rows: Iterable[dict[str, Any]], **values: Any) -> pa.Table:
    """A row for each, which tells it from the others."""
    one = one_row(table, cluster="c", **values)
    return pa.Table.from_pylist([one.to_pylist()[0] | row for row in rows], one.schema)


@pytest.mark.soak
def test_the_first_page_of_a_large_fleet_is_light_and_its_others_are_written_once(tmp_path, settings):
    """500 brokers, 2,000 groups, 2,000 producers."""
    brokers, groups = [f"broker-{n:03}" for n in range(500)], [f"group_of_team_{n:04}" for n in range(2_000)]
    at, lake = datetime(2026, 1, 5, 10, tzinfo=UTC), LocalLake(str(tmp_path / "lake"), retention_days=7)
    day = {"event_date": at.date()}
    who = [{"client_id": f"10.1.{n // 250}.{n % 250}@7", "broker_name": brokers[n % 500]} for n in range(2_000)]
    named = [{"consumer_group": group, "topic": f"topic_of_{group}"} for group in groups]
    lake.append(GROUP_ROUND, many(GROUP_ROUND, named, **day, round_at=at, verdict="drift", queues=[], members=[]))
    found = {"round_at": at, "code": "ORPHAN_QUEUE", "severity": "HIGH", "sentence": "Nobody reads queue 3. " * 8}
    lake.append(ALLOCATION_DRIFT, many(ALLOCATION_DRIFT, named, **day, **found))
    told = [{**group, "incident_id": f"{n:016x}"} for n, group in enumerate(named)]
    opened = {
        "severity": "HIGH",
        "state": "OPEN",
        "root_cause": "UNEXPLAINED",
        "opened_at": at,
        "sentence": "So. " * 50,
    }
    lake.append(DRIFT_INCIDENT, many(DRIFT_INCIDENT, told, **day, **opened))
    window = {"state": "unavailable", "window_start": at, "window_end": at + timedelta(seconds=30), "profile": "P533"}
    lake.append(BROKER_AVAILABILITY_WINDOW, many(BROKER_AVAILABILITY_WINDOW, who, **day, **window))
    lake.append(PRODUCER_REPLAY, many(PRODUCER_REPLAY, who, **day, verdict="replayed"))
    sent = {"begin_at": at, "end_at": at + timedelta(seconds=1), "latency_ms": 1000, "outcome": "SEND_OK"}
    lake.append(SEND_ATTEMPT, many(SEND_ATTEMPT, who, **day, **sent))
    minutes = [{"broker_name": broker, "minute_at": at + timedelta(minutes=n)} for broker in brokers for n in range(60)]
    lake.append(FLEET_MINUTE, many(FLEET_MINUTE, minutes, **day, active=9, isolating=5))

    def written() -> dict[str, int]:
        render_report.written(LocalAsker(lake), settings, RunContext(""))
        return {file.name: file.stat().st_mtime_ns for file in (tmp_path / "lake" / "report").glob("*.html")}

    first = written()
    assert len(first) == 2_500 and written() == first
    assert 500_000 < (tmp_path / "lake" / "report.html").stat().st_size < 2_000_000


class Broken(LocalStore):
    """A folder whose run ends at the second page."""

    def write(self, name: str, text: str) -> None:
        if len(self.names()) > 1:
            raise KeyboardInterrupt
        super().write(name, text)


def test_a_run_that_ends_in_between_leaves_nothing_that_is_taken_for_written(tmp_path):
    columns = (("sentence", "Sentence", ""),)

    def made(sentence: str) -> list[Part]:
        return [Part("group", "c", name, [("Findings", columns, [{"sentence": sentence}])]) for name in "abc"]

    store = LocalStore(tmp_path)
    assert (write_parts(store, made("old")), write_parts(store, made("old"))) == (3, 0)
    for file in tmp_path.glob("*.html"):
        file.unlink()
    with pytest.raises(KeyboardInterrupt):
        write_parts(Broken(tmp_path), made("new"))
    assert write_parts(store, made("old")) == 3
    assert all("old" in file.read_text() for file in tmp_path.glob("*.html"))


def test_hostile_names_are_text_and_get_into_no_file_s_name():
    columns = (("client_id", "Client", ""), ("owners", "Owners", "list"))
    for name in NAMES:
        part = Part("broker", name, name, [("Owners", columns, [{"client_id": name, "owners": [name]}])])
        assert re.fullmatch(r"broker-[0-9a-f]{16}\.html", part.file)
        elements = Elements(part_page(part))
        assert not {"script", "img"} & {*elements.tags} and "".join(elements.text).count(name) >= 4
