"""How many examples a test on random input draws: a few in `make test`, many in `make soak`."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import tuples

# `make soak` sets it, and runs what bears the mark.
SOAKING = "HINDSIGHT_SOAK" in os.environ


def examples(few: int, many: int) -> Callable[[Any], Any]:
    """A decorator in the place of hypothesis's ``settings``."""
    drawn = settings(max_examples=many if SOAKING else few)
    return lambda test: pytest.mark.random(drawn(test))


def drawn_once(*strategies: Any) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """A decorator as ``given``, for a test that is dear: one example, three in the soak.

    They are those behind hypothesis's first, which is the least there is (one row, of zeros and empty texts). What is
    drawn later, by ``st.data()``, is not known here: there would seem to be nothing behind the first.
    """

    def of(test: Callable[..., None]) -> Callable[[], None]:
        calls = count()

        @settings(max_examples=4 if SOAKING else 2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(tuples(*strategies))
        def behind_the_first(drawn: tuple[Any, ...]) -> None:
            if next(calls):
                test(*drawn)

        def runs() -> None:
            behind_the_first()
            assert next(calls) > 1, "nothing but the first was drawn"

        return runs

    return of
