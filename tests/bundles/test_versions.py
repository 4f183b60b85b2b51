"""What a bundle says of the release that made it: the same in every process, and another only where rules are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from hindsight.jobs.bundling import subject as told

_PRINTED = "import json; from hindsight.jobs.bundling.subject import versions; print(json.dumps(versions()))"


def of_a_process(seed):
    done = subprocess.run(
        [sys.executable, "-c", _PRINTED], capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
    )
    return json.loads(done.stdout)


def test_each_process_tells_the_same():
    assert of_a_process("1") == of_a_process("2") == of_a_process("77")


@pytest.mark.parametrize("theirs", ["0.0.9", "0.2.0+of.another.machine", None])
def test_another_release_with_the_same_rules_is_no_difference(theirs):
    assert told.differences({"versions": {**told.versions(), "hindsight": theirs}, "contracts": {}}) == []


def test_other_rules_are(monkeypatch):
    manifest = {"versions": told.versions(), "contracts": {}}
    families = {**told.CLIENT_FAMILIES, "G0": replace(told.CLIENT_FAMILIES["G0"], avoids_last=frozenset({"SYNC"}))}
    monkeypatch.setattr(told, "CLIENT_FAMILIES", families)
    (found,) = told.differences(manifest)
    assert found.startswith("made with release profiles ")
