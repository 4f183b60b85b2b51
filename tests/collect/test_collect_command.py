"""``hindsight collect`` as a process: options, exit codes, secrets, signals, TLS, IPv6, proxies, and what it tells."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from hindsight.jobs.collect.server import split_address
from hindsight.jobs.command_line import asked
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.udfs.remoting.remoting_frames import Credentials, signed_fields
from tests.collect.fake_servers import CONNECTIONS, GROUPS, IDS, INFO, STATS, FakeCluster, FakeServer

ROOT = Path(__file__).parent.parent.parent
SECRET, TOKEN = "hush-2718281828", "tok-1618033988"


def clean(**more: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("HINDSIGHT_")} | more


async def collect(landing, *options, environment=None, then=None):
    """Exit code, stdout and stderr; ``then`` is awaited while the process works."""
    words = [
        "-m",
        "hindsight.jobs.command_line",
        "collect",
        "--cluster",
        "c",
        "--landing",
        str(landing),
        *map(str, options),
    ]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=ROOT, env=environment or clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if then is not None:
        await then(process)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


def against(cluster, landing, *options, tls=None, **more):
    async def run():
        async with cluster.run(tls):
            return await collect(landing, "--name-server", cluster.name_server, *options, **more)

    return asyncio.run(run())


def lines_of(landing):
    files = sorted(landing.rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def test_once_is_one_sweep_and_one_file_and_a_line_of_its_log(tmp_path):
    code, out, err = against(FakeCluster(), tmp_path, "--once")
    assert (code, out) == (0, "")
    (file,) = tmp_path.rglob("*.*")
    assert re.fullmatch(r"admin_snapshots/cluster=c/collector-\S+\.jsonl", str(file.relative_to(tmp_path)))
    (told,) = [json.loads(line) for line in err.splitlines()]
    end = lines_of(tmp_path)[-1]
    assert {name: told[name] for name in end if name not in ("ts", "kind")} == {
        n: end[n] for n in end if n not in ("ts", "kind")
    }
    assert told["event"] == "sweep" and told["requests"] == told["lines"] - 2 > 10


def test_each_sweep_is_a_json_line_for_who_reads_stdout(tmp_path):
    code, out, err = against(FakeCluster(), tmp_path, "--rounds", "2", "--every", "0.1", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [line["round"] for line in told] == [0, 1]
    assert all(line["cluster"] == "c" and line["requests"] == line["lines"] - 2 for line in told)
    logged = [json.loads(line) for line in err.splitlines()]
    assert [{name: each[name] for name in line} for line, each in zip(told, logged, strict=True)] == told


def test_it_loads_neither_spark_nor_what_makes_tables():
    code = """
import atexit, sys
from hindsight.jobs.command_line import main
heavy = {"pyspark", "delta", "pandas", "numpy", "pyarrow", "great_expectations"}
atexit.register(lambda: print(sorted(heavy & sys.modules.keys())))
sys.argv = ["hindsight", "collect", "--help"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "--name-server" in done.stdout and done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--name-server", "nowhere:port"), "--name-server: 'nowhere:port' is no HOST:PORT."),
        (("--name-server", ";"), "--name-server names none."),
        (("--name-server", "a:1", "--cluster", "a/b"), "--cluster 'a/b': a name consists of"),
        (("--name-server", "a:1", "--cluster", ".."), "--cluster '..': a name consists of"),
        (("--name-server", "a:1", "--once", "--rounds", "2"), "--once and --rounds contradict"),
        (("--name-server", "a:1", "--tls-ca", "x"), "belong to --tls."),
        (("--name-server", "a:1", "--tls", "--tls-ca", "/nowhere"), "--tls-ca, --tls-cert, --tls-key: "),
        (("--name-server", "a:1", "--acl-file", "/nowhere"), "--acl-file cannot be read: FileNotFoundError."),
        (("--name-server", "a:1", "--metrics", "/nowhere/x"), "there is no folder '/nowhere'."),
        (("--name-server", "a:1", "--landing", "s3://bucket/x"), "--landing is a folder on this machine"),
        (("--name-server", "a:1", "--secret-key", SECRET), "No such option: --secret-key"),
        (("--name-server", "a:1", "--every", "0"), "'--every'"),
    ],
)
def test_wrong_usage_is_said_and_ends_with_64(tmp_path, options, said, capsys):
    words = ["--cluster", "c", "--landing", str(tmp_path / "landing"), *options]
    assert exit_code(lambda: asked(["collect", *words])(standalone_mode=False)) == 64
    err = capsys.readouterr().err
    assert said in " ".join(err.split()), err
    assert not list(tmp_path.iterdir())


def test_half_a_key_pair_is_wrong_usage_and_a_name_server_that_is_not_there_a_failed_run(tmp_path):
    half = asyncio.run(
        collect(tmp_path, "--name-server", "127.0.0.1:1", environment=clean(HINDSIGHT_SECRET_KEY=SECRET))
    )
    assert half[0] == 64 and "there is no access key." in half[2] and SECRET not in half[2]
    code, _, err = asyncio.run(collect(tmp_path, "--name-server", "127.0.0.1:1", "--once"))
    assert (code, err.splitlines()[-1]) == (
        3,
        "hindsight: no name server of 127.0.0.1:1 ever answered; the lines say why.",
    )
    assert [line["kind"] for line in lines_of(tmp_path)] == ["round", "clusterInfo", "topicList", "sweepEnd"]


def test_a_landing_folder_that_cannot_be_made_is_a_failed_run(tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = asyncio.run(collect(tmp_path / "file", "--name-server", "127.0.0.1:1", "--once"))
    assert code == 3 and "Not a directory" in err and "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_sweep_end_and_the_file_appear(tmp_path, number):
    async def slowly(request):
        await asyncio.sleep(0.8)
        request.answer({"connectionSet": []})

    cluster = FakeCluster(instead=lambda _name, r: slowly(r) if r.code == CONNECTIONS else False)

    async def stop(process):
        while not cluster.asked(CONNECTIONS):
            await asyncio.sleep(0.02)
        process.send_signal(number)

    begun = time.monotonic()
    code, _, _ = against(cluster, tmp_path, then=stop)
    assert code == 0 and time.monotonic() - begun < 10
    lines = lines_of(tmp_path)
    assert lines[-1]["kind"] == "sweepEnd" and not lines[-1]["is_cut"]
    assert [line["error"] for line in lines if line["kind"] == "consumerConnection"] == [None, None]


def test_a_second_signal_cuts_the_sweep_and_a_line_of_each_broker_says_what_is_left(tmp_path):
    async def slowly(request):
        await asyncio.sleep(0.3)
        request.answer({"connectionSet": []})

    groups = {f"g{n}": ("broker-a", "broker-b") for n in range(200)}
    cluster = FakeCluster(groups=groups, instead=lambda _n, r: slowly(r) if r.code == CONNECTIONS else False)

    async def stop_twice(process):
        while not cluster.asked(CONNECTIONS):
            await asyncio.sleep(0.02)
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.1)

    code, _, _ = against(cluster, tmp_path, then=stop_twice)
    lines = lines_of(tmp_path)
    told = [line["error"] for line in lines if line["kind"] == "consumerConnection"]
    left = [line for line in lines if line["kind"] == "notAsked"]
    assert {line["broker"] for line in left} == {"broker-a", "broker-b"} and len(left) == 2
    assert all(line["error"].startswith("not asked: the collector was stopped (") for line in left)
    counted = sum(line["questions"]["consumerConnection"] for line in left)
    assert code == 0 and counted > 300 and len(told) + counted == 400
    assert lines[-1]["is_cut"] is True


def test_a_sweep_that_takes_longer_than_every_is_said_to_be_late_and_none_is_piled_on(tmp_path):
    async def slowly(request):
        await asyncio.sleep(0.5)
        request.answer({"connectionSet": []})

    cluster = FakeCluster(instead=lambda _name, r: slowly(r) if r.code == CONNECTIONS else False)
    code, _, err = against(cluster, tmp_path, "--every", "0.4", "--rounds", "3")
    assert code == 0
    lines = lines_of(tmp_path)
    rounds = [line["ts"] for line in lines if line["kind"] == "round"]
    ends = [line for line in lines if line["kind"] == "sweepEnd"]
    assert all(0.09 < end["late_s"] < 0.4 for end in ends)
    # Those due at 400 and 1,200 ms are left out.
    assert [round((ts - rounds[0]) / 400) for ts in rounds] == [0, 2, 4]
    assert all(end["ts"] <= begin for end, begin in zip(ends, rounds[1:], strict=False))
    assert err.count("the sweep took longer than --every 0.4") == 3


def test_the_metrics_file_tells_of_the_last_sweep(tmp_path):
    file = tmp_path / "hindsight.prom"
    against(FakeCluster(), tmp_path / "landing", "--rounds", "2", "--every", "0.2", "--metrics", file)
    families = text_string_to_metric_families(file.read_text())
    told = {sample.name: sample.value for family in families for sample in family.samples}
    end = lines_of(tmp_path / "landing")[-1]
    for name in ("round", "seconds", "requests", "requests_per_second", "lines", "errors", "late_s", "lost_lines"):
        assert told[f"hindsight_collect_sweep_{name}"] == end[name]
    assert 0 <= time.time() - told["hindsight_collect_sweep_end_timestamp_seconds"] < 60


def test_patterns_choose_groups_and_topics(tmp_path):
    each = ("broker-a", "broker-b")
    cluster = FakeCluster(
        groups=dict.fromkeys(("g_a", "g_b", "h"), each), topics=dict.fromkeys(("Orders", "Other"), each)
    )
    against(
        cluster, tmp_path, "--once", "--group", "g_*,h", "--group", "x", "--topic", "Ord*", "--producer-group", "pg"
    )
    lines = lines_of(tmp_path)
    assert {line["subject"] for line in lines if line["kind"] == "consumerConnection"} == {"g_a", "g_b", "h", "x"}
    assert {line["subject"] for line in lines if line["kind"] == "topicStatus"} == {"Orders"}
    assert {line["subject"] for line in lines if line["kind"] == "producerConnection"} == {"pg"}


def test_lines_name_their_collector_where_there_are_several(tmp_path):
    against(FakeCluster(), tmp_path, "--once", "--collector", "east", "--gzip")
    (file,) = tmp_path.rglob("*.jsonl.gz")
    done = subprocess.run(["gzip", "-dc", file], capture_output=True, check=True)
    assert {json.loads(line)["collector"] for line in done.stdout.splitlines()} == {"east"}


def acl(request):
    """As a broker with ACL: what is not signed by the right key is refused, with all that it said."""
    told = {k: v for k, v in request.fields.items() if k not in ("AccessKey", "SecurityToken", "Signature")}
    if signed_fields(told, Credentials("K", SECRET, TOKEN)) == request.fields:
        return False
    return request.answer(code=1, remark=f"AclException: Check signature failed for {request.fields}")


@pytest.mark.parametrize("by_file", [False, True])
@pytest.mark.parametrize("secret", [SECRET, "hush-wrong"])
def test_requests_are_signed_and_neither_secret_nor_token_is_written_anywhere(tmp_path, by_file, secret):
    file = tmp_path / "tools.yml"
    file.write_text(f"accessKey: K\nsecretKey: {secret}\nsecurityToken: {TOKEN}\n")
    known = {"HINDSIGHT_ACCESS_KEY": "K", "HINDSIGHT_SECRET_KEY": secret, "HINDSIGHT_SECURITY_TOKEN": TOKEN}
    options = ("--acl-file", file) if by_file else ()
    _, out, err = against(
        FakeCluster(instead=lambda _name, request: acl(request)),
        tmp_path / "landing",
        "--once",
        *options,
        environment=clean(**({} if by_file else known)),
    )
    lines = lines_of(tmp_path / "landing")
    is_right = secret == SECRET
    assert {line["error"] is None for line in lines if line["kind"] == "clusterInfo"} == {is_right}
    written = b"".join(path.read_bytes() for path in (tmp_path / "landing").rglob("*.jsonl"))
    for hidden in (secret, TOKEN):
        assert hidden not in out + err and hidden.encode() not in written
    if not is_right:
        assert b"'SecurityToken': '***'" in written


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=broker"]
    made += ["-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(["openssl", *made], cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def server_side(certificate, *, asks_for_one=False):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    if asks_for_one:
        context.load_verify_locations(certificate[0])
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_tls_is_spoken_and_a_certificate_is_checked_where_an_authority_is_named(
    tmp_path, certificate, tmp_path_factory
):
    def once(name, *options, **more):
        code, _, _ = against(FakeCluster(), tmp_path / name, "--once", *options, tls=server_side(certificate, **more))
        return code, {line["error"] for line in lines_of(tmp_path / name) if line["kind"] == "clusterInfo"}

    other = tmp_path_factory.mktemp("other") / "ca.pem"
    made = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x -keyout {other}.key -out {other}".split()
    subprocess.run(["openssl", *made], check=True, capture_output=True)
    assert once("unchecked", "--tls") == (0, {None})
    assert once("checked", "--tls", "--tls-ca", certificate[0]) == (0, {None})
    code, (error,) = once("forged", "--tls", "--tls-ca", other)
    assert code == 3 and "RemotingConnectException" in error and "certificate verify failed" in error
    code, (error,) = once("plain")
    assert code == 3 and error
    cert, key = certificate
    assert once("mutual", "--tls", "--tls-cert", cert, "--tls-key", key, asks_for_one=True) == (0, {None})
    code, (error,) = once("unknown", "--tls", asks_for_one=True)
    assert code == 3 and error


def test_ipv6_is_spoken_to_as_rocketmq_writes_its_addresses(tmp_path):
    cluster = FakeCluster(brokers=("broker-a",), groups={"g": ("broker-a",)}, topics={})

    @asynccontextmanager
    async def on_ipv6():
        broker, names = (FakeServer(lambda r, n=n: cluster._answer(n, r)) for n in ("broker-a", ""))
        async with broker.run("::1"), names.run("::1"):
            broker.__class__ = names.__class__ = type(
                "OnIPv6", (FakeServer,), {"address": property(lambda s: f"[::1]:{s.port}")}
            )
            cluster.servers = {"": names, "broker-a": broker}
            yield

    async def run():
        async with on_ipv6():
            return await collect(tmp_path, "--name-server", cluster.name_server, "--once")

    code, _, err = asyncio.run(run())
    assert code == 0, err
    assert {line["error"] for line in lines_of(tmp_path) if line["kind"] == "consumerConnection"} == {None}


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("mq-0.mq:9876", ("mq-0.mq", 9876)),
        ("10.0.0.1:10911", ("10.0.0.1", 10911)),
        ("[2001:db8::1]:10911", ("2001:db8::1", 10911)),
        ("2001:db8::1:10911", ("2001:db8::1", 10911)),  # as brokers register
        ("[::1]", ("::1", 9876)),
        ("mq-0", ("mq-0", 9876)),
    ],
)
def test_the_last_colon_parts_host_and_port(address, parts):
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["", ":9876", "a:0", "a:65536", "a:-1", "a:x", "[]:1"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match="is no HOST:PORT"):
        split_address(address)


class Proxy:
    """As the remoting port of a cluster-mode proxy answers; every broker has its address in a route."""

    def __init__(self):
        self.server = FakeServer(self)

    def __call__(self, request):
        topic, group = request.fields.get("topic"), request.fields.get("consumerGroup")
        if request.code == 105 and topic == "Orders":
            brokers = [{"brokerName": b, "brokerAddrs": {"0": self.server.address}} for b in ("a", "b")]
            request.answer({"brokerDatas": brokers, "queueDatas": [{"brokerName": b, "perm": 6} for b in ("a", "b")]})
        elif request.code == CONNECTIONS and group == "g_mine":
            request.answer({"connectionSet": [{"clientId": "y1"}]})
        elif request.code == CONNECTIONS:
            request.answer(code=206, remark=f"the consumer group[{group}] not online")
        elif request.code == IDS and group == "g_mine":
            request.answer({"consumerIdList": ["y1"]})
        else:
            request.answer(code=3, remark=f" request type {request.code} not supported")


def through(proxy, landing, *options, beside=None):
    async def run():
        async with proxy.server.run():
            if beside is None:
                return await collect(landing, "--name-server", proxy.server.address, "--once", *options)
            async with beside.run():
                both = f"{proxy.server.address};{beside.name_server}"
                return await collect(landing, "--name-server", both, "--once", *options)

    return asyncio.run(run())


def test_a_proxy_is_told_apart_and_asked_for_what_is_named_and_what_it_can_say(tmp_path):
    proxy = Proxy()
    named = ("--group", "g_mine,g_other", "--topic", "Orders", "--in-flight", "1")
    code, _, err = through(proxy, tmp_path, *named)
    assert code == 0 and "a proxy, no name server" in err
    told = {(line["kind"], line["subject"]): line for line in lines_of(tmp_path) if "subject" in line}
    assert told["clusterInfo", ""]["error"].endswith("CODE: 3  DESC:  request type 106 not supported")
    assert {line["proxy"] for key, line in told.items() if key[0] != "clusterInfo"} == {proxy.server.address}
    assert not [line for line in told.values() if "broker" in line]
    assert told["topicRoute", "Orders"]["error"] is None
    assert "y1" in told["consumerConnection", "g_mine"]["raw"] and told["consumerIdList", "g_mine"]["raw"] == '["y1"]'
    assert "CODE: 206 " in told["consumerConnection", "g_other"]["error"]
    assert "CODE: 3 " in told["consumerRunningInfo", "g_mine|y1"]["error"]
    assert ["CODE: 3 " in told["consumeStats", g]["error"] for g in ("g_mine", "g_other")] == [True, True]
    asked = [request.code for request in proxy.server.requests]
    assert (asked.count(STATS), asked.count(GROUPS), asked.count(206), asked.count(INFO)) == (1, 0, 0, 1)


def test_a_member_that_a_broker_lists_is_not_asked_for_through_a_proxy(tmp_path):
    proxy, cluster = Proxy(), FakeCluster()
    cluster.groups["g_mine"], cluster.members["g_mine"] = cluster.groups["g"], ("y1", "z1")
    through(proxy, tmp_path, beside=cluster)
    infos = {line["subject"]: line for line in lines_of(tmp_path) if line["kind"] == "consumerRunningInfo"}
    assert infos.keys() >= {"g_mine|y1", "g_mine|z1"}
    assert [line["error"] for line in infos.values() if "proxy" in line] == []
    assert INFO not in [request.code for request in proxy.server.requests]


def test_a_proxy_beside_a_name_server_that_is_away_is_no_reason_to_end(tmp_path):
    async def run():
        async with proxy.server.run():
            both = f"127.0.0.1:1;{proxy.server.address}"
            return await collect(tmp_path, "--name-server", both, "--rounds", "2", "--every", "0.1")

    proxy = Proxy()
    code, _, _ = asyncio.run(run())
    assert code == 0
    assert [line["kind"] for line in lines_of(tmp_path)].count("sweepEnd") == 2


def test_a_proxy_alone_needs_names(tmp_path):
    code, _, err = through(Proxy(), tmp_path)
    assert code == 3
    assert err.splitlines()[-1].startswith("hindsight: a proxy lists neither topics nor groups: name them")


def test_beside_a_name_server_a_proxy_is_asked_for_every_group_and_no_broker_is_taken_for_it(tmp_path):
    proxy, cluster = Proxy(), FakeCluster()
    code, _, _ = through(proxy, tmp_path, beside=cluster)
    assert code == 0
    places = {
        (line.get("broker"), line.get("proxy")) for line in lines_of(tmp_path) if line["kind"] == "consumerConnection"
    }
    assert places == {("broker-a", None), ("broker-b", None), (None, proxy.server.address)}
