"""The locks pin every package with its hashes; an audit that looked nothing up does not pass."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pyspark
import pytest

from hindsight.jobs.running import delta_jars
from hindsight.jobs.running.delta_jars import PACKAGES, SparkEnvironmentError, spark_defaults, verified
from tests.audit.audit_locks import complaints, main
from tests.audit.bill_of_materials import IncompleteError, bill, pinned

ROOT = Path(__file__).parent.parent.parent
LOCKS = sorted(path.relative_to(ROOT) for path in ROOT.rglob("requirements*.lock") if ".venv" not in str(path))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
VULNERABLE = {"name": "jinja2", "version": "3.1.2", "vulns": [{"id": "PYSEC-2024-1", "fix_versions": ["3.1.3"]}]}
SOUND = {"name": "typer", "version": "1.0", "vulns": []}
SKIPPED = {"name": "rich", "skip_reason": "Dependency not found on PyPI and could not be audited: rich (1.0)"}


@pytest.mark.parametrize("lock", LOCKS, ids=str)
def test_every_package_of_a_lock_is_pinned_with_its_hashes(lock):
    text = (ROOT / lock).read_text(encoding="utf-8")
    packages = re.findall(r"^[\w.\-]+(?:\[\w+\])?==\S+.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if line and line[0] not in " #"]
    assert len(packages) == len(lines) > 0
    assert [package for package in packages if "--hash=sha256:" not in package] == []


def test_the_audit_and_the_locking_know_every_lock():
    (listed,) = re.findall(r"^LOCKED := (.+)$", MAKEFILE, re.MULTILINE)
    assert sorted(Path(name).with_suffix(".lock") for name in listed.split()) == LOCKS


def test_a_package_of_several_extras_is_pinned_once():
    pins = {}
    for lock in LOCKS:
        if len(lock.parts) == 1:
            for pin in re.findall(r"^([\w.\-]+==[^\\\n]+)", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE):
                name, _, version = pin.strip().partition("==")
                pins.setdefault((name, version.partition(" ; ")[2]), set()).add(version)
    assert [pin for pin, versions in pins.items() if len(versions) > 1] == []


def test_everything_is_installed_with_its_hashes():
    installs = re.findall(r"^.*pip install .*$", MAKEFILE, re.MULTILINE)
    own, with_hashes = "--no-deps --no-build-isolation -e .", "--require-hashes"
    assert sorted(line.endswith(own) for line in installs) == [False, False, True]
    assert all(line.endswith((own, with_hashes)) for line in installs)
    used = "".join(re.findall(r"^\t.*\$\((?:INSTALL|FILL)\) .*$|^\$\(\w+_READY\): .*$", MAKEFILE, re.MULTILINE))
    assert [str(lock) for lock in LOCKS if str(lock) not in used] == []


def test_the_drawing_library_is_the_one_that_was_looked_at():
    source = (ROOT / "jobs/report/d3-parts.min.js").read_bytes()
    assert hashlib.sha256(source).hexdigest() == "f0b50c5bbd1dc40993a81f8ea2337a1f88c5bfe766bcf5f3ce909150dd0b19a0"


def test_the_delta_jars_of_the_release_are_pinned_and_no_others():
    text = (ROOT / "conf/delta-jars.sha256").read_text(encoding="utf-8")
    _, artifact, version = spark_defaults()[PACKAGES].split(":")
    names = [line.split("  ")[1] for line in text.splitlines()]
    assert f"io.delta_{artifact}-{version}.jar" in names
    assert [name for name in names if not name.endswith(f"-{version}.jar")] == []
    known = (Path(pyspark.__file__).parent / "jars").glob("io.delta_*.jar")
    assert [verified(jar).name for jar in sorted(known)] in ([], names)  # none: they are in a cache of Ivy's


def test_a_jar_of_other_bytes_is_refused(tmp_path, monkeypatch):
    (name, *_) = (line.split()[1] for line in (ROOT / "conf/delta-jars.sha256").read_text().splitlines())
    (tmp_path / name).write_bytes(b"another jar")
    monkeypatch.setattr(delta_jars, "_jars_of_spark", list)
    monkeypatch.setattr(delta_jars, "_cached_jars", lambda: [tmp_path / name])
    with pytest.raises(SparkEnvironmentError, match=f"{name} is not the jar"):
        delta_jars.delta_jars()


def test_only_what_was_looked_up_is_audited():
    assert complaints("a", [SOUND]) == []
    assert complaints("a", [SOUND, VULNERABLE]) == ["a: jinja2 3.1.2 has PYSEC-2024-1; fixed in 3.1.3."]
    (said,) = complaints("a", [SOUND, SKIPPED])
    assert "NOT AUDITED, 1 of 2 packages" in said and "rich (1.0)" in said
    assert "NOT AUDITED" in complaints("a", [])[0]


@pytest.mark.parametrize(
    ("prints", "ends_with", "code", "told"),
    [
        ('{"dependencies": [{"name": "typer", "version": "1.0", "vulns": []}]}', 0, 0, "1 packages, no known"),
        ('{"dependencies": [{"name": "rich", "skip_reason": "not found"}]}', 0, 1, "NOT AUDITED, 1 of 1"),
        ('{"dependencies": []}', 0, 1, "NOT AUDITED, 0 of 0"),
        ("", 1, 1, "NOT AUDITED, pip-audit gave no report: no route to the index"),
    ],
)
def test_an_audit_without_a_network_fails_and_says_why(tmp_path, capsys, prints, ends_with, code, told):
    stand_in = tmp_path / "pip-audit"
    stand_in.write_text(f"#!/bin/sh\necho '{prints}'\necho 'no route to the index' >&2\nexit {ends_with}\n")
    stand_in.chmod(0o755)
    assert main(str(stand_in), "a.lock") == code
    assert told in capsys.readouterr().out


LICENSED = {"licenses": [{"license": {"id": "MIT"}}]}


def installed(*parts: dict) -> dict:
    """What cyclonedx-py says of an environment: the parts, and this project itself."""
    own = {"bom-ref": "own", "name": "rocketmq-hindsight", "version": "1", **LICENSED}
    return {
        "metadata": {},
        "components": [own, *parts],
        "dependencies": [{"ref": "own", "dependsOn": ["rich==15", "ruff==1"]}, {"ref": "rich==15"}, {"ref": "ruff==1"}],
    }


def part(name: str, version: str, **more) -> dict:
    return {"bom-ref": f"{name}=={version}", "name": name, "version": version, **more}


@pytest.fixture
def locks(tmp_path) -> list[Path]:
    base, extra = tmp_path / "base.lock", tmp_path / "extra.lock"
    base.write_text("rich==15 \\\n    --hash=sha256:0\ncolorama==1 ; sys_platform == 'win32' \\\n    --hash=sha256:0\n")
    extra.write_text("rich==15 \\\n    --hash=sha256:0\nPandas[x]==2 \\\n    --hash=sha256:0\n")
    return [base, extra]


def test_a_wheel_s_materials_are_those_of_its_locks_and_the_drawing_library(tmp_path, locks):
    assert list(pinned(locks)) == [("rich", "15", "required"), ("pandas", "2", "optional")]
    wheel = tmp_path / "a.whl"
    wheel.write_bytes(b"wheel")
    parts = [part("rich", "15", **LICENSED), part("pandas", "2", **LICENSED), part("ruff", "1", **LICENSED)]
    made = bill(installed(*parts), wheel, locks, b"drawing")
    assert {one["name"]: one["scope"] for one in made["components"]} == {
        "rich": "required",
        "pandas": "optional",
        "d3": "required",
    }
    assert made["metadata"]["component"]["hashes"][0]["content"] == hashlib.sha256(b"wheel").hexdigest()
    needed = {each["ref"]: each["dependsOn"] for each in made["dependencies"]}
    assert needed == {"own": ["d3==7.9.0", "rich==15"], "rich==15": [], "d3==7.9.0": []}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([part("rich", "14", **LICENSED)], "rich 15 is locked, and 14 is installed; pandas 2 is locked, and none is"),
        ([part("rich", "15"), part("pandas", "2", **LICENSED)], "rich 15 tells no licence"),
    ],
)
def test_materials_that_are_not_there_or_without_a_licence_end_it(tmp_path, locks, parts, said):
    with pytest.raises(IncompleteError, match=said):
        bill(installed(*parts), tmp_path / "a.whl", locks, b"")


@pytest.mark.parametrize("version", ["0.14.7", "0.14.8"])
def test_a_licence_that_only_a_package_s_own_bill_tells_is_that_of_the_release_that_was_read(tmp_path, version):
    (tmp_path / "a.lock").write_text(f"hdfs-native=={version}\n")
    (tmp_path / "a.whl").write_bytes(b"wheel")
    given = (installed(part("hdfs-native", version)), tmp_path / "a.whl", [tmp_path / "a.lock"], b"")
    if version == "0.14.7":
        (listed,) = (each for each in bill(*given)["components"] if each["name"] == "hdfs-native")
        assert listed["licenses"] == [{"expression": "Apache-2.0"}]
    else:
        with pytest.raises(IncompleteError, match="tells no licence"):
            bill(*given)


def test_licences_of_what_others_wrote_are_in_the_wheel():
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    assert "license = Apache-2.0 AND ISC" in text
    named = re.search(r"^license_files =\n((?: +.+\n)+)", text, re.MULTILINE)
    heads = (
        [(ROOT / name).read_text(encoding="utf-8").split(maxsplit=4)[:4] for name in named[1].split()] if named else []
    )
    assert heads == [["Apache", "License", "Version", "2.0,"], ["Copyright", "2010-2023", "Mike", "Bostock"]]
