"""Lines that ``mqadmin`` printed in; which are no part of an answer, and what they say went wrong, out.

Before and between its lines stand warnings of the JVM, of SLF4J and of RocketMQ's own logger. A command that fails
prints an exception, on the error output or, where both go to one file, among the rest; 4.0.0 prints its stack, later
releases wrap it (``SubCommandException: ...SubCommand command failed``).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hindsight.udfs.lines.parsed_line import ERROR_CHARS

PRINTED_NOTHING = "mqadmin printed nothing"

_NOISE = re.compile(
    r"""\s*+(?:
      RocketMQLog: | SLF4J | log4j: | logback | WARNING: | Picked\ up\ | NOTE:
    | (?:OpenJDK|Java\ HotSpot|Eclipse\ OpenJ9)\b.*\bwarning:
    | \[\d++[.,]\d++s\]\[                                   # the JVM's own log
    | \[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d | \d\d:\d\d:\d\d[.,]\d{3}\b       # a logger's line
    | \[?(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b
    | Caused\ by: | Suppressed: | at\ [\w.$/<>]++\( | \.\.\.\ \d++\ (?:more|common\ frames)
    | Exception\ in\ thread\b | [\w.$]*(?:Exception|Error)(?::|\s*+$)
    | For\ more\ information,\ please\ visit | See\ https?:
    )""",
    re.VERBOSE,
)
_CODE = re.compile(r"\bCODE: -?\d{1,9}\b")
_EXCEPTION = re.compile(r"\s*+(?:Caused by: |Exception in thread \"[^\"]*+\" )?([\w.$]*(?:Exception|Error)\b.*+)")
_COMMAND_FAILED = re.compile(r"SubComm(?:and|ad) command failed")


class Failure(NamedTuple):
    """What went wrong, in the program's words; ``line``: the index of that which says so."""

    line: int
    error: str


def is_noise(text: str) -> bool:
    """Whether a line is a warning, a logger's line, or part of a stack trace."""
    return _NOISE.match(text) is not None


def failure_in(texts: list[str]) -> Failure | None:
    """The exception that an output holds; of several the one that names RocketMQ's code, else the innermost cause."""
    found = [(i, match[1]) for i, text in enumerate(texts) if (match := _EXCEPTION.match(text))]
    coded = next(((i, text) for i, text in enumerate(texts) if _CODE.search(text)), None)
    if coded is not None:
        told = _EXCEPTION.match(coded[1])
        return Failure(coded[0], (told[1] if told else coded[1].strip())[:ERROR_CHARS])
    causes = [one for one in found if texts[one[0]].lstrip().startswith("Caused by:")]
    index, error = (causes or found or [(0, "")])[-1 if causes else 0]
    return Failure(index, error.strip()[:ERROR_CHARS]) if found else None


def unexplained(texts: list[str]) -> Failure:
    """Of an output that holds neither answer nor exception: its first line that is no noise, or that it is empty."""
    for index, text in enumerate(texts):
        if text.strip() and not is_noise(text):
            return Failure(index, text.strip()[:ERROR_CHARS])
    return Failure(0, PRINTED_NOTHING)


def failed_whole(texts: list[str]) -> bool:
    """Whether the command says that it failed, rather than one of several reads that it made."""
    return any(_COMMAND_FAILED.search(text) for text in texts)
