"""The examples in docs/models in the hands of dbt and SQLMesh, on the samples' lake."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hindsight import Lake

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = ROOT / ".venv-models" / "bin"
QUIET = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "False", "SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true"}
SAID = """
import duckdb, json, sys
print(json.dumps(duckdb.connect(sys.argv[1], read_only=True).sql(sys.argv[2]).fetchall(), default=str))
"""
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not (PROGRAMS / "dbt").exists(), reason="make soak installs dbt and SQLMesh"),
]


class Copied:
    """An example where a reader copied it to, beside a lake; ``tell`` asks what it made."""

    def __init__(self, example: str, lake: Path, folder: Path) -> None:
        self.folder, self._made = folder / example, folder / "models.duckdb"
        shutil.copytree(ROOT / "docs/models" / example, self.folder)
        self._given = os.environ | QUIET | {"HINDSIGHT_LAKE": str(lake), "MODELS": str(self._made)}

    def run(self, program: str, *words: str) -> str:
        command = [str(PROGRAMS / program), *words]
        done = subprocess.run(command, cwd=self.folder, env=self._given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def tell(self, query: str) -> list[list]:
        told = self.run("python", "-c", SAID, str(self._made), query)
        return json.loads(told)


def incidents(lake: Path) -> list[list]:
    """What the lake says, by its own reader: incidents by group and cause, all and open ones."""
    rows = Lake(str(lake)).table("drift_incident").arrow().to_pylist()
    found: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        counted = found.setdefault((row["consumer_group"], row["root_cause"]), [0, 0])
        counted[0] += 1
        counted[1] += row["state"] != "RESOLVED"
    assert len(found) > 5
    return [[*key, *counted] for key, counted in sorted(found.items())]


ASKED = "SELECT consumer_group, root_cause, incidents, still_open FROM {} ORDER BY 1, 2"


def test_dbt_takes_tables_as_sources_and_its_own_tests_hold(sampled, tmp_path):
    example = Copied("dbt", sampled, tmp_path)
    said = example.run("dbt", "--no-use-colors", "build", "--profiles-dir", ".")
    assert "PASS=6 WARN=0 ERROR=0 SKIP=0" in said
    assert example.tell(ASKED.format("incidents_by_group")) == incidents(sampled)
    windows = Lake(str(sampled)).table("broker_availability_window").arrow().to_pylist()
    seconds = sum((w["window_end"] - w["window_start"]).total_seconds() for w in windows if w["window_end"])
    ((total,),) = example.tell("SELECT sum(seconds) FROM isolation_by_broker")
    assert total == pytest.approx(seconds) and seconds > 100


def test_sqlmesh_takes_a_table_as_a_model_and_audits_it(sampled, tmp_path):
    example = Copied("sqlmesh", sampled, tmp_path)
    example.run("sqlmesh", "plan", "--auto-apply", "--no-prompts")
    assert example.tell(ASKED.format("hindsight.incidents_by_group")) == incidents(sampled)
    said = example.run("sqlmesh", "audit")
    assert "Found 3 audit(s)" in said and "0 audit errors and 0 audits skipped" in said
