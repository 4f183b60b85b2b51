"""A line as a terminal got it in, as it showed it out: what ``script`` records holds keys, colours and titles.

Only what happens within a line is followed. A program that moves over the screen draws lines in pieces, and what it
showed is cut at the screen's edges: ``moves_over_screen`` tells such a line.
"""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Of what a program tells the terminal: one operation with its numbers, a title, a set of characters, a single letter.
_SEQUENCE = re.compile(
    r"\x1b\[(?P<numbers>[0-9;:?>=!]*+)[ -/]*+(?P<letter>[@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b]*+(?:\x07|\x1b\\)?|\x1b[()*+#%][ -~]|\x1b[ -~]?"
)
_OTHER_ROW = "ABEFdfST"
_WRAPPED = re.compile(r"(?<=[^\r\n]{40}) \r(?=[^\r\n])")  # how a shell goes on in the next row
_MOST_CHARS = 100_000
_MOST_COLUMNS = 1_000  # of a terminal


def as_shown(text: str) -> str:
    """The line without what is no text of it; keys that were taken back are gone."""
    if text.isprintable() or _CONTROLS.search(text) is None:
        return text
    line: list[str] = []
    column = place = 0
    text = _WRAPPED.sub("", text[:_MOST_CHARS]).rstrip("\r")
    while place < len(text):
        sequence = _SEQUENCE.match(text, place)
        if sequence is not None:
            column = _moved(line, column, sequence["letter"], sequence["numbers"] or "")
            place = sequence.end()
            continue
        char = text[place]
        place += 1
        if char == "\r":
            column = 0
        elif char == "\b":
            column = max(column - 1, 0)
        elif char == "\t" or (char >= " " and char != "\x7f"):
            line[column : column + 1] = [char]
            column += 1
    return "".join(line)


def moves_over_screen(text: str) -> bool:
    """Whether a program draws in other rows than the next."""
    if "\x1b" not in text:
        return False
    return any(
        sequence["letter"] and (sequence["letter"] in _OTHER_ROW or (sequence["letter"] == "H" and sequence["numbers"]))
        for sequence in _SEQUENCE.finditer(text)
    )


def _moved(line: list[str], column: int, letter: str | None, numbers: str) -> int:
    """Carry out an operation on the line; the column after it."""
    count = int(numbers) if numbers.isdigit() and len(numbers) < 5 else 1
    if letter == "C":
        column = max(column, min(column + count, _MOST_COLUMNS))
        line += [" "] * (column - len(line))
        return column
    if letter == "D":
        return max(column - count, 0)
    if letter == "K" and numbers in ("", "0"):
        del line[column:]
    elif letter == "P":
        del line[column : column + count]
    elif letter == "@":
        line[column:column] = [" "] * count
    elif letter == "H" or (letter == "J" and numbers in ("2", "3")):
        line.clear()
        return 0
    return column
