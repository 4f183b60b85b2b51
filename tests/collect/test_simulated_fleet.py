"""20 brokers and 2,000 groups: the collector's memory is small, and does not grow from sweep to sweep."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parent.parent.parent


def peak_mb(process: subprocess.Popen[str]) -> float:
    """Highest resident memory of a process so far."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def cpu_s(process: subprocess.Popen[str]) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.parametrize(("each_at", "sweeps"), [(2, 10)])
def test_memory_is_bounded_and_the_same_in_sweep_10_as_in_sweep_3(tmp_path, each_at, sweeps):
    fleet = [sys.executable, "-m", "tests.collect.simulated_fleet", "20", "2000", str(each_at)]
    with subprocess.Popen(fleet, cwd=ROOT, stdout=subprocess.PIPE, text=True) as servers:
        try:
            told = sweeps_over(servers.stdout.readline().strip(), tmp_path, sweeps)
        finally:
            servers.kill()
    for sweep, peak, cpu in told:
        print(
            f"{sweep['round']}: {sweep['seconds']} s, {sweep['requests']} requests, peak {peak:.0f} MB, CPU {cpu:.1f} s"
        )
    assert [sweep["is_cut"] for sweep, _, _ in told] == [False] * sweeps
    # 203, 38, 208 of each group at its brokers, 307 of each member, 105 of each topic at two name servers, 202.
    questions = 2000 * each_at * 3 + 1800 * 3 + 2 * 2200 + 200 * each_at
    assert all(questions <= sweep["requests"] <= questions + 20 + 400 * each_at + 10 for sweep, _, _ in told)
    peaks = [peak for _, peak, _ in told]
    assert max(peaks) < 256
    assert peaks[9] <= peaks[2] * 1.05 + 1


def sweeps_over(name_servers: str, landing: Path, sweeps: int):
    """Of each sweep what the log tells, and the peak of memory and the processor time up to its end."""
    command = [sys.executable, "-m", "hindsight.jobs.command_line", "collect", "--name-server", name_servers, "--gzip"]
    command += ["--cluster", "fleet", "--landing", str(landing), "--rounds", str(sweeps + 1), "--every", "1"]
    found = []
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr:
                found.append((json.loads(line), peak_mb(process), cpu_s(process)))
                if len(found) == sweeps:
                    return found
        finally:
            process.kill()
    return found
