"""A sentence begins as one does, and a name with which it begins is never changed."""

from __future__ import annotations

import pytest

from hindsight.udfs.drift.finding import begun


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("g_dlq gave up a message.", "g_dlq gave up a message."),
        ("c1@2 of pg held broker-a.", "c1@2 of pg held broker-a."),
        ("queue 3 of T has no owner.", "Queue 3 of T has no owner."),
        ("g_dlq2 is another group.", "G_dlq2 is another group."),
        ("", ""),
    ],
)
def test_a_name_at_the_begin_stays_as_it_is(sentence, told):
    assert begun(sentence, ("g_dlq", "c1@2", None, "")) == told
