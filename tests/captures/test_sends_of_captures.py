"""Sends of captured producers: real clients retried as their releases' rules say, and every attempt is of one send."""

from __future__ import annotations

import duckdb
import pytest

from hindsight.jobs.engines.sql_views import view_texts
from hindsight.schemas import SEND_ATTEMPT
from tests.conftest import CAPTURES
from tests.folded import arrow, folded, rows_of
from tests.recorded_rows import captured

NAMES = sorted(p.name[len("producer_") : -len(".jsonl.gz")] for p in (CAPTURES / "producers").glob("producer_*.gz"))


@pytest.fixture(scope="module")
def sends():
    rows = {name: captured(name) for name in NAMES}
    return {
        name: (attempts, folded(rows_of(attempts, starts))["send_call"].to_pylist())
        for name, (attempts, starts) in rows.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_retry_of_a_real_client_is_right(name, sends):
    _, calls = sends[name]
    assert calls or name == "5.3.3_oneway"  # nothing of which failed
    expected = {"ASYNC": ("unknown", "attempts_not_recorded"), "SYNC": ("right", None), "ONEWAY": ("right", None)}
    assert {(c["mode"], c["retry_verdict"], c["retry_reason"]) for c in calls} <= {
        (mode, *verdict) for mode, verdict in expected.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_failed_attempt_and_retry_is_of_one_send(name, sends):
    attempts, calls = sends[name]
    told = [(c["msg_id"], each["begin_at"], each["broker_name"]) for c in calls for each in c["attempts"]]
    plain = ("SEND_OK", "SUBMITTED", "UNKNOWN")
    striking = [
        (row["msg_id"], row["begin_at"], row["broker_name"])
        for row in attempts
        if row["outcome"] not in plain or (row["attempt"] or 0) > 0
    ]
    assert sorted(told) == sorted(striking)


@pytest.fixture(scope="module")
def asked(sends):
    """The views of sends, over all captures."""
    rows = rows_of(
        [row for attempts, _ in sends.values() for row in attempts], [s for n in NAMES for s in captured(n)[1]]
    )
    made = folded(rows)
    database = duckdb.connect()
    database.execute("CREATE MACRO size(items) AS len(items)")
    tables = {"send_attempt": arrow(SEND_ATTEMPT, rows["send_attempt"]), **made}
    for name in ("send_attempt", "send_call", "producer_replay"):
        database.register(name, tables[name])
    for name in ("send_result", "failed_attempts"):
        text = view_texts()[name]
        database.execute(f"CREATE VIEW {name} AS {text.partition(') COMMENT ')[2].partition(chr(10) + 'AS ')[2]}")
    return lambda query: database.execute(query).fetchall()


def test_every_attempt_is_of_one_row_of_the_view_of_sends(asked):
    ((sends, attempts),) = asked("SELECT COUNT(DISTINCT (client_id, msg_id, begin_at)), SUM(attempts) FROM send_result")
    assert asked("SELECT COUNT(*) FROM send_result") == [(sends,)]
    assert asked("SELECT COUNT(*) FROM send_attempt") == [(attempts,)]


def test_every_failed_attempt_is_counted_with_what_became_of_its_send(asked):
    failed = "outcome NOT IN ('SEND_OK', 'SUBMITTED', 'UNKNOWN')"
    assert asked("SELECT SUM(attempts) FROM failed_attempts") == asked(
        f"SELECT COUNT(*) FROM send_attempt WHERE {failed}"
    )
    bad_minute = """SELECT SUM(attempts), SUM(gone_on), SUM(lost) FROM failed_attempts
        WHERE minute = '2026-11-21 09:19:00+00' AND failed_with LIKE '%RemotingConnectException'"""
    assert asked(bad_minute) == [(60, 59, 1)]


def test_what_captured_callers_got(sends):
    of = {name: {c["result"] for c in calls} for name, (_, calls) in sends.items()}
    assert of["4.7.1_short"] == {"ok", "not_ok", "timeout"}
    assert of["4.7.1_oneway"] == {"exception"}
    reasons = {r for _, calls in sends.values() for c in calls for r in c["stored_twice_reasons"]}
    assert reasons == {"not_store_ok_retried", "no_answer_retried"}
