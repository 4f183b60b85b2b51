"""What remains of producers whose real setup is known: captured ones, and the real classes' own send loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release_matrix import captures, named, send_loops

PAGE = Path(__file__).parent.parent.parent / "docs" / "which-release.md"


@pytest.fixture(scope="module")
def captured():
    return captures()


def test_what_a_captured_producer_really_was_is_never_ruled_out(captured):
    assert [told.name for told in captured if not told.truth_remains()] == []


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
