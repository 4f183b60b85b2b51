r"""Chunks of a file's bytes in, numbered lines or blocks of them out, in bounded memory whatever the bytes are.

Nothing is dropped silently and nothing raises: an endless line, bad UTF-8, and a gzip file that is damaged or cut
become a line with a refusal. Byte positions count in the decompressed stream. With lines of at most 4 bytes:

>>> for line in read_lines([b"one\r\ntw", b"o\n\xff\nthr", b"ee"], gzipped=False, max_line_bytes=4):
...     print(line.number, line.byte_start, line.byte_end, line.text, line.refusal and line.refusal.code)
1 0 3 one None
2 5 8 two None
3 9 10 \xff INVALID_UTF8
4 11 16 three LINE_TOO_LONG

The chunks were cut inside of lines; that changes nothing. ``read_blocks`` gives the same lines, many at once.
"""

import codecs
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from hindsight.udfs.lines.archive_blocks import BLOCK_BYTES, cut, cut_evenly, inflate
from hindsight.udfs.lines.archive_blocks import Refusal as Refusal
from hindsight.udfs.lines.text_guess import GUESSED, LOOK_BYTES, Guess, is_wide, lacks_mark, mark_of

T = TypeVar("T")

SAMPLE_CHARS = 4096  # characters of a refused line's text
_SAMPLE_BYTES = 4 * SAMPLE_CHARS  # enough for as many characters
_BYTE_ORDER_MARK = codecs.BOM_UTF8
_GZIP_MAGIC = b"\x1f\x8b"
MOST_LINES = 1 << 19  # of a block: what is held of each line while it is read takes a hundred bytes


class Line(NamedTuple):
    """One line; ``number`` is 1-based, the byte range leaves out the terminator.

    ``text`` is the whole line, or a bounded beginning of it where ``refusal`` is set.
    """

    number: int
    byte_start: int
    byte_end: int
    text: str
    refusal: Refusal | None


class Form(NamedTuple):
    """How bytes are lines: see ``read_lines``; ``guess``: what is known so far of an encoding that nobody declared."""

    max_line_bytes: int
    encoding: str = "utf-8"
    guess: Guess | None = None


class Block(NamedTuple):
    """Whole lines that follow one another; ``data`` holds them without the last one's terminator.

    ``number`` and ``byte_start`` are those of the first line.
    """

    number: int
    byte_start: int
    data: bytes
    form: Form

    def line(self, index: int, begin: int, end: int) -> Line:
        r"""One of the lines, by its index from 0 and the place of its bytes in ``data``, ``\n`` left out."""
        raw = self.data[begin:end]
        size = len(raw) - raw.endswith(b"\r")
        return _line(self.number + index, self.byte_start + begin, size, raw[:size], self.form)


_MAKE_LINE = partial(tuple.__new__, Line)  # of a tuple of all its fields, without a step of Python


def read_lines(
    chunks: Iterable[bytes], *, gzipped: bool, max_line_bytes: int, encoding: str = "utf-8", guess: Guess | None = None
) -> Iterator[Line]:
    r"""The lines of a file, refused ones among them, each exactly once and in order.

    Lines end with ``\n`` or ``\r\n``, nothing else; the last may lack it. A byte order mark at the very start belongs
    to no line. The same bytes give the same lines however they are cut into chunks. Memory stays below a small
    multiple of ``max_line_bytes`` plus some MB plus the caller's own chunk.

    Refused, text bounded to 4096 characters of the line's beginning, bytes that are not UTF-8 as ``\xNN``:
    ``LINE_TOO_LONG`` (of its first 4096 bytes; its byte range is true), ``INVALID_UTF8`` (the detail has the first
    bad byte's position; of another encoding ``NOT_IN_ENCODING``).
    Where a gzip file ends too early (``TRUNCATED_GZIP``; of zero bytes, too) or is damaged (``CORRUPT_GZIP``, also a
    wrong check sum or length and anything but zeros after the last member), the whole lines before come as usual and
    one last line holds the rest, possibly empty. So too where it inflates to more than 64 MiB and 300 times what was
    read of it (``ARCHIVE_BOMB``). ``NOT_GZIP`` is the only line of a file that does not begin as gzip.

    Args:
        chunks: the file's bytes in order, cut anywhere; what iterating over them raises is passed on.
        gzipped: whether they are gzip, of one or more members, zeros after a member allowed.
        max_line_bytes: longest line that is given whole, >= 1, terminator not counted.
        encoding: of the text; UTF-16, or one in which the byte of a line's end is never part of another character.
            ``GUESSED``: see ``text_guess``. UTF-16 is read as UTF-8, and byte ranges are of that.
        guess: takes the encodings that were guessed.
    """
    if max_line_bytes < 1:
        raise ValueError(f"max_line_bytes must be at least 1, not {max_line_bytes}")
    form = Form(max_line_bytes, encoding, guess)
    if gzipped:
        return _gzip_lines(chunks, form, lines_of_blocks)
    return lines_of_blocks(cut(chunks, BLOCK_BYTES), form)


def read_blocks(
    chunks: Iterable[bytes], *, gzipped: bool, max_line_bytes: int, block_bytes: int = 4 << 20
) -> Iterator[Block | Line]:
    """The lines that ``read_lines`` gives, in the same order; those that no block's edge cuts are still together.

    ``block_bytes``: about how many bytes of the file a block holds; fewer where it has more than ``MOST_LINES``.
    """
    form = Form(max_line_bytes)
    if gzipped:
        return _gzip_lines(chunks, form, partial(_blocks, block_bytes=block_bytes))
    return _blocks(iter(chunks), form, block_bytes=block_bytes)


def _gzip_lines(
    chunks: Iterable[bytes], form: Form, split: Callable[[Iterator[bytes | Refusal], Form], Iterator[T]]
) -> Iterator[T | Line]:
    # Pieces of one size make every call of zlib, and so what is left of a damaged file, independent of the chunks.
    pieces = cut_evenly(chunks)
    head = next(pieces, b"")
    if _GZIP_MAGIC.startswith(head[:2]):
        yield from split(inflate(itertools.chain([head], pieces)), form)
    else:
        detail = f"begins with {head[:2].hex(' ')}, gzip begins with {_GZIP_MAGIC.hex(' ')}"
        yield Line(1, 0, 0, _sample(head), Refusal("NOT_GZIP", detail))


def lines_of_blocks(blocks: Iterator[bytes | Refusal], form: Form) -> Iterator[Line]:
    """The lines of blocks of bytes, of which a refusal may be the last: see ``read_lines``."""
    # Chained, not yielded one by one: most lines pass without a step of Python.
    if form.encoding == GUESSED or is_wide(form.encoding):
        return itertools.chain.from_iterable(_lines_of_text(blocks, form))
    if form.guess is not None and form.encoding != "utf-8":
        form.guess.heard.add(form.encoding)
    return itertools.chain.from_iterable(_lines_by_block(blocks, form._replace(guess=None), _whole_lines))


def _lines_of_text(blocks: Iterator[bytes | Refusal], form: Form) -> Iterator[Iterable[Line]]:
    """The lines of a text whose encoding is to be guessed, or in which lines cannot be cut: UTF-16 becomes UTF-8."""
    begin, blocks = _begin_of(blocks)
    marked = mark_of(begin)
    guess = form.guess or Guess()
    if form.encoding == GUESSED and marked is None:
        if lacks_mark(begin):
            detail = "this looks like UTF-16 without a mark: declare the encoding"
            yield (Line(1, 0, 0, _sample(begin), Refusal("NOT_IN_ENCODING", detail)),)
            return
        if begin.startswith(_BYTE_ORDER_MARK):
            guess.heard.add("utf-8 with a mark")
        yield from _lines_by_block(blocks, form._replace(encoding="utf-8", guess=guess), _whole_lines)
        return
    encoding = form.encoding or marked or ""
    guess.heard.add(encoding)
    yield from _lines_by_block(_as_utf_8(blocks, encoding), Form(form.max_line_bytes), _whole_lines)


def _begin_of(blocks: Iterator[bytes | Refusal]) -> tuple[bytes, Iterator[bytes | Refusal]]:
    """The bytes that a text begins with, and all of its blocks."""
    held: list[bytes | Refusal] = []
    begin = b""
    for block in blocks:
        held.append(block)
        if isinstance(block, Refusal):
            break
        begin += block
        if len(begin) >= LOOK_BYTES:
            break
    return begin[:LOOK_BYTES], itertools.chain(held, blocks)


def _as_utf_8(blocks: Iterator[bytes | Refusal], encoding: str) -> Iterator[bytes | Refusal]:
    """The same text as UTF-8; where it is no text of the encoding it ends with a refusal."""
    decoder = codecs.getincrementaldecoder(encoding)()
    # A mark belongs to no line: the reader of lines takes off that of UTF-8.
    try:
        for block in blocks:
            if isinstance(block, Refusal):
                yield block
                return
            yield decoder.decode(block).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        yield Refusal("NOT_IN_ENCODING", f"no {encoding}: {error}"[:SAMPLE_CHARS])


def _blocks(blocks: Iterator[bytes | Refusal], form: Form, *, block_bytes: int) -> Iterator[Block | Line]:
    return itertools.chain.from_iterable(_lines_by_block(_joined(blocks, block_bytes), form, _as_block))


def _joined(blocks: Iterator[bytes | Refusal], size: int) -> Iterator[bytes | Refusal]:
    """The same bytes in blocks of at least ``size``, the last one left aside."""
    held: list[bytes] = []
    left = size
    for block in blocks:
        if isinstance(block, Refusal):
            yield b"".join(held)
            yield block
            return
        held.append(block)
        left -= len(block)
        if left <= 0:
            yield b"".join(held)
            held, left = [], size
    yield b"".join(held)


def _as_block(block: bytes, number: int, start: int, form: Form) -> Iterable[Block]:
    if block.count(b"\n") < MOST_LINES:
        return (Block(number, start, block, form),)
    middle = block.find(b"\n", len(block) // 2)
    middle = block.rfind(b"\n") if middle < 0 else middle
    first, rest = block[:middle], block[middle + 1 :]
    later = number + first.count(b"\n") + 1, start + middle + 1
    return itertools.chain(_as_block(first, number, start, form), _as_block(rest, *later, form))


# Of whole lines without the last terminator, the number and first byte of the first: what comes out for them.
_Whole = Callable[[bytes, int, int, Form], Iterable[Any]]


def _lines_by_block(blocks: Iterator[bytes | Refusal], form: Form, whole: _Whole) -> Iterator[Iterable[Any]]:
    splitter = _Splitter(form, whole)
    head = b""
    refusal = None
    for block in blocks:
        if isinstance(block, Refusal):
            refusal = block
        elif splitter.is_begun:
            yield splitter.feed(block)
        else:
            head += block
            if len(head) >= len(_BYTE_ORDER_MARK):
                yield splitter.begin(head)
    if not splitter.is_begun:
        yield splitter.begin(head)
    yield splitter.end(refusal)


class _Splitter:
    """Cuts blocks into lines; holds the beginning of the line that no block has ended yet."""

    def __init__(self, form: Form, whole: _Whole) -> None:
        self.form = form
        self.whole = whole
        self.is_begun = False
        self.number = 1
        self.start = 0
        self.size = 0  # of the unfinished line, held or not
        self.held = bytearray()
        self.hold_at_most = max(form.max_line_bytes, _SAMPLE_BYTES)
        self.ends_with_return = False

    def begin(self, block: bytes) -> Iterable[Any]:
        self.is_begun = True
        if block.startswith(_BYTE_ORDER_MARK):
            self.start = len(_BYTE_ORDER_MARK)
            block = block[self.start :]
        return self.feed(block)

    def feed(self, block: bytes) -> Iterable[Any]:
        last = block.rfind(b"\n")
        if last < 0:
            self._hold(block)
            return ()
        begin = 0
        lines: Iterable[Any] = ()
        if self.size:
            first = block.find(b"\n")
            self._hold(block[:first])
            lines = (self._finish(is_terminated=True),)
            begin = first + 1
        if begin <= last:
            number, start = self.number, self.start
            self.number += block.count(b"\n", begin, last) + 1
            self.start += last + 1 - begin
            lines = itertools.chain(lines, self.whole(block[begin:last], number, start, self.form))
        self._hold(block[last + 1 :])
        return lines

    def end(self, refusal: Refusal | None) -> Iterator[Line]:
        if refusal is not None:
            yield Line(self.number, self.start, self.start + self.size, _sample(self.held, self.form.encoding), refusal)
        elif self.size:
            yield self._finish(is_terminated=False)

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return  # and \r may still be the last byte
        self.held += piece[: self.hold_at_most - len(self.held)]
        self.size += len(piece)
        self.ends_with_return = piece.endswith(b"\r")

    def _finish(self, *, is_terminated: bool) -> Line:
        size = self.size - (is_terminated and self.ends_with_return)
        raw = bytes(self.held[:size])
        if self.form.guess is not None and not raw.isascii():
            self.form.guess.look(raw)
        line = _line(self.number, self.start, size, raw, self.form)
        self.number += 1
        self.start += self.size + 1
        self.size = 0
        self.held.clear()
        return line


def _whole_lines(block: bytes, number: int, start: int, form: Form) -> Iterator[Line]:
    r"""Lines of a block without its last ``\n``: all together where each is text and short, one by one where not."""
    try:
        texts = block.decode(form.encoding).split("\n")
    except UnicodeDecodeError:
        if form.guess is not None:
            form.guess.look(block)
        return _one_by_one(block, number, start, form)
    if form.guess is not None and form.guess.refused is not None:
        return _one_by_one(block, number, start, form)
    sizes = list(map(len, texts if block.isascii() else block.split(b"\n")))
    if max(sizes) > form.max_line_bytes:
        return _one_by_one(block, number, start, form)
    # Most lines of most files pass here: no step of Python is taken for a single one.
    starts = list(itertools.accumulate(map((1).__add__, sizes), initial=start))
    shown: Iterable[str] = texts
    lengths: Iterable[int] = sizes
    if b"\r" in block:
        shown = map(str.removesuffix, texts, itertools.repeat("\r"))
        lengths = map(operator.sub, sizes, map(str.endswith, texts, itertools.repeat("\r")))
    ends = map(operator.add, starts, lengths)
    return map(_MAKE_LINE, zip(itertools.count(number), starts, ends, shown, itertools.repeat(None)))


def _one_by_one(block: bytes, number: int, start: int, form: Form) -> Iterator[Line]:
    for raw in block.split(b"\n"):
        size = len(raw) - raw.endswith(b"\r")
        yield _line(number, start, size, raw[:size], form)
        number += 1
        start += len(raw) + 1


def _line(number: int, start: int, size: int, raw: bytes, form: Form) -> Line:
    """The line of ``size`` bytes that begins with ``raw``, which is all of it where it is not too long."""
    end = start + size
    if size > form.max_line_bytes:
        detail = f"{size} bytes, more than {form.max_line_bytes}"
        sample = _sample(raw[:size], form.encoding, SAMPLE_CHARS)
        return Line(number, start, end, sample, Refusal("LINE_TOO_LONG", detail))
    if form.guess is not None and form.guess.refused is not None and raw:
        return Line(number, start, end, _sample(raw), Refusal("NOT_IN_ENCODING", form.guess.refused))
    try:
        return Line(number, start, end, _decoded(raw, form), None)
    except UnicodeDecodeError as error:
        detail = (
            f"{error.reason}: 0x{raw[error.start]:02x} at byte {start + error.start} of the file, "
            f"{error.start} of the line (both from 0)"
        )
        code = "INVALID_UTF8" if form.encoding == "utf-8" else "NOT_IN_ENCODING"
        return Line(number, start, end, _sample(raw, form.encoding), Refusal(code, detail))


def _decoded(raw: bytes, form: Form) -> str:
    """The text of a line; raises UnicodeDecodeError, of a guessed encoding that of UTF-8."""
    try:
        return raw.decode(form.encoding)
    except UnicodeDecodeError as error:
        if form.guess is None:
            raise
        try:
            return form.guess.decoded(raw)
        except UnicodeDecodeError as other:
            error.reason = f"{error.reason}, nor GB18030: {other.reason}"
        raise


def _sample(raw: bytes | bytearray, encoding: str = "utf-8", most_bytes: int = _SAMPLE_BYTES) -> str:
    """A bounded beginning to look at; a character that the bound cuts in two is left out."""
    decoder = codecs.getincrementaldecoder(encoding)("backslashreplace")
    return decoder.decode(raw[:most_bytes], final=len(raw) <= most_bytes)[:SAMPLE_CHARS]
