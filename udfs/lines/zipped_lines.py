"""Chunks of a ZIP archive's bytes in, the numbered lines of the one file in it out, in bounded memory.

The archive is read from its beginning, as it comes: its directory, which stands at the end, is not needed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from hindsight.udfs.lines.archive_blocks import Refusal, cut_evenly, inflate_piece, refused_as_bomb
from hindsight.udfs.lines.bounded_lines import Form, Line, lines_of_blocks
from hindsight.udfs.lines.text_guess import Guess

_LOCAL = struct.Struct("<4s5H3I2H")
_MAGIC = b"PK\x03\x04"
_EMPTY = b"PK\x05\x06"
_DESCRIPTOR = b"PK\x07\x08"
_STORED, _DEFLATED = 0, 8
_IS_ENCRYPTED, _HAS_DESCRIPTOR = 1, 8
_ZIP64 = 0xFFFFFFFF
_TRUNCATED = Refusal("TRUNCATED_ZIP", "the archive ends too early")


class _Entry(NamedTuple):
    """The head of a file in an archive."""

    name: str
    flags: int
    method: int
    check_sum: int
    size: int


class _Refused(Exception):
    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.refusal = Refusal(code, detail)


def read_zip_lines(
    chunks: Iterable[bytes],
    *,
    takes: Callable[[str], bool],
    max_line_bytes: int,
    encoding: str = "utf-8",
    guess: Guess | None = None,
) -> Iterator[Line]:
    """The lines of the one file in an archive, as ``read_lines`` gives a file's.

    Refused beside what that refuses: ``NOT_ZIP``; ``TRUNCATED_ZIP``, ``CORRUPT_ZIP`` (also a wrong check sum) and
    ``ARCHIVE_BOMB`` after the whole lines before; ``ZIP_CONTENTS``, where the archive holds no file, one that
    ``takes`` does not take, one that is encrypted or packed otherwise than by deflate, or after its lines a second.

    Args:
        chunks: the archive's bytes in order, cut anywhere; what iterating over them raises is passed on.
        takes: of a name, whether such a file is one to read.
        max_line_bytes: see ``read_lines``.
        encoding, guess: see ``read_lines``.
    """
    return lines_of_blocks(_unpacked(_Source(chunks), takes), Form(max_line_bytes, encoding, guess))


class _Source:
    """The archive's bytes, read forwards."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._pieces = cut_evenly(chunks)
        self._held = b""
        self.read = 0

    def piece(self) -> bytes:
        """Some bytes; none at the end."""
        piece, self._held = self._held or next(self._pieces, b""), b""
        self.read += len(piece)
        return piece

    def give_back(self, unread: bytes) -> None:
        self._held = unread + self._held
        self.read -= len(unread)

    def take(self, size: int) -> bytes:
        """So many bytes, fewer at the end."""
        taken = bytearray()
        while len(taken) < size and (piece := self.piece()):
            taken += piece
        self.give_back(bytes(taken[size:]))
        return bytes(taken[:size])


def _unpacked(source: _Source, takes: Callable[[str], bool]) -> Iterator[bytes | Refusal]:
    try:
        entry = _first_file(source)
        if not takes(entry.name.rpartition("/")[2]):
            raise _Refused("ZIP_CONTENTS", f"holds {entry.name[:80]!r}, whose name is none of those that are read")
        yield from _blocks(source, entry)
        if (other := _next_file(source)) is not None:
            raise _Refused("ZIP_CONTENTS", f"holds a second file, {other.name[:80]!r}, which is not read")
    except _Refused as refused:
        yield refused.refusal


def _first_file(source: _Source) -> _Entry:
    begins = source.take(4)
    source.give_back(begins)
    if begins not in (_MAGIC, _EMPTY) and not (begins == b"" or _MAGIC.startswith(begins)):
        raise _Refused("NOT_ZIP", f"begins with {begins.hex(' ')}, a ZIP archive begins with {_MAGIC.hex(' ')}")
    entry = _next_file(source)
    if entry is None:
        raise _Refused("ZIP_CONTENTS", "holds no file")
    return entry


def _next_file(source: _Source) -> _Entry | None:
    """The next entry that is no folder and not hidden; None: the archive's directory begins."""
    while True:
        head = source.take(_LOCAL.size)
        if head[:4] != _MAGIC:
            if len(head) < 4:
                raise _Refused(*_TRUNCATED)
            return None
        if len(head) < _LOCAL.size:
            raise _Refused(*_TRUNCATED)
        _, _, flags, method, _, _, check_sum, packed, _, name_size, extra_size = _LOCAL.unpack(head)
        name = source.take(name_size).decode(errors="backslashreplace")
        extra = source.take(extra_size)
        entry = _Entry(name, flags, method, check_sum, _packed_size(packed, extra))
        if not name.endswith("/") and not name.rpartition("/")[2].startswith((".", "_")):
            return entry
        for _ in _blocks(source, entry):
            pass


def _packed_size(packed: int, extra: bytes) -> int:
    """The size in the archive; of 4 GiB and more it stands in the extra field, behind the size outside."""
    at = 0
    while packed == _ZIP64 and at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == 1 and size >= 16 and at + 20 <= len(extra):
            return int(struct.unpack_from("<Q", extra, at + 12)[0])
        at += 4 + size
    return packed


def _blocks(source: _Source, entry: _Entry) -> Iterator[bytes]:
    """What an entry unpacks to; its end, its check sum and its size are seen to."""
    if entry.flags & _IS_ENCRYPTED or entry.method not in (_STORED, _DEFLATED):
        raise _Refused("ZIP_CONTENTS", f"{entry.name[:80]!r} is encrypted, or packed in a way that is not known")
    if entry.method == _STORED and entry.flags & _HAS_DESCRIPTOR:
        raise _Refused("ZIP_CONTENTS", f"{entry.name[:80]!r} does not say how long it is")
    check_sum = unpacked = 0
    for block in _stored(source, entry.size) if entry.method == _STORED else _inflated(source):
        check_sum, unpacked = zlib.crc32(block, check_sum), unpacked + len(block)
        yield block
        if bomb := refused_as_bomb(source.read, unpacked):
            raise _Refused(*bomb)
    expected = _described(source) if entry.flags & _HAS_DESCRIPTOR else entry.check_sum
    if check_sum != expected:
        raise _Refused("CORRUPT_ZIP", "the check sum is another")


def _stored(source: _Source, size: int) -> Iterator[bytes]:
    while size:
        piece = source.piece()
        if not piece:
            raise _Refused(*_TRUNCATED)
        source.give_back(piece[size:])
        yield piece[:size]
        size -= min(size, len(piece))


def _inflated(source: _Source) -> Iterator[bytes]:
    member = zlib.decompressobj(-zlib.MAX_WBITS)
    while not member.eof:
        piece = source.piece()
        if not piece:
            raise _Refused(*_TRUNCATED)
        for block in inflate_piece(member, piece):
            if isinstance(block, Refusal):
                raise _Refused("CORRUPT_ZIP", block.detail)
            yield block
    source.give_back(member.unused_data)


def _described(source: _Source) -> int:
    """The check sum behind an entry; the sizes after it take 8 bytes or 16: where the next entry begins tells."""
    head = source.take(4)
    check_sum = source.take(4) if head == _DESCRIPTOR else head
    sizes = source.take(20)
    short = sizes[8:10] == b"PK"
    source.give_back(sizes[8 if short else 16 :])
    if len(check_sum) < 4 or len(sizes) < 8:
        raise _Refused(*_TRUNCATED)
    return int.from_bytes(check_sum, "little")
