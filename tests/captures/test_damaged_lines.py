"""Real lines of every format through its reader: none gets lost, damaged ones raise nothing, whole ones break no rule.

That every row fits its table is checked beside it.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from datetime import UTC
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.schemas import TABLES
from hindsight.udfs.formats.canonical_lines import COLLECTOR
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.limits.door import judged, severities
from hindsight.udfs.lines.bounded_lines import read_lines
from hindsight.udfs.lines.parsed_line import LandedFile
from tests.random_examples import examples
from tests.readers.line_checks import GOLDEN, check, check_bytes, check_each, damaged, lines_of, raw_lines

CAPTURES = GOLDEN / "captures"
# What tells of a file, where its lines alone do not.
ABOUT = {
    "mqadmin": LandedFile("t/a.txt", "consumerProgress -g g_avg", 1795253675931),
    "broker_log": LandedFile("broker-a/broker.log"),
    "client_log": LandedFile("c/rocketmq_client.log"),
    "canonical_snapshots": LandedFile("queue_ownership/a.jsonl"),
}
SEND = {
    "producer_group": "pg",
    "client_id": "10.0.0.1@7",
    "topic": "T",
    "broker_name": "broker-a",
    "queue_id": 3,
    "mode": "SYNC",
    "begin_at": 1795252691980,
    "end_at": 1795252692067,
    "outcome": "SEND_OK",
    "msg_id": "A1",
}
OWNED = {
    "collector": COLLECTOR,
    "captured_at": 1795252691980,
    "consumer_group": "g",
    "client_id": "c",
    "topic": "T",
    "broker_name": "b",
    "queue_id": 0,
}


def of_files(pattern: str, step: int = 1) -> list[bytes]:
    return [line for path in sorted(GOLDEN.glob(pattern)) for line in raw_lines(path)[::step]]


def of_rows(*rows: dict) -> list[bytes]:
    return [json.dumps(row).encode() + b"\n" for row in rows]


def varied(name: str, lines: list[bytes], most: int = 3) -> list[bytes]:
    """So many lines of each kind that the reader tells apart, and of those of which nothing comes."""
    found: dict[tuple, list[bytes]] = {}
    for line in lines:
        (parsed,) = PARSERS[name](read_lines([line], gzipped=False, max_line_bytes=1 << 20), UTC, about(name))
        rows = [(r.table, *map(r.row.get, ("kind", "mode", "phase", "exception"))) for r in parsed.records]
        found.setdefault((parsed.refusal, *dict.fromkeys(rows)), []).append(line)
    return [line for kind in found.values() for line in kind[:most]]


def about(name: str) -> LandedFile:
    return ABOUT.get(name, LandedFile())


LINES = {
    "producer_hook": varied("producer_hook", of_files("captures/producers/producer_*.jsonl.gz", 40)),
    "consumer_hook": varied("consumer_hook", of_files("captures/consumer_hook/*.gz")),
    "trace_topic": varied("trace_topic", of_files("captures/trace_topic/trace_*.gz", 5)),
    "canonical_sends": of_rows(SEND, SEND | {"mode": "ASYNC"}, SEND | {"begin_at": "2026-11-21T09:18:11Z"}),
    "canonical_snapshots": of_rows(OWNED, OWNED | {"locked": True}),
    "admin_snapshots": varied("admin_snapshots", of_files("captures/consumers/admin_snapshots.jsonl.gz")[:120]),
    "mqadmin": [p.read_bytes() for p in sorted((CAPTURES / "mqadmin").rglob("*")) if p.is_file()],
    "heartbeat": of_files("heartbeats/*.jsonl"),
    "client_log": varied("client_log", of_files("captures/*/client_logs/*/*.gz", 3)),
    "broker_log": varied("broker_log", of_files("captures/broker_logs/*.gz")),
}


def of_files_together(name: str, raws: list[bytes]) -> list[list[bytes]]:
    """An output of mqadmin is a file; of the others a line is a thing of its own."""
    return [[raw] for raw in raws] if name == "mqadmin" else [raws]


@pytest.mark.parametrize("name", FORMATS)
@examples(5, 15)
@given(random=st.randoms(use_true_random=True))
def test_damaged_lines_neither_raise_nor_get_lost(name, random):
    parse = partial(PARSERS[name], zone=UTC, file=about(name))
    raws = [damaged(random, LINES[name]) for _ in range(30 if name == "mqadmin" else 200)]
    for files in of_files_together(name, raws):
        parsed = check_each(parse, files, FORMATS[name].tables)
        # Nothing but its terminator is left after the last line.
        rest = b"".join(files)[parsed[-1].line.byte_end if parsed else 0 :]
        assert rest in (b"", b"\n", b"\r\n", b"\r")


# What stands where a reader expects something else; the last are beyond what Java, Python or a table can hold.
ODD = (
    None,
    True,
    "",
    "null",
    " ",
    "\ud800",
    "é" * 300,
    [],
    {},
    [[]],
    {"a": {}},
    0,
    -1,
    1.5,
    2**31,
    2**63 - 1,
    2**63,
    10**400,
)


def opened(line):
    """A line with what its texts hold as values: a captured answer's JSON, a trace body's fields."""
    if isinstance(line.get("body"), str):
        return line | {"body": line["body"].split("\x01")[:60]}
    try:
        return line | {"raw": json.loads(line["raw"])}
    except (KeyError, TypeError, ValueError):  # none, or the dialect
        return line


def closed(line):
    if isinstance(line.get("body"), list):
        return line | {"body": "\x01".join(map(str, line["body"]))}
    return line | {"raw": json.dumps(line["raw"])} if isinstance(line.get("raw"), dict) else line


def changed(line):
    """The line over and over: each of its values, at any depth, left out once and replaced once by each odd one.

    Lists are also cut off there. Of what a list or a map of many alike holds, the first few.
    """
    opening = opened(json.loads(line))

    def walk(place):
        for key in list(place)[:40] if isinstance(place, dict) else range(min(len(place), 16)):
            value = place[key]
            for odd in ODD:
                place[key] = odd
                yield json.dumps(closed(opening)).encode() + b"\n"
            place[key] = value
            if isinstance(value, dict | list):
                yield from walk(value)
            whole = place.copy()
            for left_out in (key,) if isinstance(place, dict) else (key, slice(key, None)):
                del place[left_out]
                yield json.dumps(closed(opening)).encode() + b"\n"
                place.clear()
                place.update(whole) if isinstance(place, dict) else place.extend(whole)

    lines = list(walk(opening))
    return Random(0).sample(lines, min(len(lines), 400))


@pytest.mark.parametrize("name", [name for name, lines in LINES.items() if lines[0].startswith(b"{")])
def test_lines_with_odd_values_neither_raise_nor_get_lost(name):
    parse = partial(PARSERS[name], zone=UTC, file=about(name))
    lines = [json.dumps(odd).encode() + b"\n" for odd in ODD]
    lines += [one for line in LINES[name] for one in changed(line)]
    assert len(check_each(parse, lines, FORMATS[name].tables)) == len(lines)


@pytest.mark.parametrize("name", [name for name, lines in LINES.items() if not lines[0].startswith(b"{")])
def test_text_with_numbers_beyond_java_neither_raises_nor_gets_lost(name):
    parse = partial(PARSERS[name], zone=UTC, file=about(name))
    raws = [
        line[: number.start()] + b"9" * length + line[number.end() :]
        for line in LINES[name]
        for number in list(re.finditer(rb"\d++", line))[:: 20 if name == "mqadmin" else 1][:60]
        for length in (10, 19, 30)
    ]
    for files in of_files_together(name, raws):
        lines = sum(raw.removesuffix(b"\n").count(b"\n") + 1 for raw in files)
        assert len(check_each(parse, files, FORMATS[name].tables)) == lines


BEGINNINGS = tuple(dict.fromkeys(line[:size] for lines in LINES.values() for line in lines[:9] for size in (24, 70)))


@pytest.mark.parametrize("name", FORMATS)
@examples(15, 60)
@given(lines=st.lists(st.tuples(st.just(b"") | st.sampled_from(BEGINNINGS), st.binary(max_size=40)), max_size=4))
def test_random_lines_neither_raise_nor_get_lost(name, lines):
    raw = b"".join(beginning + rest.replace(b"\n", b"") + b"\n" for beginning, rest in lines)
    parsed = check_bytes(partial(PARSERS[name], zone=UTC, file=about(name)), raw, FORMATS[name].tables)
    assert len(parsed) == raw.count(b"\n") or not raw  # that mqadmin printed nothing is told too


@pytest.mark.parametrize("name", FORMATS)
@examples(5, 20)
@given(data=st.data())
def test_of_a_cut_gzip_file_every_whole_line_is_read_and_the_rest_refused(name, data):
    raw = b"".join(data.draw(st.lists(st.sampled_from(LINES[name]), min_size=1, max_size=6)))
    packed = gzip.compress(raw, 1)
    packed = packed[: data.draw(st.integers(2, len(packed) - 1))]
    lines = list(read_lines([packed], gzipped=True, max_line_bytes=1 << 20))
    *_, last = check(partial(PARSERS[name], zone=UTC, file=about(name)), lines, FORMATS[name].tables)
    assert last.refusal.code == "TRUNCATED_GZIP"
    assert len(lines) == zlib.decompressobj(31).decompress(packed).count(b"\n") + 1


WHOLE = [
    ("producer_hook", "captures/producers/producer_4.7.1_laton.jsonl.gz"),
    ("producer_hook", "captures/producers/producer_5.3.3_async.jsonl.gz"),
    ("trace_topic", "captures/trace_topic/trace_4.9.8_5.3.3.jsonl.gz"),
    ("trace_topic", "captures/trace_topic/trace_4.7.1_4.9.8_5.3.3.jsonl.gz"),
    ("admin_snapshots", "captures/consumers/admin_snapshots.jsonl.gz"),
    ("admin_snapshots", "captures/producers/admin_snapshots.jsonl.gz"),
    ("client_log", "captures/producers/client_logs/5.3.3/rocketmq_client.log.gz"),
    ("client_log", "captures/consumers/client_logs/consumer_4.7.1/rocketmq_client.log.gz"),
    ("broker_log", "captures/broker_logs/broker-b.log.gz"),
    ("heartbeat", "heartbeats/heartbeat_5.3.3.jsonl"),
]
FLAGGED = frozenset(name for name, table in TABLES.items() if "doubts" in table.columns.names)


@pytest.mark.parametrize(("name", "path"), WHOLE, ids=[path.rpartition("/")[2] for _, path in WHOLE])
def test_nothing_real_is_broken(name, path):
    landing_format = FORMATS[name]

    def parse(lines):
        return judged(PARSERS[name](lines, UTC, LandedFile(path)), severities({}), FLAGGED)

    parsed = check(parse, lines_of(GOLDEN / path), landing_format.tables)
    assert [p.refusal for p in parsed if p.refusal] == []
    doubts = Counter(code for p in parsed for r in p.records for code in r.row.get("doubts", ()))
    assert doubts.keys() <= {"NEGATIVE_LAG"}
