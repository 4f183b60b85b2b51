"""``hindsight watch`` with the real pipeline: a page of what it collected itself, anew with each run."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hindsight.jobs.lake.lake_lease import LeaseFolder, take
from hindsight.jobs.lake.small_files import LocalStore
from tests.collect.fake_servers import FakeCluster
from tests.collect.test_collect_command import clean

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parent.parent.parent


async def told_of(process, event):
    """The next line of the log with this event, and the lines before it."""
    before = []
    async for line in process.stderr:
        told = json.loads(line) if line.startswith(b"{") else {"event": line.decode()}
        if told["event"] == event:
            return told, before
        before.append(told)
    raise AssertionError([one["event"] for one in before][-20:])


async def watched(landing, lake, name_server, *options):
    words = [
        "-m",
        "hindsight.jobs.command_line",
        "watch",
        "--cluster",
        "c",
        "--name-server",
        name_server,
        "--every",
        "0.5",
    ]
    words += ["--landing", str(landing), "--lake", str(lake), "--run-minutes", "0", *options]
    return await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=ROOT, env=clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, limit=2**20
    )


def resident_mb(pid: int) -> float:
    """Memory of a process."""
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def test_it_waits_for_a_lake_that_is_held_then_makes_a_page_and_ctrl_c_lets_a_run_end(tmp_path):
    lake, landing = tmp_path / "lake", tmp_path / "landing"
    other = take(LeaseFolder(str(lake), LocalStore(lake / "_lease")), "another run")

    async def story():
        async with FakeCluster().run() as servers:
            process = await watched(landing, lake, servers.name_server)
            await asyncio.sleep(15)
            assert not (lake / "report.html").exists()
            other.renew(released=True)
            first, _ = await told_of(process, "run")
            page = (lake / "report.html").read_text()
            await told_of(process, "begins")  # of the second run
            process.send_signal(signal.SIGINT)
            second, meanwhile = await told_of(process, "run")
            await process.communicate()
            return process.returncode, first, second, page, meanwhile

    code, first, second, page, meanwhile = asyncio.run(story())
    assert (code, first["exit_code"], second["exit_code"]) == (0, 0, 0)
    assert "waiting for the run to end" in {line["event"] for line in meanwhile}
    assert (lake / "report.html").read_text() != page
    rounds = {
        line["round"] for file in landing.rglob("*.jsonl") for line in map(json.loads, file.open()) if "round" in line
    }
    assert len(rounds) > 5


def test_memory_is_the_same_in_the_sixth_run_as_in_the_third(tmp_path):
    async def story():
        async with FakeCluster().run() as servers:
            process = await watched(tmp_path / "landing", tmp_path / "lake", servers.name_server)
            found = []
            for _ in range(6):
                run, _ = await told_of(process, "run")
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                java = [int(child) for child in children]
                found.append(
                    (run["exit_code"], run["seconds"], resident_mb(process.pid), [resident_mb(c) for c in java])
                )
                print(found[-1])
            process.send_signal(signal.SIGTERM)
            await process.communicate()
            return found

    found = asyncio.run(story())
    assert [code for code, *_ in found] == [0] * 6
    own = [mb for _, _, mb, _ in found]
    assert own[5] <= own[2] * 1.1 + 5
