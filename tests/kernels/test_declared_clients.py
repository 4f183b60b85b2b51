"""What settings say of single members: found by the first pattern that fits, and refused where no such family is."""

import pytest

from hindsight.conf.settings_file import SettingsError, load_settings
from hindsight.jobs.drift.drift_derivation import declared_clients
from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.consumer.member_rules import Setting, Shown, member_rules
from hindsight.udfs.release_profiles import PROFILES
from hindsight.udfs.strategies.member_families import (
    Declaration,
    Declared,
    check_family,
    declared_of,
    profile_of_member,
)


def entry(client_id, family=None, strategy=None, *, cluster="*", consumer_group="*"):
    return Declaration(cluster, consumer_group, client_id, family, strategy)


@pytest.mark.parametrize(
    ("client_id", "expected"),
    [
        ("10.0.0.1@7", Declared("G1", "CONSISTENT_HASH")),
        ("10.0.0.2@7", Declared("G6", None)),
        ("10.0.0.2@8", Declared()),
        ("10x0.0.2@7", Declared()),
    ],
)
def test_the_first_entry_that_fits_and_has_it_counts(client_id, expected):
    entries = [
        entry("*", "C0", cluster="other"),
        entry("*", "C0", consumer_group="other"),
        entry("10.0.0.1@*", "G1"),
        entry("10.0.0.?@7", "G6"),
        entry("10.0.0.1@*", strategy="CONSISTENT_HASH"),
    ]
    assert declared_of(entries, "c", "g", client_id) == expected


def test_a_family_that_is_declared_leaves_aside_what_is_recorded():
    recorded = ("GO", 317, "v2.0.0-alpha3", "10.0.0.1@7")
    assert profile_of_member(*recorded) == "G1|G2"
    assert profile_of_member(*recorded, Declared(strategy="AVG")) == "G1|G2"
    assert profile_of_member(*recorded, Declared("G1")) == "G1"


@pytest.mark.parametrize("family", [*CLIENT_FAMILIES, *PROFILES])
def test_every_family_may_be_named(family):
    check_family(family)


def settings_of(tmp_path, text):
    path = tmp_path / "own.toml"
    path.write_text(f"[[drift.client_family]]\n{text}\n")
    return load_settings(path)


@pytest.mark.parametrize(("named", "near"), [("G8", "G7"), ("g6", "G6"), ("P499", "P49"), ("Go 2.1.2", "G0, G1")])
def test_a_family_that_is_none_is_refused_with_those_near_it(tmp_path, named, near):
    settings = settings_of(tmp_path, f"family = '{named}'")
    with pytest.raises(SettingsError, match=r"drift\.client_family\.0: no family '" + named) as refused:
        declared_clients(settings)
    assert near in str(refused.value)


def test_an_entry_that_says_nothing_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="neither a family nor a strategy"):
        settings_of(tmp_path, "client_id = 'c'")


def test_entries_are_taken_as_they_are_written(tmp_path):
    (one,) = declared_clients(settings_of(tmp_path, "consumer_group = 'g'\nclient_id = 'c'\nfamily = 'G1'"))
    assert one == entry("c", "G1", consumer_group="g")


def test_a_member_goes_by_the_family_and_strategy_that_settings_declare():
    connections = [{"client_id": name, "version": 317, "language": "GO"} for name in ("a", "b", "c")]
    declared = {"a": Declared("G1", "CONSISTENT_HASH"), "b": Declared("C0", "CONSISTENT_HASH"), "c": Declared()}
    rules = member_rules(connections, [], Shown([]), 0, Setting("AVG_BY_CIRCLE"), declared.__getitem__)
    told = [(m["client_id"], m["profile"], m["strategy"], m["source"]) for m in rules.members]
    assert told[:2] == [("a", "G1", "CONSISTENT_HASH", "settings"), ("b", "C0", "AVG", "release")]
    assert told[2][2:] == ("AVG_BY_CIRCLE", "settings") and told[2][1] not in (None, "G1", "C0")
