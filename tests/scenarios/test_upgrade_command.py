"""``hindsight upgrade`` on the recorded groups: what it says for people and programs, and what it refuses."""

from __future__ import annotations

import json

import pytest

from hindsight.conf.failure import DONE, WRONG_USAGE
from tests.commands import command


def told(lake, *words: str) -> list[dict]:
    done = command("upgrade", *words, "--lake", lake, "--json")
    assert done.returncode == DONE, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def parts(rows, part):
    return [row for row in rows if row["part"] == part]


def test_a_change_of_strategy_leaves_queues_to_nobody_and_to_two_until_all_have_it(of_groups):
    rows = told(of_groups, "g_mix", "--strategy", "AVG_BY_CIRCLE", "--release", "4.9.8")
    steps = parts(rows, "step")
    assert [(row["nobody"], row["two"]) for row in steps][-1] == (0, 0)
    assert any(row["nobody"] and row["all_unread_at_least_s"] >= 60 for row in steps[:-1])
    given, best, worst = (row["all_unread_at_most_s"] for row in parts(rows, "order"))
    assert best <= given <= worst
    assert given == pytest.approx(sum(row["all_unread_at_most_s"] for row in steps))
    assert [row["found_by"] for row in parts(rows, "order")] == ["given", "every order", "every order"]
    for row in steps:
        held = [reader for queue in row["owners"] for reader in queue["after"]]
        assert len(held) == len(row["owners"]) - row["nobody"] + row["two"]


def test_members_have_their_turns_in_the_order_given_and_a_restart_changes_nobodys_queues(of_groups):
    rows = told(of_groups, "g_hash", "--order", "127.0.0.1@5.3.3_h3", "--renamed", "127.0.0.1@5.3.3_h3=127.0.0.1@9#1")
    steps = [row for row in parts(rows, "step") if row["topic"] == "OracleOrders"]
    assert [row["client_id"] for row in steps] == ["127.0.0.1@5.3.3_h3", "127.0.0.1@4.9.8_h1", "127.0.0.1@4.9.8_h2"]
    assert steps[0]["becomes"] == "as 127.0.0.1@9#1" and steps[1]["becomes"] == "the same"
    assert steps[0]["queues_moved"] > 0  # its id has another place on the ring
    assert [row["queues_moved"] for row in steps[1:]] == [0, 0]


def test_beyond_eight_members_it_says_that_it_searched(of_groups):
    rows = told(of_groups, "g_idle", "--release", "5.3.3")
    assert parts(rows, "group")[0]["members"] == 15
    assert [row["found_by"] for row in parts(rows, "order")][1:] == ["a search: others may go further"] * 2


def test_what_cannot_be_told_has_a_reason_and_people_read_it(of_groups):
    rows = told(of_groups, "g_bcast", "--release", "5.3.3")
    assert not parts(rows, "step")
    assert "broadcasting" in parts(rows, "unknown")[0]["unknown_because"]
    said = command("upgrade", "g_avg", "--strategy", "MACHINE_ROOM", "--lake", of_groups).stdout
    assert "Not known: OracleOrders: MACHINE_ROOM depends on parameters" in said
    go = command("upgrade", "g_avg", "--language", "go", "--release", "2.1.2", "--by-timer", "--lake", of_groups).stdout
    assert "timers alone" in go and "(G6)" in go and "0 to 41" in go


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nobody",), "there are: g_audit, g_avg"),
        (("g_avg", "--release", "9.9.9"), "no known release"),
        (("g_avg", "--language", "GO"), "say which release"),
        (("g_avg", "--language", "GO", "--release", "7.7.7"), "no release '7.7.7'"),
        (("g_avg", "--order", "x@y"), "is no member"),
        (("g_avg", "--renamed", "x@y"), "is not OLD=NEW"),
        (("g_avg", "--producer-group", "*"), "needs --release"),
    ],
)
def test_what_makes_no_rollout_is_refused_with_a_reason(of_groups, words, why):
    done = command("upgrade", *words, "--lake", of_groups)
    assert done.returncode == WRONG_USAGE
    assert why in " ".join(done.stderr.split())
