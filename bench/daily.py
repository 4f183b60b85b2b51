"""One more day: a lake that holds some days, and what a run costs that takes in the files of the next one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from bench.spark import run_on_spark, session
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.run_pipeline import JOBS, job_of
from hindsight.jobs.running.run_context import RunContext

ONE_MORE = "one more day"
_FIRST_DAY = datetime(2026, 3, 2, tzinfo=UTC)
_SENDS, _PRODUCERS, _BROKERS = 4_000, 5, 4
_ROUNDS, _MEMBERS, _QUEUES = 24, 3, 8
_DAY_S = 86_400


def prepare(data: Path, days: int) -> None:
    """Land ``days`` days, one after the other, and run the pipeline after each; the files of the next one wait."""
    for day in range(days):
        land(data / "landing", day)
        _run(data)
    land(data / "next", days)


def rows_of(data: Path) -> dict[str, int]:
    """Lines of the day that is run."""
    return {"lines": sum(file.read_bytes().count(b"\n") for file in (data / "next").rglob("*.jsonl"))}


class OneMore:
    """All jobs, on a copy of the lake as it was before, with the files of the day after landed."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._copy = data.parent / f"{data.name}-copy"
        session()

    def prepare(self) -> None:
        """Copy what a round before this one has changed."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._data, self._copy)
        shutil.copytree(self._copy / "next", self._copy / "landing", dirs_exist_ok=True)

    def __call__(self) -> Callable[[], dict[str, Any]]:
        """One round."""
        _run(self._copy)
        return dict


def _run(place: Path) -> None:
    context = RunContext(str(place / "landing"))
    for job in map(job_of, JOBS):
        run_on_spark(job, load_settings(None), context, str(place / "lake"))


def land(landing: Path, day: int) -> None:
    """Write the files of a day, counted from the first one, as they land: producer hooks' lines and snapshots."""
    at = int((_FIRST_DAY + timedelta(days=day)).timestamp() * 1000)
    files = {
        "producer_hook/cluster=prod": hook_lines(at, np.random.default_rng(day), sends=_SENDS),
        "canonical_snapshots/cluster=prod/topic_route": _routes(at),
        "canonical_snapshots/cluster=prod/consumer_heartbeat": _members(at),
        "canonical_snapshots/cluster=prod/queue_ownership": _owners(at),
    }
    for folder, rows in files.items():
        (landing / folder).mkdir(parents=True, exist_ok=True)
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (landing / folder / f"day-{day:03}.jsonl").write_text(text, encoding="utf-8")


def hook_lines(
    at: int, rng: np.random.Generator, *, sends: int, who: str = "", producers: int = _PRODUCERS
) -> Iterator[dict[str, Any]]:
    """What the hooks of some producers wrote on the day that begins ``at``; ``who`` tells these from others."""
    for producer in range(producers):
        start = {"clientId": f"10.0.0.{producer}@{who}7", "group": "pg", "version": "4.9.8"}
        yield {"type": "start", "ts": at, **start, "sendLatencyFaultEnable": True}
    for number in range(sends):
        begin = at + 1_000 + number * (_DAY_S - 60) * 1000 // sends
        took = int(rng.integers(1, 20)) if rng.random() > 0.01 else int(rng.integers(600, 3_000))
        yield {
            "type": "attempt",
            "group": "pg",
            "clientId": f"10.0.0.{number % producers}@{who}7",
            "topic": "T",
            "broker": f"broker-{rng.integers(0, _BROKERS)}",
            "queueId": number % _QUEUES,
            "times": 0,
            "beginMs": begin,
            "endMs": begin + took,
            "mode": "SYNC",
            "status": "SEND_OK",
            "msgId": f"{who}{begin:032X}",
        }


def _rounds(at: int) -> Iterator[int]:
    return (at + number * _DAY_S * 1000 // _ROUNDS for number in range(_ROUNDS))


def _routes(at: int) -> Iterator[dict[str, Any]]:
    nums = {"read_queue_nums": _QUEUES, "write_queue_nums": _QUEUES, "perm": 6, "has_master": True}
    for captured_at in _rounds(at):
        yield {"captured_at": captured_at, "topic": "T", "broker_name": "broker-0", **nums}


def _members(at: int) -> Iterator[dict[str, Any]]:
    for captured_at in _rounds(at):
        for member in range(_MEMBERS):
            yield {
                "captured_at": captured_at,
                "consumer_group": "g",
                "client_id": f"10.1.0.{member}@7",
                "message_model": "CLUSTERING",
                "subscriptions": [{"topic": "T"}],
            }


def _owners(at: int) -> Iterator[dict[str, Any]]:
    for captured_at in _rounds(at):
        for queue in range(_QUEUES):
            yield {
                "captured_at": captured_at + 100,
                "consumer_group": "g",
                "client_id": f"10.1.0.{queue * _MEMBERS // _QUEUES}@7",
                "topic": "T",
                "broker_name": "broker-0",
                "queue_id": queue,
            }


CONTESTANTS = {ONE_MORE: OneMore}
