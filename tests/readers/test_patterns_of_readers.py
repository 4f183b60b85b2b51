"""The patterns of readers match alike in every Python that is named: Debian 12 has 3.11.2."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import hindsight.udfs.formats
import hindsight.udfs.lines
import hindsight.udfs.logs

FOLDERS = (hindsight.udfs.formats, hindsight.udfs.lines, hindsight.udfs.logs)
LOOKS = (sre.ASSERT, sre.ASSERT_NOT)


def patterns_of(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from patterns_of(one)


def inner(ops: Iterable[Any]) -> Iterator[Any]:
    """Every operation of a parsed pattern."""
    for op in ops:
        yield op
        for argument in op[1] if isinstance(op[1], (tuple, list)) else (op[1],):
            for part in argument if isinstance(argument, list) else (argument,):
                if isinstance(part, _parser.SubPattern):
                    yield from inner(part)


def repeats_what_looks(pattern: re.Pattern[Any]) -> bool:
    """Whether it repeats without giving back what looks around: up to 3.11.4 that loses matches (gh-106052)."""
    parsed = _parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    return any(
        op is sre.POSSESSIVE_REPEAT and any(below[0] in LOOKS for below in inner(argument[2]))
        for op, argument in inner(parsed)
    )


def test_no_pattern_repeats_without_giving_back_what_looks_around():
    found, wrong = 0, []
    for folder in FOLDERS:
        for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                for pattern in patterns_of(value):
                    found += 1
                    if repeats_what_looks(pattern):
                        wrong.append(f"{module.name}.{name}: {pattern.pattern[:80]!r}")
    assert found > 300 and wrong == []
