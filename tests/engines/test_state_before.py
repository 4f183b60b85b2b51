"""While a run is at work, questions see input and derived tables of one publication: those before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hindsight
from hindsight.conf.failure import DONE
from hindsight.jobs import rebuild_availability
from hindsight.jobs.commands.watch_command import run_pipeline
from tests.commands import command
from tests.engines.test_runs_all_day import land, run

ROOT = Path(__file__).parent.parent.parent
COUNTS = (
    "SELECT (SELECT COUNT(DISTINCT round_at) FROM snapshot_capture) AS captured, "
    "(SELECT COUNT(DISTINCT round_at) FROM group_round) AS judged, "
    "(SELECT COUNT(DISTINCT run_id) FROM quality_result) AS runs"
)


def seen(lake: Path) -> tuple[dict[str, int], str]:
    """What a question sees from Python and from the command, which agree; and what the command says beside."""
    (from_python,) = hindsight.Lake(lake).sql(COUNTS).arrow().to_pylist()
    done = command("sql", "--lake", lake, COUNTS, "--json")
    assert json.loads(done.stdout) == from_python
    return from_python, done.stderr


def test_a_question_sees_no_input_without_what_is_derived_of_it(tmp_path, monkeypatch):
    lake = tmp_path / "lake"
    land(tmp_path / "landing", 0, 1, lines=20)
    run(tmp_path, "lake")
    before, said = seen(lake)
    assert (before, said) == ({"captured": 4, "judged": 4, "runs": 1}, "")
    during = []

    def broken_off(*_: object) -> None:
        during.append(seen(lake))
        raise OSError("the machine goes down")

    land(tmp_path / "landing", 1, 1, lines=20)
    with monkeypatch.context() as patch:
        patch.setattr(rebuild_availability, "run_on", broken_off)
        assert run_pipeline(["--landing", str(tmp_path / "landing"), "--lake", str(lake)]) != DONE
    for found, told in (*during, seen(lake)):
        assert (found["captured"], found["judged"]) == (4, 4)
        assert "shows the state before the run that is at work" in told
    run(tmp_path, "lake")
    after, said = seen(lake)
    assert (after["captured"], after["judged"], said) == (8, 8, "")


@pytest.mark.parametrize("state", ['{"versions": {"snapshot_capture": 99}, "since": "2026-01-01T00:00:00Z"}'])
def test_a_state_that_has_gone_is_shown_as_it_is_now(tmp_path, state):
    land(tmp_path / "landing", 0, 1, lines=20)
    run(tmp_path, "lake")
    (tmp_path / "lake" / "_notes" / "state_before").write_text(state, encoding="utf-8")
    assert seen(tmp_path / "lake")[0]["captured"] == 4
