"""Answers that are as before as short lines: whatever a file lost, its reader has what whole lines would have said."""

from __future__ import annotations

import errno
import gzip
import json
import re
from itertools import product
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.jobs.collect import landing_writer
from hindsight.jobs.collect.collector import Collector, Plan
from hindsight.jobs.collect.landing_writer import LandingWriter
from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.lines import short_lines
from hindsight.udfs.lines.bounded_lines import Line, read_lines
from hindsight.udfs.lines.parsed_line import ParsedLine
from hindsight.udfs.lines.short_lines import one_a_line, whole_lines
from tests.collect import virtual_time
from tests.collect.fake_servers import FakeCluster
from tests.conftest import CAPTURES

NOW = 1_795_889_165_334
QUESTIONS = [
    ("consumerIdList", "g", {"broker": "b"}),
    ("consumerIdList", "g", {"broker": "a", "collector": "c-1-of-4"}),
    ("consumerConnection", "g", {"broker": "b"}),
    ("consumerRunningInfo", 'g|1@"error":null,"raw":"\\', {}),
    ("consumerRunningInfo", "g|10.0.0.1@key|secret|g|7", {"name_server": "é:9876"}),
]
ANSWERS = [{"error": None, "raw": raw} for raw in ("[]", '["é\\"raw\\":\\""]', '{"x":{"y":1}}', '["@ak|sk|g|1"]')]
ANSWERS.append({"error": 'CODE: 206 "raw":null', "raw": None})


def line(at: int, question: int, answer: int) -> bytes:
    kind, subject, place = QUESTIONS[question]
    asked = {"ts": at, "ts_end": at + answer, "kind": kind, "subject": subject, **place}
    return orjson.dumps({**asked, **ANSWERS[answer]})


READS = st.tuples(st.just("read"), st.integers(0, len(QUESTIONS) - 1), st.integers(0, len(ANSWERS) - 1))
DEEDS = st.one_of(READS, READS, READS, st.sampled_from([("mark",), ("flush",), ("close",), ("lose",)]))


def written(landing: Path, deeds, *, short: bool, block_bytes: int = 1 << 20) -> tuple[list[bytes], int]:
    """The files of a writer in the order in which they were written, and how many lines it lost."""
    writer, failing = LandingWriter(landing, "c", short=short), []
    write = writer._write

    def may_fail(text: bytes) -> None:
        if failing:
            failing.clear()
            raise OSError(errno.ENOSPC, "No space left on device")
        write(text)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(writer, "_write", may_fail)
        patched.setattr(landing_writer, "_BLOCK_BYTES", block_bytes)
        for number, deed in enumerate(deeds):
            match deed:
                case ("read", question, answer):
                    writer.write(line(NOW + number, question, answer))
                case ("mark",):
                    writer.write(b'{"ts":%d,"kind":"round","round":%d}' % (NOW + number, number))
                case ("lose",):
                    failing.append(True)
                case (name,):
                    getattr(writer, name)()
        writer.close()
    files = sorted((landing / "admin_snapshots" / "cluster=c").glob("*.jsonl"), key=lambda f: f.stat().st_mtime_ns)
    return [file.read_bytes() for file in files], writer.take_lost()


def read(data: bytes) -> list[Line]:
    return list(whole_lines(read_lines([data], gzipped=False, max_line_bytes=1 << 20)))


def texts(files: list[bytes]) -> list[list[str]]:
    return [sorted(one.text for one in read(data)) for data in files]


@given(st.lists(DEEDS, max_size=60))
def test_short_files_say_what_whole_ones_say_however_they_are_cut_and_whatever_is_lost(tmp_path_factory, deeds):
    whole, lost = written(tmp_path_factory.mktemp("whole"), deeds, short=False)
    short, lost_too = written(tmp_path_factory.mktemp("short"), deeds, short=True)
    assert texts(short) == [sorted(data.decode().splitlines()) for data in whole]
    assert lost_too == lost


@given(st.lists(DEEDS, max_size=80), st.integers(1, 400))
def test_no_line_that_stands_repeats_one_that_was_lost(tmp_path_factory, deeds, block_bytes):
    files, lost = written(tmp_path_factory.mktemp("short"), deeds, short=True, block_bytes=block_bytes)
    told = [text for file in texts(files) for text in file]
    assert not any("asBefore" in text for text in told)
    assert len(told) + lost == sum(deed[0] in ("read", "mark") for deed in deeds)


@given(st.lists(READS, min_size=1, max_size=40), st.data())
def test_what_a_killed_collector_left_stands_by_itself(tmp_path_factory, reads, data):
    deeds = [one for deed in reads for one in ((deed,) if data.draw(st.booleans()) else (deed, ("flush",)))]
    files, _ = written(tmp_path_factory.mktemp("short"), deeds, short=True)
    lines = files[0].splitlines(keepends=True)
    assert not any("asBefore" in text for text in texts([b"".join(lines[: data.draw(st.integers(0, len(lines)))])])[0])


def test_each_file_begins_with_whole_answers_and_repeats_by_short_lines(tmp_path):
    sweep = [("read", 0, 0), ("read", 1, 1), ("flush",)]
    files, _ = written(tmp_path, [*sweep, *sweep, *sweep, ("close",), *sweep, *sweep], short=True)
    kinds = [[json.loads(one)["kind"] for one in data.splitlines()] for data in files]
    before = {"asBefore": "consumerIdList"}
    assert kinds == [["consumerIdList"] * 2 + [before] * 4, ["consumerIdList"] * 2 + [before] * 2]
    assert json.loads(files[0].splitlines()[3]) == {
        "ts": NOW + 4,
        "kind": before,
        "broker": "a",
        "collector": "c-1-of-4",
        "reads": [["g", 0, 1, json.loads(files[0].splitlines()[5])["reads"][0][3]]],
    }


def test_an_answer_that_came_back_is_told_anew(tmp_path):
    """As before is as the last one, not as any one."""
    deeds = [deed for answer in (0, 1, 0, 0) for deed in (("read", 0, answer), ("flush",))]
    files, _ = written(tmp_path, deeds, short=True)
    assert [b"asBefore" in one for one in files[0].splitlines()] == [False, False, False, True]


def test_what_a_client_said_of_itself_is_as_before_through_whichever_broker_but_a_broker_s_own_list_is_not(tmp_path):
    def asked(kind: str, broker: str) -> bytes:
        told = {"ts": NOW, "ts_end": NOW, "kind": kind, "subject": "g|c", "broker": broker, **ANSWERS[2]}
        return orjson.dumps(told)

    for kind, short in (("consumerRunningInfo", 1), ("consumerConnection", 0)):
        writer = LandingWriter(tmp_path / kind, "c", short=True)
        for broker in ("a", "b"):
            writer.write(asked(kind, broker))
            writer.flush()
        writer.close()
        (file,) = (tmp_path / kind / "admin_snapshots" / "cluster=c").iterdir()
        assert file.read_bytes().count(b"asBefore") == short
        assert [one.text.encode() for one in read(file.read_bytes())] == [asked(kind, "a"), asked(kind, "b")]


def test_one_question_may_be_answered_in_any_order_before_and_after_lines_are_written(tmp_path):
    deeds = [("read", 0, 0), ("read", 0, 1), ("flush",)]
    for number, rest in enumerate(product(deeds, repeat=5)):
        told = [deeds[0], deeds[2], *rest]
        files, _ = written(tmp_path / str(number), told, short=True)
        whole = [line(NOW + place, 0, deed[2]).decode() for place, deed in enumerate(told) if deed[0] == "read"]
        assert texts(files) == [sorted(whole)]


def parsed(data: bytes) -> list[ParsedLine]:
    return list(one_a_line(parse_admin_snapshots(read(data))))


def two_sweeps(tmp_path) -> list[bytes]:
    sweep = [("read", 0, 1), ("read", 1, 1), ("read", 2, 4), ("flush",)]
    files, _ = written(tmp_path, [*sweep, *sweep], short=True)
    return files[0].splitlines(keepends=True)


def test_an_answer_that_is_nowhere_is_a_read_without_one_that_says_why(tmp_path):
    lines = two_sweeps(tmp_path)
    (refused,) = (one for one in parsed(b"".join(lines[1:])) if one.refusal)
    assert (refused.line.number, refused.refusal.code) == (3, "ANSWER_NOWHERE")
    (row,) = (record.row for record in refused.records)
    assert (row["answered"], row["error"]) == (False, "answer not readable: ANSWER_NOWHERE")
    assert (row["kind"], row["consumer_group"], row["broker_name"]) == ("consumerIdList", "g", "b")
    assert (row["captured_at"], row["captured_end_at"]) == (NOW + 4, NOW + 5)


def test_an_answer_that_was_changed_is_nowhere(tmp_path):
    data = b"".join(two_sweeps(tmp_path)).replace(b'"raw":"[', b'"raw":"[\\"c@1\\",', 1)
    assert [one.refusal.code for one in parsed(data) if one.refusal] == ["ANSWER_NOWHERE"]


def test_of_a_short_line_the_reads_beside_a_refused_one_are_told(tmp_path):
    lines = two_sweeps(tmp_path)
    data = b"".join(lines).replace(b'"reads":[', b'"reads":[["g2",0,0,"0123456789abcdef"],', 1)
    found = parsed(data)
    assert [one.line.number for one in found] == list(range(1, len(lines) + 1))
    (refused,) = (one for one in found if one.refusal)
    assert refused.refusal.code == "ANSWER_NOWHERE"
    told = [(record.row["subject"], record.row["answered"], record.row.get("member_ids")) for record in refused.records]
    assert told == [("g2", False, None), ("g", True, found[0].records[0].row["member_ids"])]


@pytest.mark.parametrize(
    "reads",
    [
        "",
        "3",
        '["g",0,0]',
        '["g",0,0,"0123456789abcde"]',
        '["g",-1,0,"0123456789abcdef"]',
        '["g",0,0,"0123456789abcdef"],',
    ],
)
def test_a_short_line_that_is_none_is_refused_as_a_whole(reads):
    data = b'{"ts":%d,"kind":{"asBefore":"consumerIdList"},"broker":"b","reads":[%s]}' % (NOW, reads.encode())
    (one,) = parsed(data)
    assert one.refusal and not one.records


def test_who_knows_no_short_lines_refuses_them_and_says_what_they_are(tmp_path):
    short = two_sweeps(tmp_path)[3]
    (one,) = parse_admin_snapshots(read_lines([short], gzipped=False, max_line_bytes=1 << 20))
    assert one.refusal.code == "WRONG_TYPE" and "'kind' is {'asBefore': 'consumerIdList'}" in one.refusal.detail


def test_what_a_file_repeats_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(short_lines, "_REPEATED_FREELY", 0)
    whole = line(NOW, 0, 0).replace(b"[]", b"[" + b" " * 10_000 + b"]")
    writer = LandingWriter(tmp_path, "c", short=True)
    for _ in range(1000):
        writer.write(whole)
        writer.flush()
    writer.close()
    (file,) = (tmp_path / "admin_snapshots" / "cluster=c").iterdir()
    assert not any(
        "asBefore" in one.text for one in read(file.read_bytes())
    )  # 100 bytes repeat 10,000, of 20,000 before
    one = b'["g",0,0,"' + json.loads(file.read_bytes().splitlines()[1])["reads"][0][3].encode() + b'"]'
    bomb = b'{"ts":%d,"kind":{"asBefore":"consumerIdList"},"broker":"b","reads":[%s]}' % (NOW, b",".join([one] * 5000))
    told = [one.text for one in read(whole + b"\n" + bomb)]
    assert len(told) == 5001 and sum(map(len, told)) < 301 * (len(whole) + len(bomb)) + 5000 * 200
    assert "asBefore" in told[-1]


def test_a_reader_keeps_so_much_of_a_file_and_a_writer_ends_it_before(tmp_path, monkeypatch):
    monkeypatch.setattr(short_lines, "MOST_BYTES", 80)
    reads = [deed for n in range(40) for deed in (("read", n % 2, 0), ("flush",))]
    files, _ = written(tmp_path / "two", reads, short=True)
    assert len(files) == 20 and not any("asBefore" in text for file in texts(files) for text in file)
    monkeypatch.setattr(short_lines, "MOST_BYTES", 100)
    reads = [deed for n in range(40) for deed in (("read", 0, n // 2 % 2), ("flush",))]
    files, _ = written(tmp_path / "one", reads, short=True)
    assert len(files) == 1 and not any("asBefore" in text for text in texts(files)[0])  # an older answer is not kept
    files, _ = written(tmp_path / "more", [*[("read", 0, 0), ("read", 1, 0), ("flush",)] * 2], short=True)
    monkeypatch.setattr(short_lines, "MOST_BYTES", 40)
    assert any("asBefore" in text for text in texts(files)[0])


CAPTURED = sorted(CAPTURES.rglob("admin_snapshots.jsonl.gz")) + sorted(CAPTURES.glob("scope/admin_snapshots/*/*.gz"))


@pytest.mark.parametrize("capture", CAPTURED, ids=lambda path: str(path.relative_to(CAPTURES)))
def test_the_captures_say_as_short_lines_what_they_say_as_whole_ones(tmp_path, capture):
    """As the collector would have written them."""
    writer, expected = LandingWriter(tmp_path, "c", short=True), []
    for told in map(orjson.loads, gzip.decompress(capture.read_bytes()).splitlines()):
        if told["kind"] == "round":
            writer.flush()
        said = {name: told.pop(name, None) for name in ("error", "raw")}
        told.pop("mqs", None)
        expected.append(orjson.dumps(told | said if told.get("ts_end") else told))
        writer.write(expected[-1])
    writer.close()
    (file,) = (tmp_path / "admin_snapshots" / "cluster=c").iterdir()
    assert sorted(one.text.encode() for one in read(file.read_bytes())) == sorted(expected)
    assert file.stat().st_size < sum(map(len, expected)) and b"asBefore" in file.read_bytes()


def test_the_option_makes_files_short_and_what_they_say_the_same(tmp_path):
    async def collect(name, **options):
        cluster = FakeCluster()
        async with cluster.run():
            await Collector(Plan((cluster.name_server,), "c", tmp_path / name, every_s=1.0, rounds=4, **options)).run()

    found = {}
    for name, options in (("whole", {}), ("short", {"short_lines": True})):
        virtual_time.run(collect(name, **options))
        (file,) = (tmp_path / name / "admin_snapshots" / "cluster=c").iterdir()
        lines = [json.loads(one.text) for one in read(file.read_bytes())]
        asked = [(told["kind"], told.get("subject"), told.get("error"), told.get("raw")) for told in lines]
        found[name] = (
            sorted(re.sub(r"\d{4,5}", "PORT", str(one)) for one in asked),
            file.read_bytes().count(b"asBefore"),
        )
    assert found["short"][0] == found["whole"][0] and len(found["whole"][0]) > 80
    assert (found["whole"][1], found["short"][1] > 20) == (0, True)
