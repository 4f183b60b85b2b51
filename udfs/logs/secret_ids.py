"""A text in, the same out with the credentials masked that a client id carries.

rocketmq-spring 2.0.4 to 2.1.1 with ACL on makes up instance names of ``accessKey|secretKey|group|pid``: the client id
``ip@accessKey|secretKey|group|pid`` stands in heartbeats, lists, logs and answers of everybody who asks. Nothing behind
the door ever holds the keys; the id stays an id, and members of one host keep their order.
Source: RocketMQUtil#getInstanceName, rocketmq-spring 2.0.4 to 2.1.1.
"""

from __future__ import annotations

import re

MASK = "***|***"
_BOTH = r'(?<=@)[^|@"\s]{1,256}\|[^|@"\s]{1,256}'
KEYS = re.compile(_BOTH + r'(?=\|[^"\s@]{1,512}\|[0-9])')  # behind them the group, which may hold a |, and the pid
CUT_KEYS = re.compile(_BOTH + r'(?=(?:\|[^"\s@]{0,512})?\Z)')


def without_secrets(text: str, *, is_cut: bool = False) -> str:
    """The text with both keys of each such id masked: ``10.0.0.1@***|***|group|77``.

    ``is_cut``: the text may end within an id.
    """
    if "|" not in text or "@" not in text:
        return text
    whole = KEYS.sub(MASK, text)
    return CUT_KEYS.sub(MASK, whole) if is_cut else whole


def is_masked(client_id: str) -> bool:
    """Whether an id carried keys."""
    return f"@{MASK}" in client_id
