"""What people read on a terminal: text in, the same without anything that a terminal obeys out.

Names and messages come from whoever wrote the input; an escape sequence in them could recolour, hide or forge lines.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

# Control characters (C0 but for the tab, DEL, C1), line ends of Unicode, what turns the writing direction, and halves
# of surrogate pairs, which no stream can write.
_OBEYED = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def legible(line: str) -> str:
    r"""One line of text as it can be shown; what a terminal would obey stands as ``\u001b``, as JSON writes it too."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def legible_lines(text: str) -> str:
    """Several lines of which hindsight itself made the ends."""
    return "\n".join(map(legible, text.split("\n")))


def write(lines: Iterable[str]) -> None:
    """Print lines on stdout."""
    sys.stdout.writelines(f"{legible(line)}\n" for line in lines)
