"""A line in, the same out with the credentials masked that a client id carries.

rocketmq-spring 2.0.4 to 2.1.1 with ACL on makes up instance names of ``accessKey|secretKey|group|pid``: the client id
``ip@accessKey|secretKey|group|pid`` stands in heartbeats, lists, logs and answers of everybody who asks. Nothing behind
the door ever holds the keys; the id stays an id, and members of one host keep their order.
Source: RocketMQUtil#getInstanceName, rocketmq-spring 2.0.4 to 2.1.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from udfs.bounded_lines import Line

MASK = "***|***"
_BOTH = r'(?<=@)[^|@"\s]{1,256}\|[^|@"\s]{1,256}'
_KEYS = re.compile(_BOTH + r'(?=\|[^"\s@]{1,512}\|[0-9])')  # behind them the group, which may hold a |, and the pid
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
    """The lines without the keys; one that was cut inside them too."""
    for line in lines:
        text = without_secrets(line.text, is_cut=line.refusal is not None)
        yield line if text is line.text else line._replace(text=text)


def is_masked(client_id: str) -> bool:
    """Whether an id carried keys."""
    return f"@{MASK}" in client_id
