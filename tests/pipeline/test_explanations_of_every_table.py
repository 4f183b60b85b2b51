"""Every derived table can be explained, and what is shown fits the row; on the samples, without Spark."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from hindsight.jobs.engines.asker import records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.explaining.explain_row import EXPLAINED, explain
from hindsight.jobs.explaining.explanation import same
from hindsight.schemas import TABLES


@pytest.fixture(scope="module")
def asker(sampled):
    opened = LocalAsker(LocalLake(str(sampled), retention_days=7))
    yield opened
    opened.close()


def explained(asker, table, row):
    """Sections by the first words of their titles, without the row itself."""
    named = {f'"{name}"' if name in ("from", "to") else name: row[name] for name in TABLES[table].key}
    first, *sections = explain(asker, table, same(asker, named, *named))
    assert first.rows[0] == row
    return {section.title: section.rows for section in sections}


def of(sections, words):
    (rows,) = [rows for title, rows in sections.items() if words in title]
    return rows


def test_every_derived_table_is_explained():
    assert {name for name, table in TABLES.items() if "computed_at" in table.columns.names} == EXPLAINED.keys()


# The samples have no broker that was asked how it hands out queues; engines/test_pop_groups.py has.
@pytest.mark.parametrize("table", [name for name in EXPLAINED if name != "broker_assignment"])
def test_a_row_of_each_kind_has_something_from_which_it_follows(asker, table):
    kinds = {}
    for row in records(asker, f"SELECT * FROM {table} ORDER BY ALL"):
        kinds.setdefault((row.get("code"), row.get("root_cause"), row.get("verdict"), row.get("kind")), row)
    assert kinds
    for row in kinds.values():
        sections = explained(asker, table, row)
        assert any(sections.values())


def test_the_items_at_a_choice_are_those_that_the_windows_tell_of(asker):
    """What is not available is what lies in a window."""
    verdicts = records(
        asker,
        """SELECT * FROM send_verdict WHERE verdict = 'consistent' ORDER BY MD5(msg_id), attempt LIMIT 10""",
    )
    seen = 0
    for verdict in verdicts:
        sections = explained(asker, "send_verdict", verdict)
        held = {
            row["broker_name"]
            for row in of(sections, "What the producer treated")
            if row["state"] == "unavailable" and row["window_start"] <= verdict["begin_at"] < row["window_end"]
        }
        items = of(sections, "The fault items")
        assert {row["broker_name"] for row in items if not row["available"]} == held
        assert all(row["updated_at"] < verdict["begin_at"] for row in items)
        seen += len(held)
    assert seen > 3


def test_an_incident_shows_its_findings_and_rounds(asker):
    for incident in records(asker, "SELECT * FROM drift_incident"):
        sections = explained(asker, "drift_incident", incident)
        found = of(sections, "Its findings")
        assert {row["code"] for row in found if row["rounds_open"]} >= set(incident["codes"])
        assert min(row["first_at"] for row in found) >= incident["first_seen_at"]
        assert max(row["last_at"] for row in found) == incident["last_seen_at"]
        assert [row["line"] for row in of(sections, "Lines of")] == incident["evidence"]


def test_findings_about_producers_show_their_rows(asker):
    shown = set()
    for finding in records(asker, "SELECT * FROM producer_finding"):
        sections, since, until = explained(asker, "producer_finding", finding), finding["from"], finding["to"]
        shown.add(finding["code"])
        match finding["code"]:
            case "LONG_ISOLATION":
                windows = of(sections, "Its windows")
                assert since in [row["window_start"] for row in windows]
                assert until in [row["window_end"] for row in windows]
            case "FLEET_SLOW":
                minutes = of(sections, "The fleet")
                assert len(minutes) == (until - since) / timedelta(minutes=1)
                most, active = map(int, re.search(r"up to (\d+) of (\d+)", finding["sentence"]).groups())
                assert (most, active) == max((row["isolating"], row["active"]) for row in minutes)
            case "BROKER_REFUSES":
                answers = of(sections, "What the broker answered")
                (refused,) = re.search(r"answered (\d+) of", finding["sentence"]).groups()
                assert sum(
                    row["attempts"]
                    for row in answers
                    if "NOT_STORE" in row["failed_with"] or row["failed_with"] == "FLUSH_DISK_TIMEOUT"
                ) == int(refused)
            case "ALL_ISOLATED":
                held = {row["broker_name"] for row in of(sections, "Its windows")}
                assert held >= {row["broker_name"] for row in of(sections, "First attempts")}
    assert shown == {"LONG_ISOLATION", "FLEET_SLOW", "BROKER_REFUSES", "ALL_ISOLATED"}


def test_a_minute_of_the_fleet_shows_who_isolated_in_it(asker):
    for minute in records(asker, "SELECT * FROM fleet_minute WHERE isolating > 0"):
        sections = explained(asker, "fleet_minute", minute)
        held = {(row["producer_group"], row["client_id"]) for row in of(sections, "Who treated")}
        assert minute["isolating"] <= len(held)
        assert sum(row["attempts_to_the_broker"] for row in of(sections, "Producers that sent")) == minute["attempts"]
