"""Allocations and whole rebalances of Go and C++ clients versus what those clients' own code answered.

The golden files are a cut. ``HINDSIGHT_VECTORS=<folder>`` runs the files of that folder's ``other_clients`` too.
"""

import pytest

from hindsight.udfs.allocation import AllocationError, MessageQueue, allocate, allocate_for
from hindsight.udfs.consumer.client_balance import queues_pulled
from tests.allocation_vectors import parameters_of
from tests.kernels.family_vectors import FOLDERS, profile_of, rows_of, vector_files


@pytest.mark.parametrize("path", vector_files("alloc"), ids=lambda path: path.name)
def test_allocations_equal_the_vectors(path):
    vectors = rows_of(path)
    different = [found for vector in vectors for found in differences(vector)]
    assert vectors
    assert different == []


@pytest.mark.parametrize("path", vector_files("balance"), ids=lambda path: path.name)
def test_a_whole_client_pulls_what_the_real_one_pulled(path):
    rows = rows_of(path)
    different = []
    for row in rows:
        pulled = queues_pulled(
            row["queueDatas"],
            row["consumerIdList"],
            row["client_id"],
            row["strategy"],
            topic=row["topic"],
            profile=profile_of(row),
            **parameters_of(row["params"], []),
        )
        expected = {MessageQueue(row["topic"], queue["broker"], queue["queueId"]) for queue in row["pulled"]}
        if pulled != expected:
            different.append((row["topic"], pulled, expected))
    assert rows
    assert different == []


def test_every_folder_of_vectors_holds_some():
    for kind in ("alloc", "balance"):
        assert {path.parent for path in vector_files(kind)} == set(FOLDERS)


def differences(vector):
    """What this vector says otherwise than the kernels, as (case, id or "group", actual, expected)."""
    mq_all = [MessageQueue(mq["topic"], mq["broker"], mq["queueId"]) for mq in vector["mq_all"]]
    parameters = {"profile": profile_of(vector), **parameters_of(vector["params"], mq_all)}
    inside = answers(vector["expected"], vector["errors"], mq_all)
    asked = {**inside, **answers(vector["probe"], vector["probe_errors"], mq_all)}
    actual = {cid: own_answer(vector, cid, mq_all, parameters) for cid in asked}
    where = (vector["case"], vector["strategy"], str(vector["params"]))
    found = [(*where, cid, actual[cid], asked[cid]) for cid in asked if actual[cid] != asked[cid]]
    try:
        everyone = allocate(vector["strategy"], mq_all, vector["cid_all"], **parameters)
    except AllocationError as error:
        everyone = str(error)
    if everyone not in (vector["errors"].values() or [inside]):
        found.append((*where, "group", everyone, vector["errors"] or inside))
    return found


def answers(indexes_by_cid, error_by_cid, mq_all):
    return {
        **{cid: i if i is None else [mq_all[index] for index in i] for cid, i in indexes_by_cid.items()},
        **error_by_cid,
    }


def own_answer(vector, cid, mq_all, parameters):
    try:
        return allocate_for(vector["strategy"], cid, mq_all, vector["cid_all"], **parameters)
    except AllocationError as error:
        return str(error)
