"""Kept states as text: JSON without blanks, names sorted, so that equal states are equal texts."""

from __future__ import annotations

from typing import Any

import orjson


def state_text(state: Any) -> str:
    """A state of JSON values, tuples of any kind among them, as text."""
    return orjson.dumps(state, _plain, orjson.OPT_SORT_KEYS).decode()


def state_of(text: str) -> Any:
    """What ``state_text`` wrote: tuples are lists."""
    return orjson.loads(text)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")
