"""``hindsight events`` is killed at any point and run again: the stream as if it never died, each event once by its id.

Every kill is a SIGKILL of a process, by its own hand, at a point that it passes: on its way to the lake, between what
it derives, notes and commits, between what it sends and remembers.
"""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, datetime

import pytest

from tests.telling.mortal_commands import KILLED, commands_that_die
from tests.telling.told_streams import stream

# The sink has the event, and the lake does not know it yet: it comes again.
TAKEN_AND_NOT_REMEMBERED = {"sent", "answered", "cursor written beside"}


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    with commands_that_die(tmp_path_factory.mktemp("points")) as commands:
        yield commands


@pytest.fixture
def told_now(tmp_path):
    """Settings by which what the samples tell is no history."""
    path = tmp_path / "told_now.toml"
    path.write_text("[events]\nbackfill_after_h = 1000000\nattempts = 1\n")
    return path


def of_webhook(taken):
    ids = [(headers["Idempotency-Key"], body["event_id"]) for path, headers, body in taken if path == "/hook"]
    assert all(key == event_id for key, event_id in ids)
    return [key for key, _ in ids]


def known_to_alertmanager(taken):
    """What it knows after all of this: of each set of labels the last word on when it began and when it ended."""
    now = datetime.now(UTC).isoformat()
    alerts = [alert for path, _, body in taken if path == "/api/v2/alerts" for alert in body]
    return {
        tuple(sorted(alert["labels"].items())): (
            alert["startsAt"],
            "open" if alert["endsAt"] > now else alert["endsAt"],
        )
        for alert in alerts
    }


class Kills:
    """Runs that note and send all that the samples tell: one that nothing disturbs, and those that are killed."""

    def __init__(self, commands, sampled, server, settings, place):
        self._commands, self._sampled, self._server, self._place = commands, sampled, server, place
        sinks = ("--sink", f"webhook:{server.url}/hook", "--sink", f"alertmanager:{server.url}", "--severity", "HIGH")
        self._arguments = ("--settings", settings, *sinks)
        self._lake = place / "lake"
        self.points = self._run(0)
        self.stream, self.taken = stream(self._lake), server.taken[:]

    def _run(self, last):
        """On a lake of which nothing was told yet; the points that it passed."""
        shutil.rmtree(self._lake, ignore_errors=True)
        shutil.copytree(self._sampled, self._lake)
        self._server.taken.clear()
        code, passed, said = self._commands.run("--lake", self._lake, *self._arguments, last=last)
        assert code == (KILLED if last else 0), said
        return passed

    def twice(self, last):
        """What the webhook got twice, when a run was killed at that point and another one made up for it."""
        passed = self._run(last)
        assert stream(self._lake) == ([] if "rows committed" not in passed else self.stream)
        code, _, said = self._commands.run("--lake", self._lake, *self._arguments)
        assert code == 0, said
        assert stream(self._lake) == self.stream
        ids = of_webhook(self._server.taken)
        assert list(dict.fromkeys(ids)) == of_webhook(self.taken)
        assert known_to_alertmanager(self._server.taken) == known_to_alertmanager(self.taken)
        twice = list((Counter(ids) - Counter({*ids})).elements())
        assert twice == self._in_doubt(passed)
        return twice

    def _in_doubt(self, passed):
        """What the webhook has taken, and the lake does not remember yet."""
        sent, ids = passed.count("to be sent"), of_webhook(self.taken)
        if passed[-1] not in TAKEN_AND_NOT_REMEMBERED or not 0 < sent <= len(ids):
            return []
        since = passed[len(passed) - passed[::-1].index("to be sent") :]
        return [] if "cursor moved" in since else [ids[sent - 1]]


@pytest.fixture
def kills(commands, sampled, server, told_now, tmp_path):
    kills = Kills(commands, sampled, server, told_now, tmp_path)
    assert len(kills.stream) > 10 and len(of_webhook(kills.taken)) > 5 and known_to_alertmanager(kills.taken)
    return kills


def test_killed_at_each_kind_of_point(kills):
    seconds = {name: place for place, name in enumerate(kills.points, 1) if kills.points[: place - 1].count(name) < 2}
    twice = {name for name, place in seconds.items() if kills.twice(place)}
    assert twice == TAKEN_AND_NOT_REMEMBERED


@pytest.mark.soak
def test_killed_at_any_point(kills):
    sent = len(of_webhook(kills.taken))
    assert len(kills.points) > 4 * sent
    assert sum(len(kills.twice(place)) for place in range(1, len(kills.points) + 1)) == 3 * sent


def test_a_reader_who_is_killed_before_the_cursor_moves_is_shown_the_same_again(commands, sampled, tmp_path):
    def read(lake, last=0):
        arguments = ("--lake", tmp_path / lake, "--since", "last", "--json", "--with-backfill")
        code, passed, said = commands.run(*arguments, last=last)
        return code, passed, [line for line in said.splitlines() if line.startswith('{"number"')]

    for lake in ("one", "other"):
        shutil.copytree(sampled, tmp_path / lake)
    _, points, shown = read("one")
    assert len(shown) > 10
    assert read("other", points.index("cursor written beside") + 1)[0] == KILLED
    assert [read("other")[2] for _ in range(2)] == [shown, []]
