"""The tables of short lines are those of whole ones: files cut anywhere, late, in any order, blocks lost."""

from __future__ import annotations

import errno
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.day import _connections, _offsets, _route, _running
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.collect.landing_writer import LandingWriter
from tests.lake_rows import LakeRows
from tests.pipeline.lake_contents import contents
from tests.pipeline.local_runs import OF_CONSUMERS, run_here

FIRST = int(datetime(2026, 3, 2, 23, 55, tzinfo=UTC).timestamp() * 1000)
SWEEPS = 40
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 30))]
ABSENT = "CODE: 206  DESC: the consumer group[g] not online"
BROKERS = ("broker-0", "broker-1")


def sweeps(draw: random.Random, collector: str) -> Iterator[list[bytes]]:
    """A group's rounds over a midnight: much is as before; members leave, offsets move, answers fail or are refused."""
    own, members = {"collector": collector} if collector else {}, 3
    for number in range(SWEEPS):
        at = FIRST + number * 15_000
        moved = at // 60_000 * 60_000 if draw.random() < 0.8 else at
        members = draw.choice((2, 3)) if draw.random() < 0.1 else members
        lines = [orjson.dumps({"ts": at, "kind": "round", **own, "round": number})]

        def read(kind: str, subject: str, raw: Any, at: int = at, lines: list[bytes] = lines, **place: str) -> None:
            begun = at + len(lines) * draw.randint(1, 9)
            told: dict[str, Any] = {"error": None, "raw": raw if isinstance(raw, str) else json.dumps(raw)}
            if draw.random() < 0.03:
                told = draw.choice(({"error": ABSENT, "raw": None}, {"error": None, "raw": "[not an answer"}))
            asked = {"ts": begun, "ts_end": begun + draw.randint(0, 5), "kind": kind, "subject": subject}
            lines.append(orjson.dumps({**asked, **place, **own, **told}))

        for server in ("ns-0:9876", "ns-1:9876"):
            read("topicRoute", "T", _route(), name_server=server)
        connected = _connections("g")
        del connected["connectionSet"][members:]
        for broker in BROKERS:
            read("consumerConnection", "g", connected, broker=broker)
            read("consumeStats", "g", _offsets(moved), broker=broker)
        for member in range(members):
            read("consumerRunningInfo", f"g|10.1.0.{member}@7", _running("g", member, moved), broker=BROKERS[0])
        yield lines


def land(landing: Path, seed: int, *, short: bool) -> list[Path]:
    """The files that two collectors leave whose disks are full at times."""
    for collector in ("", "b"):
        draw, deeds = random.Random(f"{seed}{collector}"), random.Random(f"{collector}{seed}")
        writer = LandingWriter(landing, f"c-{collector}", short=short)
        for lines in sweeps(draw, collector):
            for line in lines:
                writer.write(line)
            write, fails = writer._write, deeds.random() < 0.05
            if fails:
                writer._write = full  # type: ignore[method-assign]
            writer.flush()
            writer._write = write  # type: ignore[method-assign]
            if deeds.random() < 0.1:
                writer.close()
        writer.close()
    found = []
    for folder in sorted((landing / "admin_snapshots").iterdir()):
        for number, file in enumerate(sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)):
            found.append(file.rename(folder / f"{number:02}.jsonl"))
    return found


def full(_: bytes) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(scope="module")
def settings():
    return load_settings(None)


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_are_those_of_whole_lines_however_the_files_come(tmp_path, settings, seed):
    whole, short = (land(tmp_path / name, seed, short=name == "short") for name in ("whole", "short"))
    assert sum(file.stat().st_size for file in short) < 0.6 * sum(file.stat().st_size for file in whole)
    run_here(settings, tmp_path / "whole", tmp_path / "lake-whole", OF_CONSUMERS)
    draw = random.Random(seed)
    draw.shuffle(short)
    batches = [short[: len(short) // 2], short[len(short) // 2 :]]
    for batch in batches:
        for file in batch:
            target = tmp_path / "late" / file.relative_to(tmp_path / "short")
            target.parent.mkdir(parents=True, exist_ok=True)
            file.rename(target)
        run_here(settings, tmp_path / "late", tmp_path / "lake-short", OF_CONSUMERS)
    found, expected = (contents(tmp_path / f"lake-{name}", with_sources=False) for name in ("short", "whole"))
    del found["quarantine"], expected["quarantine"]  # of a short line once, with its own bytes
    assert {name for name, rows in expected.items() if rows} >= {"group_round", "queue_progress", "allocation_drift"}
    assert [name for name, rows in expected.items() if found[name] != rows] == []
    read = LakeRows(tmp_path / "lake-short")("ingested_file")
    assert all(file.read == file.stored + file.duplicate + file.ignored + file.quarantined for file in read)
    assert sum(file.quarantined for file in read) > 0


def test_a_round_whose_answer_is_nowhere_is_unknown_and_says_so(tmp_path, settings):
    _, short = (land(tmp_path / name, 0, short=name == "short") for name in ("whole", "short"))
    run_here(settings, tmp_path / "whole", tmp_path / "lake-whole", OF_CONSUMERS)
    for file in short:
        kept = [line for line in file.read_bytes().splitlines(True) if not is_connection(line)]
        file.write_bytes(b"".join(kept))
    run_here(settings, tmp_path / "short", tmp_path / "lake-short", OF_CONSUMERS)
    ok, verdicts = (rounds(tmp_path / f"lake-{name}") for name in ("whole", "short"))
    nowhere = "consumer list of broker-1: answer not readable: ANSWER_NOWHERE"
    lost = {key for key, row in verdicts.items() if nowhere in row.missing_inputs}
    were_ok = [key for key in lost if ok[key].verdict == "ok"]
    assert len(were_ok) > 10 and {verdicts[key].verdict for key in were_ok} == {"unknown"}
    assert "ok" not in {verdicts[key].verdict for key in lost}


def is_connection(line: bytes) -> bool:
    return b'"kind":"consumerConnection"' in line and b'"broker":"broker-1"' in line and b'"error":null' in line


def rounds(lake: Path) -> dict[tuple[Any, ...], Any]:
    rows = LakeRows(lake)("group_round")
    return {(row.cluster, row.collector, row.round_at, row.topic): row for row in rows if row.verdict}
