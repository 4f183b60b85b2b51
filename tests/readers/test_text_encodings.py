"""Logs and outputs in the encodings of the machines that wrote them: the same rows, or refused with the reason."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hindsight.jobs.landing.landing_lines import ReadOptions, tally_of
from hindsight.jobs.landing.landing_survey import LandingFile
from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.limits.door import severities
from hindsight.udfs.lines.bounded_lines import read_lines
from hindsight.udfs.lines.parsed_line import LandedFile, TextEncoding
from hindsight.udfs.lines.text_guess import GUESSED, Guess
from hindsight.udfs.logs.log_layouts import check_encoding
from tests.readers.mqadmin_printer import RELEASES, connection

ZONE = ZoneInfo("Asia/Shanghai")
CHINESE = "发送消息失败，请检查网络连接是否正常"
KOREAN = "메시지 전송에 실패했습니다. 연결 시간이 초과되었습니다"
JAPANESE = "メッセージの送信に失敗しました。接続を確認してください"


def log(said, lines=30):
    failed = "sendKernelImpl exception, resend at once, InvokeID: 7, RT: 3001ms, Broker: MessageQueue [topic=T, "
    failed += "brokerName=broker-a, queueId=1]"
    text = ""
    for n in range(lines):
        text += f"2026-11-20 10:00:{n:02},123 WARN RocketmqClient - {failed}\n"
        text += "org.apache.rocketmq.client.exception.MQBrokerException: "
        text += f"CODE: 14  DESC: {said} {n}\n\tat a.B.c(B.java:1)\n"
        text += (
            f"2026-11-20 10:00:{n:02},456 INFO RocketmqClient - doRebalance, g, add a new mq, MessageQueue [topic=T, "
        )
        text += f"brokerName=b, queueId={n}]\n2026-11-20 10:00:{n:02},500 INFO app - {said}\n"
    return text


def parsed(raw, encoding=GUESSED, format_name="client_log", chunk=1 << 16, guess=None):
    chunks = [raw[i : i + chunk] for i in range(0, len(raw), chunk)]
    lines = read_lines(chunks, gzipped=False, max_line_bytes=1 << 20, encoding=encoding, guess=guess)
    return list(PARSERS[format_name](lines, ZONE, LandedFile("a.log", "consumerConnection -g g", 1795168800000)))


def rows(raw, *given, **more):
    return [record.row for line in parsed(raw, *given, **more) for record in line.records]


def refused(raw, *given, **more):
    return {(line.refusal.code, line.refusal.detail) for line in parsed(raw, *given, **more) if line.refusal}


EXPECTED = rows(log(CHINESE).encode())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030", "gbk", "gb2312"])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_a_log_is_read_alike_in_every_encoding_that_is_told_apart(encoding, chunk):
    raw = log(CHINESE, 3).encode(encoding)
    assert rows(raw, chunk=chunk) == rows(log(CHINESE, 3).encode())
    assert refused(raw) == set()
    for mark, of in ((b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le")):
        assert rows(mark + log(CHINESE, 3).encode(of), chunk=chunk) == rows(log(CHINESE, 3).encode())


@pytest.mark.parametrize(
    ("encoding", "said", "looks"),
    [
        ("shift_jis", JAPANESE, "Shift_JIS"),
        ("euc_jp", JAPANESE, "EUC-JP"),
        ("euc_kr", KOREAN, "EUC-KR"),
        ("utf-16-le", CHINESE, "UTF-16 without a mark"),
        ("utf-16-be", CHINESE, "UTF-16 without a mark"),
    ],
)
def test_what_must_be_declared_is_refused_with_that_reason_and_read_where_it_is(encoding, said, looks):
    raw = log(said).encode(encoding)
    assert rows(raw) == []
    assert {code for code, _ in refused(raw)} == {"NOT_IN_ENCODING"}
    assert {f"looks like {looks}" in detail for _, detail in refused(raw)} == {True}
    check_encoding(encoding)
    assert rows(raw, encoding) == rows(log(said).encode())


@given(st.integers(1, 29))
def test_two_parts_of_a_rolled_log_give_the_rows_of_one(at):
    lines = log(CHINESE).encode("gbk").splitlines(keepends=True)
    parts = b"".join(lines[: 5 * at]), b"".join(lines[5 * at :])
    assert rows(parts[0]) + rows(parts[1]) == EXPECTED


# 0x82 of one character and 0xB5 of the next are no kana.
@example(["一一一一一一一一", "一一一一一一一一", "一一一一一一亙亗", "一亙亙丗一一一亗"])
@given(st.lists(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5), min_size=8), min_size=4, max_size=9))
def test_any_chinese_is_read(words):
    text = "".join(f"2026-11-20 10:00:00,123 INFO RocketmqClient - [{word}的] = {n}\n" for n, word in enumerate(words))
    lines = read_lines([text.encode("gb18030")], gzipped=False, max_line_bytes=1 << 20, encoding=GUESSED)
    assert [line.text for line in lines] == text.splitlines()


def test_a_western_encoding_swallows_no_letters():
    said = "Échec de l'émission: délai dépassé pour le thème [é]"
    assert {code for code, _ in refused(log(said).encode("latin-1"))} == {"INVALID_UTF8"}
    assert rows(log(said).encode("latin-1"), "latin-1") == rows(log(said).encode())


def test_outputs_of_mqadmin_are_read_in_them_too():
    output = f"警告: {CHINESE}\n{connection(RELEASES[-1])}"
    expected = rows(output.encode(), format_name="mqadmin")
    assert len(expected) == 3
    for encoding in ("gbk", "utf-16", "utf-8-sig"):
        assert rows(output.encode(encoding), format_name="mqadmin") == expected


def test_damaged_utf_16_ends_with_a_refusal():
    raw = log(CHINESE, 2).encode("utf-16") + b"\x00"
    assert len(rows(raw)) == 4
    assert {code for code, _ in refused(raw)} == {"NOT_IN_ENCODING"}


def test_check_landing_names_the_encodings(tmp_path):
    folder = tmp_path / "client_log/cluster=c"
    folder.mkdir(parents=True)
    files = {"a.log": "utf-8", "b.log": "gbk", "c.log": "utf-16", "d.log": "euc_kr", "e.log": "utf-8-sig"}
    for name, encoding in files.items():
        (folder / name).write_bytes(log(KOREAN if encoding == "euc_kr" else CHINESE, 2).encode(encoding))
    options = ReadOptions(
        str(tmp_path), 1 << 20, 100, {}, "UTC", severities({}), (), (TextEncoding("euc_kr", file="d.*"),)
    )
    landed = [LandingFile("c", "client_log", f"client_log/cluster=c/{name}", 1) for name in files]
    tally = tally_of(landed, options, most_refused=3)
    assert {path.rpartition("/")[2]: told for path, told in tally.encodings.items()} == {
        "b.log": "gb18030",
        "c.log": "utf-16-le",
        "d.log": "euc_kr",
        "e.log": "utf-8 with a mark",
    }
    assert tally.total().stored == 20 and not tally.total().refused


def test_a_guess_without_bytes_beyond_ascii_names_nothing():
    guess = Guess()
    parsed(log("failed", 2).encode(), guess=guess)
    assert guess.heard == set() and guess.refused is None
