"""Each command says with ``--json`` what it says, for machines: JSON lines, and nothing beside them on stdout."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from hindsight.conf.failure import DIFFERENCES_FOUND, DONE, WRONG_USAGE
from hindsight.jobs.command_line import COMMANDS, of_one
from hindsight.jobs.command_line import app as every_command
from tests.commands import command
from tests.pipeline.sample_files import SAMPLES

WITHOUT = {
    "mcp": "speaks a protocol of JSON already",
    "serve": "answers over HTTP with JSON, and says nothing on stdout",
    "metrics": "has a form for machines: OpenMetrics",
    "top": "is a live view: `drift --json` and `sql --json` have what it shows",
}
CIRCLE = 'group = {consumer_group = "g_avg", strategy = "AVG_BY_CIRCLE"}'
# What each is asked of the samples' lake, a field of the first line, and how it ends where that is not 0.
ASKED: dict[str, tuple[tuple[object, ...], str]] = {
    "run-pipeline": (("--landing", SAMPLES, "--lake", "lake"), "job"),
    "check-landing": ((SAMPLES,), "format"),
    "diagnose": ((SAMPLES / "client_log",), "kind"),
    "render-report": (("--lake", "lake"), "page"),
    "sql": (("SELECT opened_at, codes FROM drift_incident", "--lake", "lake"), "opened_at"),
    "explain": (("INCIDENT", "--lake", "lake"), "row_of"),
    "message": (("MESSAGE", "--lake", "lake"), "groups"),
    "manual": ((), "page"),
    "manual runbook": (("runbook",), "text"),
    "drift": (("--lake", "lake"), "incident_id"),
    "lint": (("--lake", "lake"), "severity"),
    "events": (("--lake", "lake", "--with-backfill"), "what"),
    "bundle": (("INCIDENT", "--lake", "lake", "--output", "bundle.zip"), "claims"),
    "replay": (("bundle.zip",), "verdict"),
    "compare": (("lake", "--settings", "own.toml"), "change"),
    "what-if": (("circle", "--lake", "lake", "--suppose", CIRCLE), "effect"),
    "what-if, listed": (("--lake", "lake"), "premises"),
    "upgrade": (("g_mix", "--lake", "lake", "--strategy", "AVG_BY_CIRCLE"), "part"),
    "ladder": (("--lake", "lake"), "part"),
    "check": (("--lake", "lake", "--table", "group_round"), "expectation"),
    "maintain": (("--lake", "lake"), "table"),
}
ENDS = {"compare": DIFFERENCES_FOUND}
# A cluster, or seconds of a run each: tests of these commands have them run.
ELSEWHERE = {"collect", "ship", "watch", "ingest-send-records", "ingest-consumer-snapshots"}
ELSEWHERE |= {"rebuild-availability", "flag-allocation-drift"}


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def instants(told: Any) -> Iterator[str]:
    """The instants of JSON, wherever they are nested."""
    if isinstance(told, list):
        yield from (one for each in told for one in instants(each))
    elif isinstance(told, dict):
        yield from (one for name, one in told.items() if name.endswith("_at") and isinstance(one, str))
        yield from instants([*told.values()])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what ``demo --json`` makes, and settings that say otherwise."""
    made = tmp_path_factory.mktemp("json")
    done = command("demo", "--json", cwd=made)
    assert done.returncode == DONE, done.stderr
    assert [line["job"] for line in lines(done)][-1] == "render_report"
    assert Path(lines(done)[-1]["page"]).is_file()
    (made / "own.toml").write_text("[producer_findings]\nlong_isolation_before_514_s = 40\n", encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def asked(folder: Path) -> Callable[..., list[dict[str, Any]]]:
    """What a command with ``--json`` says of the samples' lake."""

    def one(query: str) -> str:
        ((value, *_), *_) = (
            tuple(row.values()) for row in lines(command("sql", query, "--lake", "lake", "--json", cwd=folder))
        )
        return str(value)

    incident = one("SELECT incident_id FROM drift_incident WHERE consumer_group <> '' ORDER BY ALL LIMIT 1")
    message = one("SELECT msg_id FROM send_attempt WHERE msg_id IS NOT NULL ORDER BY ALL LIMIT 1")

    def ask(name: str, words: tuple[object, ...]) -> list[dict[str, Any]]:
        given = [{"INCIDENT": incident, "MESSAGE": message}.get(str(word), word) for word in words]
        done = command(name, *given, "--json", cwd=folder)
        assert done.returncode == ENDS.get(name, DONE), done.stderr
        return lines(done)

    return ask


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_it(name: str) -> None:
    of_one(name)
    options = [word for option in typer.main.get_command(every_command).commands[name].params for word in option.opts]
    assert ("--json" in options) == (name not in WITHOUT)
    assert "--format" not in options or name == "sql"  # CSV and Parquet


def test_each_that_has_it_is_asked() -> None:
    asked = {one.partition(",")[0].partition(" ")[0] for one in ASKED}
    assert asked | {"demo"} | ELSEWHERE | WITHOUT.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", ASKED)
def test_what_it_says_is_json_and_nothing_else(asked, name: str) -> None:
    words, field = ASKED[name]
    told = asked(name.partition(",")[0].partition(" ")[0], words)
    assert told and field in told[0]
    assert all(datetime.fromisoformat(instant).tzinfo and "T" in instant for instant in instants(told))


def test_an_explanation_is_one_document_with_the_rows_of_each_section(asked, folder: Path) -> None:
    (told,) = asked("explain", ASKED["explain"][0])
    shown = command(
        "explain", told["The row of drift_incident"]["rows"][0]["incident_id"], "--lake", "lake", cwd=folder
    ).stdout
    sections = [line.strip("= ") for line in shown.splitlines() if line.startswith("== ")]
    assert sections == [*told][1:]


def test_a_bundle_says_how_many_rows_are_in_it(asked) -> None:
    (told,) = asked("bundle", ASKED["bundle"][0])
    assert told["claims"]["drift_incident"] == 1 and sum(told["inputs"].values()) > 10
    assert told["bytes"] > 1_000 and told["first"] <= told["last"]


@pytest.mark.parametrize(("word", "forms"), [("sql", ("--format", "json")), ("sql", ("--format=json",))], ids=str)
def test_the_older_spelling_works_and_is_told(asked, folder: Path, word: str, forms: tuple[str, ...]) -> None:
    words, _ = ASKED[word]
    done = command(word, *words, *forms, cwd=folder)
    assert (done.returncode, lines(done)) == (DONE, asked(word, words))
    assert "--json now" in done.stderr


def test_the_older_spelling_of_what_people_read_works_too(folder: Path) -> None:
    words, _ = ASKED["what-if, listed"]
    now, before = (command("what-if", *words, *form, cwd=folder) for form in ((), ("--format", "text")))
    assert (now.returncode, now.stdout) == (before.returncode, before.stdout)
    assert command("sql", "SELECT 1", "--lake", "lake", "--format", "text", cwd=folder).returncode == WRONG_USAGE


def test_a_story_is_markdown(folder: Path) -> None:
    done = command("explain", "any", "--story", "--json", "--lake", "lake", cwd=folder)
    assert done.returncode == WRONG_USAGE and "--story is Markdown" in done.stderr
