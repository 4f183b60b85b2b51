"""Lines of a log that something else collected in, the lines that its process wrote out.

- docker, json-file         ``{"log":"...\\n","stream":"stdout","time":"..."}``; a long line lies in several entries
- Kubernetes (CRI)          ``2026-01-05T10:15:00.123456789Z stdout F ...``; P instead of F: the line goes on
- journald, syslog          ``Jan 05 10:15:00 host unit[7]: ...``, ``2026-01-05T10:15:00+0800 host unit[7]: ...``
- journald, ``-o json``     ``{"MESSAGE":"...", ...}``

A line that a logger wrote as JSON, inside any of these or by itself, is then what a pattern would have made of it
(``structured_lines``): it may hold lines below its own.
What the collector noted of itself, its stamp above all, says nothing of the line that it carried.

An id that carries keys (``secret_ids``) may lie in two entries: it is masked in both.

The name of a file in, the log out of which it was rolled.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import orjson

from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.logs.secret_ids import CUT_KEYS, KEYS, MASK, without_secrets
from hindsight.udfs.logs.structured_lines import plain_line

_DOCKER_BYTES = 16 * 1024  # docker cuts a longer line; other collectors write no line ends at all
_MOST_CHARS = 8 << 20  # of a line that lies in several entries; what goes beyond is a line of its own
_FIRST_CHARS = 200  # of docker's entry, in which its text begins
_DOCKER_LOG = re.compile(r'"log"\s*:\s*"([^"\\]*+(?:\\.[^"\\]*+)*)"')
_DOCKER_STDERR = re.compile(r'"stream"\s*:\s*"stderr"')
_STARTS = frozenset("{<JFMASOND")  # of JSON, of a priority, of a month
_LEVEL = r"(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b"
_CRI = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:?\d\d) (stdout|stderr) ([FP])(?::\S*+)? ?")
_STAMPED = r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?|\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:?\d\d))"
_NAME = rf"(?!{_LEVEL})[^\s\[\]():]{{1,255}}"  # of a host or a unit
_SYSLOG = re.compile(rf"(?:<\d{{1,3}}>)?{_STAMPED} {_NAME} {_NAME}(?:\[\d{{1,10}}\])?:(?: |\Z)")
_ROTATED = re.compile(r"(?P<log>.*\.(?:log|LOG|out|txt))(?:[.-][0-9][0-9._-]*)?")
_FOLDERS = frozenset({"otherdays", "other_days"})  # into which RocketMQ moves what it rolls
_TAIL = re.compile(r'@[^"\s@\\]{0,1100}\Z')  # what may be the first half of such an id
_HEAD = re.compile(r'[^"\s@\\]{1,1100}')
_MOST_HELD = 64  # lines between two entries of one line
_NUMBERED = re.compile(r"[.-][0-9][0-9._-]*(?=\.(?:log|LOG)\Z)")


class Unwrapped(NamedTuple):
    """What a collector's entry carries: of which stream, the text, and whether its line ends with it."""

    stream: str
    text: str
    ends: bool


class Part(NamedTuple):
    """Where the text of a collector's entry stands in the line; ``goes_on``: its line may end in a later entry."""

    stream: str
    begin: int
    end: int
    goes_on: bool


class Unwrapper:
    """Takes the wrapping off the lines of one file; keeps what goes on in a later entry."""

    def __init__(self) -> None:
        # Of a line that goes on in a later entry, by stream: its last entry so far, the texts, their size.
        self._begun: dict[str, tuple[Line, list[str], int]] = {}

    def take(self, line: Line) -> Iterable[tuple[Line, str | None]]:
        """The line with the text that its process wrote: its own where nothing wraps it.

        None: the text goes on in a later entry, with which the whole comes. Entries come in their order, but for those
        that another stream's cut in two.
        """
        text = line[3]
        size = line[2] - line[1]
        found = unwrap(text, size) if line[4] is None and may_be_wrapped(text) else None
        return ((line, written(text)),) if found is None else self._joined(line, found)

    def rest(self) -> Iterator[tuple[Line, str]]:
        """At the file's end: what went on and came to no end."""
        for line, texts, _ in self._begun.values():
            yield line, written("".join(texts))

    def _joined(self, line: Line, found: Unwrapped) -> Iterator[tuple[Line, str | None]]:
        before, texts, size = self._begun.pop(found.stream, (line, [], 0))
        if texts:
            yield before, None
        texts.append(found.text)
        size += len(found.text)
        if found.ends or size > _MOST_CHARS:
            yield line, written("".join(texts))
        else:
            self._begun[found.stream] = line, texts, size


def masked(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines of a file without the keys; one that was cut inside them too, and two that share an id."""
    joiner = _Joiner()
    for line in lines:
        text = without_secrets(line.text, is_cut=line.refusal is not None)
        one = line if text is line.text else line._replace(text=text)
        if joiner.held or ("@" in text and may_go_on(text)):
            yield from joiner.take(one)
        else:
            yield one
    yield from joiner.rest()


class _Joiner:
    """Masks ids that lie in two entries of a log; holds an entry that ends in an id until the next of its stream."""

    def __init__(self) -> None:
        self.held: deque[Line] = deque()

    def take(self, line: Line) -> Iterator[Line]:
        """The lines that nothing more can be found of, in their order."""
        self.held.append(line)
        while self.held:
            part = _open_part(self.held[0])
            if part is not None:
                follower = self._follower(part)
                if follower is not None:
                    self._mask_both(part, *follower)
                elif len(self.held) <= _MOST_HELD:
                    return
                else:
                    self.held[0] = _without_end(self.held[0], part)
            yield self.held.popleft()

    def rest(self) -> Iterator[Line]:
        """At the file's end: what is still held."""
        for line in self.held:
            part = _open_part(line)
            yield line if part is None else _without_end(line, part)

    def _follower(self, part: Part) -> tuple[int, Part] | None:
        for place in range(1, len(self.held)):
            other = part_of(self.held[place].text)
            if other is not None and other.stream == part.stream:
                return place, other
        return None

    def _mask_both(self, part: Part, place: int, other: Part) -> None:
        first, second = self.held[0], self.held[place]
        tail = first.text[first.text.rindex("@", part.begin, part.end) : part.end]
        head = _HEAD.match(second.text, other.begin, other.end)
        rest = head[0] if head else ""
        found = KEYS.search(tail + rest)
        if found is None and other.begin + len(rest) == other.end:
            found = CUT_KEYS.search(tail + rest)
        if found is None:
            return
        since, until = found.span()
        seen = tail[:since] + MASK + tail[until:] if since < len(tail) else tail
        left = rest[max(until - len(tail), 0) :]
        left = left if since < len(tail) else MASK + left
        self.held[0] = first._replace(text=_put(first.text, part.end - len(tail), part.end, seen))
        self.held[place] = second._replace(text=_put(second.text, other.begin, other.begin + len(rest), left))


def _open_part(line: Line) -> Part | None:
    """The entry that a line is, if it goes on and may end within an id."""
    part = part_of(line.text) if line.refusal is None else None
    is_open = part is not None and part.goes_on and _TAIL.search(line.text, part.begin, part.end)
    return part if is_open else None


def _without_end(line: Line, part: Part) -> Line:
    """The entry with the keys masked that it is cut in."""
    own = without_secrets(line.text[part.begin : part.end], is_cut=True)
    return line._replace(text=_put(line.text, part.begin, part.end, own))


def _put(text: str, begin: int, end: int, other: str) -> str:
    return text[:begin] + other + text[end:]


def written(text: str) -> str:
    """A line as a pattern would have written it, if a logger wrote it as JSON; else as it is."""
    return (plain_line(text) if text[:1] == "{" else None) or text


def may_be_wrapped(text: str) -> bool:
    """False: nothing known wraps the line. Quick, for the lines that nothing does."""
    return text[10:11] == "T" or text[:1] in _STARTS


def may_go_on(text: str) -> bool:
    """False: the line is no entry whose text may go on in a later one. Quick, for most lines."""
    return ('"log"' in text[:_FIRST_CHARS] if text[:1] == "{" else text[10:11] == "T") and part_of(text) is not None


def part_of(text: str) -> Part | None:
    """Where an entry of docker's json-file or of Kubernetes' log holds its text; None: the line is no such entry."""
    if text[:1] == "{":
        found = _DOCKER_LOG.search(text, 0)
        if found is None:
            return None
        stream = "stderr" if _DOCKER_STDERR.search(text) else "stdout"
        return Part(stream, *found.span(1), not found[1].endswith("\\n"))
    cri = _CRI.match(text)
    return Part(cri[1], cri.end(), len(text), cri[2] == "P") if cri else None


def unwrap(text: str, size: int = 0) -> Unwrapped | None:
    """What a line carries as an entry of a collector that is known; None: it is no such entry.

    ``size``: the bytes of the line as it stood in the file, where ids have been masked in it since.
    """
    if text.startswith("{"):
        return _of_json(text, size)
    cri = _CRI.match(text)
    if cri is not None:
        return Unwrapped(cri[1], text[cri.end() :], cri[2] == "F")
    syslog = _SYSLOG.match(text)
    return Unwrapped("", text[syslog.end() :], ends=True) if syslog else None


def _of_json(text: str, size: int) -> Unwrapped | None:
    try:
        entry = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    log = entry.get("log")
    if isinstance(log, str):
        stream = "stderr" if entry.get("stream") == "stderr" else "stdout"
        goes_on = not log.endswith("\n") and len(log.encode()) + max(size - len(text.encode()), 0) >= _DOCKER_BYTES
        return Unwrapped(stream, log.removesuffix("\n").removesuffix("\r"), not goes_on)
    message = entry.get("MESSAGE")
    if isinstance(message, list):  # journald writes what is not plain UTF-8 text as a list of bytes
        numbers = [byte for byte in message if isinstance(byte, int) and 0 <= byte < 256]
        message = bytes(numbers).decode(errors="backslashreplace") if len(numbers) == len(message) else None
    return Unwrapped("", message, ends=True) if isinstance(message, str) else None


def log_of(path: str) -> str:
    """``a/x.log`` for ``a/x.log.3.gz`` and ``a/x.log-20260105``, and for RocketMQ's own ``a/otherdays/x-3.log.gz``."""
    path = path.removesuffix(".gz").removesuffix(".zip")
    folder, cut, name = path.rpartition("/")
    found = _ROTATED.fullmatch(name)
    name = found["log"] if found else name
    if folder.rpartition("/")[2] in _FOLDERS:
        folder, cut = folder.rpartition("/")[0], "/"
        name = _NUMBERED.sub("", name)
    return f"{folder}{cut}{name}" if folder else name
