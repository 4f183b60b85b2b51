"""``hindsight ship``: whatever lies in recorders' folders, and whenever it is killed, a run reads the same rows."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import LocalStore

from hindsight.conf.failure import DONE, LAKE_HELD, RUN_FAILED, WRONG_USAGE
from hindsight.jobs.collect import ship
from hindsight.jobs.collect.ship import FORMATS, LandingFolder, Shipper, Store
from hindsight.jobs.commands.ship_command import StoreOfObjects
from hindsight.jobs.lake.object_store import ObjectStore
from hindsight.jobs.landing.landing_lines import ReadOptions, parse_file
from hindsight.jobs.landing.landing_survey import whole_survey
from hindsight.udfs.landing.hour_folders import SEAL, named_by
from hindsight.udfs.landing.landing_formats import FORMATS as KNOWN
from hindsight.udfs.limits.door import severities
from tests.commands import command
from tests.pipeline.lake_contents import contents
from tests.pipeline.local_runs import OF_PRODUCERS, run_here
from tests.test_sealed_folders import Clock

ROOT = Path(__file__).parent.parent.parent
OLD = time.time() - 3_600
FOLDERS = ("producer_hook/cluster=a", "producer_hook/cluster=b", "consumer_hook/cluster=a")
RECORDED = [
    line
    for file in sorted((ROOT / "data_samples" / "producer_hook").rglob("*.jsonl.gz"))
    for line in gzip.decompress(file.read_bytes()).splitlines(keepends=True)[:6]
]
CLOSED = "sends-1767607200000-01234567-89ab-cdef-0123-456789abcdef.jsonl"


def write(root: Path, path: str, data: bytes, at: float = OLD) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    os.utime(file, (at, at))
    return file


def read(landing: Path) -> Counter:
    """What a run makes of each line, by the folder: its rows, or why it is refused, but for its place in the file."""
    options = ReadOptions(str(landing), 1 << 20, 4096, {}, "UTC", severities({}))
    return Counter(
        (file.format, file.cluster, line.text, repr(records), refusal and refusal.code)
        for file in whole_survey(str(landing)).files
        for line, records, refusal in parse_file(file, options)
    )


def shipped(landing: Path) -> dict[str, bytes]:
    return {str(file.relative_to(landing)): file.read_bytes() for file in landing.rglob("*") if file.is_file()}


@contextmanager
def shipper(
    source: Path, to: Path | Store, most_bytes: int = ship.MOST_BYTES, hours_of: str = ""
) -> Iterator[tuple[Shipper, list[dict]]]:
    told: list[dict] = []
    store = LandingFolder(to) if isinstance(to, Path) else to

    def tell(event: str, **facts: object) -> None:
        told.append({"event": event, **facts})

    made = Shipper([source], store, tell, most_bytes, hours_of=hours_of)
    try:
        yield made, told
    finally:
        for lock in made._locks:
            os.close(lock)


class KilledError(BaseException):
    pass


@contextmanager
def killed_at(step: int) -> Iterator[None]:
    """The process dies before its so-many-th call that leaves a trace."""
    left = [step]

    def counted(real):
        def call(*arguments, **named):
            if not left[0]:
                raise KilledError
            left[0] -= 1
            return real(*arguments, **named)

        return call

    with (
        patch.object(Path, "replace", counted(Path.replace)),
        patch.object(Path, "unlink", counted(Path.unlink)),
        patch.object(Path, "open", counted(Path.open)),
        patch("os.fsync", counted(os.fsync)),
    ):
        yield


class SlowStore:
    """A store to which a file takes most of an hour."""

    def __init__(self, to: Path | Store, clock: Clock) -> None:
        self._store, self._clock = LandingFolder(to) if isinstance(to, Path) else to, clock
        self.sizes = self._store.sizes

    def put(self, path: str, content: Path) -> None:
        self._store.put(path, content)
        self._clock.now += timedelta(minutes=40)


@pytest.mark.parametrize("is_object_store", [False, True])
def test_by_hour_each_folder_is_sealed_with_all_that_is_in_it_whenever_the_shipper_is_killed(tmp_path, is_object_store):
    two = 2 * len(RECORDED[0]) * 2
    for step in range(300):
        source, landing, clock = tmp_path / f"source{step}", tmp_path / f"landing{step}", Clock()
        for name in ("1", "2", "3"):
            write(source, f"{FOLDERS[0]}/{name}.jsonl", RECORDED[0] * int(name))
        landing.mkdir()
        store = SlowStore(StoreOfObjects(ObjectStore(LocalStore(landing))) if is_object_store else landing, clock)
        with clock.going():
            with shipper(source, store, two, "host") as (made, _), killed_at(step):
                try:
                    made.ship()
                    is_done = True
                except KilledError:
                    is_done = False
            for _ in range(3):
                clock.now += timedelta(hours=1)
                with shipper(source, store, two, "host") as (made, _):
                    assert made.ship()
        files = {path: data for path, data in shipped(landing).items() if "/." not in path}
        lines = [data for path, data in files.items() if path.endswith(".jsonl.gz")]
        assert b"".join(map(gzip.decompress, lines)).count(b"\n") == 6
        hours = {path.rpartition("/")[0] for path in files}
        assert all(hour.endswith("-host") for hour in hours)
        for hour in hours:
            own = {Path(path).name: len(data) for path, data in files.items() if Path(path).parent == Path(hour)}
            seal = files[f"{hour}/{SEAL}"]
            assert own.pop(SEAL) and named_by(seal) == own
        assert [path.name for path in source.rglob("*") if path.is_file()] == []
        if is_done:
            break
    assert is_done and step > 15


NAMES = st.sampled_from(["1.jsonl", "2.jsonl", "3.jsonl", CLOSED])
TEXT = st.lists(
    st.one_of(st.sampled_from(RECORDED), st.sampled_from([b"\n", b"\r\n", b"\xef\xbb\xbf", b"{}\r", b"\xff\n", b"x"]))
).map(b"".join)
FILES = st.dictionaries(st.tuples(st.sampled_from(FOLDERS), NAMES), TEXT, min_size=1, max_size=6)


@given(FILES, st.sampled_from([1, 2_000, ship.MOST_BYTES]), st.lists(st.integers(0, 60), max_size=3))
def test_a_run_reads_the_same_whatever_is_shipped_and_whenever_it_is_killed(files, most_bytes, kills):
    with tempfile.TemporaryDirectory() as folder:
        source, landing = Path(folder, "source"), Path(folder, "landing")
        landing.mkdir()
        for (place, name), data in files.items():
            write(source, f"{place}/{name}", data)
        expected = read(source)
        for kill in kills:
            with shipper(source, landing, most_bytes) as (made, _), killed_at(kill), suppress(KilledError):
                made.ship()
            assert not expected - (read(source) + read(landing))  # at each instant nothing is lost
        with shipper(source, landing, most_bytes) as (made, _):
            assert made.ship()
        assert read(landing) == expected
        assert [path.name for path in source.rglob("*") if path.is_file()] == []
        assert not [path for path in shipped(landing) if "/.shipped" in path] or kills


@pytest.mark.parametrize("is_object_store", [False, True])
def test_each_step_that_is_killed_leads_to_the_same_files_with_the_same_bytes(tmp_path, is_object_store):
    seen, steps = set(), 0
    for step in range(200):
        source, landing = tmp_path / f"source{step}", tmp_path / f"landing{step}"
        for name in ("1", "2", "3"):
            write(source, f"{FOLDERS[0]}/{name}.jsonl", RECORDED[0] * int(name))
        landing.mkdir()
        store = StoreOfObjects(ObjectStore(LocalStore(landing))) if is_object_store else landing
        with shipper(source, store, 2 * len(RECORDED[0]) * 2) as (made, _), killed_at(step):
            try:
                made.ship()
                is_done = True
            except KilledError:
                is_done = False
        with shipper(source, store, 2 * len(RECORDED[0]) * 2) as (made, _):
            assert made.ship()
        left = {path: data for path, data in shipped(landing).items() if "/." not in path}
        seen.add(tuple(sorted(left.items())))
        if is_done:
            steps = step
            break
    assert steps > 15
    assert len(seen) == 1
    (files,) = seen
    assert len(files) == 2
    assert b"".join(gzip.decompress(data) for _, data in files).count(b"\n") == 6


def test_only_finished_files_are_shipped(tmp_path):
    source, landing = tmp_path / "source", tmp_path / "landing"
    now, place = time.time(), FOLDERS[0]
    gone = [write(source, f"{place}/{CLOSED}", b"1\n", now), write(source, f"{place}/quiet.jsonl", b"2\n")]
    kept = [
        write(source, f"{place}/growing.jsonl", b"3\n", now - ship.QUIET_S / 2),
        write(source, f"{place}/{CLOSED}.part", b"4\n"),
        write(source, f"{place}/.hidden.jsonl", b"5\n"),
        write(source, f"{place}/_hidden.jsonl", b"6\n"),
        write(source, f"{place}/other.txt", b"7\n"),
        write(source, "admin_snapshots/cluster=a/collector.jsonl", b"8\n"),
        write(tmp_path, "elsewhere.jsonl", b"9\n"),
    ]
    (source / place / "link.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    (source / "producer_hook" / "cluster=link").symlink_to(source / place)
    with shipper(source, landing) as (made, told):
        assert made.ship()
        assert made.ship()
    ((path, data),) = shipped(landing).items()
    assert path.startswith(f"{place}/shipped-")
    assert gzip.decompress(data) == b"2\n1\n"
    assert not any(map(Path.exists, gone))
    assert all(map(Path.exists, kept))
    left = [one["path"] for one in told if one["event"] == "left alone"]  # once
    assert sorted(left) == [str(source / "admin_snapshots/cluster=a"), str(source / place / "link.jsonl")]
    assert [(one["files"], one["bytes"], one["written"], one["left"]) for one in told if one["event"] == "shipped"] == [
        (2, 4, 1, 2),
        (0, 0, 0, 2),
    ]


def test_a_file_that_cannot_be_read_is_left_and_told_and_holds_up_no_other(tmp_path):
    source, landing = tmp_path / "source", tmp_path / "landing"
    bad, _ = (write(source, f"{FOLDERS[0]}/{name}.jsonl", b"1\n") for name in ("bad", "good"))
    real = ship._opened
    opened = iter([real, None, real, real])  # it can be opened, and no longer when it is read

    def broken(path: Path) -> int:
        if path == bad and next(opened) is None:
            raise OSError(5, "Input/output error")
        return real(path)

    with patch.object(ship, "_opened", broken), shipper(source, landing) as (made, told):
        made.ship()
        made.ship()
    assert [one["path"] for one in told if one["event"] == "left alone"] == [str(bad)]
    assert [path.name for path in source.rglob("*") if path.is_file()] == ["bad.jsonl"]
    assert read(landing).total() == 1


def test_a_file_that_grows_while_it_is_shipped_is_kept(tmp_path):
    source, landing = tmp_path / "source", tmp_path / "landing"
    file = write(source, f"{FOLDERS[0]}/1.jsonl", b"1\n")

    class Store(LandingFolder):
        def put(self, path: str, content: Path) -> None:
            super().put(path, content)
            file.write_bytes(b"1\n2\n")

    with shipper(source, Store(landing)) as (made, told):
        made.ship()
    assert file.read_bytes() == b"1\n2\n"
    assert any("has changed" in one["event"] for one in told)


def test_what_cannot_be_stored_stays_and_is_tried_again(tmp_path):
    source, landing = tmp_path / "source", tmp_path / "landing"
    file = write(source, f"{FOLDERS[0]}/1.jsonl", b"1\n")
    landing.write_bytes(b"")
    with shipper(source, landing) as (made, told):
        assert not made.ship()
        assert file.exists()
        landing.unlink()
        assert made.ship()
    assert not file.exists()
    assert [one["event"] for one in told] == ["a folder could not be shipped", "shipped", "shipped"]


def test_a_list_that_somebody_else_wrote_leads_nowhere_outside(tmp_path):
    source, landing = tmp_path / "source", tmp_path / "landing"
    secret = write(tmp_path, "secret", b"hush\n")
    about = secret.stat()
    listed = [["../../../secret", about.st_size, about.st_mtime_ns]]
    write(source, f"{FOLDERS[0]}/.ship.json", json.dumps({"files": listed, "is_stored": False}).encode())
    (source / FOLDERS[0] / ".ship.gz").symlink_to(secret)
    with shipper(source, landing) as (made, _):
        made.ship()
    assert secret.read_bytes() == b"hush\n"
    assert shipped(landing) == {}


@pytest.mark.parametrize(
    "listed",
    [
        b"",
        b"[]",
        b"{}",
        b'{"files": 1, "is_stored": true}',
        b'{"files": [["1.jsonl"]], "is_stored": true}',
        b"[" * 99_999,
    ]
    + [json.dumps({"files": [[name, 1, 1]], "is_stored": True}).encode() for name in ("..", "", "/etc/passwd", 7)],
)
def test_a_list_that_is_none_is_told_and_holds_nothing_up(tmp_path, listed):
    source, landing = tmp_path / "source", tmp_path / "landing"
    for folder in FOLDERS:
        write(source, f"{folder}/1.jsonl", RECORDED[0])
    write(source, f"{FOLDERS[0]}/.ship.json", listed)
    with shipper(source, landing) as (made, told):
        assert made.ship()
    assert len(shipped(landing)) == len(FOLDERS) and not list(source.rglob("*.json*"))
    assert told[0]["event"] == "a list of what was being shipped is none" and told[0]["error"]


def test_many_equal_lines_pass_for_no_bomb(tmp_path):
    source, landing = tmp_path / "source", tmp_path / "landing"
    lines = 2 * ship.MOST_BYTES // 900_000
    write(source, f"{FOLDERS[0]}/1.jsonl", (b"x" * 899_999 + b"\n") * lines)
    with shipper(source, landing) as (made, _):
        made.ship()
    assert {code for *_, code in read(landing)} == {"NOT_JSON"}
    assert read(landing).total() == lines


def test_a_large_file_passes_through_in_pieces(tmp_path):
    write(
        tmp_path / "in", f"{FOLDERS[0]}/1.jsonl", b"".join(os.urandom(64).hex().encode() + b"\n" for _ in range(2**17))
    )
    with shipper(tmp_path / "in", tmp_path / "out") as (made, _):
        tracemalloc.start()
        assert made.ship()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    (packed,) = shipped(tmp_path / "out").values()
    assert peak < 6 * ship._CHUNK_BYTES < len(packed)


def test_lines_of_these_formats_stand_by_themselves():
    assert set(FORMATS) == {name for name, one in KNOWN.items() if one.side == "producer" and "*.jsonl" in one.patterns}


# Nothing but what Python brings can be loaded.
ALONE = """
import runpy, sys
sys.path.append(sys.argv.pop(1))
sys.argv[0] = "ship"
runpy.run_module("hindsight.jobs.collect.ship", run_name="__main__")
"""


def alone(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-I", "-S", "-c", ALONE, str(ROOT), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("ship_by", [alone, lambda *words: command("ship", *words)])
def test_from_the_command_line(tmp_path, ship_by):
    source, landing = tmp_path / "source", tmp_path / "landing"
    assert ship_by(source, "--to", landing, "--once").returncode == WRONG_USAGE
    file = write(source, f"{FOLDERS[0]}/1.jsonl", b"1\n")
    assert ship_by(source, "--to", source, "--once").returncode == WRONG_USAGE
    assert ship_by(source, "--once").returncode == WRONG_USAGE
    assert ship_by(source, "--to", "gs://bucket", "--once").returncode == WRONG_USAGE
    with shipper(source, landing):
        assert ship_by(source, "--to", landing, "--once").returncode == LAKE_HELD
    landing.write_bytes(b"")
    assert ship_by(source, "--to", landing, "--once").returncode == RUN_FAILED
    landing.unlink()
    assert file.exists()
    done = ship_by(source, "--to", landing, "--once")
    assert done.returncode == DONE, done.stderr
    told = json.loads(done.stderr)
    assert (told["event"], told["files"], told["written"]) == ("shipped", 1, 1)
    assert len(shipped(landing)) == 1


def test_a_shipment_is_told_to_machines(tmp_path):
    write(tmp_path / "source", f"{FOLDERS[0]}/1.jsonl", b"1\n")
    done = command("ship", tmp_path / "source", "--to", tmp_path / "landing", "--once", "--json")
    told = json.loads(done.stdout)
    assert (told["files"], told["bytes"], told["written"], told["left"], told["failed"]) == (1, 2, 1, 0, 0)


def test_a_process_that_is_killed_again_and_again_loses_no_line(tmp_path):
    """Recorders go on meanwhile; at the end each line is in the landing folder at least once, and no other."""
    source, landing, draw = tmp_path / "source", tmp_path / "landing", random.Random(1)
    words = [sys.executable, "-I", "-S", "-c", ALONE, str(ROOT), str(source), "--to", str(landing), "--every", "0.1"]
    lines: set[bytes] = set()
    for kill in range(12):
        for number in range(draw.randint(1, 30)):
            own = [b"%d %d %d\n" % (kill, number, line) for line in range(draw.choice((1, 20_000)))]
            write(source, f"{draw.choice(FOLDERS)}/{kill}-{number}.jsonl", b"".join(own))
            lines.update(own)
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not [*source.rglob(".ship.*")]:
                time.sleep(0.001)
            time.sleep(draw.uniform(0, 0.03))
            process.kill()
    assert alone(source, "--to", landing, "--once").returncode == DONE
    assert not [path for path in source.rglob("*") if path.is_file() and not path.name.startswith(".")]
    found = [line for data in shipped(landing).values() for line in gzip.decompress(data).splitlines(keepends=True)]
    assert set(found) == lines


def test_the_tables_are_those_of_the_files_that_were_shipped(tmp_path, settings):
    for file in (ROOT / "data_samples" / "producer_hook").rglob("*.jsonl.gz"):
        place = f"producer_hook/{file.parent.name}/{file.name.removesuffix('.gz')}"
        for root in ("source", "recorded"):
            write(tmp_path / root, place, gzip.decompress(file.read_bytes()))
    assert alone(tmp_path / "source", "--to", tmp_path / "landing", "--once").returncode == DONE
    found = []
    for landing in ("recorded", "landing"):
        run_here(settings, tmp_path / landing, tmp_path / f"lake of {landing}", OF_PRODUCERS)
        found.append(contents(tmp_path / f"lake of {landing}", with_sources=False))
    assert found[0] == found[1]
    assert found[0]["broker_availability_window"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(tmp_path, number):
    source, landing = tmp_path / "source", tmp_path / "landing"
    write(source, f"{FOLDERS[0]}/1.jsonl", b"1\n")
    words = [sys.executable, "-I", "-S", "-c", ALONE, str(ROOT), str(source), "--to", str(landing)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert json.loads(process.stderr.readline())["files"] == 1
        process.send_signal(number)
        assert process.wait(20) == DONE
    assert len(shipped(landing)) == 1
