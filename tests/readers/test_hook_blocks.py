"""Blocks of hook lines versus the reader of single lines: whatever the bytes, the same rows, refusals and places."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.schemas import PRODUCER_INSTANCE, SEND_ATTEMPT, TABLES
from hindsight.udfs.formats.hook_lines import COLUMNS, HOOK_LINES, MEMBERS, parse_hook_lines
from hindsight.udfs.formats.plain_rows import LINE_NUMBER, LineReader
from hindsight.udfs.landing.landed_rows import columns_read
from hindsight.udfs.limits.door import _MASKS, _is_of_names, is_of_one_text, judged, severities
from hindsight.udfs.limits.door_rules import RULES, SEVERITIES, Rule
from hindsight.udfs.lines.archive_blocks import cut
from hindsight.udfs.lines.bounded_lines import read_blocks, read_lines
from hindsight.udfs.logs.log_wrappers import masked
from tests.captures.test_damaged_lines import LINES, ODD, changed
from tests.random_examples import SOAKING, examples
from tests.readers.line_checks import GOLDEN, damaged, raw_lines

FLAGGED = frozenset({SEND_ATTEMPT.name, PRODUCER_INSTANCE.name})
READ = {t.name: columns_read(t) for t in map(TABLES.get, FLAGGED)}
NAMES = {name: schema.names for name, schema in READ.items()}


def one_by_one(raw: bytes, severity_of, **how):
    lines = masked(read_lines([raw], **how))
    return list(judged(parse_hook_lines(lines), severity_of, FLAGGED))


def together(raw: bytes, severity_of, block_bytes: int, **how):
    reader = LineReader(HOOK_LINES, parse_hook_lines, severity_of, FLAGGED)
    blocks = read_blocks(cut([raw], block_bytes // 2 + 1), block_bytes=block_bytes, **how)
    return [read._replace(others=list(read.others)) for read in reader.read(blocks)]


def full(table: str, row: dict) -> dict:
    assert row.keys() <= set(NAMES[table])
    return dict.fromkeys(NAMES[table]) | row


def rows_of_lines(lines) -> dict:
    return {
        (one.line.number, index): (table, full(table, row))
        for one in lines
        for index, (table, row) in enumerate(one.records)
    }


def check(raw: bytes, *, overrides=None, block_bytes: int = 1 << 20, gzipped: bool = False, longest: int = 1 << 20):
    """Equal in all that is read of a file; gives the number of lines that were read together."""
    severity_of, how = severities(overrides or {}), {"gzipped": gzipped, "max_line_bytes": longest}
    lines = one_by_one(raw, severity_of, **how)
    found = together(raw, severity_of, block_bytes, **how)
    others = [one for read in found for one in read.others]
    plain = [row for read in found for row in read.rows.to_pylist()]
    rows = {(row.pop(LINE_NUMBER), 0): (SEND_ATTEMPT.name, full(SEND_ATTEMPT.name, row)) for row in plain}
    assert rows_of_lines(others).keys().isdisjoint(rows)
    assert rows | rows_of_lines(others) == rows_of_lines(lines)
    assert [one for one in others if one.refusal] == [one for one in lines if one.refusal]
    by_number = {one.line.number: one.line for one in lines}
    assert all(by_number[one.line.number] == one.line for one in others)
    assert [one.line.number for one in others] == sorted(one.line.number for one in others)
    ignored = sum(read.ignored for read in found) + sum(not one.records and not one.refusal for one in others)
    assert ignored == sum(not one.records and not one.refusal for one in lines)
    assert len(rows) + len(others) + sum(read.ignored for read in found) == len(lines)
    return len(plain) + sum(read.ignored for read in found)


HOOKS = sorted((GOLDEN / "captures" / "producers").glob("producer_*.jsonl.gz"))


@pytest.mark.parametrize("path", HOOKS, ids=lambda path: path.name)
def test_of_a_capture_every_attempt_is_read_together_and_nothing_differs(path):
    raw = b"".join(raw_lines(path))
    assert check(raw, block_bytes=1 << 26) >= raw.count(b'"type":"attempt"') > 600
    assert check(path.read_bytes(), gzipped=True, block_bytes=100_000) > 600


@examples(10, 60)
@given(
    random=st.randoms(use_true_random=True),
    block_bytes=st.sampled_from([1, 700, 5_000, 1 << 20]),
    share=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
)
def test_damaged_lines_are_read_alike(random, block_bytes, share):
    real = LINES["producer_hook"]
    lines = [damaged(random, real) if random.random() < share else random.choice(real) for _ in range(60)]
    together = check(b"".join(lines), block_bytes=block_bytes)
    assert together <= len(b"".join(lines).splitlines())
    if not share:  # nothing is damaged: but for starts, only what a block's edge cuts is read by itself
        assert block_bytes < 1 << 20 or together == sum(b'"type":"start"' not in line for line in lines)


@pytest.mark.random
def test_lines_with_odd_values_are_read_alike():
    lines = [json.dumps(odd).encode() + b"\n" for odd in ODD]
    lines += [one for line in LINES["producer_hook"] for one in changed(line)]
    # Each by itself too: what one block cannot be read for is not hidden by another line. All of them in the soak.
    alone = [check(line) for line in (lines if SOAKING else [*lines[: len(ODD)], *lines[len(ODD) :: 6]])]
    assert 0 < sum(alone) < len(alone)
    together = check(b"".join(lines))
    assert together > 0 and (together <= sum(alone) or not SOAKING)


ATTEMPT = json.loads(next(line for line in LINES["producer_hook"] if b'"attempt"' in line))
START = json.loads(next(line for line in LINES["producer_hook"] if b'"start"' in line))
BETWEEN_BOUNDS = st.integers(-3, 3).flatmap(
    lambda off: st.sampled_from(
        [0, 18, 4 << 20, 2**31, -(2**31), 2**63, -(2**63), 1_262_304_000_000, 4_102_444_800_000, 1_262_304_000]
    ).map(lambda bound: bound + off)
)
TEXTS = st.one_of(
    st.sampled_from(
        ["", "SYNC", "ASYNC", "ONEWAY", "SEND_OK", "attempt", "start", "select", "true", "null", "%RETRY%g", "é", "\0"]
    ),
    st.sampled_from(
        ["dropped", "GO", "JAVA", "10.0.0.1@key|secret|g|77", "10.0.0.1@key|sec", "k|a@b", "c@***|***|g|1"]
    ),
    st.sampled_from(
        ["a b", "T" * 128, "T" * 300, "x" * 1_001, "x" * 2_100, "\ud800", "😀", " ", "NaN", "Inf", "\u2028"]
    ),
    st.sampled_from(
        ["CODE: 1", "CODE: 1234567890", "CODE: -7x", "CODE: 3é", "CODE: ٣", "CODE: 5. CODE: 6", "CODE: 1_"]
    ),
    st.text(max_size=6),
)
VALUES = st.one_of(
    TEXTS,
    BETWEEN_BOUNDS,
    st.sampled_from(
        [None, True, False, 0.5, 1e300, -0.0, float("nan"), float("inf"), float("-inf"), [], {}, [1, [{}]]]
    ),
)
MEMBER = st.sampled_from(
    [*MEMBERS.names, "ts", "spec", "latencyMax", "notAvailableDuration", "language", "count", "other"]
)
CHANGES = st.lists(st.tuples(MEMBER, VALUES | st.just(...)), max_size=3)


@st.composite
def made_lines(draw) -> bytes:
    """An attempt or a start with some members changed, left out, said twice, or written otherwise."""
    members = list(draw(st.sampled_from([ATTEMPT, ATTEMPT, ATTEMPT, START])).items())
    for name, value in draw(CHANGES):
        if value is ... or draw(st.booleans()):
            members = [member for member in members if member[0] != name]
        if value is not ...:
            members.insert(draw(st.integers(0, len(members))), (name, value))
    ascii_only, space = draw(st.booleans()), draw(st.sampled_from(["", " ", "\t", "\r"]))
    written = [json.dumps(name) + space + ":" + json.dumps(value, ensure_ascii=ascii_only) for name, value in members]
    text = "{" + space + ("," + space).join(written) + "}"
    return text.encode(errors="surrogatepass") + draw(
        st.sampled_from([b"", b"", b"", b"\r", b" ", b"\0}", b"{}", b"}"])
    )


LINE = st.one_of(
    made_lines(),
    made_lines(),
    st.sampled_from(
        [b"", b"\r", b"  ", b"{}", b"{", b"}", b"[]", b"\xff", b"\xef\xbb\xbf{}", b'{"type":"a"}{"type":"b"}', b"{}\0}"]
    ),
    st.sampled_from([b'{"type":"select"}', b'{"type":"select","x":NaN}', b'{"type":"select","x":Inf}']),
    st.sampled_from([b'{"type":"select","x":"\xff"}', b'{"type":"select","x":"\xed\xa0\x80"}']),
    st.sampled_from([b'{"type":"a","x":%s%s}' % (b"[" * depth, b"]" * depth) for depth in (900, 1_200, 5_000)]),
    st.sampled_from([b'{"type":"a","x":%s}' % (b"9" * digits) for digits in (19, 20, 400, 1_900, 4_400)]),
    st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"")),
)
OVERRIDES = st.dictionaries(st.sampled_from([rule.code for rule in RULES]), st.sampled_from(SEVERITIES), max_size=3)


@examples(33, 400)
@given(
    lines=st.lists(LINE, max_size=12),
    overrides=OVERRIDES,
    block_bytes=st.sampled_from([1, 300, 4_000, 1 << 20]),
    end=st.sampled_from([b"\n", b"\r\n", b""]),
    longest=st.sampled_from([250, 1_000, 1 << 20]),
    packed=st.booleans(),
)
def test_whatever_the_lines_they_are_read_alike(lines, overrides, block_bytes, end, longest, packed):
    raw = (end or b"\n").join(lines) + end
    raw = gzip.compress(raw)[: -len(lines) or None] if packed else raw
    assert check(raw, overrides=overrides, block_bytes=block_bytes, gzipped=packed, longest=longest) <= len(lines)


# Of each, as many objects as lines, yet not one a line.
NOT_ONE_A_LINE = (
    [b'{"type":"a"}{"type":"b"}', b'{"type":"c"}\0}'],
    [b'{"type":"a"}{"type":"b"}', b'{"type":"c","x":{}', b',"y":{}}'],
    [b'{"type":"a"}{"type":"b"}', b"", b'{"type":"c"}'],
    [b'{"type":"a"}{"type":"b"}', b'{"type":"c","x":[', b"{}]}"],
)


@pytest.mark.parametrize("lines", NOT_ONE_A_LINE)
def test_as_many_objects_as_lines_are_not_taken_for_one_a_line(lines):
    assert check(b"\n".join([*lines, b""])) < len(lines)


@examples(20, 200)
@given(line=made_lines(), others=st.lists(made_lines(), max_size=3))
def test_beside_a_line_that_no_block_can_hold_the_plain_ones_are_still_read_together(line, others):
    plain = json.dumps(ATTEMPT).encode()
    wrong = json.dumps(ATTEMPT | {"queueId": "4"}).encode()
    assert check(b"\n".join([plain, wrong, line, *others, plain, b""])) >= 2


def test_a_plain_row_has_the_columns_and_types_of_the_table():

    wanted = READ[SEND_ATTEMPT.name]
    assert {field.name: field.type for field in COLUMNS}.items() <= {f.name: f.type for f in wanted}.items()


def test_every_rule_about_attempts_is_known_to_the_door_of_columns():
    """Of one that is not, every line would be read by itself."""
    none = {name: COLUMNS.empty_table().column(name) for name in COLUMNS.names}
    asked = [rule for rule in RULES if not rule.tables or SEND_ATTEMPT.name in rule.tables]
    of_attempts = [rule for rule in asked if set(rule.columns) <= set(COLUMNS.names)]
    others = [rule for rule in of_attempts if not _is_of_names(rule)]
    assert {rule.code for rule in others if not is_of_one_text(rule, none)} <= _MASKS.keys()
    assert {"BODY_LENGTH", "NAME_TOO_LONG"} <= {rule.code for rule in of_attempts}


def test_a_rule_about_one_more_text_is_asked_once_for_each(monkeypatch):
    asked = []

    def odd_id(row):
        asked.append(row["client_id"])
        return "an odd id" if row["client_id"] == "odd" else None

    for door in ("hindsight.udfs.limits.door", "hindsight.udfs.limits.door"):
        monkeypatch.setattr(f"{door}.RULES", (*RULES, Rule("ODD_ID", odd_id, "flag", ("client_id",))))
    lines = [json.dumps(ATTEMPT | {"clientId": of}).encode() for of in ("a", "odd", "b", "a", "b", "a")]
    assert check(b"\n".join([*lines, b""])) == 5
    assert len(asked) == len(lines) + 3 + 1  # one by one, each text, and the odd one once more
