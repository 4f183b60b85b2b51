"""Collectors that share a cluster without talking to each other: who asks for what."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from typer.testing import CliRunner

from hindsight.jobs.collect.cluster_view import Shard, Wanted, shard_of
from hindsight.jobs.collect.collector import Collector, Plan, write_sweep_metrics
from hindsight.jobs.commands.collect_command import app
from hindsight.udfs.remoting.remoting_frames import topics_of_group
from tests.collect import virtual_time
from tests.collect.fake_servers import (
    BROKER_CONFIG,
    CONFIG,
    CONNECTIONS,
    GROUPS,
    IDS,
    INFO,
    MODES,
    PRODUCERS,
    ROUTE,
    RUNTIME_INFO,
    STATS,
    STATUS,
    WHO,
    FakeCluster,
)

BROKERS = tuple(f"broker-{n}" for n in range(4))


def random_cluster(draw: random.Random) -> tuple[FakeCluster, dict[str, list[str]]]:
    """A cluster, and what its groups consume; how that is told differs from group to group."""

    def some() -> tuple[str, ...]:
        return tuple(sorted(draw.sample(BROKERS, draw.randint(1, 3))))

    topics = {f"T{n}_{draw.randrange(10**6)}": some() for n in range(8)}
    groups = {f"g{n}_{draw.randrange(10**6)}": some() for n in range(10)}
    dead = {f"%DLQ%{group}": at for group, at in groups.items() if draw.random() < 0.3}
    consumed = {group: draw.sample(sorted(topics), draw.randint(0, 2)) for group in groups}
    tells_by = {group: draw.choice((CONNECTIONS, STATS, INFO)) for group in groups}
    members = {group: (f"10.0.0.1@{group}",) for group in groups}

    def instead(name, request):
        group = request.fields.get("consumerGroup", "")
        if request.code != tells_by.get(group) or name not in groups[group]:
            return False
        if request.code == STATS:
            keys = (f'{{"brokerName":"{name}","queueId":0,"topic":"{topic}"}}:{{}}' for topic in consumed[group])
            return request.answer(b'{"offsetTable":{%s}}' % ",".join(keys).encode())
        if request.code == INFO:
            told = [{"topic": topic, "subString": "*"} for topic in consumed[group]]
            return request.answer({"mqTable": {}, "properties": {}, "subscriptionSet": told})
        listed = [{"clientId": f"10.0.0.1@{group}", "clientAddr": "10.0.0.9:1", "language": "JAVA", "version": 479}]
        return request.answer({"connectionSet": listed, "subscriptionTable": {topic: {} for topic in consumed[group]}})

    return FakeCluster(BROKERS, {**topics, **dead}, groups, members, instead), consumed


def asked_by(cluster: FakeCluster, shard: Shard, landing, rounds: int) -> list[tuple[str, int, str]]:
    """What a shard asked, in order: the server (`""`: the name server), the code, and about what."""

    async def run():
        async with cluster.run():
            wanted = Wanted(producers=("pg_a", "pg_b@T", "pg_c"))
            more = {"every_s": 1.0, "rounds": rounds, "shard": shard, "wanted": wanted}
            await Collector(Plan((cluster.name_server,), "c", landing, **more)).run()

    virtual_time.run(run())
    return [
        (name, r.code, r.fields.get("topic") or r.fields.get("consumerGroup") or r.fields.get("producerGroup", ""))
        for name, server in cluster.servers.items()
        for r in server.requests
    ]


@pytest.mark.parametrize("parts", range(1, 7))
@pytest.mark.parametrize("seed", range(3))
def test_each_shard_asks_for_what_the_rule_says_and_no_other(tmp_path, parts, seed):
    cluster, consumed = random_cluster(random.Random(1000 * seed + parts))
    for number in range(1, parts + 1):
        shard = Shard(number, parts)
        asked = Counter(asked_by(cluster, shard, tmp_path / str(number), rounds=1))
        own = {group for group in cluster.groups if shard.has(group)}
        needed = {topic for group in own for topic in consumed[group]}
        topics = {topic for topic in cluster.topics if shard.has(topic.removeprefix("%DLQ%")) or topic in needed}
        expected = {(b, code, g) for g in own for b in cluster.groups[g] for code in (CONNECTIONS, IDS, STATS)}
        expected |= {(b, code, t) for t in topics for b in cluster.topics[t] for code in (STATUS, CONFIG, WHO)}
        expected |= {("", ROUTE, topic) for topic in (*topics, *(f"%RETRY%{group}" for group in own))}
        expected |= {(b, code, "") for b in BROKERS for code in (GROUPS, MODES, BROKER_CONFIG, RUNTIME_INFO)}
        expected |= {(b, PRODUCERS, pg) for b in BROKERS for pg in ("pg_a", "pg_b", "pg_c") if shard.has(pg)}
        kinds = {code for _, code, _ in expected}
        told = {key: count for key, count in asked.items() if key[1] in kinds and key[2] != "CID_RMQ_SYS_REVIVE_GROUP"}
        assert told == dict.fromkeys(expected, 1)
        infos = Counter(group for _, code, group in asked.elements() if code == INFO)
        assert infos == dict.fromkeys(own, 1)


def test_the_cut_is_the_same_in_every_process():
    """Numbers worked out by hand from BLAKE2b; Python's own hash differs from process to process."""
    assert [next(n for n in range(1, 5) if Shard(n, 4).has(name)) for name in ("g_orders", "g_push", "零")] == [1, 3, 1]
    names = [f"g_{n}" for n in range(4000)]
    sizes = [sum(Shard(n, 4).has(name) for name in names) for n in range(1, 5)]
    assert sum(sizes) == 4000 and min(sizes) > 900


def test_a_group_is_asked_at_the_brokers_of_its_routes_and_elsewhere_seldom(tmp_path):
    """Its configuration is at every broker, its topic at one, its retry topic at another."""

    def instead(name, request):
        if request.code == GROUPS:
            return request.answer({"subscriptionGroupTable": {"g": {}, "g_new": {}}})
        if request.code == CONNECTIONS and request.fields["consumerGroup"] == "g" and name == BROKERS[1]:
            return request.answer({"connectionSet": [], "subscriptionTable": {"Orders": {}}})
        return False

    cluster = FakeCluster(BROKERS, {"Orders": BROKERS[:1]}, {"g": BROKERS[1:2]}, {}, instead)
    asked = Counter(asked_by(cluster, Shard(), tmp_path, rounds=3))
    assert [asked[broker, STATS, "g"] for broker in BROKERS] == [3, 3, 1, 1]
    assert [asked[broker, STATS, "g_new"] for broker in BROKERS] == [3, 3, 3, 3]  # no route tells where it is


def test_members_that_a_broker_lists_are_asked_for_there_again(tmp_path):
    """They came in where no route of the group leads: the connection itself says where they are."""

    def instead(name, request):
        if request.code == GROUPS:
            return request.answer({"subscriptionGroupTable": {"g": {}}})
        if request.code == CONNECTIONS and name == BROKERS[3]:
            return request.answer({"connectionSet": [], "subscriptionTable": {}})
        return False

    cluster = FakeCluster(BROKERS, {}, {"g": BROKERS[:1]}, {}, instead)
    asked = Counter(asked_by(cluster, Shard(), tmp_path, rounds=3))
    assert [asked[broker, CONNECTIONS, "g"] for broker in BROKERS] == [3, 1, 1, 3]


@pytest.mark.parametrize(
    "text", ["", "0/4", "5/4", "1/0", "-1/4", "1", "1/4/2", "a/b", "1.0/4", "01/4", " 1/4", "1/99999"]
)
def test_a_shard_that_is_none_is_refused(tmp_path, text):
    with pytest.raises(ValueError, match="1 <= I <= N"):
        shard_of(text)
    options = ["--name-server", "h:1", "--cluster", "c", "--landing", str(tmp_path), "--once", "--shard", text]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 2 and "--shard" in result.output


def test_a_shard_is_a_collector_of_its_own_name():
    assert [shard_of("2/4").collector(name) for name in (None, "east")] == ["collector-2-of-4", "east-2-of-4"]
    assert [Shard().collector(name) for name in (None, "east")] == [None, "east"]


def test_metrics_of_shards_are_series_of_their_own(tmp_path):
    write_sweep_metrics(tmp_path / "m", "c", 0, {"seconds": 1.0}, "collector-2-of-4")
    told = (tmp_path / "m").read_text()
    assert 'hindsight_collect_sweep_seconds{cluster="c",collector="collector-2-of-4"} 1.0' in told


def test_answers_of_any_shape_name_topics_or_none():
    for odd in (None, [], {"offsetTable": 3, "mqTable": {"text": {}}, "subscriptionSet": [1, {"topic": 3}]}):
        assert topics_of_group(odd) == set()
