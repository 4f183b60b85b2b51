"""BROKER_REFUSES: what the fold says of brokers that answered busy, or stored without SEND_OK, beside a plain count."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.udfs.producer.minute_counts import NOT_STORE_OK
from tests.folded import cut_at, folded, rows_of
from tests.random_examples import examples

DAY = datetime(2026, 3, 2, tzinfo=UTC)
BUSY = {
    "outcome": "EXCEPTION",
    "exception": "org.apache.rocketmq.client.exception.MQBrokerException",
    "error": "CODE: 2  DESC: [TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while",
    "response_code": 2,
}
TOPIC_GONE = {**BUSY, "error": "CODE: 17  DESC: topic not exist", "response_code": 17}
ANSWERS = [*({"outcome": status} for status in ("SEND_OK", *NOT_STORE_OK)), BUSY, TOPIC_GONE]


def attempts(minute, broker, answers):
    """Attempts of one minute to a broker, one every 100 ms."""
    for place, answer in enumerate(answers):
        begin = DAY + timedelta(minutes=minute, milliseconds=100 * place)
        yield {
            "cluster": "c", "event_date": begin.date(), "producer_group": "g", "client_id": "p", "thread": "t",
            "topic": "T", "broker_name": broker, "mode": "SYNC", "attempt": 0, "begin_at": begin,
            "end_at": begin + timedelta(milliseconds=5), "latency_ms": 5, "msg_id": f"{minute}-{broker}-{place}",
            "source": "producer_hook", "exceptions_observable": True, "latency_fault_enabled": False, **answer,
        }  # fmt: skip


def refusals(rows, **options):
    """(broker, kind, first minute, minute after the last, sentence) of the findings."""
    found = folded(rows_of(list(rows), []), **options)["producer_finding"].to_pylist()
    return sorted(
        (
            row["broker_name"],
            row["kind"],
            *((row[n] - DAY) // timedelta(minutes=1) for n in ("from", "to")),
            row["sentence"],
        )
        for row in found
        if row["code"] == "BROKER_REFUSES"
    )


def by_hand(rows):
    """The same by a plain count: minutes with ten refusals that are one in twenty, joined where they follow."""
    sent, refused = Counter(), defaultdict(Counter)
    for row in rows:
        place = row["broker_name"], (row["begin_at"] - DAY) // timedelta(minutes=1)
        sent[place] += 1
        refused["busy"][place] += row.get("response_code") == 2
        refused["not_store_ok"][place] += row["outcome"] in NOT_STORE_OK
    found = []
    for kind, count in refused.items():
        for (broker, minute), n in sorted(count.items()):
            if n < 10 or n * 20 < sent[broker, minute]:
                continue
            if found and found[-1][:2] == [broker, kind] and found[-1][3] == minute:
                found[-1][3:] = [minute + 1, found[-1][4] + n, found[-1][5] + sent[broker, minute]]
            else:
                found.append([broker, kind, minute, minute + 1, n, sent[broker, minute]])
    return sorted(tuple(each) for each in found)


@st.composite
def days(draw):
    rows = []
    for minute in draw(st.sets(st.integers(0, 6), min_size=1, max_size=4)):
        for broker in ("a", "b"):
            count = draw(st.sampled_from([9, 10, 20, 199, 200, 201]))
            answer, other = draw(st.sampled_from(ANSWERS)), draw(st.sampled_from(ANSWERS))
            refused = draw(st.sampled_from([0, 9, 10, 11]))
            rows += attempts(minute, broker, [answer] * min(refused, count) + [other] * max(0, count - refused))
    return rows


@examples(7, 30)
@given(days())
def test_what_is_found_is_what_a_plain_count_finds(rows):
    found = refusals(rows)
    told = by_hand(rows)
    assert [each[:4] for each in found] == [each[:4] for each in told]
    for (*_, sentence), (*_, n, sent) in zip(found, told, strict=True):
        assert f" {n} of {sent} attempts " in sentence


@settings(max_examples=10)
@given(days(), st.integers(0, 7 * 60_000))
def test_a_date_read_in_slices_tells_the_same(rows, instant):
    assert refusals(rows, cut=cut_at([instant])) == refusals(rows)


def test_the_sentence_says_what_was_answered():
    rows = [*attempts(0, "a", [BUSY] * 12 + [{"outcome": "SEND_OK"}] * 30), *attempts(1, "a", [BUSY] * 10)]
    rows += attempts(1, "b", [{"outcome": "FLUSH_SLAVE_TIMEOUT"}] * 10)
    assert [sentence for *_, sentence in refusals(rows)] == [
        "a answered 22 of 52 attempts with SYSTEM_BUSY between 00:00 and 00:02.",
        "b answered 10 of 10 attempts with another status than SEND_OK (stored, but not yet flushed or copied) "
        "between 00:01 and 00:02.",
    ]


@pytest.mark.parametrize("answer", [{"outcome": "SEND_OK"}, TOPIC_GONE], ids=["answered", "of another code"])
def test_other_answers_are_no_refusals(answer):
    assert refusals(attempts(0, "a", [answer] * 50)) == []


def test_a_run_ends_with_its_date():
    """Each date has its own findings, so a date computed alone gives the rows of a run over many."""
    rows = [*attempts(1439, "a", [BUSY] * 20), *attempts(1440, "a", [BUSY] * 20)]
    assert [each[2:4] for each in refusals(rows)] == [(1439, 1440), (1440, 1441)]
    assert {row["event_date"] for row in rows} == {date(2026, 3, 2), date(2026, 3, 3)}
