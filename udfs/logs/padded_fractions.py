"""Fractions of seconds with more than three digits in; whether they are padded milliseconds, by all lines of the file.

SimpleDateFormat pads milliseconds: ``SSSS`` writes 45 ms as ``.0045``, which as a fraction would be 4.5 ms. Padded ones
have zeros before the last three digits. One of the file that has another digit there makes all of them true fractions;
where none has, twenty such lines make them padded: of true ones of four digits one in 10^20 would look so. Fewer lines
have two readings, and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Literal

from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import RefusedLineError
from hindsight.udfs.logs.log_stamps import Stamp

ENOUGH = 20  # lines whose fractions all begin with zeros
_HEAD_CHARS = 400  # within which a line's time stands
Reading = Literal["padded", "true", "ambiguous"]
Look = Callable[[], Iterable[Line]]


class Fractions:
    """How the fractions of a file's times are read; the file is looked at once for each way of writing them."""

    def __init__(self, look: Look | None = None) -> None:
        """``look``: gives the file's lines anew; None: it can be read only once."""
        self._look = look
        self._readings: dict[tuple[str, int], Reading] = {}

    def settled(self, stamp: Stamp) -> Stamp:
        """The stamp, which is padded where the file says so; refused: BAD_TIMESTAMP, where it has two readings."""
        if not stamp.may_be_padded:
            return stamp
        key = stamp.mark or "", len(stamp.fraction or "")
        if key not in self._readings:
            self._readings[key] = _reading(self._look, *key)
        reading = self._readings[key]
        if reading == "ambiguous":
            raise RefusedLineError(
                "BAD_TIMESTAMP",
                f"the fraction {stamp.fraction!r} is padded milliseconds or a true one, and too few lines of the file "
                f"tell which: declare the layout, with {'S' * key[1]} or {'n' * key[1]} in its date",
            )
        return stamp._replace(is_padded=reading == "padded")


def _reading(look: Look | None, mark: str, digits: int) -> Reading:
    fraction = _fraction(mark, digits)
    padded = 0
    for line in look() if look is not None else ():
        found = fraction.search(line.text, 0, _HEAD_CHARS)
        if found is None:
            continue
        if found[1].strip("0"):
            return "true"
        padded += 1
    return "padded" if padded >= ENOUGH else "ambiguous"


@lru_cache(maxsize=32)
def _fraction(mark: str, digits: int) -> re.Pattern[str]:
    return re.compile(rf"\d\d:?\d\d:?\d\d{re.escape(mark)}(\d{{{digits - 3}}})\d{{3}}(?!\d)")
