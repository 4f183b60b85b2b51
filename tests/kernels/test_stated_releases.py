"""Producers that are no Java clients: never replayed under a Java release of the same number, never off, and why."""

import json

import pytest

from hindsight.udfs.clients.client_kinds import LANGUAGES, NOT_REPLAYED, stated_release, why_not_replayed
from hindsight.udfs.formats.hook_lines import parse_hook_lines
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.producer.replay_rules import Recorded, rules_of
from hindsight.udfs.release_profiles import UnknownReleaseError, profile_for
from tests.dated_cases import ATTEMPTS, ROUTES, STARTS
from tests.folded import folded, rows_of


def start(**said):
    fields = {"type": "start", "ts": 1795570271758, "group": "p", "clientId": "c@1", **said}
    (one,) = parse_hook_lines(iter([Line(1, 0, 0, json.dumps(fields), None)]))
    return one.refusal.code if one.refusal else {n: one.records[0].row[n] for n in ("language", "client_version")}


def test_a_start_is_javas_where_it_names_no_language():
    assert start(version="5.1.4") == {"language": "JAVA", "client_version": "5.1.4"}
    assert start(language="java", version="5.1.4") == {"language": "JAVA", "client_version": "5.1.4"}
    assert start() == {"language": "JAVA", "client_version": None}


def test_a_start_of_another_language_keeps_its_release_apart_from_javas():
    assert start(language="GO", version="2.1.2") == {"language": "GO", "client_version": "GO 2.1.2"}
    assert start(language="GRPC") == {"language": "GRPC", "client_version": "GRPC"}
    assert start(language="COBOL") == "UNKNOWN_VALUE"


@pytest.mark.parametrize("language", NOT_REPLAYED)
@pytest.mark.parametrize("release", ["5.1.4", "2.1.2", None])
@pytest.mark.parametrize("switch", [True, False, None])
def test_no_rule_of_javas_meets_another_languages_producer(language, release, switch):
    stated = stated_release(language, release)
    rules = rules_of(Recorded(stated, switch, None, (100,), (5000,)))
    assert (rules.verdict, rules.profile, rules.family) == ("not_applicable", None, None)
    assert rules.reasons == (NOT_REPLAYED[language],)
    with pytest.raises(UnknownReleaseError):
        profile_for(stated)


@pytest.mark.parametrize("stated", ["5.1.4", "V4_9_8", "409", None, "GOLD 1"])
def test_a_java_client_is_judged_by_its_release(stated):
    assert why_not_replayed(stated) is None
    assert rules_of(Recorded(stated, True)).verdict in ("replayed", "unknown")


def test_every_language_but_java_says_why():
    assert set(LANGUAGES) == {"JAVA", *NOT_REPLAYED}


def test_a_go_producer_has_a_row_that_says_so_and_no_windows():
    client = "anew 4.9.8"
    starts = [{**row, "client_version": "GO 2.1.2"} if row["client_id"] == client else row for row in STARTS]
    made = {name: table.to_pylist() for name, table in folded(rows_of(ATTEMPTS, starts, ROUTES)).items()}
    own = {name: [row for row in rows if row.get("client_id") == client] for name, rows in made.items()}
    assert {row["verdict"] for row in own["producer_replay"]} == {"not_applicable"}
    assert own["broker_availability_window"] == own["fault_item_state"] == own["producer_finding"] == []
    assert {row["verdict"] for row in own["send_verdict"]} == {"unknown"}
    assert any(row["client_id"] != client for row in made["broker_availability_window"])
