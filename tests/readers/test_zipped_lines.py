"""ZIP archives with one log in them, as Python writes them and damaged; and lines in other encodings."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.lines.archive_blocks import BLOCK_BYTES, inflate_piece
from hindsight.udfs.lines.bounded_lines import read_lines
from hindsight.udfs.lines.zipped_lines import read_zip_lines

TEXT = b"".join(b"line %d of a log\n" % i for i in range(5_000))
takes = FORMATS["client_log"].takes


class Unseekable(io.RawIOBase):
    """Where an archive is written without going back: sizes and check sums stand behind each file."""

    def __init__(self):
        self.written = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.written += data
        return len(data)


def archive(*files, method=zipfile.ZIP_DEFLATED, streamed=False):
    target = Unseekable() if streamed else io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as made:
        for name, data in files:
            made.writestr(name, data)
    return bytes(target.written) if streamed else target.getvalue()


def read(data, size=1_000_000, **options):
    chunks = [data[i : i + size] for i in range(0, len(data), size)]
    return list(read_zip_lines(chunks, takes=takes, max_line_bytes=1 << 20, **options))


def codes(lines):
    return [line.refusal.code for line in lines if line.refusal]


@pytest.mark.parametrize(
    ("method", "streamed"), [(zipfile.ZIP_DEFLATED, False), (zipfile.ZIP_DEFLATED, True), (zipfile.ZIP_STORED, False)]
)
@pytest.mark.parametrize("size", [1, 7, 4096, 1_000_000])
def test_the_log_in_an_archive_has_the_lines_that_it_has_outside(method, streamed, size):
    data = archive(
        ("logs/", b""), ("__MACOSX/._app.log", b"x"), ("logs/app.log", TEXT[:20_000]), method=method, streamed=streamed
    )
    assert read(data, size) == list(read_lines([TEXT[:20_000]], gzipped=False, max_line_bytes=1 << 20))


def test_a_stream_of_several_blocks_ends_where_it_ends_whatever_follows_it():
    text = TEXT * 4
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = packer.compress(text) + packer.flush()
    member = zlib.decompressobj(-zlib.MAX_WBITS)
    blocks = list(islice(inflate_piece(member, packed + b"after"), 100))
    assert len(text) > 2 * BLOCK_BYTES and b"".join(blocks) == text
    assert (len(blocks), member.unused_data) == (-(-len(text) // BLOCK_BYTES), b"after")
    data = archive(("app.log", text))
    assert read(data) == list(read_lines([text], gzipped=False, max_line_bytes=1 << 20))
    twice = read_lines([gzip.compress(text) * 2], gzipped=True, max_line_bytes=1 << 20)
    assert list(twice) == list(read_lines([text * 2], gzipped=False, max_line_bytes=1 << 20))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (TEXT, "NOT_ZIP"),
        (b"", "TRUNCATED_ZIP"),
        (archive(), "ZIP_CONTENTS"),
        (archive(("folder/", b"")), "ZIP_CONTENTS"),
        (archive(("app.bak", TEXT)), "ZIP_CONTENTS"),
        (archive(("app.log.gz.exe", TEXT)), "ZIP_CONTENTS"),
        (archive(("app.log", TEXT), method=zipfile.ZIP_LZMA), "ZIP_CONTENTS"),
        (archive(("app.log", TEXT), method=zipfile.ZIP_STORED, streamed=True), "ZIP_CONTENTS"),
    ],
)
def test_an_archive_without_a_log_is_one_refused_line(data, code):
    lines = read(data)
    assert (codes(lines), len(lines)) == ([code], 1)


def test_a_second_file_is_said_behind_the_lines_of_the_first():
    lines = read(archive(("a.log", b"x\ny\n"), ("b.log", TEXT)))
    assert [line.text for line in lines[:-1]] == ["x", "y"]
    assert codes(lines) == ["ZIP_CONTENTS"] and "'b.log'" in lines[-1].refusal.detail


@pytest.mark.parametrize("streamed", [False, True])
def test_an_archive_that_is_cut_gives_the_whole_lines_before(streamed):
    data = archive(("app.log", TEXT), streamed=streamed)
    end = data.index(b"PK\x01\x02")
    whole = [line.text for line in read(data)]
    for at in (*range(0, end, 997), end - 1):
        lines = read(data[:at])
        assert codes(lines) == ["TRUNCATED_ZIP"]
        assert [line.text for line in lines[:-1]] == whole[: len(lines) - 1]
    assert codes(read(data[: end + 4])) == []


@given(st.integers(0, 2**32))
def test_a_damaged_archive_raises_nothing_and_is_noticed(seed):
    random = Random(seed)
    data = bytearray(archive(("app.log", TEXT[:5000]), streamed=random.random() < 0.5))
    inside = range(30 + len("app.log"), data.index(b"PK\x01\x02") - 16)
    data[random.choice(inside)] ^= 1 << random.randrange(8)
    assert codes(read(bytes(data)))


def test_an_archive_that_was_made_to_cost_is_refused():
    found = codes(read(archive(("app.log", bytes(120_000_000)))))
    assert found == ["ARCHIVE_BOMB"]


def test_an_encrypted_file_is_refused():
    data = bytearray(archive(("app.log", TEXT)))
    data[6] |= 1
    assert codes(read(bytes(data))) == ["ZIP_CONTENTS"]


@pytest.mark.parametrize(
    ("name", "is_taken"),
    [
        *[
            (n, True)
            for n in (
                "a.log",
                "a.LOG",
                "a.log.1",
                "a.log.12",
                "a.log.2026-11-20",
                "a.log.2026-11-20.1",
                "a.log-20261120",
            )
        ],
        *[
            (n, True)
            for n in ("catalina.out", "stdout", "a.txt", "a.log.1.gz", "stdout.gz", "a.log.zip", "a.log-2026-11-20.zip")
        ],
        *[
            (n, False)
            for n in ("a.log.bak", "a.log.1.bak", "a.log.old", "stderr", "a.json", "a.log.", "a.zip", "a.gz", "log")
        ],
        *[(n, False) for n in ("a.log.1.tmp", "a.log.gz.part", "a.tar.gz", "a.log.zip.gz", "a.log.tgz")],
    ],
)
def test_which_names_are_those_of_logs(name, is_taken):
    assert takes(name) is is_taken
    assert FORMATS["broker_log"].takes(name) is is_taken


def test_other_formats_are_in_no_archive():
    assert FORMATS["producer_hook"].takes("a.jsonl.gz") and not FORMATS["producer_hook"].takes("a.jsonl.zip")


@given(
    st.lists(st.text("消费者组abc1 😀\u0085\u2028", max_size=20), max_size=20),
    st.integers(1, 9),
    st.sampled_from(["gb18030", "gbk", "utf-8"]),
)
def test_lines_of_an_encoding_are_cut_at_the_byte_of_their_end(texts, size, encoding):
    texts = [text.encode(encoding, "ignore").decode(encoding) for text in texts]
    raw = "".join(f"{text}\n" for text in texts).encode(encoding)
    chunks = [raw[i : i + size] for i in range(0, len(raw), size)]
    lines = list(read_lines(chunks, gzipped=False, max_line_bytes=1 << 20, encoding=encoding))
    assert [line.text for line in lines] == texts
    assert [raw[line.byte_start : line.byte_end].decode(encoding) for line in lines] == texts
    zipped = archive(("a.log", raw))
    assert read(zipped, encoding=encoding) == lines


def test_bytes_that_are_none_of_an_encoding_are_refused_and_shown():
    (line,) = read_lines([b"a\xff\xffb\n"], gzipped=False, max_line_bytes=100, encoding="gbk")
    assert (line.refusal.code, line.text) == ("NOT_IN_ENCODING", r"a\xff\xffb")
    (line,) = read_lines(["消费者".encode("gbk") * 9], gzipped=False, max_line_bytes=20, encoding="gbk")
    assert line.refusal.code == "LINE_TOO_LONG" and line.text.startswith("消费者")
