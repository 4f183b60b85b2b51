"""What follows from what a round shows of a topic: digests, what is expected now and was before, what is missing."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.consumer.member_rules import SHOWN, Setting, Shown, handed_on, setting_of, telling
from hindsight.udfs.groups.group_fold import GroupFold
from hindsight.udfs.groups.group_walk import FoldSettings, Recorded, Told, WalkSettings
from hindsight.udfs.values.date_digests import _xxh64, digest, list_digest
from hindsight.udfs.values.row_hashes import value_hashes
from tests.default_timing import default_timing
from tests.hostile_texts import HOSTILE


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"xxhash", 0, 0x32DD38952C4BC720),
        (b"xxhash", 20141025, 0xB559B98D844E0635),
        (b"The quick brown fox jumps over the lazy dog", 0, 0x0B242D361FDA71BC),
    ],
)
def test_the_hash_is_xxh64(data, seed, expected):
    """Of the algorithm's own documents and test suites."""
    assert _xxh64(data, seed) == expected


def test_digests_are_those_of_spark_s_xxhash64():
    """As tables hold them that Spark's own function wrote."""
    members = ["127.0.0.1@4.9.8_h1", "127.0.0.1@5.3.3_h3"]
    assert list_digest(members) == "4c73ffb8bdff869c"
    assert list_digest(["127.0.0.1@4.7.1_k1"]) == "d1439c1421fe54b1"
    rules = [(members[0], "CONSISTENT_HASH", "P498"), (members[1], "CONSISTENT_HASH", "P533")]
    assert digest("CLUSTERING", rules, None) == "43323f2e5a8ec8ea"
    queues = [(f"broker-{letter}", number) for letter in "ab" for number in range(4)]
    assert digest(len(queues), queues) == "9b0a87cbd1737f72"


VALUE = st.one_of(st.none(), st.lists(st.sampled_from(["", "a", "b", "ab"]), max_size=3))
STRUCT = st.one_of(st.none(), st.fixed_dictionaries({"x": st.one_of(st.none(), st.booleans()), "y": VALUE}))
ROW = st.fixed_dictionaries({"flag": st.one_of(st.none(), st.booleans()), "list": st.lists(STRUCT, max_size=2)})
NESTED = pa.struct([("x", pa.bool_()), ("y", pa.list_(pa.string()))])
SCHEMA = pa.schema([("flag", pa.bool_()), ("list", pa.list_(NESTED))])


@given(st.lists(ROW, max_size=30))
def test_rows_have_equal_hashes_where_they_are_equal_and_nowhere_else(rows):
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    hashes, texts = value_hashes(table, SCHEMA.names).tolist(), [repr(row) for row in table.to_pylist()]
    by_row = dict(zip(texts, hashes, strict=True))
    assert [by_row[text] for text in texts] == hashes
    assert len({*hashes}) == len(by_row)


def test_of_a_slice_of_rows_the_hashes_are_those_of_the_whole():
    rows = [{"flag": None, "list": [{"x": True, "y": ["a"] * n}] * n} for n in range(9)]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    assert value_hashes(table.slice(3), SCHEMA.names).tolist() == value_hashes(table, SCHEMA.names)[3:].tolist()


class _Topic:
    """A topic of rounds whose expectations are what is asked about."""

    def __init__(self, expected):
        self.topic, self.expected = "T", expected


class _Expected:
    refusal = None


def test_the_expectation_before_is_that_of_the_last_round_that_had_one():
    settings = FoldSettings(WalkSettings(default_timing(), 7), lookback_s=60, progress_valid_s=120, loose_spread_s=5)
    recorded = Recorded(None, {}, None, {}, lambda _: [], frozenset(), frozenset(), None)
    fold = GroupFold(("c", "", "g"), recorded, Told(Shown([]), Setting(), None, None, None), settings, {})
    one, two, three, four = (_Expected() for _ in range(4))
    rounds = [(0, one), (15, two), (30, None), (45, three), (200, four)]
    before = [fold._expected_before(_Topic(expected), second * 1_000_000) for second, expected in rounds]
    assert before == [None, one, two, two, None]


def test_a_pattern_of_the_settings_matches_the_same_text_and_no_other():
    entries = [{"cluster": text, "consumer_group": "*", "name": f"said of {text}"} for text in HOSTILE]
    names = [*HOSTILE, "`\n", "${env:HOME}x", "49", "x"]
    found = {name: setting_of(entries, name, "g").name for name in names}
    assert found == {name: f"said of {name}" if name in HOSTILE else None for name in names}


def test_what_settings_say_is_of_the_first_entry_that_matches_and_says_it():
    entries = [
        {"cluster": "c?", "consumer_group": "g*", "name": "AVG", "parameters": None},
        {"cluster": "*", "consumer_group": "*", "name": "CONSISTENT_HASH", "parameters": "{}"},
    ]
    assert setting_of(entries, "c1", "g_a") == Setting("AVG", "{}")
    assert setting_of(entries, "c10", "g_a") == Setting("CONSISTENT_HASH", "{}")
    assert setting_of(entries, "a\nb", "g_a") == Setting("CONSISTENT_HASH", "{}")
    assert setting_of(entries[:1], "c10", "g_a") == Setting()


DAY = date(2026, 11, 21)
SIGHTING = st.tuples(
    st.sampled_from(["a", "b"]), st.sampled_from(["client_log", "running_info"]), st.sampled_from(["AVG", "RING"]),
    st.integers(-60, 60),
)  # fmt: skip


@given(st.lists(SIGHTING, max_size=40))
def test_what_is_left_of_sightings_tells_as_much_as_all_of_them(seen):
    """Of every hour around a date, and of what each date hands on."""
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    rows = [("g", c, source, strategy, noon + timedelta(hours=h)) for c, source, strategy, h in seen]
    table = pa.Table.from_pylist([dict(zip(SHOWN.names, row, strict=True)) for row in rows], schema=SHOWN)
    kept = telling(table)
    shown = Shown((one.client_id, one.at, one.strategy, one.source) for one in kept)
    for hour in range(-61, 62, 3):
        at = noon + timedelta(hours=hour)
        for client, source in {(c, s) for c, s, *_ in seen}:
            until = [(when, strategy) for _, c, s, strategy, when in rows if (c, s) == (client, source) and when <= at]
            last = max(until)[1] if until else None
            assert shown.last(client, source, int(at.timestamp() * 1_000_000)) == last
    dates = [DAY + timedelta(days=n) for n in range(-3, 6)]
    handed = {(day, one.client_id, one.source): (one.strategy, one.at) for day, one in handed_on(kept, dates, 2)}
    expected = {}
    for day in dates:
        for client, source in {(c, s) for c, s, *_ in seen}:
            told = [(when, strategy) for _, c, s, strategy, when in rows if (c, s) == (client, source)]
            until = [one for one in told if one[0].date() <= day]
            if until and day - max(until)[0].date() <= timedelta(days=2):
                at, strategy = max(until)
                expected[day, client, source] = (strategy, int(at.timestamp() * 1_000_000))
    assert handed == expected


def test_hashes_of_no_rows_are_none():
    assert value_hashes(SCHEMA.empty_table(), SCHEMA.names).tolist() == np.zeros(0).tolist()
