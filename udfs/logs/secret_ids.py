"""A line in, the same out with the credentials masked that a client id carries.

rocketmq-spring 2.0.4 to 2.1.1 with ACL on makes up instance names of ``accessKey|secretKey|group|pid``: the client id
``ip@accessKey|secretKey|group|pid`` stands in heartbeats, lists, logs and answers of everybody who asks. Nothing behind
the door ever holds the keys; the id stays an id, and members of one host keep their order.
Source: RocketMQUtil#getInstanceName, rocketmq-spring 2.0.4 to 2.1.1.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.logs.log_wrappers import Part, may_go_on, part_of

MASK = "***|***"
_BOTH = r'(?<=@)[^|@"\s]{1,256}\|[^|@"\s]{1,256}'
_KEYS = re.compile(_BOTH + r'(?=\|[^"\s@]{1,512}\|[0-9])')  # behind them the group, which may hold a |, and the pid
_TAIL = re.compile(r'@[^"\s@\\]{0,1100}\Z')  # what may be the first half of such an id
_HEAD = re.compile(r'[^"\s@\\]{1,1100}')
_MOST_HELD = 64  # lines between two entries of one line
_CUT_KEYS = re.compile(_BOTH + r'(?=(?:\|[^"\s@]{0,512})?\Z)')


def without_secrets(text: str, *, is_cut: bool = False) -> str:
    """The text with both keys of each such id masked: ``10.0.0.1@***|***|group|77``.

    ``is_cut``: the text may end within an id.
    """
    if "|" not in text or "@" not in text:
        return text
    whole = _KEYS.sub(MASK, text)
    return _CUT_KEYS.sub(MASK, whole) if is_cut else whole


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
        found = _KEYS.search(tail + rest)
        if found is None and other.begin + len(rest) == other.end:
            found = _CUT_KEYS.search(tail + rest)
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


def is_masked(client_id: str) -> bool:
    """Whether an id carried keys."""
    return f"@{MASK}" in client_id
