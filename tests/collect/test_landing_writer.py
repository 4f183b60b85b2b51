"""Files of the landing folder: whole under their final name, bounded; no full disk and no kill tears a line."""

from __future__ import annotations

import errno
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.jobs.collect import landing_writer
from hindsight.jobs.collect.landing_writer import LandingWriter, Limits

ROOT = Path(__file__).parent.parent.parent
LINES = [json.dumps({"n": n, "text": "x" * (n % 50)}).encode() for n in range(2000)]


def folder(landing):
    return landing / "admin_snapshots" / "cluster=c"


def names(landing):
    return sorted(path.name for path in folder(landing).iterdir())


def contents(landing, pattern="*"):
    files = sorted(folder(landing).glob(pattern), key=lambda path: path.stat().st_mtime_ns)
    return [
        line
        for file in files
        for line in (gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()).splitlines()
    ]


@pytest.mark.parametrize("gzipped", [False, True])
def test_lines_come_out_as_they_went_in_and_no_name_is_seen_before_the_file_is_whole(tmp_path, gzipped):
    writer = LandingWriter(tmp_path, "c", gzipped=gzipped)
    writer.start()
    for line in LINES:
        writer.write(line)
    assert all(name.endswith(".part") for name in names(tmp_path))
    writer.close()
    (name,) = names(tmp_path)
    assert name.endswith(".jsonl.gz" if gzipped else ".jsonl")
    assert contents(tmp_path) == LINES


@pytest.mark.parametrize("gzipped", [False, True])
def test_files_are_closed_at_their_size(tmp_path, monkeypatch, gzipped):
    monkeypatch.setattr(landing_writer, "_BLOCK_BYTES", 1000)
    writer = LandingWriter(tmp_path, "c", Limits(most_bytes=5000), gzipped=gzipped)
    for line in LINES:
        writer.write(line)
    writer.close()
    sizes = [path.stat().st_size for path in folder(tmp_path).iterdir()]
    assert len(sizes) > (2 if gzipped else 5) and max(sizes) < 6200
    assert sorted(contents(tmp_path)) == sorted(LINES)


def test_files_are_closed_at_their_age_though_nothing_is_written_meanwhile(tmp_path):
    writer = LandingWriter(tmp_path, "c", Limits(longest_s=0.2))
    writer.write(b"1")
    writer.flush()
    writer.close_if_old(0.1)
    assert names(tmp_path)[0].endswith(".part")
    writer.close_if_old(0.3)
    assert names(tmp_path)[0].endswith(".jsonl")
    time.sleep(0.01)
    writer.write(b"2")
    writer.close()
    assert contents(tmp_path) == [b"1", b"2"]


@pytest.mark.parametrize("gzipped", [False, True])
def test_a_full_disk_loses_lines_that_are_counted_and_tears_none(tmp_path, monkeypatch, gzipped):
    monkeypatch.setattr(landing_writer, "_BLOCK_BYTES", 1000)
    writer, write, room = LandingWriter(tmp_path, "c", gzipped=gzipped), os.write, [4000]

    def until_full(file, data):
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(file, data[: room[0]])
        room[0] -= done
        return done

    monkeypatch.setattr(os, "write", until_full)
    for line in LINES[:1500]:
        writer.write(line)
    writer.flush()
    lost = writer.take_lost()
    room[0] = 10**9
    for line in LINES[1500:]:
        writer.write(line)
    writer.close()
    found = contents(tmp_path)
    assert len(found) + lost == len(LINES) and lost > 500
    assert found[-500:] == LINES[1500:] and found[:-500] == LINES[: len(found) - 500]
    assert (writer.take_lost(), names(tmp_path)[0].endswith(".part")) == (0, False)


def test_a_folder_that_vanished_is_made_anew_for_the_next_file(tmp_path):
    writer = LandingWriter(tmp_path, "c")
    writer.start()
    folder(tmp_path).joinpath(names(tmp_path)[0]).unlink()
    folder(tmp_path).rmdir()
    writer.write(b"gone")
    writer.close()
    writer.write(b"kept")
    writer.close()
    assert contents(tmp_path) == [b"kept"]


def test_a_landing_folder_that_cannot_be_written_to_is_an_error_at_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        LandingWriter(tmp_path / "file", "c").start()


@given(st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b" ")), min_size=1, max_size=20), st.data())
def test_what_a_killed_process_left_is_finished_up_to_its_last_whole_line(tmp_path_factory, lines, data):
    tmp_path = tmp_path_factory.mktemp("landing")
    folder(tmp_path).mkdir(parents=True)
    is_zipped = data.draw(st.booleans())
    whole = [(gzip.compress(line + b"\n") if is_zipped else line + b"\n") for line in lines]
    cut = data.draw(st.integers(0, sum(map(len, whole))))
    left = folder(tmp_path) / f"collector-old.jsonl{'.gz' if is_zipped else ''}.part"
    left.write_bytes(b"".join(whole)[:cut])
    writer = LandingWriter(tmp_path, "c")
    writer.start()
    writer.close()
    ends = [sum(map(len, whole[: n + 1])) for n in range(len(whole))]
    kept = b"".join(line + b"\n" for line, end in zip(lines, ends, strict=True) if end <= cut)
    found = [path.read_bytes() for path in folder(tmp_path).iterdir()]
    assert b"".join(gzip.decompress(f) if is_zipped else f for f in found) == kept
    assert not list(folder(tmp_path).glob("*.part"))


def test_a_file_that_another_collector_writes_is_left_alone(tmp_path):
    one, other = LandingWriter(tmp_path, "c"), LandingWriter(tmp_path, "c")
    one.start()
    one.write(b"of one")
    one.flush()
    other.start()
    other.close()
    assert names(tmp_path)[0].endswith(".part")
    one.write(b"of one too")
    one.close()
    assert contents(tmp_path) == [b"of one", b"of one too"]


@pytest.mark.parametrize("gzipped", [False, True])
def test_a_kill_at_any_instant_leaves_whole_lines(tmp_path, gzipped):
    code = f"""
from pathlib import Path
from hindsight.jobs.collect import landing_writer
landing_writer._BLOCK_BYTES = 20000
limits = landing_writer.Limits(most_bytes=300000)
writer = landing_writer.LandingWriter(Path({str(tmp_path)!r}), "c", limits, gzipped={gzipped})
writer.start()
print("go", flush=True)
for n in range(10**9):
    writer.write(b'%d %s' % (n, b"x" * (n % 99)))
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"go\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
    writer = LandingWriter(tmp_path, "c")
    writer.start()
    writer.close()
    found = contents(tmp_path)
    numbers = [int(line.split()[0]) for line in found]
    assert sorted(numbers) == list(range(len(numbers))) and len(numbers) > 100
    assert all(line.count(b"x") == int(line.split()[0]) % 99 for line in found)
