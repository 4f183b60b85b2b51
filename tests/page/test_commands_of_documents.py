"""Commands that documents and help name: each is known with its options; those of README run on the samples' lake."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import typer

from hindsight.jobs.command_line import COMMANDS, app_of, of_one
from hindsight.jobs.command_line import app as every_command
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from tests.commands import command
from tests.pipeline.test_for_readers import entries, gives

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What commands of documents need that is not here: these are only read, their options by the command itself.
ELSEWHERE = {
    "collect ": "a cluster",
    "watch ": "a cluster",
    "ship ": "recorders' folders, which it empties",
    "webhook:": "a network, and who listens there",
    "--listen ": "somebody who asks it: it does not end",
    "diagnose - ": "a log by a pipe",
    "/opt/other/": "another release",
    "/var/lib/prometheus/": "a folder of a machine's own",
    "RUN_ID": "an id that the reader puts there",
    "'...'": "values that the reader puts there",
    "ORDER-4711": "keys, which are recorded only where somebody asks for them",
    "lake@2026-11-20": "a lake that was there at that time",
    "--publish": "a lake that one may spoil",
    "rebuild-availability": "a lake that one may spoil",
    "--landing ": "seconds for each run: tests/pipeline runs it",
}
# Here for what documents name.
IN_PLACE = {
    "INCIDENT_ID": "ce6a55740e26c4af",
    "LAKE": "lake",
    "LANDING": str(ROOT / "data_samples"),
    "landing": str(ROOT / "data_samples"),
}
QUIET = ("--drop", "--since last", "quarantine_by_reason")
FOR_MACHINES = ("metrics", "events")


def commands_of(page: Path) -> Iterator[list[str]]:
    """Each `hindsight` of the blocks of a page, as words."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if word and set(word) <= set("|&;<>"):
                    if "hindsight" in words[:1] or any(w.endswith("/hindsight") for w in words[:1]):
                        yield words[1:]
                    words = []
                else:
                    words.append(word)


def runs(words: list[str]) -> bool:
    return not any(place in " ".join([*words, ""]) for place in ELSEWHERE)


ASKING = [page for page in PAGES if "zh" not in page.parts and any(map(runs, commands_of(page)))]


def test_there_are_such_commands():
    assert len(list(commands_of(ROOT / "README.md"))) > 12


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_of_a_page_is_known_with_its_options(page):
    for words in commands_of(page):
        name, *given = words or ["--help"]
        if name.startswith("-"):
            continue
        assert name in COMMANDS, words
        of_one(name)
        known = typer.main.get_command(every_command).commands[name]
        known.make_context(name, [word for word in given if word != "..."], resilient_parsing=True)


def test_each_command_that_help_names_is_known():
    named = set(re.findall(r"hindsight ([a-z][a-z-]+)", every_command.info.epilog))
    assert {"drift", "explain"} <= named <= COMMANDS.keys() and all(map(app_of, named))


@pytest.fixture(scope="module")
def demo(sampled, tmp_path_factory) -> Path:
    """A folder with the lake of the samples, as ``hindsight demo`` makes it, and what documents name beside it."""
    folder = tmp_path_factory.mktemp("demo")
    for name in ("lake", "other-lake"):
        shutil.copytree(sampled, folder / name)
    for name, limit in (("old", 50), ("new", 40), ("own", 40)):
        (folder / f"{name}.toml").write_text(
            f"[producer_findings]\nlong_isolation_before_514_s = {limit}\n", encoding="utf-8"
        )
    for name in ("client_log", "broker_log"):
        shutil.copytree(ROOT / "data_samples" / name, folder / "logs" / name)
    for name, of in (
        ("rocketmq_client.log", "client_log"),
        ("broker-a.log", "broker_log"),
        ("broker-a.log.gz", "broker_log"),
    ):
        log = next(path for path in sorted((folder / "logs" / of).rglob("*")) if path.is_file())
        shutil.copy(log, folder / name)
    return folder


def test_every_recipe_gives_rows_on_the_samples(demo):
    asker = LocalAsker(LocalLake(str(demo / "lake"), retention_days=7))
    queries = {entry.id: entry.values[0] for entry in entries() if "what_if_" not in entry.values[0]}
    empty = [question for question, sql in queries.items() if not asker.answer(sql).read_all().num_rows]
    assert [question.partition(".")[0] for question in empty] == ["23"]  # of ordered groups, as the cookbook says


@pytest.mark.parametrize(("sql", "all_rows", "promised"), entries(of_samples=True))
def test_a_query_of_the_cookbook_gives_what_it_promises_of_the_samples(demo, sql, all_rows, promised):
    gives(LocalAsker(LocalLake(str(demo / "lake"), retention_days=7)), sql, promised, all_rows=all_rows)


@pytest.fixture(scope="module")
def answered(demo) -> Callable[..., subprocess.CompletedProcess[str]]:
    """What a command does in the folder; what several pages ask is asked once."""
    return cache(lambda *words: command(*words, cwd=demo, env={"COLUMNS": "80"}))


@pytest.mark.parametrize("page", ASKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_asks_of_the_samples_is_answered(answered, page):
    asked = [[IN_PLACE.get(word, word) for word in words] for words in commands_of(page) if runs(words)]
    assert asked
    for words in asked:
        done = answered(*words)
        differ = "--fail-on" in words or words[0] == "compare"
        assert done.returncode in ((1,) if "--fail-on" in words else (0, 1) if differ else (0,)), (words, done.stderr)
        assert done.stdout.strip() or any(quiet in " ".join(words) for quiet in QUIET), words
        assert "Traceback" not in done.stderr and "(0 rows)" not in done.stdout, words
        for_people = done.stdout.splitlines() if page.name == "README.md" and words[0] not in FOR_MACHINES else []
        assert [line for line in for_people if len(line) > 80] == [], words


def test_what_is_only_read_of_the_documents_is_what_cannot_be_run_here():
    every = [" ".join([*words, ""]) for page in PAGES for words in commands_of(page)]
    assert [place for place in ELSEWHERE if not any(place in words for words in every)] == []
    ran = {words[0] for page in ASKING for words in commands_of(page) if runs(words)}
    assert {"sql", "explain", "drift", "lint", "message", "top", "check", "bundle", "replay", "events"} <= ran
    assert {"metrics", "compare", "what-if", "upgrade", "ladder", "diagnose", "check-landing", "maintain"} <= ran
