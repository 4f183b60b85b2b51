"""``hindsight watch``: when it runs the pipeline, that collecting goes on meanwhile, and how it ends."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from hindsight.jobs.command_line import asked
from hindsight.jobs.running.exit_codes import exit_code
from tests.collect.fake_servers import FakeCluster
from tests.collect.test_collect_command import clean, lines_of

ROOT = Path(__file__).parent.parent.parent
# The pipeline's place taken by one that says when it was begun, with what, and over which files; then it works so long.
STUB = """
import json, os, sys, time
from pathlib import Path
from hindsight.jobs.commands import watch_command

def run(options):
    landing = Path(options[options.index("--landing") + 1])
    files = sorted(path.name for path in landing.rglob("*") if path.is_file())
    pool = None if "pyarrow" in sys.modules else os.environ.get("ARROW_DEFAULT_MEMORY_POOL")
    print(json.dumps({"options": options, "files": files, "pool": pool, "begun": time.time()}), flush=True)
    time.sleep(SECONDS)
    print(json.dumps({"ended": time.time()}), flush=True)
    return CODE

def tell_events(options):
    print(json.dumps({"told": options}), flush=True)
    return 3

watch_command.run_pipeline = run
watch_command.tell_events = tell_events
from hindsight.jobs.command_line import main
main("watch")
"""


async def watching(landing, *options, seconds=0.0, code=0, then=None):
    """Exit code, what the stub printed, and what was told."""
    script = STUB.replace("SECONDS", str(seconds)).replace("CODE", str(code))
    words = ["--cluster", "c", "--landing", str(landing), "--lake", f"{landing}-lake", *map(str, options)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, *words, cwd=ROOT, env=clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if then is not None:
        await then(process)
    out, err = await process.communicate()
    told = [json.loads(line) for line in err.decode().splitlines() if line.startswith("{")]
    return process.returncode, [json.loads(line) for line in out.decode().splitlines()], told, err.decode()


def against(landing, *options, cluster=None, **more):
    async def run():
        async with (cluster or FakeCluster()).run() as servers:
            return await watching(landing, "--name-server", servers.name_server, *options, **more)

    return asyncio.run(run())


def events(told, name):
    return [line for line in told if line["event"] == name]


def begun(out):
    return [line for line in out if "files" in line]


def test_the_first_run_begins_after_the_second_sweep_over_files_that_are_whole(tmp_path):
    code, out, told, _ = against(tmp_path / "l", "--every", "0.3", "--rounds", "4", "--run-minutes", "60")
    assert code == 0
    first, last = begun(out)
    assert [name.endswith(".jsonl") for name in first["files"]] == [True]
    kinds = [line["kind"] for line in lines_of(tmp_path / "l")]
    assert kinds.count("round") == 4
    # The run that is due only in an hour is made at the end: all that was collected is taken in.
    assert [name.endswith(".jsonl") for name in last["files"]] == [True, True]
    assert [line["exit_code"] for line in events(told, "run")] == [0, 0]
    of_first = [json.loads(x) for x in next((tmp_path / "l").rglob(first["files"][0])).read_text().splitlines()]
    assert [line["round"] for line in of_first if line["kind"] == "sweepEnd"] == [0, 1]


def test_collecting_goes_on_while_a_run_goes_on_and_none_is_piled_on(tmp_path):
    code, out, told, _ = against(tmp_path / "l", "--every", "0.2", "--rounds", "14", "--run-minutes", "0", seconds=1.0)
    assert code == 0
    starts, ends = [line["begun"] for line in begun(out)], [line["ended"] for line in out if "ended" in line]
    assert len(starts) == len(ends) >= 2
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    swept = [line for line in lines_of(tmp_path / "l") if line["kind"] == "sweepEnd"]
    during = [line for line in swept if starts[0] < line["ts"] / 1000 < ends[0]]
    assert len(during) >= 3
    assert len(events(told, "sweep")) == 14


def test_a_run_is_made_every_so_many_minutes(tmp_path):
    _, out, _, _ = against(tmp_path / "l", "--every", "0.2", "--rounds", "16", "--run-minutes", 0.8 / 60)
    starts = [line["begun"] for line in begun(out)][:-1]  # the last one is that of the end
    assert len(starts) >= 3
    assert all(later - earlier > 0.75 for earlier, later in pairwise(starts))


def test_each_run_has_the_options_of_run_pipeline(tmp_path):
    settings = tmp_path / "s.toml"
    settings.write_text("")
    options = ("--settings", settings, "--wait", "7", "--master", "local[1]", "--json", "--run-metrics", tmp_path / "m")
    _, out, _, _ = against(tmp_path / "l", "--rounds", "1", *options)
    (run,) = begun(out)
    expected = ["--lake", f"{tmp_path / 'l'}-lake", "--settings", settings, "--metrics", tmp_path / "m"]
    expected += ["--master", "local[1]", "--wait", "7.0", "--json", "--landing", tmp_path / "l"]
    assert run["options"] == [str(word) for word in expected]


def test_before_arrow_is_loaded_it_is_told_whose_memory_to_take(tmp_path):
    """Its own allocator keeps what it took; that of the system is what the runs of a day end with (see the module)."""
    _, out, _, _ = against(tmp_path / "l", "--rounds", "1")
    assert [run["pool"] for run in begun(out)] == ["system"]


def test_a_run_that_fails_is_told_of_and_collecting_goes_on(tmp_path):
    code, out, told, err = against(tmp_path / "l", "--every", "0.2", "--rounds", "6", "--run-minutes", "0", code=2)
    assert len(begun(out)) >= 3
    assert {(line["exit_code"], line["failed"]) for line in events(told, "run")} == {
        (2, "collecting goes on, and the next run tries again")
    }
    assert len(events(told, "sweep")) == 6
    assert code == 3
    assert err.splitlines()[-1] == "hindsight: the last run of the pipeline ended with exit code 2; above stands why."


def test_whoever_is_to_be_told_is_told_after_each_run_that_went_well(tmp_path):
    settings = tmp_path / "s.toml"
    settings.write_text("")
    sinks = ("webhook:http://127.0.0.1:1/hook", "alertmanager:http://127.0.0.1:1")
    options = ("--rounds", "1", "--settings", settings, *(word for sink in sinks for word in ("--sink", sink)))
    code, out, told, _ = against(tmp_path / "l", *options)
    assert (code, [line.keys() for line in out][1:]) == (0, [{"ended"}, {"told"}])
    named = [word for sink in sinks for word in ("--sink", sink)]
    assert out[-1]["told"] == ["--lake", f"{tmp_path / 'l'}-lake", "--settings", str(settings), *named]
    assert [(line["exit_code"], line["failed"]) for line in events(told, "events")] == [
        (3, "the next run goes on with what was not taken")
    ]
    assert not any("told" in line for line in against(tmp_path / "m", "--rounds", "1")[1])
    assert not any("told" in line for line in against(tmp_path / "n", *options, code=2)[1])


def interrupt(number, *, after_s, twice=False):
    async def then(process):
        await asyncio.wait_for(process.stdout.readline(), 60)  # a run has begun
        await asyncio.sleep(after_s)
        process.send_signal(number)
        if twice:
            await asyncio.sleep(1.0)
            process.send_signal(number)

    return then


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_lets_the_run_under_way_end_and_begins_no_other(tmp_path, number):
    then = interrupt(number, after_s=0.3)
    code, out, told, _ = against(tmp_path / "l", "--every", "0.2", "--run-minutes", "0", seconds=2.0, then=then)
    assert code == 0
    assert [line.keys() for line in out] == [{"ended"}]  # the line of its begin was read above
    assert "waiting for the run to end" in {line["event"] for line in told}
    assert [path.suffix for path in (tmp_path / "l").rglob("*.*")] == [".jsonl", ".jsonl"]


def test_a_second_ctrl_c_cuts_the_run(tmp_path):
    then, begun_at = interrupt(signal.SIGINT, after_s=0.3, twice=True), time.monotonic()
    code, out, _, err = against(tmp_path / "l", "--every", "0.2", "--run-minutes", "0", seconds=60, then=then)
    assert (code, out) == (130, [])
    assert err.splitlines()[-1] == "hindsight: interrupted; a rerun takes up where this run stopped"
    assert time.monotonic() - begun_at < 30
    assert {path.suffix for path in (tmp_path / "l").rglob("*.*")} == {".jsonl"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--once",), "No such option: --once"),
        (("--settings", "/nowhere.toml"), "/nowhere.toml"),
        (("--landing", "s3://bucket/x"), "--landing is a folder on this machine"),
        (("--run-minutes", "-1"), "'--run-minutes'"),
        (("--sink", "pager"), "the settings name no sink"),
        (("--sink", "slack:https://hooks.example/services/T0"), "is a secret"),
    ],
)
def test_wrong_usage_ends_it_before_anything_is_asked(tmp_path, options, said, capsys):
    words = ["--cluster", "c", "--landing", str(tmp_path / "x"), "--lake", str(tmp_path / "y"), "--name-server", "a:1"]
    assert exit_code(lambda: asked(["watch", *words, *options])(standalone_mode=False)) == 64
    assert said in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_the_options_are_those_of_collect_and_of_run_pipeline(capsys):
    def options(command):
        with pytest.raises(SystemExit):
            asked([command, "--help"])()
        return set(re.findall(r"--[a-z-]+", capsys.readouterr().out))

    both = options("collect") - {"--once", "--by-hour"} | options("run-pipeline") - {"--from", "--to"}
    assert options("watch") == both | {"--run-minutes", "--run-metrics", "--sink"}
