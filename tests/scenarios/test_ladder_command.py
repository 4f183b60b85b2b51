"""``hindsight ladder``: two producers with different ladders in one stall, each told beside what the other did."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hindsight.conf.failure import DONE, WRONG_USAGE
from hindsight.udfs.fault_tolerance import FaultTable
from hindsight.udfs.release_profiles import PROFILES
from tests.commands import command
from tests.hooked import Hook, start
from tests.pipeline.local_runs import OF_PRODUCERS, run_here

STALL = range(10_000, 16_000)  # broker-a takes 805 ms for what is sent to it then
SHORT = {"latencyMax": [50, 100, 550], "notAvailableDuration": [0, 0, 2_000]}
DEFAULT = PROFILES["P498"]


def sent(group, client, profile, **ladder):
    """What a producer with this ladder records that sends each 100 ms, to broker-a in turn, or not while it avoids it;
    with its sends into the stall, and for how long after it it avoids broker-a."""
    table, hook, lines, pending, met, avoided = FaultTable(profile), Hook(client=client), [], [], 0, 0
    lines.append(start(-1_000, "4.9.8", client, **ladder))
    for now in range(0, 60_000, 100):
        for end, latency in [each for each in pending if each[0] <= now]:
            table.update("broker-a", latency_ms=latency, isolation=False, now_ms=end)
            pending.remove((end, latency))
        is_free = table.is_available("broker-a", now)
        avoided += 100 * (not is_free and now >= STALL.stop)
        to_a = is_free and (now // 100) % 2 == 0
        latency = 805 if to_a and now in STALL else 5
        met += latency == 805
        lines.append(hook.attempt("broker-a" if to_a else "broker-b", now, latency, thread=f"t{now // 100 % 16}"))
        if to_a:
            pending.append((now + latency, latency))
    return [{**line, "group": group} for line in lines], met, avoided / 1_000


@pytest.fixture(scope="module")
def stall(settings, tmp_path_factory):
    """A lake of both producers, and what each did: sends into the stall, seconds of needless avoiding."""
    root = tmp_path_factory.mktemp("stall")
    own = root / "landing" / "producer_hook" / "cluster=c"
    own.mkdir(parents=True)
    did = {}
    short = replace(DEFAULT, latency_max_ms=(50, 100, 550), not_available_ms=(0, 0, 2_000))
    for group, client, profile, ladder in (
        ("pg_default", "10.0.0.1@1", DEFAULT, {}),
        ("pg_short", "10.0.0.2@1", short, SHORT),
    ):
        lines, *did[group] = sent(group, client, profile, **ladder)
        (own / f"{group}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_here(settings, root / "landing", root / "lake", OF_PRODUCERS)
    return root / "lake", did


def told(lake, *words):
    done = command("ladder", "--lake", lake, "--json", *words)
    assert done.returncode == DONE, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def ladders(rows, which):
    return [row for row in rows if row["part"] == "ladder" and row["which"] == which]


def holds(row, met, avoided):
    # Between two sends to a broker nobody knows: 1 s on each side of the stall.
    assert row["sick_sends_at_least"] <= met <= row["sick_sends_at_most"]
    assert row["healthy_avoided_at_least_s"] - 1 <= avoided <= row["healthy_avoided_at_most_s"] + 1


def test_what_is_told_of_a_ladder_holds_for_the_producer_that_has_it(stall):
    lake, did = stall
    assert did["pg_default"][0] < did["pg_short"][0] and did["pg_default"][1] > 20 > did["pg_short"][1]
    (own,), (default, _) = (ladders(told(lake, "--producer-group", "pg_short"), which) for which in ("own", "default"))
    holds(own, *did["pg_short"])
    assert own["sick_sends_at_least"] == own["sick_sends_at_most"] == did["pg_short"][0]
    holds(default, *did["pg_default"])
    rows = told(lake, "--producer-group", "pg_default", "--ladder", "50,100,550:0,0,2000")
    (own,), (short,) = ladders(rows, "own"), ladders(rows, "given")
    holds(own, *did["pg_default"])
    # The windows that sends which come would open are not in it.
    holds(short, did["pg_short"][0], short["healthy_avoided_at_most_s"])


def test_how_brokers_were_seen_and_which_ladders_nothing_beats(stall):
    rows = told(stall[0])
    sick = {row["broker_name"]: (row["sick_s"], row["sick_sends"]) for row in rows if row["part"] == "broker"}
    assert sick["broker-b"] == (0, 0)
    assert 3 < sick["broker-a"][0] < 7
    assert sick["broker-a"][1] == sum(met for met, _ in stall[1].values())
    found = [(row["healthy_avoided_at_most_s"], row["sick_sends_at_most"]) for row in ladders(rows, "frontier")]
    assert found == sorted(found) and len(found) == len({met for _, met in found}) > 1
    assert [row["not_available_ms"][-1] for row in ladders(rows, "default")] == [600_000, 30_000]
    assert {row["certainty"] for row in rows if row["part"] == "ladder"} == {"open loop"}
    text = command("ladder", "--lake", stall[0]).stdout
    assert "Open loop" in text and "| frontier" not in text and "frontier" in text


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--ladder", "50,x:0"), "is not like"),
        (("--ladder", "50,100:0"), "has 2 latencies and 1 times"),
        (("--cluster", "nowhere"), "no send is recorded"),
    ],
)
def test_what_cannot_be_weighed_is_refused_with_a_reason(stall, words, why):
    done = command("ladder", "--lake", stall[0], *words)
    assert done.returncode == WRONG_USAGE
    assert why in " ".join(done.stderr.split())


def test_the_same_is_told_by_the_model_context_protocol(stall):
    pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
    from tests.pipeline.test_mcp_server import asked

    _, answer = asked(stall[0].parent, ("ladder", {"first": "2026-01-01"}), options=("--seconds", "100"))
    assert answer["rows"] == told(stall[0])
