"""A packed file's bytes in, what they unpack to in blocks out; a refusal, if there is one, comes last."""

import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

BLOCK_BYTES = 128 * 1024  # what is split at once; a block of one-byte lines takes some fifty times its size
_GZIP_PIECE_BYTES = 32 * 1024  # zlib copies what it has not yet read at every step: pieces stay small
# Lines that carry a time deflate no further: above it only bytes that repeat within some hundred of them do.
_MOST_TIMES_ITS_SIZE = 300
_INFLATED_FREELY = 64 * 1024 * 1024


class Refusal(NamedTuple):
    """Why a line cannot be used: a code for counting, a sentence for reading."""

    code: str
    detail: str


def cut(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of at most ``size``."""
    for chunk in chunks:
        for start in range(0, len(chunk), size):
            yield chunk[start : start + size]


def cut_evenly(chunks: Iterable[bytes], size: int = _GZIP_PIECE_BYTES) -> Iterator[bytes]:
    """The same bytes in pieces of ``size``; only the last may be shorter."""
    held = bytearray()
    for piece in cut(chunks, size):
        held += piece
        if len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)


def inflate(pieces: Iterable[bytes]) -> Iterator[bytes | Refusal]:
    """Decompressed blocks; a refusal, if any, comes last."""
    member = zlib.decompressobj(zlib.MAX_WBITS | 16)
    is_inside = True
    read = inflated = 0
    for piece in pieces:
        read += len(piece)
        unread = piece
        while unread:
            if not is_inside:
                unread = unread.lstrip(b"\0")
                if not unread:
                    break
                member = zlib.decompressobj(zlib.MAX_WBITS | 16)
                is_inside = True
            for block in inflate_piece(member, unread):
                yield block
                if isinstance(block, Refusal):
                    return
                inflated += len(block)
                if bomb := refused_as_bomb(read, inflated):
                    yield bomb
                    return
            is_inside = not member.eof
            unread = member.unused_data
    if is_inside:
        yield Refusal("TRUNCATED_GZIP", "the file ends inside a gzip member")


def refused_as_bomb(read: int, inflated: int) -> Refusal | None:
    """The refusal of an archive of which so many bytes were read and so many came out, where these are too many."""
    if inflated <= _INFLATED_FREELY + _MOST_TIMES_ITS_SIZE * read:
        return None
    detail = f"the first {read} bytes inflate to {inflated}, more than {_MOST_TIMES_ITS_SIZE} times"
    return Refusal("ARCHIVE_BOMB", detail)


def inflate_piece(member: "zlib._Decompress", unread: bytes) -> Iterator[bytes | Refusal]:
    """The blocks of a piece; what is left of it after the member's end is in ``member.unused_data``."""
    is_full = True
    while (unread or is_full) and not member.eof:  # at its end what is unused stands in ``unconsumed_tail`` as well
        before = member.copy()
        try:
            block = member.decompress(unread, BLOCK_BYTES)
        except zlib.error as error:
            yield _inflate_up_to_damage(before, unread)
            yield Refusal("CORRUPT_GZIP", str(error))
            return
        yield block
        unread = member.unconsumed_tail
        is_full = len(block) == BLOCK_BYTES  # more may come without more input


def _inflate_up_to_damage(member: "zlib._Decompress", unread: bytes) -> bytes:
    """What a failed call had decoded and threw away; byte by byte, so that only the damaged byte's own is lost."""
    decoded = bytearray()
    for at in range(len(unread)):
        try:
            decoded += member.decompress(unread[at : at + 1])
        except zlib.error:
            break
    return bytes(decoded)
