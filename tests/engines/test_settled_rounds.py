"""However captures and markers come in, their rounds, and members' own words in them, are those of one run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.day import _connections, _offsets, _route, _running
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.intake import round_settling
from tests.pipeline.lake_contents import contents
from tests.pipeline.local_runs import run_here
from tests.random_examples import SOAKING

FIRST = int(datetime(2026, 3, 2, 23, 52, tzinfo=UTC).timestamp() * 1000)
SWEEPS, FILES = (40, 6) if SOAKING else (24, 4)
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 40))]
REFUSED = "CODE: 3  DESC: this request type is not supported"
Told = dict[str, Any]


@pytest.fixture(scope="module")
def settings():
    """Rounds of at most forty seconds, and pauses of twelve."""
    loaded = load_settings(None)
    rounds = loaded.rounds.model_copy(update={"max_round_s": 40, "gap_s": 12.0})
    return loaded.model_copy(
        update={"rounds": rounds, "drift": loaded.drift.model_copy(update={"lookback_s": 60, "progress_valid_s": 40})}
    )


@pytest.fixture
def near(monkeypatch) -> list[datetime | None]:
    """From when on each settling looked."""
    found: list[datetime | None] = []
    correct = round_settling.RoundSettling._correct

    def noted(self, near, *given) -> None:
        found.append(near.since)
        correct(self, near, *given)

    monkeypatch.setattr(round_settling.RoundSettling, "_correct", noted)
    return found


def drawn(draw: random.Random) -> Iterator[Told]:
    """Sweeps of two collectors over a midnight: markers are missing for a while, questions are put again, proxies
    refuse, members change what they subscribe to."""
    for collector in ("", "b"):
        unmarked, through_proxy = (range(n := draw.randrange(SWEEPS), n + draw.randint(0, 3)) for _ in range(2))
        at = FIRST + draw.randint(0, 5000)
        for number in range(SWEEPS):
            at += 9_000 if number in unmarked else draw.choice((15_000, 15_000, 30_000, 70_000))
            if number not in unmarked:
                yield {"ts": at, "kind": "round", "round": number, "collector": collector}
            yield from _asked(draw, at, collector, is_proxy=number in through_proxy)


def _asked(draw: random.Random, at: int, collector: str, *, is_proxy: bool) -> Iterator[Told]:
    def answer(kind: str, subject: str, raw: Any, ms: int, error: str | None = None) -> Told:
        told = {"ts": at + ms, "ts_end": at + ms + 2, "kind": kind, "subject": subject, "error": error, "mqs": None}
        return told | {"raw": raw if isinstance(raw, str) else json.dumps(raw), "collector": collector}

    yield answer("topicRoute", "T", _route(), 1)
    yield answer("consumerConnection", "g", _connections("g"), draw.choice((5, 5, 3_000)))
    for member in range(3):
        info = _running("g", member, at).replace('"subString": "*"', f'"subString": "{draw.choice("*ab")}"')
        for ms in draw.choice(((10,), (10, 4_000), (11_000,), ())):
            error = REFUSED if is_proxy else "timeout" if draw.random() < 0.1 else None
            yield answer("consumerRunningInfo", f"g|10.1.0.{member}@7", "" if error else info, ms + member, error)
    yield answer("consumeStats", "g", _offsets(at), 20)


def land(landing: Path, name: str, rows: list[Told]) -> None:
    folder = landing / "admin_snapshots" / "cluster=c"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def taken_in(settings, landing: Path, lake: Path) -> dict[str, list[str]]:
    run_here(settings, landing, lake, ["ingest_consumer_snapshots"])
    return contents(lake, with_sources=False)


@pytest.mark.parametrize("late", [pytest.param(0, marks=pytest.mark.soak), 0.01])
@pytest.mark.parametrize("seed", SEEDS)
def test_rounds_are_those_of_one_run(tmp_path, settings, near, seed, late):
    draw = random.Random(seed)
    rows = sorted(drawn(draw), key=lambda row: row["ts"])
    land(tmp_path / "landing", "every", rows)
    whole = taken_in(settings, tmp_path / "landing", tmp_path / "whole")
    assert near == [None] and whole["consumer_heartbeat"]
    of_files: list[list[Told]] = [[] for _ in range(FILES)]
    for place, row in enumerate(rows):
        number = place * FILES // len(rows) + (draw.randint(1, FILES) if draw.random() < late else 0)
        of_files[min(number, FILES - 1)].append(row)
    for number, file in enumerate(of_files):
        land(tmp_path / "cut", str(number), file)
        cut = taken_in(settings, tmp_path / "cut", tmp_path / "lake")
    for table, found in whole.items():
        assert cut[table] == found, table
    assert seed or any(since is not None for since in near)


@pytest.mark.parametrize("what", ["settings of rounds", "build"])
def test_dates_are_settled_whole_once_these_have_changed(tmp_path, settings, near, monkeypatch, what):
    rows = sorted(drawn(random.Random(1)), key=lambda row: row["ts"])
    land(tmp_path / "landing", "0", rows[: len(rows) // 2])
    taken_in(settings, tmp_path / "landing", tmp_path / "lake")
    for name, own in (("1", rows[len(rows) // 2 : -40]), ("1 more", rows[-40:-20])):
        land(tmp_path / "landing", name, own)
        taken_in(settings, tmp_path / "landing", tmp_path / "lake")
    assert near[-1] is not None
    others = settings
    if what == "build":
        monkeypatch.setattr(round_settling, "own_build", lambda: "another")
    else:
        others = settings.model_copy(update={"rounds": settings.rounds.model_copy(update={"max_round_s": 20})})
    land(tmp_path / "landing", "2", rows[-20:])
    cut = taken_in(others, tmp_path / "landing", tmp_path / "lake")
    assert near[0] is near[-1] is None
    assert cut == taken_in(others, tmp_path / "landing", tmp_path / "whole")
    assert json.loads(LocalLake(str(tmp_path / "lake"), retention_days=7).noted("rounds") or "")["dates"]


def test_a_date_of_which_nothing_was_stored_does_not_have_the_one_before_it_read_whole(tmp_path, settings, near):
    """The third file reaches over midnight, the fourth lies after it."""
    draw = random.Random(2)
    for number in range(4):
        at = FIRST + number * 180_000
        rows = [{"ts": at, "kind": "round", "round": number, "collector": ""}, *_asked(draw, at, "", is_proxy=False)]
        land(tmp_path / "landing", str(number), rows)
        found = taken_in(settings, tmp_path / "landing", tmp_path / "lake")
    assert [since and since.minute for since in near] == [None, 55, 58, 1]
    assert found == taken_in(settings, tmp_path / "landing", tmp_path / "whole")


def test_a_long_round_without_a_marker_goes_on_from_a_file_to_the_next(tmp_path, settings, near):
    """Each question is put once, every ten seconds, for longer than what lies before new rows is read."""
    asked = {"kind": "topicRoute", "error": None, "mqs": None, "raw": json.dumps(_route()), "collector": ""}
    rows = [{"ts": FIRST + n * 10_000, "ts_end": FIRST + n * 10_000, "subject": f"T{n}", **asked} for n in range(20)]
    for name, own in (("0", rows[:15]), ("1", rows[15:])):
        land(tmp_path / "landing", name, own)
        found = taken_in(settings, tmp_path / "landing", tmp_path / "lake")
    assert near == [None, None]
    assert {json.loads(row)["round_at"] for row in found["snapshot_capture"]} == {"2026-03-02 23:52:00+00:00"}
