"""New names beside the old ones: another for each, in the same order as Java's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.bundles.new_names import NewNames, NoNameBetweenError, numbered, ordered_names
from hindsight.udfs.values.java_strings import java_string_key
from hindsight.udfs.values.message_queues import is_light, lite_parent

NAMES = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=40, unique=True)


def in_java_s_order(names):
    return sorted(names, key=java_string_key)


@given(NAMES)
def test_new_names_are_as_many_and_sort_as_the_old_ones(names):
    for found in (ordered_names(names, {}, "group"), numbered(names, lambda _, place: f"host-{place}")):
        assert found.keys() == set(names) and len(set(found.values())) == len(names)
        assert [found[name] for name in in_java_s_order(names)] == in_java_s_order(found.values())
        assert not set(found.values()) & set(names) or all(name.startswith(("group-", "host-")) for name in names)


@given(NAMES, st.data())
def test_what_stays_has_its_place_among_them(names, data):
    stay = data.draw(st.sets(st.sampled_from(["DEFAULT_CONSUMER", "TOOLS_CONSUMER", "%RETRY%", "rmq_sys_a"])))
    found = ordered_names(names, dict.fromkeys(stay) | {name: name for name in stay}, "group")
    assert all(found[name] == name for name in stay) and len(set(found.values())) == len(found)
    assert [found[name] for name in in_java_s_order(found)] == in_java_s_order(found.values())


def test_where_no_name_fits_it_is_said():
    with pytest.raises(NoNameBetweenError, match="do not sort"):
        ordered_names(["b"], {"a": "z", "c": "y"}, "group")


def test_a_new_name_means_nothing_to_a_rule():
    found = ordered_names(["orders"], {}, "group", is_special=lambda name: name.startswith("group-"))
    assert not found["orders"].startswith("group-")


def test_light_queues_are_named_after_the_new_name_of_their_parent_and_sort_as_before():
    topics = ["%LMQ%$chat$b", "%LMQ%$chat$a", "%LMQ%$chats$a", "%LMQ%queue", "chat", "%RETRY%g"]
    made = NewNames({"topic": topics, "group": ["g"]}).known("topic")
    assert {lite_parent(made[f"%LMQ%$chat${lite}"]) for lite in "ab"} == {made["chat"]}
    assert is_light(made["%LMQ%queue"]) and lite_parent(made["%LMQ%queue"]) is None
    assert len({*made.values()}) == len(made) and not {"chat", "chats"} & {*made.values()}
    assert [made[one] for one in in_java_s_order(topics)] == in_java_s_order([made[one] for one in topics])
