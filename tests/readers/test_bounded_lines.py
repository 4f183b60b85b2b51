"""``read_lines``: what a line is, what is refused and where, and that no bytes break it or its memory bound."""

import gzip
import tracemalloc
import zlib
from collections import deque
from itertools import accumulate, islice
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.lines import bounded_lines
from hindsight.udfs.lines.archive_blocks import cut
from hindsight.udfs.lines.bounded_lines import Line, read_blocks, read_lines
from tests.random_examples import examples

BOM = b"\xef\xbb\xbf"


def lines_of(data, *, gzipped=False, max_line_bytes=1000, chunk_bytes=None):
    size = chunk_bytes or len(data) or 1
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    return list(read_lines(chunks, gzipped=gzipped, max_line_bytes=max_line_bytes))


def texts_of(data, **options):
    return [line.text for line in lines_of(data, **options)]


def codes_of(lines):
    return [line.refusal and line.refusal.code for line in lines]


# What a line is


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [(1, 0, 0, "")]),
        (b"a", [(1, 0, 1, "a")]),
        (b"a\n\nb\n", [(1, 0, 1, "a"), (2, 2, 2, ""), (3, 3, 4, "b")]),
        (b"a\r\n\r\nb", [(1, 0, 1, "a"), (2, 3, 3, ""), (3, 5, 6, "b")]),
        (b"a\rb\r\r\nc\r", [(1, 0, 4, "a\rb\r"), (2, 6, 8, "c\r")]),
        ("é\n€\r\n😀".encode(), [(1, 0, 2, "é"), (2, 3, 6, "€"), (3, 8, 12, "😀")]),
        (BOM, []),
        (BOM + b"\n", [(1, 3, 3, "")]),
        (BOM + b"a\n" + BOM + b"b", [(1, 3, 4, "a"), (2, 5, 9, "\ufeffb")]),
        (BOM[:2] + b"\n", [(1, 0, 2, r"\xef\xbb")]),
        (b"a\0b\n", [(1, 0, 3, "a\0b")]),
    ],
)
def test_lines_have_numbers_and_byte_ranges(data, expected):
    for chunk_bytes in (None, 1, 2, 3):
        assert [line[:4] for line in lines_of(data, chunk_bytes=chunk_bytes)] == expected
    assert [line[:4] for line in lines_of(gzip.compress(data), gzipped=True)] == expected


def test_only_newlines_end_a_line():
    text = "a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\x1dh\x1ei\rj"
    assert texts_of(text.encode()) == [text]
    assert texts_of(text.encode() + b"\n\xff\n")[0] == text


def test_lines_come_as_soon_as_their_block_is_read():
    def chunks():
        yield b"aaaaaaaaa\n" * 20_000
        raise OSError("the rest cannot be read")

    lines = read_lines(chunks(), gzipped=False, max_line_bytes=10)
    assert next(lines).text == "aaaaaaaaa"
    with pytest.raises(OSError, match="the rest"):
        deque(lines)


def test_a_line_limit_below_one_is_wrong_usage():
    with pytest.raises(ValueError, match="at least 1"):
        read_lines([], gzipped=False, max_line_bytes=0)


# Refused lines


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
def test_a_line_is_refused_from_one_byte_over_the_limit(ending):
    data = b"a\n12345" + ending
    for chunk_bytes in (None, 1, 4):
        assert codes_of(lines_of(data, max_line_bytes=5, chunk_bytes=chunk_bytes)) == [None, None]
        actual = lines_of(data, max_line_bytes=4, chunk_bytes=chunk_bytes)[1]
        assert actual == Line(2, 2, 7, "12345", ("LINE_TOO_LONG", "5 bytes, more than 4"))


@pytest.mark.parametrize("chunk_bytes", [None, 1, 100_000])
@pytest.mark.parametrize("bad", [b"", b"\xff\n"])
def test_a_long_line_between_others_is_counted_and_shortened(chunk_bytes, bad):
    data = bad + b"a\n" + "é".encode() * 3000 + b"\r\nb\n"
    actual = lines_of(data, max_line_bytes=5000, chunk_bytes=chunk_bytes)[len(bad) // 2 :]
    assert [line.text for line in actual] == ["a", "é" * 2048, "b"]
    start = len(bad) + 2
    assert [line.byte_start for line in actual[1:]] == [start, start + 6002]
    assert [line.byte_end for line in actual[1:]] == [start + 6000, start + 6003]


def test_the_sample_of_a_long_line_has_no_half_character():
    assert texts_of(b"a" + "é".encode() * 3000, max_line_bytes=10) == ["a" + "é" * 2047]
    assert texts_of(b"a" + "é".encode() * 3000 + b"\n", max_line_bytes=10) == ["a" + "é" * 2047]
    assert texts_of(b"aaaa\xc3\nb", max_line_bytes=3) == [r"aaaa\xc3", "b"]
    assert texts_of(b"\xff" * 5000, max_line_bytes=10) == [r"\xff" * 1024]


@pytest.mark.parametrize("chunk_bytes", [None, 1])
def test_bad_utf8_is_refused_with_the_position_of_the_first_bad_byte(chunk_bytes):
    _, bad, _ = lines_of("é\n€\xff".encode() + b"\xffb\xfe\r\nc", chunk_bytes=chunk_bytes)
    assert bad[:4] == (2, 3, 11, "€\u00ff\\xffb\\xfe")
    assert bad.refusal.code == "INVALID_UTF8"
    assert "0xff at byte 8 of the file, 5 of the line" in bad.refusal.detail


def test_utf8_cut_by_the_end_of_the_line_and_surrogates_are_refused():
    assert codes_of(lines_of(b"\xe2\x82\n\xac\n\xed\xa0\x80\n\xc0\xaf\na")) == ["INVALID_UTF8"] * 4 + [None]


@pytest.mark.parametrize("character", ["a", "é", "😀"])
def test_the_text_of_a_refused_line_has_4096_characters_at_most(character):
    raw = character.encode() * 5000 + b"\xff"
    for ending in (b"\n", b""):
        assert texts_of(raw + ending, max_line_bytes=30_000) == [character * 4096]
    cut = gzip.compress(raw[:-1], 0)[:-8]
    assert texts_of(cut, gzipped=True, max_line_bytes=30_000) == [character * 4096]


# Gzip


def test_members_follow_one_another_and_zeros_may_follow_them():
    data = gzip.compress(b"a\nb") + gzip.compress(b"") + bytes(40_000) + gzip.compress(b"c\nd") + bytes(70_000)
    for chunk_bytes in (None, 1000):
        assert lines_of(data, gzipped=True, chunk_bytes=chunk_bytes) == lines_of(b"a\nbc\nd")


def test_a_gzip_file_cut_anywhere_gives_its_whole_lines_and_one_refused_rest():
    content = "".join(f"line {number} é\n" for number in range(9)).encode() + b"end"
    data = gzip.compress(content[:60]) + gzip.compress(content[60:], 0)
    for size in set(range(len(data))) - {len(gzip.compress(content[:60]))}:
        *whole, rest = lines_of(data[:size], gzipped=True)
        assert rest.refusal.code == "TRUNCATED_GZIP"
        assert whole == lines_of(content)[: len(whole)]
        assert rest.number == len(whole) + 1
        assert content[: rest.byte_end].decode("utf-8", "backslashreplace").endswith(rest.text)
        assert rest.byte_start == (whole[-1].byte_end + 1 if whole else 0)


def test_a_cut_gzip_file_gives_all_that_zlib_can_read_of_it():
    for size in range(2**17 - 2, 2**17 + 260, 41):
        data = gzip.compress(bytes(size))
        for piece in (data[:at] for at in range(len(data) - 14, len(data))):
            assert lines_of(piece, gzipped=True)[-1].byte_end == len(zlib.decompressobj(31).decompress(piece))


def test_a_cut_gzip_file_gives_all_that_was_stored_in_it():
    data = gzip.compress(b"a\nbc\nd", 0)
    assert [line[:4] for line in lines_of(data[:-8], gzipped=True)] == [(1, 0, 1, "a"), (2, 2, 4, "bc"), (3, 5, 6, "d")]
    long_rest = lines_of(gzip.compress(b"a\n" + b"b" * 50, 0)[:-8], gzipped=True, max_line_bytes=10)[1]
    assert (long_rest[:4], long_rest.refusal.code) == ((2, 2, 52, "b" * 50), "TRUNCATED_GZIP")


@pytest.mark.parametrize("damaged_byte", [-1, -8])
def test_a_wrong_check_sum_or_length_refuses_only_the_rest(damaged_byte):
    data = bytearray(gzip.compress(b"a\nb\n" * 1_000))
    data[damaged_byte] ^= 1
    *whole, rest = lines_of(data, gzipped=True)
    assert codes_of(whole) == [None] * 2_000
    assert (rest[:4], rest.refusal.code) == ((2_001, 4_000, 4_000, ""), "CORRUPT_GZIP")
    assert "incorrect" in rest.refusal.detail


def test_lines_before_the_damage_are_kept():
    content = b"".join(b"%d\n" % number for number in range(5_000))
    compressor = zlib.compressobj(6, zlib.DEFLATED, 31)
    before = compressor.compress(content) + compressor.flush(zlib.Z_FULL_FLUSH)
    *whole, rest = lines_of(before + b"\xff" * 50, gzipped=True)
    assert whole == lines_of(content)
    assert (rest[:4], rest.refusal.code) == ((5_001, len(content), len(content), ""), "CORRUPT_GZIP")


def test_anything_but_gzip_after_a_member_is_corrupt():
    whole, rest = lines_of(gzip.compress(b"a\nb") + b"plain", gzipped=True)
    assert (whole.text, rest.text, rest.refusal.code) == ("a", "b", "CORRUPT_GZIP")


@pytest.mark.parametrize("data", [b"{}\n[]\xff\n", b"\0", b"\x1f\x8c", b"P" * 9000])
def test_a_file_that_is_not_gzip_is_one_refused_line(data):
    (line,) = lines_of(data, gzipped=True)
    assert (line[:3], line.refusal.code) == ((1, 0, 0), "NOT_GZIP")
    assert line.text == data.decode("utf-8", "backslashreplace")[:4096]


@pytest.mark.parametrize("data", [b"", b"\x1f", b"\x1f\x8b"])
def test_a_beginning_of_gzip_alone_is_truncated(data):
    (line,) = lines_of(data, gzipped=True)
    assert (line[:4], line.refusal.code) == ((1, 0, 0, ""), "TRUNCATED_GZIP")


# Memory


def peak_bytes(chunks, *, of_lines=None, **options):
    """Most memory held while reading so many lines (or all), and the last of them."""
    tracemalloc.start()
    try:
        (last,) = deque(islice(read_lines(chunks, **options), of_lines), maxlen=1)
        return tracemalloc.get_traced_memory()[1], last
    finally:
        tracemalloc.stop()


def test_an_endless_line_streams_through():
    peak, line = peak_bytes((bytes(2**20) for _ in range(64)), gzipped=False, max_line_bytes=2**20)
    assert (line.byte_end, line.refusal.code) == (64 * 2**20, "LINE_TOO_LONG")
    assert peak < 8 * 2**20


def test_a_chunk_of_many_lines_is_not_split_at_once():
    assert peak_bytes([b"ab\n" * 2**20], of_lines=1, gzipped=False, max_line_bytes=2**20)[0] < 8 * 2**20


def test_a_gzip_bomb_streams_through():
    compressor = zlib.compressobj(1, zlib.DEFLATED, 31)
    bomb = b"".join(compressor.compress(bytes(2**20)) for _ in range(32)) + compressor.flush()
    peak, line = peak_bytes([bomb], gzipped=True, max_line_bytes=2**20)
    assert (line.byte_end, line.refusal.code) == (32 * 2**20, "LINE_TOO_LONG")
    assert peak < 8 * 2**20


def test_a_gzip_bomb_is_given_up():
    """4 GiB of zeros in 4 MB: one mebibyte, deflated once."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = compressor.flush(zlib.Z_FULL_FLUSH)
    bomb = head + 4096 * (compressor.compress(bytes(2**20)) + compressor.flush(zlib.Z_FULL_FLUSH))
    peak, line = peak_bytes([b"".join([gzip.compress(b"good\n"), bomb])], gzipped=True, max_line_bytes=2**20)
    assert (line.number, line.refusal.code) == (2, "ARCHIVE_BOMB")
    assert line.byte_end < 128 * 2**20
    assert peak < 8 * 2**20 + len(bomb)


def test_a_file_that_deflates_well_is_no_bomb():
    """Lines that repeat but for their time, 80 MB of them, and as many zeros as are given freely."""
    line = b'{"ts":%d,"kind":"topicRoute","raw":"' + b"broker-a:4:4:6," * 1000 + b'"}\n'
    data = b"".join(line % (1795252691980 + n) for n in range(5000))
    packed = gzip.compress(data, 9)
    assert 100 * len(packed) < len(data) > 64 * 2**20
    assert len(list(read_lines([packed], gzipped=True, max_line_bytes=2**20))) == 5000
    (line,) = read_lines([gzip.compress(bytes(60 * 2**20))], gzipped=True, max_line_bytes=2**20)
    assert line.refusal.code == "LINE_TOO_LONG"


# Properties

contents = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"bc" * 20, "é€😀".encode(), b"\xff", b"\xe2\x82", BOM, b"\0"]),
    max_size=25,
).map(b"".join) | st.binary(max_size=60)
limits = st.integers(1, 30)


@st.composite
def gzip_files(draw):
    """One or two members, as they should be, or cut, or with a bit flipped, or with something after them."""
    level = draw(st.sampled_from([0, 1, 9]))
    data = bytearray(b"".join(gzip.compress(part, level, mtime=0) for part in draw(st.lists(contents, max_size=2))))
    damage = draw(st.sampled_from(["none", "cut", "flip", "append"]))
    at = draw(st.integers(0, max(len(data) - 1, 0)))
    if damage == "cut":
        del data[at:]
    elif damage == "flip" and data:
        data[at] ^= 1 << draw(st.integers(0, 7))
    elif damage == "append":
        data += draw(contents | st.just(b"\0\0"))
    return bytes(data)


def assert_lines_are_in_order(lines, max_line_bytes):
    end = 0
    for number, line in enumerate(lines, 1):
        assert line.number == number
        assert end <= line.byte_start <= line.byte_end and len(line.text) <= 4096
        if line.refusal is None:
            assert len(line.text.encode()) == line.byte_end - line.byte_start <= max_line_bytes
        end = line.byte_end


@examples(7, 30)
@given(contents, limits, st.integers(1, 9))
def test_the_same_bytes_give_the_same_lines_however_they_are_cut(data, max_line_bytes, chunk_bytes):
    whole = lines_of(data, max_line_bytes=max_line_bytes)
    assert lines_of(data, max_line_bytes=max_line_bytes, chunk_bytes=chunk_bytes) == whole
    assert_lines_are_in_order(whole, max_line_bytes)
    for line, code in zip(whole, codes_of(whole), strict=True):
        assert (line.byte_end - line.byte_start > max_line_bytes) == (code == "LINE_TOO_LONG")


@examples(12, 50)
@given(gzip_files() | contents, limits, st.integers(1, 9))
def test_any_file_named_gzip_gives_the_same_lines_however_it_is_cut(data, max_line_bytes, chunk_bytes):
    whole = lines_of(data, gzipped=True, max_line_bytes=max_line_bytes)
    assert lines_of(data, gzipped=True, max_line_bytes=max_line_bytes, chunk_bytes=chunk_bytes) == whole
    assert_lines_are_in_order(whole, max_line_bytes)
    assert not {"TRUNCATED_GZIP", "CORRUPT_GZIP", "NOT_GZIP"}.intersection(codes_of(whole[:-1]))


@examples(7, 30)
@given(st.text(max_size=60) | st.lists(st.sampled_from(["\n", "\r\n", "a\r", "é"]), max_size=20).map("".join))
def test_texts_and_terminators_give_back_the_bytes(text):
    data = text.encode()
    end = len(BOM) if data.startswith(BOM) else 0
    restored = data[:end]
    for line in lines_of(data):
        restored += data[end : line.byte_start] + line.text.encode()
        assert data[end : line.byte_start] in (b"", b"\n", b"\r\n")
        end = line.byte_end
    assert restored + data[end:] == data
    assert data[end:] in (b"", b"\n", b"\r\n")


@given(
    st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"")), max_size=60),
    st.integers(1, 64),
    st.integers(1, 9),
)
@examples(200, 20_000)
def test_no_block_has_more_lines_than_it_may(lines, block_bytes, most):
    """Of a file of the shortest lines, what is held of each line would be more than the file itself."""
    raw, found = b"\n".join(lines), []
    with patch.object(bounded_lines, "MOST_LINES", most):
        for part in read_blocks(cut([raw], 7), gzipped=False, max_line_bytes=100, block_bytes=block_bytes):
            if isinstance(part, Line):
                found.append((part.number, part.byte_start))
                continue
            own = part.data.split(b"\n")
            assert len(own) <= most
            starts = accumulate((len(line) + 1 for line in own[:-1]), initial=part.byte_start)
            found += [(part.number + place, start) for place, start in enumerate(starts)]
    whole = read_lines([raw], gzipped=False, max_line_bytes=100)
    assert found == [(line.number, line.byte_start) for line in whole]
