"""How many examples a test on random input draws: a few in `make test`, many in `make soak`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

# `make soak` sets it, and runs what bears the mark.
SOAKING = "HINDSIGHT_SOAK" in os.environ


def examples(few: int, many: int) -> Callable[[Any], Any]:
    """A decorator in the place of hypothesis's ``settings``."""
    drawn = settings(max_examples=many if SOAKING else few)
    return lambda test: pytest.mark.random(drawn(test))
