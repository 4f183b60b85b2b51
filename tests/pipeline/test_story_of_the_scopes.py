"""The pipeline on a cluster with what is no push consumer on physical queues: nothing healthy is called sick.

The capture's own truth says per group and stretch what is right and what would be a false alarm. Beside the capture as
it is stand copies that lack input, each as a cluster of its own: for what is missing no verdict may get better.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from hindsight.conf.settings_file import load_settings
from tests.conftest import CAPTURES
from tests.lake_rows import LakeRows
from tests.pipeline.local_runs import OF_CONSUMERS, run_here
from tests.random_examples import SOAKING

SCOPE = CAPTURES / "scope"
VERDICTS = [json.loads(line) for line in (SCOPE / "verdicts.jsonl").read_text().splitlines()]
# Groups of every kind; the copies hold these alone.
GROUPS = {
    "scope": ("g_push", "g_gone", "g_pull", "g_assign", "g_grpc", "g_static", "g_view"),
    "oracle": ("g_avg", "g_mix", "g_sub", "g_skew", "g_order", "g_hash", "g_idle", "g_bcast"),
}
# UNSERVED_QUEUE of frozen members: the readings inside their stretch are 58 s apart.
STANDSTILL = "[timing]\nstandstill_s = 50\n"
MISSING_ITSELF = {"UNREACHABLE_CLIENT", "UNSERVED_QUEUE", "DATA_GAP"}

Line = dict[str, Any]
Damage = Callable[[random.Random, Line], Line | None]


def of_some(share: float, damage: Damage, *kinds: str) -> Damage:
    def maybe(rng: random.Random, line: Line) -> Line | None:
        is_hit = "subject" in line and (not kinds or line["kind"] in kinds) and rng.random() < share
        return damage(rng, line) if is_hit else line

    return maybe


def failed(rng: random.Random, line: Line) -> Line:
    return {**line, "raw": None, "error": "RemotingTimeoutException: wait response on the channel timeout, 3000(ms)"}


def of_another_shape(rng: random.Random, line: Line) -> Line:
    raw = rng.choice(["{}", '{"status":-1,"data":null,"errMsg":"no"}', "<html>502</html>", "[]", "null", '{"a":1}'])
    return {**line, "raw": raw, "error": None}


OF_SCOPE: dict[str, Damage] = {
    "by_lot": lambda rng, line: None if "broker" in line or "name_server" in line else line,
    "dropped": of_some(0.3, lambda rng, line: None),
    "failed": of_some(0.3, failed),
    "misshapen": of_some(0.3, of_another_shape),
    "half_of_the_brokers": lambda rng, line: None if line.get("broker") == "broker-a" else line,
    "no_infos": of_some(0.7, failed, "consumerRunningInfo"),
}


# An earlier capture, of push consumers on physical queues alone.
OF_ORACLE = {f"oracle_{name}": OF_SCOPE[name] for name in ("dropped", "failed", "misshapen")}
COPIES = OF_SCOPE | OF_ORACLE
SOON = ("by_lot", "misshapen", "no_infos", "oracle_dropped")  # the others are for the soak
LATER = tuple(copy for copy in COPIES if copy not in SOON)


def whole_of(copy: str) -> str:
    """The cluster that a copy lacks some input of."""
    return "oracle" if copy.startswith("oracle") else "scope"


def groups_of(copy: str) -> tuple[str, ...]:
    """The groups that a copy holds: with fewer of them no finding would be made certain by a lack of some kinds."""
    return GROUPS[whole_of(copy)]


def lines_of(path: Path) -> list[Line]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def is_of_groups(line: Line, groups: tuple[str, ...]) -> bool:
    group = line.get("subject", "").partition("|")[0]
    return not group.startswith("g_") or group in groups


def damaged(lines: list[Line], damage: Damage, groups: tuple[str, ...], seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    for line in lines:
        made = damage(rng, line) if is_of_groups(line, groups) else None
        if made is not None:
            yield json.dumps(made) + "\n"


def write_landing(landing, copies: tuple[str, ...], seed: int = 1) -> None:
    for name in ("admin_snapshots", "broker_log", "client_log"):
        shutil.copytree(SCOPE / name, landing / name)
    oracle = landing / "admin_snapshots" / "cluster=oracle"
    oracle.mkdir()
    shutil.copy(CAPTURES / "consumers" / "admin_snapshots.jsonl.gz", oracle)
    recorded = {whole: [*(landing / "admin_snapshots" / f"cluster={whole}").iterdir()] for whole in ("scope", "oracle")}
    lines = {whole: {path.name: lines_of(path) for path in paths} for whole, paths in recorded.items()}
    for number, (copy, damage) in enumerate(COPIES.items()):
        if copy not in copies:
            continue
        folder = landing / "admin_snapshots" / f"cluster={copy}"
        folder.mkdir()
        for name, of_file in lines[whole_of(copy)].items():
            text = "".join(damaged(of_file, damage, groups_of(copy), seed * 100 + number))
            (folder / name.removesuffix(".gz")).write_text(text, encoding="utf-8")


def rows_of(settings_file, root: Path, copies: tuple[str, ...]) -> dict[str, list[Any]]:
    """Rows by table, of the captures and of copies."""
    write_landing(root / "landing", copies)
    (root / "settings.toml").write_text(settings_file.read_text() + STANDSTILL)
    settings = load_settings(root / "settings.toml")
    run_here(settings, root / "landing", root / "lake", OF_CONSUMERS)
    rows = LakeRows(root / "lake")
    tables = {table: rows(table) for table in ("allocation_drift", "drift_incident")}
    round_ = "cluster, consumer_group, topic, round_at, verdict, scope_reason, missing_inputs, queue_kind"
    tables["group_round"] = rows("group_round", columns=round_)
    tables["consumer_heartbeat"] = rows("consumer_heartbeat", columns="DISTINCT cluster, consumer_group, client_kind")
    tables["snapshot_capture"] = rows("snapshot_capture", "NOT answered", "DISTINCT cluster, answered, error")
    return tables


@pytest.fixture(scope="module")
def told(settings_file, tmp_path_factory):
    """Rows by table."""
    return rows_of(settings_file, tmp_path_factory.mktemp("scopes"), SOON)


@pytest.fixture(scope="module")
def told_later(settings_file, tmp_path_factory):
    """The same with the copies that are for the soak."""
    return rows_of(settings_file, tmp_path_factory.mktemp("scopes"), LATER)


@pytest.fixture
def of_copy(request, copy):
    """Rows by table where a copy is among them."""
    return request.getfixturevalue("told" if copy in SOON else "told_later")


def ms(instant) -> int:
    return int(instant.replace(tzinfo=UTC).timestamp() * 1000)


def within(told, table: str, stretch: dict[str, Any]) -> list[Any]:
    return [
        row
        for row in told[table]
        if (row.cluster, row.consumer_group) == (stretch["cluster"], stretch["group"])
        and stretch["from_ts"] <= ms(row.round_at) < stretch["to_ts"]
    ]


def name_of(stretch) -> str:
    return f"{stretch['cluster']}-{stretch['group']}-{stretch['from_t']}"


of_each_stretch = pytest.mark.parametrize("stretch", VERDICTS, ids=name_of)


@of_each_stretch
def test_nothing_is_said_that_the_truth_calls_a_false_alarm(told, stretch):
    wrong = set(stretch["wrong"])
    found = {(row.code, row.topic, row.broker_name, row.queue_id) for row in within(told, "allocation_drift", stretch)}
    # The retry topic's queue that clients with an older route leave out is true: the story says so.
    true = {("ORPHAN_QUEUE", "%RETRY%g_push", "broker-a", 0)}
    if stretch["group"] == "g_view" and stretch["fault"]:
        wrong |= {"ORPHAN_QUEUE", "WRONG_OWNER"}  # the truth names them with their queues
    if stretch["group"] == "g_assign" and stretch["fault"]:
        true |= {("ORPHAN_QUEUE", "ScopeOrders", "broker-b", 3)}
        wrong |= {"ORPHAN_QUEUE"}
    assert {f for f in found if f[0] in wrong} <= true


@of_each_stretch
def test_no_round_of_a_fault_is_ok_once_it_can_be_known(told, stretch):
    if not stretch["fault"] or "ok" not in stretch["wrong"]:
        return
    rounds = [r for r in within(told, "group_round", stretch) if not r.topic.startswith("%RETRY%")]
    assert rounds and "ok" not in {row.verdict for row in rounds}


FOUND = {
    "g_push": {("UNREACHABLE_CLIENT", None), ("UNSERVED_QUEUE", ("broker-b", 2)), ("UNSERVED_QUEUE", ("broker-b", 3))},
    "g_gone": {("GROUP_DOWN", None)},
    "g_pull": {("UNSERVED_QUEUE", ("broker-a", 0))},
    "g_lite53": {("CONSUME_BLOCKED", ("broker-a", 0)), ("CONSUME_BLOCKED", ("broker-b", 3))},
    "g_assign": {("ORPHAN_QUEUE", ("broker-b", 3))},
    "g_grpc": {("GROUP_DOWN", None)},
    "g_pop": {("GROUP_DOWN", None)},
    "g_static": {("UNREACHABLE_CLIENT", None), *(("UNSERVED_QUEUE", ("__syslo__global__", q)) for q in (3, 4, 5))},
    "g_view": {
        ("VIEW_DIVERGENCE", None),
        ("DOUBLE_OWNED", ("broker-a", 3)),
        ("UNSERVED_QUEUE", ("broker-b", 2)),
        ("UNSERVED_QUEUE", ("broker-b", 3)),
    },
    "g_off": {("GROUP_DOWN", None)},
}


@pytest.mark.parametrize("stretch", [v for v in VERDICTS if v["fault"] and v["cluster"] == "scope"], ids=name_of)
def test_every_fault_is_found(told, stretch):
    found = {
        (row.code, None if row.queue_id is None else (row.broker_name, row.queue_id))
        for row in within(told, "allocation_drift", stretch)
    }
    assert FOUND[stretch["group"]] <= found


def test_incidents_are_those_of_the_faults(told):
    opened = {(i.consumer_group, i.root_cause) for i in told["drift_incident"] if i.cluster == "scope"}
    assert opened == {
        ("g_push", "UNREACHABLE_CLIENT"),
        ("g_static", "UNREACHABLE_CLIENT"),
        ("g_view", "VIEW_DIVERGENCE"),
        ("g_gone", "GROUP_DOWN"),
        ("g_off", "GROUP_DOWN"),
        ("g_grpc", "GROUP_DOWN"),
        ("g_pop", "GROUP_DOWN"),
        ("g_pull", "UNEXPLAINED"),
        ("g_assign", "UNEXPLAINED"),
        ("g_lite53", "CLIENT_STALLED"),
    }
    assert {i for i in told["drift_incident"] if i.cluster == "scope_via_proxy"} == set()


@pytest.mark.parametrize("group", ["g_pull", "g_pullman", "g_lite49", "g_assign", "g_grpc", "g_rproxy", "g_pop"])
def test_what_is_not_judged_says_why(told, group):
    rounds = [r for r in told["group_round"] if (r.cluster, r.consumer_group) == ("scope", group) and r.verdict]
    assert {r.verdict for r in rounds} <= {"unknown", "drift"}
    assert all(r.scope_reason or r.missing_inputs for r in rounds)
    assert any(r.scope_reason for r in rounds)


def test_lite_pull_consumers_that_show_their_queues_and_logical_queues_are_judged(told):
    for group, topic, kind in (("g_lite53", "ScopeOrders", "physical"), ("g_static", "t_static", "logical")):
        rounds = [r for r in told["group_round"] if (r.cluster, r.consumer_group, r.topic) == ("scope", group, topic)]
        assert {(r.scope_reason, r.queue_kind) for r in rounds} == {(None, kind)}
        assert "ok" in {r.verdict for r in rounds}


def test_each_member_has_its_kind(told):
    kinds = {}
    for row in told["consumer_heartbeat"]:
        if row.cluster.startswith("scope"):
            kinds.setdefault((row.cluster, row.consumer_group), set()).add(row.client_kind)
    seen = {key: kind - {"unknown"} for key, kind in kinds.items()}
    assert seen["scope", "g_push"] == seen["scope", "g_static"] == seen["scope", "g_bcast"] == {"push"}
    assert seen["scope", "g_pull"] == seen["scope", "g_pullman"] == {"pull"}
    assert seen["scope", "g_lite49"] == seen["scope", "g_lite53"] == seen["scope", "g_assign"] == {"lite_pull"}
    assert seen["scope", "g_pop"] == {"pop"}
    assert seen["scope_via_proxy", "g_rproxy"] == {"remoting_proxy"}
    assert seen["scope_via_proxy", "g_grpc"] == {"grpc"}


# -- for what is missing no verdict gets better --------------------------------------------------------------------


def of_groups(told, table, cluster):
    groups = groups_of(cluster) if cluster in COPIES else GROUPS[cluster]
    return [row for row in told[table] if row.cluster == cluster and row.consumer_group in groups]


def subject(row) -> tuple:
    return row.consumer_group, row.round_at, row.code, row.topic, row.broker_name, row.queue_id, row.client_id


of_each_copy = pytest.mark.parametrize(
    "copy", [pytest.param(copy, marks=pytest.mark.soak) if SOAKING or copy in LATER else copy for copy in COPIES]
)


@of_each_copy
def test_missing_input_never_turns_drift_into_ok(of_copy, copy):
    of_round = {(r.consumer_group, r.topic, r.round_at): r.verdict for r in of_groups(of_copy, "group_round", copy)}
    whole = [r for r in of_groups(of_copy, "group_round", whole_of(copy)) if r.verdict == "drift"]
    better = [r for r in whole if of_round.get((r.consumer_group, r.topic, r.round_at)) == "ok"]
    assert of_round and [(r.consumer_group, r.topic, r.round_at) for r in better] == []


@of_each_copy
def test_missing_input_makes_no_finding_certain(of_copy, copy):
    whole = {subject(r) for r in of_groups(of_copy, "allocation_drift", whole_of(copy)) if r.trust == "certain"}
    certain = [r for r in of_groups(of_copy, "allocation_drift", copy) if r.trust == "certain" and r.severity != "INFO"]
    assert sorted({subject(r) for r in certain if r.code not in MISSING_ITSELF} - whole, key=str) == []


@of_each_copy
def test_missing_input_opens_no_incident_but_that_it_is_missing(of_copy, copy):
    whole = of_groups(of_copy, "drift_incident", whole_of(copy))
    causes = {(i.consumer_group, i.root_cause) for i in whole}
    codes = {(i.consumer_group, code) for i in whole for code in i.codes}
    # The same faults may be put down to another cause, or one cause may show by another code.
    others = [
        (i.consumer_group, i.root_cause, i.codes, i.sentence)
        for i in of_groups(of_copy, "drift_incident", copy)
        if (i.consumer_group, i.root_cause) not in causes
        and not any((i.consumer_group, code) in codes or code in MISSING_ITSELF for code in i.codes)
    ]
    assert others == []


def test_an_answer_of_another_shape_was_asked_for(told):
    unread = [r for r in told["snapshot_capture"] if r.cluster == "misshapen" and not r.answered]
    assert {r.error for r in unread if r.error.startswith("answer not readable: ")} >= {"answer not readable: BAD_RAW"}
