"""What kind of client each real running info is of, against who the capture's own records say it was."""

from __future__ import annotations

import gzip
import json
import re

import pytest

from hindsight.schemas import CONSUMER_HEARTBEAT
from hindsight.udfs.clients.client_kinds import (
    CLIENT_KINDS,
    GRPC_CLIENT_ID,
    kind_of_running_info,
    knows_logical_queues,
    shows_queues,
)
from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.lines.bounded_lines import Line
from tests.conftest import CAPTURES

# Of the capture's story: what each group's members are.
KIND_OF_GROUP = {
    **dict.fromkeys(("g_push", "g_gone", "g_static", "g_view", "g_bcast"), "push"),
    **dict.fromkeys(("g_pull", "g_pullman"), "pull"),
    **dict.fromkeys(("g_lite49", "g_lite53", "g_assign"), "lite_pull"),
    "g_pop": "pop",
}


@pytest.fixture(scope="module")
def infos():
    """Captures and owned queues of each running info, by group and client."""
    path = CAPTURES / "scope" / "admin_snapshots" / "cluster=scope" / "collector.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        texts = [t for t in lines if json.loads(t)["kind"] == "consumerRunningInfo" and '"error":null' in t]
    parsed = parse_admin_snapshots(Line(n, 0, 0, text, None) for n, text in enumerate(texts, 1))
    return [(one.records[0].row, [r.row for r in one.records if r.table == "queue_ownership"]) for one in parsed]


def test_the_kind_is_what_the_client_is(infos):
    seen = {(row["consumer_group"], row["client_kind"]) for row, _ in infos if row["consumer_group"] in KIND_OF_GROUP}
    assert seen == set(KIND_OF_GROUP.items())


def test_who_is_said_to_show_its_queues_does_and_who_is_said_not_to_does_not(infos):
    holds = {}
    for row, owned in infos:
        key = (row["client_kind"], row["client_version"], row["consumer_group"])
        holds[key] = holds.get(key, 0) + len(owned)
    for (kind, version, group), queues in holds.items():
        if kind != "pop":  # it pulls its retry topic
            assert (queues > 0) == shows_queues(kind, version), (kind, version, group)


@pytest.mark.parametrize(
    ("version", "shows"), [("V5_1_0", False), ("V5_1_1", True), ("V4_9_8", False), ("V5_3_3", True), (None, False)]
)
def test_lite_pull_consumers_show_their_queues_from_5_1_1_on(version, shows):
    assert shows_queues("lite_pull", version) is shows


def test_a_kind_that_is_not_known_is_taken_for_a_push_consumer():
    assert shows_queues(None, None) and shows_queues("unknown", "V4_9_8") and shows_queues("other", None)


def test_a_pop_consumer_is_known_by_its_table_though_it_says_that_it_consumes_passively():
    properties = {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"}
    assert kind_of_running_info(properties, ()) == "push"
    assert kind_of_running_info(properties, ["a queue"]) == "pop"
    assert kind_of_running_info({"PROP_CONSUME_TYPE": "CONSUME_POP"}, ()) == "pop"
    assert kind_of_running_info({}, ()) is None


def test_static_topics_have_logical_queues_for_java_clients_from_5_0_0_on():
    assert [knows_logical_queues(v) for v in ("V4_9_8", "V5_0_0", "V5_3_3", None)] == [False, True, True, True]


def test_ids_of_grpc_clients_are_told_from_those_of_others():
    ids = ["vm@10509@0@vprfruck", "node7@19191@0@8abc12", "10.0.0.1@7#99@unit@STREAM", "10.0.0.1@7", "10.0.0.1@DEFAULT"]
    assert [bool(re.match(GRPC_CLIENT_ID, i)) for i in ids] == [True, True, False, False, False]


def test_the_kinds_are_those_of_the_contract():
    assert CONSUMER_HEARTBEAT.known("client_kind") == CLIENT_KINDS
