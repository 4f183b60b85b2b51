"""How many examples a test on random input draws: a few in `make test`, many in `make soak`."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

# `make soak` sets it, and runs what bears the mark.
SOAKING = "HINDSIGHT_SOAK" in os.environ


def examples(few: int, many: int) -> Callable[[Any], Any]:
    """A decorator in the place of hypothesis's ``settings``."""
    drawn = settings(max_examples=many if SOAKING else few)
    return lambda test: pytest.mark.random(drawn(test))


def one_drawn(test: Callable[..., None]) -> Any:
    """A decorator as ``examples``, for a test that is dear: one example.

    It is the second that hypothesis has. Its first is the least there is (one row, of zeros and empty texts), which
    shows little.
    """
    calls = count()

    @wraps(test)
    def on_the_second(*given: Any, **named: Any) -> None:
        if next(calls):
            test(*given, **named)

    return settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))(on_the_second)
