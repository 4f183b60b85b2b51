"""Kept states as text: equal states are equal texts, and what is no JSON value is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.values.kept_states import Kept, state_of, state_text


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


Place = tuple[str, str, int]


@dataclass
class Inner(Kept):
    of: dict[str, int | None] = field(default_factory=dict)


@dataclass
class Outer(Kept):
    inner: Inner
    by_place: dict[Place, Pair] = field(default_factory=dict)
    plain: dict[Place, str | None] = field(default_factory=dict)
    last: Pair | None = None
    several: list[Pair] = field(default_factory=list)
    later: frozenset[Place] = frozenset()
    not_kept: int = field(default=0, init=False)
    _nor_this: int = 0


def test_a_class_is_written_by_its_fields_and_what_is_kept_by_tuples_as_rows_in_their_order():
    made = Outer(Inner({"x": None}), {("b", "a", 1): Pair(1, "x"), ("a", "a", 2): Pair(2, "y")}, {("t", "b", 0): None})
    made.last, made.several, made.later = Pair(3, "z"), [Pair(4, "w")], frozenset({("t", "b", 1), ("t", "b", 0)})
    state = state_of(state_text(made.to_state()))
    assert state == {
        "inner": {"of": {"x": None}},
        "by_place": [["a", "a", 2, 2, "y"], ["b", "a", 1, 1, "x"]],
        "plain": [["t", "b", 0, None]],
        "last": [3, "z"],
        "several": [[4, "w"]],
        "later": [["t", "b", 0], ["t", "b", 1]],
    }
    assert Outer.of_state(state) == made


def test_what_a_state_of_an_earlier_release_lacks_is_as_it_is_by_default():
    made = Outer.of_state({"inner": {"of": {}}, "unknown": 1, "last": None})
    assert made == Outer(Inner())
    assert state_of(state_text(made.to_state()))["by_place"] == []
