"""Kept states as text: equal states are equal texts, and what is no JSON value is refused."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.values.kept_states import state_of, state_text


class Pair(NamedTuple):
    one: int
    other: str


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("aäz\U0001f600", max_size=3), inner),
)


@given(VALUES)
def test_a_state_is_read_as_it_was_written_and_is_the_text_that_json_gives(state):
    text = state_text(state)
    assert state_of(text) == state
    assert json.loads(text) == json.loads(json.dumps(state))


def test_equal_states_are_equal_texts_in_whatever_order_they_were_filled():
    assert state_text({"b": {"y": 1, "x": 2}, "a": 3}) == state_text({"a": 3, "b": {"x": 2, "y": 1}})
    assert state_text({"b": 1, "a": "ä"}) == '{"a":"ä","b":1}'


def test_tuples_of_any_kind_are_lists():
    assert state_of(state_text([Pair(1, "x"), (Pair(2, "y"),)])) == [[1, "x"], [[2, "y"]]]


@pytest.mark.parametrize("value", [{1, 2}, frozenset("a"), object(), b"x"])
def test_what_is_no_json_value_is_refused(value):
    with pytest.raises(TypeError):
        state_text({"of": value})
