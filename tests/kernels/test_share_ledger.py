"""Who gave and took queues: from whom each came, and for how long nobody had it."""

from __future__ import annotations

import pytest

from hindsight.udfs.rebalances.share_ledger import ShareLedger

Q = ("T", "broker-a", 0)


def test_a_queue_that_was_given_up_is_unread_until_it_is_taken():
    ledger = ShareLedger()
    ledger.take("a", Q, 0, 0)
    ledger.give("a", Q, 1000, 1000)
    made = ledger.take("b", Q, 1400, 1400)
    assert (made.from_client_id, made.released_at, made.unread_ms, made.unread_at_least_ms) == ("a", 1000, 400, 400)


def test_what_two_reads_show_is_an_interval():
    ledger = ShareLedger()
    ledger.take("a", Q, 0, 0)
    ledger.give("a", Q, 1000, 4000)  # between two reads
    made = ledger.take("b", Q, 7000, 10000)
    assert (made.unread_ms, made.unread_at_least_ms) == (9000, 3000)


def test_a_queue_that_another_still_has_is_held_twice_and_never_unread():
    ledger = ShareLedger()
    ledger.take("a", Q, 0, 0)
    made = ledger.take("b", Q, 500, 500)
    assert (made.from_client_id, made.unread_ms) == ("a", None)
    assert ledger.give("a", Q, 800, 800) == 300
    assert made.unread_ms == 0


def test_whoever_goes_gives_up_all_it_has():
    ledger = ShareLedger()
    for number in range(3):
        ledger.take("a", ("T", "broker-a", number), 0, 0)
    ledger.leave("a", 100, 200)
    assert ledger.held_by("a") == set()
    assert {ledger.take("b", ("T", "broker-a", n), 900, 900).unread_ms for n in range(3)} == {800}


@pytest.mark.parametrize("closed", [False, True])
def test_the_state_goes_on_where_the_date_closed(closed):
    ledger = ShareLedger()
    ledger.take("a", Q, 0, 0)
    ledger.give("a", Q, 10, 20)
    ledger.take("c", ("T", "broker-a", 1), 5, 5)
    again = ShareLedger.of_state(ledger.to_state()) if closed else ledger
    assert again.held_by("c") == {("T", "broker-a", 1)}
    assert again.take("b", Q, 30, 30).unread_ms == 20
