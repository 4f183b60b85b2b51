"""State that lasts over midnight: windows are cut and go on, late input corrects history forward, and stops."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from hindsight.jobs.running.run_context import EVERY_DATE, DateRange
from tests.lake_rows import LakeRows
from tests.pipeline.lake_contents import contents
from tests.pipeline.local_runs import OF_PRODUCERS, run_here

FOLDER = Path("producer_hook") / "cluster=oracle"
LADDERS = {
    "latencyMax": [50, 100, 550, 1000, 2000, 3000, 15000],
    "notAvailableDuration": [0, 0, 30000, 60000, 120000, 180000, 600000],
}


def ms(day: int, hour: int, minute: int, second: int = 0) -> int:
    return int(datetime(2026, 1, day, hour, minute, second, tzinfo=UTC).timestamp() * 1000)


def start(at: int) -> dict:
    who = {"clientId": "p@1", "group": "pg", "version": "4.9.4", "sendLatencyFaultEnable": True}
    return {"type": "start", "ts": at, **who, **LADDERS}


def attempt(begin: int, broker: str, *, took: int = 5, failed: bool = False) -> dict:
    return {
        "type": "attempt",
        "group": "pg",
        "clientId": "p@1",
        "topic": "T",
        "broker": broker,
        "queueId": 0,
        "times": 0,
        "beginMs": begin,
        "endMs": begin + took,
        "mode": "SYNC",
        "status": None if failed else "SEND_OK",
        "exception": "org.apache.rocketmq.remoting.exception.RemotingTimeoutException" if failed else None,
        "msgId": f"{begin}-{broker}",
    }


DAYS = {
    "day5": [
        start(ms(5, 9, 0)),
        attempt(ms(5, 10, 0), "broker-a", took=700),  # 30 s
        attempt(ms(5, 23, 55), "broker-a", failed=True),  # 10 min, over midnight
        *(attempt(ms(5, 23, 56, second), "broker-b") for second in range(30)),  # an active minute
        attempt(ms(5, 23, 59, 59), "broker-b", took=3000),  # ends on the next date, 180 s
    ],
    "day6": [
        attempt(ms(6, 0, 2), "broker-b"),  # ends broker-b's window early
        attempt(ms(6, 12, 0), "broker-c", failed=True),
        start(ms(6, 12, 3)),  # a restart: the table is empty
        attempt(ms(6, 12, 4), "broker-c"),
    ],
    "day8": [attempt(ms(8, 8, 0), "broker-a", took=1200), attempt(ms(8, 23, 58), "broker-c", failed=True)],
}


@pytest.fixture
def replay(settings):
    def run(root: Path, *names: str, asked=EVERY_DATE):
        """Land the named days' files, run both jobs, tell how many dates were computed, and how many are left."""
        folder = root / "landing" / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in DAYS[name]))
        _, done = run_here(settings, root / "landing", root / "lake", OF_PRODUCERS, asked)
        return done.dates, done.dates_left

    return run


def clock(at: datetime) -> str:
    return f"{at:%H:%M:%S.%f}"[:-3]


def day_and_clock(at: datetime | None) -> str | None:
    return at and f"{at.day} {clock(at)}"


def windows(root: Path) -> list[tuple]:
    return sorted(
        (
            str(row.event_date.day),
            row.broker_name[-1],
            clock(row.window_start),
            clock(row.window_end),
            row.end_reason,
            row.continues_previous,
        )
        for row in LakeRows(root / "lake")("broker_availability_window")
    )


COMPARED = (
    "send_attempt",
    "producer_instance",
    "producer_replay",
    "fault_item_state",
    "broker_availability_window",
    "send_verdict",
    "fleet_minute",
    "producer_finding",
)


def everything(root: Path) -> dict[str, list[str]]:
    found = contents(root / "lake")
    return {name: found[name] for name in COMPARED}


@pytest.fixture(scope="module")
def at_once(tmp_path_factory):
    return tmp_path_factory.mktemp("at_once")


def test_windows_are_cut_at_midnight_and_end_as_the_rules_say(replay, at_once):
    replay(at_once, *DAYS)
    assert windows(at_once) == [
        ("5", "a", "10:00:00.700", "10:00:30.700", "expired", False),
        ("5", "a", "23:55:00.005", "00:00:00.000", "cut_at_midnight", False),
        ("6", "a", "00:00:00.000", "00:05:00.005", "expired", True),
        ("6", "b", "00:00:02.000", "00:02:00.005", "overwritten", False),
        ("6", "c", "12:00:00.005", "12:03:00.000", "restarted", False),
        ("8", "a", "08:00:01.200", "08:01:01.200", "expired", False),
        ("8", "c", "23:58:00.005", "00:00:00.000", "cut_at_midnight", False),
        ("9", "c", "00:00:00.000", "00:08:00.005", "open", True),
    ]


def test_an_isolation_over_midnight_is_told_once(replay, at_once):
    """By the date on which it became long: those of 23:55:00.005 and 23:58:00.005 before midnight, and for good."""
    if not (at_once / "lake").exists():
        replay(at_once, *DAYS)
    rows = LakeRows(at_once / "lake")("producer_finding", "code = 'LONG_ISOLATION'")
    shown = [(str(r.event_date.day), r.broker_name[-1], *map(day_and_clock, (r["from"], r["to"]))) for r in rows]
    assert sorted(shown) == [
        ("5", "a", "5 23:55:00.005", None),
        ("6", "b", "6 00:00:02.000", "6 00:02:00.005"),
        ("6", "c", "6 12:00:00.005", "6 12:03:00.000"),
        ("8", "a", "8 08:00:01.200", "8 08:01:01.200"),
        ("8", "c", "8 23:58:00.005", None),
    ]


@pytest.mark.parametrize(
    "order",
    [
        (("day5", "day8"), ("day6",)),
        pytest.param((("day5",), ("day6",), ("day8",)), marks=pytest.mark.soak),
        # The start comes late: until then the producer's release is unknown, and no window is claimed.
        pytest.param((("day8",), ("day5",), ("day6",)), marks=pytest.mark.soak),
    ],
)
def test_days_arriving_in_any_order_give_the_tables_of_one_run(replay, at_once, tmp_path, order):
    if not (at_once / "lake").exists():
        replay(at_once, *DAYS)
    for names in order:
        replay(tmp_path, *names)
    expected = everything(at_once)
    assert all(expected.values()), {name: len(rows) for name, rows in expected.items()}
    assert everything(tmp_path) == expected


@pytest.mark.soak
def test_late_input_recomputes_forward_only_until_a_date_closes_as_before(replay, tmp_path, monkeypatch):
    replay(tmp_path, *DAYS)
    monkeypatch.setitem(DAYS, "late", [attempt(ms(6, 11, 0), "broker-d")])
    # A fast send leaves an item, gone at the restart of the same day: the days after it are not touched.
    assert replay(tmp_path, "late") == (1, 0)
    monkeypatch.setitem(DAYS, "later", [attempt(ms(6, 13, 0), "broker-d")])
    # After the restart the item lasts: every later date begins with it.
    assert replay(tmp_path, "later") == (3, 0)
    assert replay(tmp_path) == (0, 0)


@pytest.mark.soak
def test_dates_that_were_asked_for_are_done_anew_and_later_ones_wait(replay, at_once, tmp_path):
    if not (at_once / "lake").exists():
        replay(at_once, *DAYS)
    # Day 6 begins with what day 5 hands over, so that is computed too; day 8 waits.
    assert replay(tmp_path, *DAYS, asked=DateRange(date(2026, 1, 6), date(2026, 1, 6))) == (2, 1)
    assert windows(tmp_path)[:4] == windows(at_once)[:4]
    assert {row[0] for row in windows(tmp_path)} == {"5", "6"}
    assert replay(tmp_path) == (2, 0)
    assert everything(tmp_path) == everything(at_once)
    # What has not changed is done anew where it is asked for: files are read again, and nothing becomes another.
    assert replay(tmp_path, asked=DateRange(date(2026, 1, 8))) == (2, 0)
    assert everything(tmp_path) == everything(at_once)
