"""Allocations versus the vectors written by RocketMQ's own classes: value, order, refusals, and ids outside the group.

The golden files are a cut. ``HINDSIGHT_VECTORS=<folder>`` runs the ``alloc_*`` files of that folder too.
"""

import gzip
import json
import os
from pathlib import Path

import pytest

from hindsight.udfs.allocation import AllocationError, MessageQueue, allocate, allocate_for
from tests.allocation_vectors import parameters_of

PROFILE_OF_RELEASE = {
    "4.2.0": "P40",
    "4.3.2": "P43",
    "4.7.1": "P43",
    "4.8.0": "P48",
    "4.9.0": "P49a",
    "4.9.1": "P49a",
    "5.0.0-PREVIEW": "P49a",
    "4.9.2": "P49b",
    "4.9.3": "P49b3",
    "5.0.0-ALPHA": "P49b3",
    "4.9.4": "P49c",
    "4.9.7": "P49c",
    "4.9.8": "P498",
    "5.0.0": "P500",
    "5.1.0": "P510",
    "5.1.1": "P511",
    "5.1.3": "P511",
    "5.1.4": "P514",
    "5.2.0": "P520",
    "5.3.0": "P530",
    "5.3.1": "P531",
    "5.3.2": "P531",
    "5.3.3": "P533",
    "5.4.0": "P533",
    "5.5.0": "P533",
}
FOLDERS = [Path(__file__).parents[1] / "golden" / "vectors"]
if "HINDSIGHT_VECTORS" in os.environ:
    FOLDERS.append(Path(os.environ["HINDSIGHT_VECTORS"]))
FILES = [path for folder in FOLDERS for path in sorted(folder.glob("alloc_*.jsonl.gz"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-3:]))
def test_allocations_equal_the_vectors(path):
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        vectors = [json.loads(line) for line in lines]
    different = [
        f"case {vector['case']}, {vector['strategy']} {vector['params']}: {found}"
        for vector in vectors
        for found in differences(vector)
    ]
    assert vectors
    assert different == []


def test_every_folder_of_vectors_holds_some():
    assert {path.parent for path in FILES} == set(FOLDERS)


def differences(vector):
    """What this vector says otherwise than the kernels, as (id or "group", actual, expected)."""
    mq_all = [MessageQueue(mq["topic"], mq["broker"], mq["queueId"]) for mq in vector["mq_all"]]
    group = (vector["strategy"], mq_all, vector["cid_all"])
    parameters = {"profile": PROFILE_OF_RELEASE[vector["version"]], **named_parameters(vector["params"], mq_all)}
    if "error" in vector:
        actual = {cid: answer_for(cid, group, parameters) for cid in [*vector["cid_all"], "absent@1", ""]}
        return [(cid, text, vector["error"]) for cid, text in actual.items() if text != vector["error"]]
    outside = expected_answers(vector["probe"], vector["probe_errors"], mq_all)
    inside = expected_answers(vector["expected"], vector["errors"], mq_all)
    # One id that gets something is enough here: a property test shows that the two functions agree.
    own = [*vector["errors"], *list(vector["expected"])[-1:]]
    asked = {**{cid: inside[cid] for cid in own}, **outside}
    actual = {cid: answer_for(cid, group, parameters) for cid in asked}
    found = [(cid, actual[cid], asked[cid]) for cid in asked if actual[cid] != asked[cid]]
    everyone = answer_of_group(group, parameters)
    if everyone not in (vector["errors"].values() or [inside]):
        found.append(("group", everyone, vector["errors"] or inside))
    return found


def expected_answers(indexes_by_cid, error_by_cid, mq_all):
    queues = {cid: i if i is None else [mq_all[index] for index in i] for cid, i in indexes_by_cid.items()}
    return {**queues, **error_by_cid}


def answer_for(cid, group, parameters):
    strategy, mq_all, cid_all = group
    try:
        return allocate_for(strategy, cid, mq_all, cid_all, **parameters)
    except AllocationError as error:
        return str(error)


def answer_of_group(group, parameters):
    try:
        return allocate(*group, **parameters)
    except AllocationError as error:
        return str(error)


def named_parameters(params, mq_all):
    parameters = {"charset": params["charset"], **parameters_of(params, mq_all)}
    if "resolver" in params:
        assert params["resolver"] == "brokerName.split('-')[0]; clientId.split('@')[0]"
        parameters["room_of_queue"] = lambda mq: mq.broker_name.split("-")[0]
        parameters["room_of_client"] = lambda cid: cid.split("@")[0]
    return parameters
