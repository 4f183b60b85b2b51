"""The text of an admin API's answer in; the object that it is, out, or why there is none.

fastjson's dialect as RocketMQ's Java writes it, what Go and C++ clients write against JSON's rules, and the wrapper of
rocketmq-dashboard (JsonResult) taken off.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from hindsight.udfs.formats.fastjson import FastjsonError, parse_fastjson
from hindsight.udfs.lines.parsed_line import Fields, RefusedLineError, optional_text

_ERROR_CODE = re.compile(r"\bCODE: (-?\d{1,9})\b")
_JSTACK = re.compile(r',?\s*+"jstack"\s*+:\s*+"')


def error_code(error: str | None) -> int | None:
    """RocketMQ's response code in the text of an exception; None where it names none."""
    code = _ERROR_CODE.search(error) if error else None
    return int(code[1]) if code else None


def raw_object(raw: str | None) -> Fields:
    """The object that the text of ``raw`` is, in fastjson's dialect; refused: MISSING_FIELD, BAD_RAW."""
    if raw is None:
        raise RefusedLineError("MISSING_FIELD", "the line has neither 'raw' nor 'error'")
    try:
        value = _parsed(raw)
    except FastjsonError as error:
        raise RefusedLineError("BAD_RAW", f"'raw': {error}; it begins with {raw[:40]!r}") from None
    if not isinstance(value, dict):
        found = "null" if value is None else f"a JSON {type(value).__name__}"
        raise RefusedLineError("BAD_RAW", f"'raw' is {found}, expected an object")
    return value


def raw_list(raw: str) -> list[Any]:
    """The list that the text of ``raw`` is; refused: BAD_RAW."""
    try:
        value = parse_fastjson(raw)
    except FastjsonError as error:
        raise RefusedLineError("BAD_RAW", f"'raw': {error}; it begins with {raw[:40]!r}") from None
    if not isinstance(value, list):
        raise RefusedLineError("BAD_RAW", f"'raw' is a JSON {type(value).__name__}, expected a list")
    return value


def _parsed(raw: str) -> Any:
    """The value; of running infos also what Go and C++ clients write against JSON's rules.

    Go ends with a ``jstack`` whose line ends and quotes it does not escape; C++ opens no empty ``mqTable``.
    """
    try:
        return parse_fastjson(raw)
    except FastjsonError as error:
        opened = raw.replace('"mqTable":}', '"mqTable":{}', 1)
        jstack = _JSTACK.search(opened)
        for mended in (opened, opened[: jstack.start()] + "}" if jstack else opened):
            with suppress(FastjsonError):
                return parse_fastjson(mended)
        raise error


class UnansweredError(ValueError):
    """Raised where a line, or the answer in it, says that the read failed; the text is why."""


def unwrapped(raw: Fields) -> Fields:
    """The admin API's object in rocketmq-dashboard's JsonResult, or the object as it is; refused: BAD_RAW.

    Raises: UnansweredError: the wrapper says that the dashboard's own read failed.
    """
    if "status" not in raw or not {"data", "errMsg"} & raw.keys() or not raw.keys() <= {"status", "data", "errMsg"}:
        return raw
    error = optional_text(raw, "errMsg")
    if error is not None or raw["status"] != 0:
        raise UnansweredError(error or f"status {raw['status']!r:.80}")
    if not isinstance(raw.get("data"), dict):
        raise RefusedLineError("BAD_RAW", f"'data' in 'raw' is a {type(raw.get('data')).__name__}, expected an object")
    data: Fields = raw["data"]
    return data
