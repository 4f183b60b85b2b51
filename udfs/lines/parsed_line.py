"""What a format parser gives for each line, and the checks that parsers share.

A parser is a pure function from the lines of one file to one ``ParsedLine`` each, in order. A line without records
and without refusal is ignored. Instants in records are epoch milliseconds.

What was read of an answer that is refused in, the trace that it was asked for in vain out.

Without one a refused answer would look as if nobody had asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import orjson

from hindsight.udfs.lines.bounded_lines import Line, Refusal

# Bounds of what can be an instant: RocketMQ is younger than 2010, and seconds or nanoseconds fall outside.
EARLIEST_MS = 1_262_304_000_000  # 2010-01-01
LATEST_MS = 4_102_444_800_000  # 2100-01-01
ERROR_CHARS = 1000
MOST_A_SECOND = 1e12  # of a rate; more is no rate of a cluster's
_BEYOND = {32: 2**31, 64: 2**63}  # the first number that a Java integer of so many bits cannot hold
NOT_ASKED = "notAsked"  # the kind of a capture that tells what a collector had no time to ask of a server
# Before the reason code, in the ``error`` of a capture whose answer could not be read.
UNREADABLE = "answer not readable: "
_CAPTURE = "snapshot_capture"
_ASKED = (
    *("collector", "captured_at", "captured_end_at", "kind", "subject", "broker_name", "name_server"),
    *("consumer_group", "client_id", "producer_group", "topic"),
)


class Record(NamedTuple):
    """A row for a table; columns that the parser does not know are left out."""

    table: str
    row: dict[str, Any]


class ParsedLine(NamedTuple):
    """One line and what came of it; a refused line has records where it shows that something was asked in vain."""

    line: Line
    records: tuple[Record, ...] = ()
    refusal: Refusal | None = None


_MAKE_PARSED_LINE: Callable[[Iterable[Any]], ParsedLine] = partial(tuple.__new__, ParsedLine)


def ignored(line: Line) -> ParsedLine:
    """A line of which nothing comes: what most lines of a log are, hence made without the steps of a constructor."""
    return _MAKE_PARSED_LINE((line, (), None))


class ClientLogLayout(NamedTuple):
    """What the settings say of the client logs that its shell patterns match, as plain values.

    ``file`` is matched with a log's path in its cluster's folder, and with its name.
    """

    cluster: str = "*"
    file: str = "*"
    pattern: str | None = None
    zone: str | None = None
    encoding: str | None = None
    date_from_file_name: bool = False


class TextEncoding(NamedTuple):
    """What the settings say of the encoding of text files that the shell patterns match, as plain values.

    ``file`` is matched with a file's path in its cluster's folder, and with its name; ``format`` is a landing format.
    """

    encoding: str
    cluster: str = "*"
    format: str = "*"
    file: str = "*"


class LandedFile(NamedTuple):
    """What is known of a file besides its lines.

    ``path``: inside its cluster's landing folder. ``args`` and ``ran_at`` (epoch ms): the command whose output it is
    and when it ran, where a list of commands beside the file says so. ``layout``: what the settings say of a log.
    ``look``: gives its lines anew; None: they can be read only once.
    """

    path: str = ""
    args: str | None = None
    ran_at: int | None = None
    layout: ClientLogLayout | None = None
    look: Callable[[], Iterable[Line]] | None = None


class RefusedLineError(ValueError):
    """Raised by a parser for a line that must go to quarantine."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.refusal = Refusal(code, detail)
        self.records: tuple[Record, ...] = ()

    def leaving(self, records: tuple[Record, ...]) -> RefusedLineError:
        """This refusal, with what is stored of the line all the same."""
        self.records = records
        return self


Fields = Mapping[str, Any]


def each_line(parse_one: Callable[[str], tuple[Record, ...]]) -> Callable[[Iterable[Line]], Iterator[ParsedLine]]:
    """Make a parser of a file from a function of one line's text; its ``RefusedLineError`` becomes the refusal."""

    def parse(lines: Iterable[Line]) -> Iterator[ParsedLine]:
        for line in lines:
            if line.refusal is not None:
                yield ParsedLine(line, refusal=line.refusal)
            elif not line.text or line.text.isspace():
                yield ignored(line)
            else:
                try:
                    yield ParsedLine(line, parse_one(line.text))
                except RefusedLineError as refused:
                    yield ParsedLine(line, refused.records, refused.refusal)
                except RecursionError:  # orjson reads deeper than Python can show, compare or write
                    yield ParsedLine(line, refusal=Refusal("NOT_JSON", "nested too deeply"))

    return parse


def json_object(text: str) -> Fields:
    """The JSON object that a whole line is; refused: NOT_JSON with the position, NOT_AN_OBJECT."""
    try:
        value = read_json(text)
    except json.JSONDecodeError as error:
        raise RefusedLineError("NOT_JSON", f"{error.msg} at character {error.pos}") from None
    except (ValueError, RecursionError) as error:
        raise RefusedLineError("NOT_JSON", f"beyond what can be read: {type(error).__name__}") from None
    if not isinstance(value, dict):
        raise RefusedLineError("NOT_AN_OBJECT", f"found a JSON {type(value).__name__}, expected an object")
    return value


def read_json(text: str) -> Any:
    """What ``json.loads`` gives, only sooner; an integer that no 64 bits hold may come as a float.

    Raises what ``json.loads`` raises.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)  # takes half a surrogate pair too, and says better what is wrong


def text_field(fields: Fields, name: str) -> str:
    """A string that must be there and not empty."""
    value = fields.get(name)
    if type(value) is str and value and value.isascii():
        return value
    if value is None or value == "":
        raise RefusedLineError("MISSING_FIELD", f"{name!r} is missing")
    if not isinstance(value, str):
        raise RefusedLineError("WRONG_TYPE", f"{name!r} is {value!r:.80}, expected a string")
    if not _is_unicode(value):
        raise RefusedLineError("NOT_UNICODE", f"{name!r} holds half a surrogate pair: {value!r:.80}")
    return value


def _is_unicode(text: str) -> bool:
    """JSON can write half a surrogate pair, which no table can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def optional_text(fields: Fields, name: str) -> str | None:
    """A string, or None where it is absent, null or empty."""
    value = fields.get(name)
    if type(value) is str and value and value.isascii():
        return value
    return None if value is None or value == "" else text_field(fields, name)


def known_value(value: str, name: str, known: Collection[str]) -> str:
    """A value of which only these are known; refused: UNKNOWN_VALUE."""
    if value not in known:
        raise RefusedLineError("UNKNOWN_VALUE", f"{name!r} is {value!r:.80} (known: {', '.join(known)})")
    return value


def one_of(*known: str) -> Callable[[Fields, str], str]:
    """A reader of texts of which only these are known."""

    def read(fields: Fields, name: str) -> str:
        value = text_field(fields, name)
        return value if value in known else known_value(value, name, known)

    return read


def whole_number(fields: Fields, name: str) -> int:
    """An integer of at most 64 bits that must be there; a boolean or a fraction is refused."""
    value = fields.get(name)
    if value is None:
        raise RefusedLineError("MISSING_FIELD", f"{name!r} is missing")
    if type(value) is not int and not (type(value) is float and abs(value) >= 2**63):
        raise RefusedLineError("WRONG_TYPE", f"{name!r} is {value!r:.80}, expected a whole number")
    if isinstance(value, float) or not -(2**63) <= value < 2**63:
        raise RefusedLineError("OUT_OF_RANGE", f"{name!r} does not fit 64 bits")
    return value


def optional_number(fields: Fields, name: str) -> int | None:
    """An integer, or None where it is absent or null."""
    value = fields.get(name)
    if value is None or (type(value) is int and -(2**63) <= value < 2**63):
        return value
    return whole_number(fields, name)


def optional_int32(fields: Fields, name: str) -> int | None:
    """As ``int32``, or None where it is absent or null."""
    return None if fields.get(name) is None else int32(fields, name)


def optional_rate(fields: Fields, name: str) -> float | None:
    """A number from 0 on, or None where it is absent, null or no such number (NaN of a division)."""
    value = fields.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value < MOST_A_SECOND else None


def is_whole(text: str) -> bool:
    """Whether a text is a whole number of no more digits than 64 bits have, with or without a sign."""
    return text.isascii() and len(text) <= 20 and text.removeprefix("-").isdigit()


def java_number(text: str, bits: int) -> int:
    """The whole number that a text is, within a Java ``int`` (32) or ``long`` (64)."""
    if not is_whole(text):
        raise RefusedLineError("WRONG_TYPE", f"{text[:40]!r} is no whole number")
    value = int(text)
    if not -_BEYOND[bits] <= value < _BEYOND[bits]:
        raise RefusedLineError("OUT_OF_RANGE", f"{value} does not fit {bits} bits")
    return value


def int32(fields: Fields, name: str) -> int:
    """An integer of at most 32 bits, as Java's ``int``."""
    value = fields.get(name)
    if type(value) is int and -(2**31) <= value < 2**31:
        return value
    value = whole_number(fields, name)
    if not -(2**31) <= value < 2**31:
        raise RefusedLineError("OUT_OF_RANGE", f"{name!r} is {value}, which no Java int holds")
    return value


def lag_between(broker_offset: int, consumer_offset: int) -> int:
    """Messages between the broker's offset and the group's; refused: OUT_OF_RANGE, where no Java long holds them."""
    lag = broker_offset - consumer_offset
    if not -_BEYOND[64] <= lag < _BEYOND[64]:
        raise RefusedLineError(
            "OUT_OF_RANGE", f"between the offsets {broker_offset} and {consumer_offset} lie more than 64 bits can count"
        )
    return lag


def optional_flag(fields: Fields, name: str) -> bool | None:
    """A boolean, or None where it is absent or null; RocketMQ's property texts "true" and "false" count."""
    value = fields.get(name)
    if value is None or isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise RefusedLineError("WRONG_TYPE", f"{name!r} is {value!r:.80}, expected true or false")


def is_instant(value: int) -> bool:
    """Whether a number is epoch milliseconds between 2010 and 2100."""
    return EARLIEST_MS <= value < LATEST_MS


def instant(fields: Fields, name: str) -> int:
    """Epoch milliseconds between 2010 and 2100; seconds are told apart from other nonsense."""
    value = fields.get(name)
    if type(value) is int and EARLIEST_MS <= value < LATEST_MS:
        return value
    value = whole_number(fields, name)
    if is_instant(value * 1000):
        raise RefusedLineError("TIMESTAMP_IN_SECONDS", f"{name!r} is {value}, which is seconds; expected milliseconds")
    raise RefusedLineError("TIMESTAMP_OUT_OF_RANGE", f"{name!r} is {value}, not an instant in ms from 2010 to 2100")


def instant_or_never(fields: Fields, name: str) -> int | None:
    """As ``instant``, but RocketMQ's 0 (and an absent value) means never."""
    value = fields.get(name)
    if type(value) is int and EARLIEST_MS <= value < LATEST_MS:
        return value
    return None if value is None or value == 0 else instant(fields, name)


def queue_id(fields: Fields, name: str = "queueId", *, lowest: int = 0) -> int:
    """A queue id, >= ``lowest``."""
    value = fields.get(name)
    if type(value) is int and lowest <= value < 2**31:
        return value
    value = int32(fields, name)
    if value < lowest:
        raise RefusedLineError("NEGATIVE_QUEUE_ID", f"{name!r} is {value}; queue ids begin at {lowest}")
    return value


def lines_lost(record: Record, group: str) -> RefusedLineError:
    """The refusal of a line that says how many lines a recorder has lost; ``record``: what is stored of it."""
    row = record.row
    before = f"{datetime.fromtimestamp(row['told_at'] // 1000, UTC):%Y-%m-%d %H:%M:%S}"
    told = f"{row['lines']} lines of {row['client_id']} ({group}) were not written before {before}"
    return RefusedLineError("LINES_LOST", told).leaving((record,))


def asked_in_vain(records: Iterable[Record], code: str) -> tuple[Record, ...]:
    """The captures among a refused line's records, as reads without an answer; ``code``: why it was refused."""
    unread = {"answered": False, "error": f"{UNREADABLE}{code}"}
    return tuple(
        Record(table, {name: row[name] for name in _ASKED if name in row} | unread)
        for table, row in records
        if table == _CAPTURE
    )
