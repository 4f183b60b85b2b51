"""Frames: what real servers sent, what any cutting of the bytes gives, and bytes that are none."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import tracemalloc
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.remoting.remoting_frames import LONGEST_FRAME, Frame, FrameDecoder, FrameError, encode_request

GOLDEN = Path(__file__).parent.parent / "golden" / "remoting"
RECORDED = sorted(GOLDEN.glob("*.jsonl.gz"))
INT32 = st.integers(-(2**31), 2**31 - 1)
REMARKS = st.none() | st.text(st.characters(codec="utf-8"), max_size=30)
FRAMES = st.lists(st.builds(Frame, INT32, INT32, st.booleans(), REMARKS, st.binary(max_size=300)), max_size=6)


def json_bytes(frame: Frame) -> bytes:
    header = {"code": frame.code, "opaque": frame.opaque, "flag": int(frame.is_answer), "remark": frame.remark}
    return with_header(json.dumps({**header, "version": 479, "language": "JAVA"}).encode(), frame.body)


def rocketmq_bytes(frame: Frame) -> bytes:
    """As RocketMQSerializable#rocketMQProtocolEncode writes it: a code of 16 bits, one extField at the end."""
    remark = (frame.remark or "").encode()
    head = struct.pack(">hbhiii", frame.code, 0, 479, frame.opaque, int(frame.is_answer), len(remark))
    fields = struct.pack(">h", 1) + b"k" + struct.pack(">i", 1) + b"v"
    return with_header(head + remark + struct.pack(">i", len(fields)) + fields, frame.body, mark=1)


def with_header(header: bytes, body: bytes = b"", *, mark: int = 0) -> bytes:
    return struct.pack(">ii", 4 + len(header) + len(body), mark << 24 | len(header)) + header + body


def decoded(data: bytes, cuts=()) -> list[Frame]:
    decoder = FrameDecoder()
    ends = [*sorted(cut for cut in cuts if cut < len(data)), len(data)]
    return [frame for begin, end in zip([0, *ends], ends, strict=False) for frame in decoder.feed(data[begin:end])]


@given(FRAMES, st.lists(st.integers(0, 3000), max_size=8))
def test_frames_come_out_whole_however_their_bytes_are_cut(frames, cuts):
    assert decoded(b"".join(map(json_bytes, frames)), cuts) == frames


@given(FRAMES)
def test_both_formats_of_headers_are_read(frames):
    short = [frame._replace(code=frame.code % 2**15, remark=frame.remark or None) for frame in frames]
    assert decoded(b"".join(map(rocketmq_bytes, short))) == short


@given(
    INT32,
    INT32,
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=9), st.text(st.characters(codec="utf-8"), max_size=9)
    ),
)
def test_a_request_is_a_frame_that_says_what_is_asked(code, opaque, fields):
    data = encode_request(code, opaque, fields)
    assert decoded(data) == [Frame(code, opaque, False, None, b"")]
    header = json.loads(data[8:])
    assert (header["extFields"], header["flag"], header["version"]) == (fields, 0, 479)


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.name)
def test_what_real_servers_sent_is_read(path):
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert len(lines) > 9
    for line in lines:
        (frame,) = decoded(base64.b64decode(line["frame"]), [1, 7, 9, 200])
        assert frame.is_answer and (frame.code == 0 or frame.remark)


def test_servers_of_several_releases_were_recorded():
    assert {path.name.removesuffix(".jsonl.gz") for path in RECORDED} >= {"4.3.0", "4.9.4", "5.3.3", "5.5.0"}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (struct.pack(">ii", 2**30, 20), "a frame of 1,073,741,824 bytes, expected 4 to 16,777,212"),
        (struct.pack(">ii", -1, 20), "a frame of -1 bytes, expected 4 to 16,777,212"),
        (struct.pack(">ii", 0, 0), "a frame of 0 bytes, expected 4 to 16,777,212"),
        (struct.pack(">ii", 10, 20), "a header of 20 bytes in a frame of 10"),
        (with_header(b"{nonsense"), "a header that is no JSON: "),
        (with_header(b"[]"), "a header that is no JSON object"),
        (with_header(b'{"code":0,"flag":1}'), "a header whose 'opaque' is no 32-bit number"),
        (with_header(b'{"code":true,"flag":1,"opaque":1}'), "a header whose 'code' is no 32-bit number"),
        (with_header(b'{"code":0,"flag":1,"opaque":4294967296}'), "a header whose 'opaque' is no 32-bit number"),
        (with_header(b'{"code":0,"flag":1,"opaque":1,"remark":7}'), "a header whose 'remark' is no text"),
        (with_header(b"", mark=2), "a header of format 2, expected 0 (JSON) or 1 (ROCKETMQ)"),
        (with_header(b"1234", mark=1), "a ROCKETMQ header of 4 bytes"),
        (
            with_header(struct.pack(">hbhiii", 0, 0, 0, 1, 1, 99), mark=1),
            "a ROCKETMQ header with a remark of 99 bytes in 17",
        ),
        (
            with_header(struct.pack(">hbhiii", 0, 0, 0, 1, 1, -1), mark=1),
            "a ROCKETMQ header with a remark of -1 bytes in 17",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of 1,213,486,160 bytes, expected 4 to 16,777,212"),
    ],
)
def test_what_is_no_frame_is_said(data, said):
    with pytest.raises(FrameError) as caught:
        decoded(data)
    assert str(caught.value).startswith(said)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_give_frames_or_the_one_error(data):
    try:
        assert all(isinstance(frame, Frame) for frame in decoded(data))
    except FrameError as error:
        assert 10 < len(str(error)) < 300


@given(FRAMES, st.binary(min_size=1, max_size=60), st.data())
def test_one_byte_changed_costs_no_frame_before_it(frames, noise, data):
    whole = bytearray(b"".join(map(json_bytes, frames)) + noise)
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    ends = accumulate(len(json_bytes(frame)) for frame in frames)
    before = [frame for frame, end in zip(frames, ends, strict=True) if end <= at]
    found = []
    try:
        found.extend(FrameDecoder().feed(bytes(whole)))
    except FrameError as error:
        assert 10 < len(str(error)) < 300
    assert found[: len(before)] == before and all(isinstance(frame, Frame) for frame in found)


def test_frames_before_the_error_are_not_lost():
    good = Frame(0, 5, True, None, b"{}")
    decoder = FrameDecoder()
    found = decoder.feed(json_bytes(good) + struct.pack(">ii", 2**30, 20))
    assert next(found) == good
    with pytest.raises(FrameError):
        next(found)


def test_a_length_that_is_only_said_takes_no_memory():
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        assert list(decoder.feed(struct.pack(">ii", LONGEST_FRAME - 4, 20) + b"x" * 1000)) == []
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_many_small_pieces_cost_no_more_than_their_bytes():
    frame = Frame(0, 1, True, None, b"x" * 2_000_000)
    data = json_bytes(frame)
    decoder = FrameDecoder()
    found = [f for at in range(0, len(data), 500) for f in decoder.feed(data[at : at + 500])]
    assert found == [frame]
