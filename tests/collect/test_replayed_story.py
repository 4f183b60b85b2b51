"""Lists that differ between brokers, as the capture `scope` provoked them, are in the collector's own lines."""

from __future__ import annotations

import json

import pytest

from tests.collect.replayed_story import rounds_of_the_capture, tell_the_story

SEEN = slice(10, 60)  # v3's connection to broker-b is cut in round 16 and healed in round 50


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    landing = tmp_path_factory.mktemp("landing")
    tell_the_story(landing, "c", SEEN.start, SEEN.stop)
    (file,) = landing.rglob("*.jsonl")
    sweeps = []
    for line in map(json.loads, file.read_bytes().splitlines()):
        if line["kind"] == "round":
            sweeps.append([])
        sweeps[-1].append(line)
    return sweeps


def members(sweep, kind="consumerConnection"):
    found = {}
    for line in sweep:
        if line["kind"] == kind and "broker" in line and line["raw"]:
            raw = json.loads(line["raw"])
            ids = raw if kind == "consumerIdList" else [c["clientId"] for c in raw["connectionSet"]]
            found[line["subject"], line["broker"]] = set(ids)
    return found


@pytest.mark.parametrize("kind", ["consumerConnection", "consumerIdList"])
def test_each_broker_s_list_is_the_capture_s_in_every_round(told, kind):
    captured = rounds_of_the_capture()[SEEN]
    assert len(told) == len(captured) == 50
    for ours, theirs in zip(told, captured, strict=True):
        expected = {key: ids for key, ids in members(theirs, kind).items() if not key[0].startswith("CID_Default")}
        assert expected and {key: ids for key, ids in members(ours, kind).items() if key in expected} == expected
    differ = [m["g_view", "broker-a"] != m["g_view", "broker-b"] for m in map(members, told)]
    assert 30 <= sum(differ) <= 36


def test_a_client_is_asked_for_through_a_broker_that_lists_it_though_the_other_does_not(told):
    for sweep in told:
        listed = members(sweep)
        infos = [line for line in sweep if line["kind"] == "consumerRunningInfo"]
        assert infos
        for line in infos:
            group, _, client = line["subject"].rpartition("|")
            assert client in listed[group, line["broker"]]
        assert len({line["subject"] for line in infos}) == len(infos) > 12


def test_lines_bear_the_rounds_own_times(told):
    starts = [sweep[0]["ts"] for sweep in told]
    captured = [sweep[0]["ts"] for sweep in rounds_of_the_capture()[SEEN]]
    assert all(0 <= ours - theirs < 500 for ours, theirs in zip(starts, captured, strict=True))
    assert all(line["ts"] >= sweep[0]["ts"] for sweep in told for line in sweep)
