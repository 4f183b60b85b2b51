"""A whole real capture compared with what its own settings and other orders of arrival say: nothing differs."""

from __future__ import annotations

import pytest

from tests.scenarios.compared import SAME, compare
from tests.scenarios.test_compare_null import taken_in_apart

pytestmark = pytest.mark.soak


def test_its_own_settings_flip_nothing(story, settings_file):
    assert compare(story, "--settings", settings_file, code=0).stdout == SAME


def test_the_order_of_arrival_flips_nothing(settings, story, tmp_path):
    apart = taken_in_apart(settings, story.parent / "landing", tmp_path)
    assert compare(story, apart, code=0).stdout == SAME
