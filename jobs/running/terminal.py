"""What people read on a terminal: text in, the same without anything that a terminal obeys out.

Names and messages come from whoever wrote the input; an escape sequence in them could recolour, hide or forge lines.
"""

from __future__ import annotations

import re
import shutil
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


def wrapped(text: str, indent: str, first: str | None = None) -> list[str]:
    """A sentence as lines that fit the terminal (80 columns where there is none), each after ``indent``.

    ``first``: what the first line begins with instead. Wide characters take two columns. A word that is longer than a
    line is cut: no name makes the terminal do that, and none begins a line by itself.
    """
    from rich.console import Console
    from rich.text import Text

    columns = max(40, shutil.get_terminal_size().columns - len(indent))
    lines = [line.plain.rstrip() for line in Text(legible(text)).wrap(Console(width=columns), columns)]
    return [(indent if place or first is None else first) + line for place, line in enumerate(lines)]
