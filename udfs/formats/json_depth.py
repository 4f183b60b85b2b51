"""A text of JSON or of fastjson's dialect in, whether it nests too deeply out; in time linear in its length."""

from __future__ import annotations

_BLOCK_CHARS = 2**18
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NOT_A_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


def is_nested_at_most(text: str, max_depth: int) -> bool:
    """Whether no container of the text lies deeper; false also when brackets do not pair.

    Exact up to the text's first error, which is as far as any reader gets: brackets in strings do not count.
    Each round takes away the innermost pairs, so as many rounds as levels leave nothing.
    """
    if text.count("{") + text.count("[") <= max_depth:
        return True
    brackets = _brackets_outside_strings(text)
    for _ in range(max_depth):
        shorter = brackets.replace(b"[]", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    return not brackets


def _brackets_outside_strings(text: str) -> bytes:
    """All brackets that are not in a string, braces as square ones; in blocks, since split makes many small parts."""
    kept = []
    in_string = 0
    start = 0
    while start < len(text):
        end = min(start + _BLOCK_CHARS, len(text))
        while end < len(text) and text[end - 1] == "\\":
            end += 1  # a block never ends inside an escape
        block = text[start:end]
        if "\\" in block:
            block = block.replace("\\\\", "").replace('\\"', "")
        parts = block.split('"')
        outside = "".join(parts[in_string::2]).encode("ascii", "replace")
        kept.append(outside.translate(_ONE_KIND, _NOT_A_BRACKET))
        in_string = (in_string + len(parts) - 1) % 2
        start = end
    return b"".join(kept)
