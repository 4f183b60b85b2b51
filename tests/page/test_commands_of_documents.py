"""Commands that documents and help name: each is known with its options; those of README run on the samples' lake."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from hindsight.jobs.command_line import COMMANDS, app_of, of_one
from hindsight.jobs.command_line import app as every_command
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from tests.pipeline.test_for_readers import entries

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("HOST", "webhook", "collect", "watch", "logs", "landing ", "INCIDENT_ID", "new.toml")
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
        command = typer.main.get_command(every_command).commands[name]
        command.make_context(name, [word for word in given if word != "..."], resilient_parsing=True)


def test_each_command_that_help_names_is_known():
    named = set(re.findall(r"hindsight ([a-z][a-z-]+)", every_command.info.epilog))
    assert {"drift", "explain"} <= named <= COMMANDS.keys() and all(map(app_of, named))


def hindsight(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hindsight.jobs.command_line", *words]
    given = {"PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Path:
    """A folder with the lake of the samples."""
    folder = tmp_path_factory.mktemp("demo")
    assert hindsight(folder, "demo").returncode == 0
    return folder


def test_every_recipe_gives_rows_on_the_samples(demo):
    asker = LocalAsker(LocalLake(str(demo / "lake"), retention_days=7))
    queries = {entry.id: entry.values[0] for entry in entries() if "what_if_" not in entry.values[0]}
    empty = [question for question, sql in queries.items() if not asker.answer(sql).read_all().num_rows]
    assert [question.partition(".")[0] for question in empty] == ["23"]  # of ordered groups, as the cookbook says


def test_what_readme_asks_of_the_samples_is_answered_in_80_columns(demo):
    asked = [words for words in commands_of(ROOT / "README.md") if "lake" in words and "run-pipeline" not in words]
    asked = [words for words in asked if not any(place in " ".join(words) for place in ELSEWHERE)]
    assert len(asked) > 9 and {"drift", "lint", "message", "top"} <= {words[0] for words in asked}
    for words in asked:
        done = hindsight(demo, *words)
        expected = 1 if "--fail-on" in words else 0
        assert (done.returncode, bool(done.stdout.strip())) == (expected, True), (words, done.stderr[-500:])
        assert "(0 rows)" not in done.stdout
        for_people = [] if words[0] in FOR_MACHINES else done.stdout.splitlines()
        assert [line for line in for_people if len(line) > 80] == [], words
