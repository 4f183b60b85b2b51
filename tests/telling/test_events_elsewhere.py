"""``hindsight events`` of a lake on an S3 store: the same as of one of this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from hindsight.conf.failure import RUN_FAILED
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.telling.incident_noting import note_events
from tests.stores.s3_server import s3_server
from tests.telling.mortal_commands import KILLED, commands_that_die
from tests.telling.told_streams import stream

ALL = ("--json", "--with-backfill")


def begun_on(store, *arguments):
    command = [sys.executable, "-m", "hindsight.jobs.command_line", "events", *map(str, arguments)]
    return subprocess.Popen(command, env=store.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def events_on(store, *arguments, code=0):
    process = begun_on(store, *arguments)
    said, errors = process.communicate(timeout=600)
    assert process.returncode == code, errors
    return errors if code else said


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with s3_server(tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture
def place(store, sampled, tmp_path):
    """A lake on the store of which nothing was told yet."""
    name = f"lake-{tmp_path.name}"
    store.put(sampled, name)
    return f"s3://bucket/{name}"


@pytest.mark.soak
def test_a_lake_on_a_store_tells_what_one_of_this_machine_does(store, place, sampled, settings, tmp_path):
    here = LocalLake(str(shutil.copytree(sampled, tmp_path / "here")), retention_days=7)
    note_events(here, RunContext(""), settings.events)
    first = events_on(store, "--lake", place, *ALL)
    assert len(first.splitlines()) > 10
    for since, shown in (("0", first), ("last", first), ("last", "")):
        assert events_on(store, "--lake", place, *ALL, "--since", since) == shown
    store.copy(place.removeprefix("s3://bucket/"), tmp_path / "copy")
    assert stream(tmp_path / "copy") == stream(here.root)


@pytest.mark.soak
def test_killed_on_a_store_the_next_run_goes_on(store, place, server, tmp_path):
    to = ("--lake", place, "--sink", f"webhook:{server.url}/hook", "--with-backfill")
    with commands_that_die(tmp_path, store.environment) as commands:
        assert commands.run(*to, last=3).points[-1] == "derived"
        between = commands.run(*to, last=8)
        assert (between.code, between.points[-1]) == (KILLED, "answered")
        ended = commands.run(*to)
        assert ended.code == 0, ended.said
        assert commands.run(*to).points.count("sent") == 0
    ids = [headers["Idempotency-Key"] for _, headers, _ in server.taken]
    assert ids[0] == ids[1] and len({*ids}) == len(ids) - 1 > 10


@pytest.mark.soak
def test_two_at_once_on_a_store_send_each_event_once(store, place, server):
    to = ("--lake", place, "--sink", f"webhook:{server.url}/hook", "--with-backfill", "--wait", "120")
    both = [begun_on(store, *to) for _ in range(2)]
    assert [(process.communicate()[1], process.returncode)[1] for process in both] == [0, 0]
    ids = [headers["Idempotency-Key"] for _, headers, _ in server.taken]
    assert len({*ids}) == len(ids) > 10


@pytest.mark.soak
def test_a_store_that_does_not_answer_ends_the_command(store, place):
    assert "could not be listed" in events_on(store._replace(port=1), "--lake", place, code=RUN_FAILED)
