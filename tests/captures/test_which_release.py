"""What remains of producers whose real setup is known: captured ones, and the real classes' own send loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.folded import OPTIONS, folded, rows_of
from tests.recorded_rows import captured as recorded
from tests.release_matrix import captures, named, recorded_routes, send_loops

PAGE = Path(__file__).parent.parent.parent / "docs" / "which-release.md"


@pytest.fixture(scope="module")
def captured():
    return captures()


def test_what_a_captured_producer_really_was_is_never_ruled_out(captured):
    assert [told.name for told in captured if not told.truth_remains()] == []


def test_what_rules_a_setup_out_is_an_attempt_of_that_producer():
    """Of producers of one date, folded together."""
    attempts = [attempt for name in ("4.7.1_laton", "4.7.1_short", "5.3.3_laton") for attempt in recorded(name)[0]]
    found = folded(rows_of(attempts, [], recorded_routes()), OPTIONS)["producer_release"].to_pylist()
    sent_by = {attempt["msg_id"]: attempt["client_id"] for attempt in attempts}
    named = [row for row in found if row["msg_id"]]
    assert [row for row in named if sent_by[row["msg_id"]] != row["client_id"]] == []
    assert {row["client_id"] for row in named if row["ruled_out_by"] == "turns"} > {attempts[0]["client_id"]}


def test_what_the_real_classes_are_is_never_ruled_out():
    loops = send_loops()
    assert len(loops) > 10
    assert [told.name for told in loops if not told.truth_remains()] == []


def test_the_page_says_what_remains_of_the_captured_producers(captured):
    told = PAGE.read_text(encoding="utf-8")
    assert named(captured) in told, "run python -m tests.release_matrix"


def test_a_captured_producer_is_inferred_as_what_it_was(captured):
    inferred = [told for told in captured if told.replay["certainty"] == "inferred"]
    assert {told.name for told in inferred} == {"4.7.1_latoff", "5.3.3_laton", "5.3.3_detect"}
    for told in inferred:
        assert told.replay["verdict"] == ("replayed" if told.truth.enabled else "off")
        assert told.truth.family in told.replay["profile"].split("|")


def test_what_an_async_producer_chose_proves_nothing(captured):
    (told,) = (told for told in captured if told.name == "4.9.8_async")
    assert {row["state"] for row in told.rows} == {"remains"}
    assert {row["reason"] for row in told.rows} == {
        "its source does not show every failure: what was chosen proves nothing"
    }
