"""fastjson's dialect in, Python values out: what a RocketMQ admin call answers when it is not strict JSON.

It is strict JSON with two more kinds of member key, which fastjson writes for Java maps: an integer (broker addresses)
and an object (everything with a message queue as its key):

>>> parse_fastjson('{"brokerAddrs":{0:"127.0.0.1:10911"}}')
{'brokerAddrs': {0: '127.0.0.1:10911'}}
>>> table = parse_fastjson('{{"brokerName":"b","queueId":0,"topic":"T"}:{"brokerOffset":7}}')
>>> [(dict(key), value) for key, value in table.items()]
[({'brokerName': 'b', 'queueId': 0, 'topic': 'T'}, {'brokerOffset': 7})]
>>> parse_fastjson('{"a":1')
Traceback (most recent call last):
hindsight.udfs.formats.fastjson.FastjsonError: expected ',' or '}' at character 6

There are two readers. The quick one writes a string in place of every such key, lets a JSON library read the whole, and
puts the keys back. If that fails for any reason, the walk reads the text character by character. Only the walk decides
what is refused and where. The time of both is linear in the length.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import orjson

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


DEEPEST_LIMIT = 128  # the walk recurses two frames a level: far below the interpreter's own limit
_JAVA_LONG = range(-(2**63), 2**63)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
# What must stand before is looked at second, so that the search for where a match may begin stays quick.
_OBJECT_KEY = re.compile(r"\{(?<=[{, \t\n\r]\{)[^{}]{0,1000}+\}(?=[ \t\n\r]*+:)")
_INTEGER_KEY = re.compile(r"[-0-9](?<=[{, \t\n\r][-0-9])[0-9]{0,19}+(?=[ \t\n\r]*+:)")
_SPACE = re.compile(r"[ \t\n\r]*")
_CONTAINERS = (dict, list)


class FastjsonError(ValueError):
    """Raised when a text is not fastjson's dialect: what is wrong, and the 0-based character where it is wrong."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message, position)
        self.message = message
        self.position = position

    def __str__(self) -> str:
        return f"{self.message} at character {self.position}"


class ObjectKey(tuple[tuple[str, Any], ...]):
    """An object that stands as a member key: its (name, scalar) pairs sorted by name; ``dict(key)`` is the object."""

    __slots__ = ()


class _NumberError(ValueError):
    """Raised inside the scanner's hooks, which do not know the position."""


def _finite(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise _NumberError("number too large for a double")
    return number


def _refuse_constant(literal: str) -> None:
    raise _NumberError(f"{literal} is not a JSON value")


def _integer(literal: str) -> int | float:
    number = int(literal)
    return number if -(2**63) <= number < 2**64 else _finite(literal)


_SCANNER = json.JSONDecoder(parse_float=_finite, parse_int=_integer, parse_constant=_refuse_constant)


def parse_fastjson(text: str, *, max_depth: int = 32, max_chars: int = 64 * 2**20) -> Any:
    """The value of one document in fastjson's dialect.

    Integer keys become ``int``, object keys ``ObjectKey``, all others ``str``; of equal keys the last wins; lone
    surrogates stay; an integer that no 64 bits hold becomes a float. Time is linear in the length, memory a small
    multiple of it and of the value.

    Args:
        text: the whole document; white space around it is allowed.
        max_depth: containers inside one another, 1 to 128; a key that is an object counts as one.
        max_chars: longest text accepted.
    Raises: FastjsonError: for anything else, among it a text too long or nested too deeply, bytes after the
        document, NaN, Infinity and numbers too large for a double, integers of more digits than Python converts,
        integer keys beyond a Java long, and key objects that hold a container or another kind of key.
    """
    if not 1 <= max_depth <= DEEPEST_LIMIT:
        raise ValueError(f"max_depth must be 1 to {DEEPEST_LIMIT}, not {max_depth}")
    if len(text) > max_chars:
        raise FastjsonError(f"text of {len(text)} characters, more than {max_chars}", max_chars)
    if is_nested_at_most(text, max_depth):
        try:
            return _quickly(text)
        except ValueError:
            pass  # an error, or what the quick reader leaves alone: the walk finds out which and where
    walk = _Walk(text)
    value, end = walk.value(walk.skip_space(0), max_depth)
    end = walk.skip_space(end)
    if end != len(text):
        raise FastjsonError("text after the end of the document", end)
    return value


def _quickly(text: str) -> Any:
    """The value of a text by orjson; ValueError: ask the walk.

    A dialect key becomes the string ``"#n"``. What merely looks like one inside a string is found out: the first
    quote of its replacement ends that string, and a ``#`` behind a string is an error.
    """
    # The search for one character is by far the quicker one, and mostly enough.
    if ("#" in text and '"#' in text) or ("\\" in text and '"\\' in text):
        raise ValueError("strings of its own may look like replaced keys")
    keys: dict[str, int | ObjectKey] = {}
    text = _OBJECT_KEY.sub(partial(_replaced, keys, _object_key), text)
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = orjson.loads(_INTEGER_KEY.sub(partial(_replaced, keys, _integer_key), text))
    if type(value) in _CONTAINERS:
        _put_back(value, keys)
    return value


def _put_back(document: Any, keys: Mapping[str, Any]) -> None:
    """Write the keys of a document's objects in place of their names; level by level, until none is left."""
    left, level = len(keys), [document] if keys else []
    while level:
        for one in level:
            if type(one) is dict and not keys.keys().isdisjoint(one):
                members = {keys.get(name, name): value for name, value in one.items()}
                left -= len(keys.keys() & one.keys())
                one.clear()
                one.update(members)
        if not left:
            return
        inner = (one.values() if type(one) is dict else one for one in level)
        level = [item for items in inner for item in items if type(item) in _CONTAINERS]


def _replaced(keys: dict[str, Any], key_of: Callable[[str], Any], found: re.Match[str]) -> str:
    name = f"#{len(keys)}"
    keys[name] = key_of(found[0])
    return f'"{name}"'


def _integer_key(digits: str) -> int:
    if not _INTEGER.fullmatch(digits) or int(digits) not in _JAVA_LONG:
        raise ValueError("not a key")
    return int(digits)


@lru_cache(maxsize=2**14)
def _object_key(text: str) -> ObjectKey:
    """Of an object's text its key; the same few queues are the keys of most objects that are read."""
    members = orjson.loads(text)
    if not all(map(_may_stand_in_key, members.values())):
        raise ValueError("not a key")
    return ObjectKey(sorted(members.items()))


class _Walk(NamedTuple):
    """Recursive descent over one text; each reader takes a position and returns its value and the position after."""

    text: str

    def skip_space(self, at: int) -> int:
        if self.text[at : at + 1] in " \t\n\r":
            space = _SPACE.match(self.text, at)
            return space.end() if space else at
        return at

    def value(self, at: int, levels_left: int) -> tuple[Any, int]:
        first = self.text[at : at + 1]
        if first not in ("{", "["):
            return self._scalar(at)
        if not levels_left:
            raise FastjsonError("nested too deeply", at)
        return self._object(at, levels_left) if first == "{" else self._array(at, levels_left)

    def _object(self, at: int, levels_left: int, *, as_key: bool = False) -> tuple[dict[Any, Any], int]:
        members: dict[Any, Any] = {}
        at = self.skip_space(at + 1)
        if self.text[at : at + 1] == "}":
            return members, at + 1
        while True:
            key, at = self._scalar(at) if self.text[at : at + 1] == '"' else self._other_key(at, levels_left, as_key)
            at = self.skip_space(at)
            if self.text[at : at + 1] != ":":
                raise FastjsonError("expected ':' after a key", at)
            at = self.skip_space(at + 1)
            members[key], at = self._part_of_key(at) if as_key else self.value(at, levels_left - 1)
            at, is_last = self._next_or_end(at, "}")
            if is_last:
                return members, at

    def _array(self, at: int, levels_left: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        at = self.skip_space(at + 1)
        if self.text[at : at + 1] == "]":
            return items, at + 1
        while True:
            item, at = self.value(at, levels_left - 1)
            items.append(item)
            at, is_last = self._next_or_end(at, "]")
            if is_last:
                return items, at

    def _next_or_end(self, at: int, end_mark: str) -> tuple[int, bool]:
        at = self.skip_space(at)
        mark = self.text[at : at + 1]
        if mark == end_mark:
            return at + 1, True
        if mark != ",":
            raise FastjsonError(f"expected ',' or '{end_mark}'", at)
        return self.skip_space(at + 1), False

    def _other_key(self, at: int, levels_left: int, as_key: bool) -> tuple[int | ObjectKey, int]:
        if as_key:
            raise FastjsonError("expected a string as key inside a key object", at)
        if self.text[at : at + 1] == "{":
            return self._object_key(at, levels_left - 1)
        integer = _INTEGER.match(self.text, at)
        if integer is None:
            raise FastjsonError("expected a string, an integer or an object as key", at)
        digits = integer[0]
        # Beyond a long nothing was written by Java, and equal hashes could be had for the asking.
        if len(digits) > 20 or int(digits) not in _JAVA_LONG:
            raise FastjsonError("integer key beyond a Java long", at)
        return int(digits), integer.end()

    def _object_key(self, at: int, levels_left: int) -> tuple[ObjectKey, int]:
        if not levels_left:
            raise FastjsonError("nested too deeply", at)
        members, end = self._object(at, levels_left, as_key=True)
        return ObjectKey(sorted(members.items())), end

    def _part_of_key(self, at: int) -> tuple[Any, int]:
        if self.text[at : at + 1] in ("{", "["):
            raise FastjsonError("container inside a key object", at)
        value, end = self._scalar(at)
        if not _may_stand_in_key(value):
            raise FastjsonError("integer in a key object beyond a Java long", at)
        return value, end

    def _scalar(self, at: int) -> tuple[Any, int]:
        try:
            return _SCANNER.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            raise FastjsonError(error.msg.rstrip(": "), error.pos) from None
        except _NumberError as error:
            raise FastjsonError(str(error), at) from None
        except ValueError:
            raise FastjsonError("integer of too many digits", at) from None


def _may_stand_in_key(value: Any) -> bool:
    if isinstance(value, int):
        return value in _JAVA_LONG
    return not isinstance(value, dict | list)
