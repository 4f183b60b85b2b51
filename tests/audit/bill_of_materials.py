"""Says what a wheel holds and needs, as CycloneDX beside it: `make sbom`.

    python tests/audit/bill_of_materials.py PYTHON WHEEL LOCK...

PYTHON is that of an environment with all that the locks pin for this machine, whose licences are read there. The first
lock is the base, which is required; the others are extras, which are optional.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PIN = re.compile(r"^[\w.\-]+(?:\[\w+\])?==[^\\\n]+", re.MULTILINE)
OWN = "rocketmq-hindsight"
# What the wheel holds that others wrote; its licence lies beside it there.
DRAWING = {
    "type": "library",
    "bom-ref": "d3==7.9.0",
    "name": "d3",
    "version": "7.9.0",
    "purl": "pkg:npm/d3@7.9.0",
    "scope": "required",
    "description": "Parts of it, in hindsight/jobs/report/d3-parts.min.js",
    "licenses": [{"license": {"id": "ISC"}}],
    "copyright": "© Mike Bostock",
}
# What a package's own bill of materials (``*.dist-info/sboms``) tells, and its metadata does not.
TOLD_IN_ITS_BILL = {("hdfs-native", "0.14.7"): "Apache-2.0"}
Part = dict[str, Any]


class IncompleteError(RuntimeError):
    """Raised where a list of materials would leave something out, or say what is not so."""


def pinned(locks: Sequence[Path]) -> Iterator[tuple[str, str, str]]:
    """Name, version and scope of what the locks pin for this machine; what the base has is no extra's."""
    seen = set()
    for place, lock in enumerate(locks):
        for pin in map(Requirement, PIN.findall(lock.read_text(encoding="utf-8"))):
            name = canonicalize_name(pin.name)
            if name not in seen and (pin.marker is None or pin.marker.evaluate()):
                seen.add(name)
                yield name, str(pin.specifier)[2:], "optional" if place else "required"


def bill(installed: Part, wheel: Path, locks: Sequence[Path], drawing: bytes) -> Part:
    """The list of a wheel. ``installed``: cyclonedx-py's of an environment. Raises: IncompleteError."""
    found = {canonicalize_name(part["name"]): part for part in installed["components"]}
    parts, wrong = [], []
    for name, version, scope in pinned(locks):
        part = found.get(name, {"version": None})
        if told := TOLD_IN_ITS_BILL.get((name, part["version"])):
            part = {"licenses": [{"expression": told}], **part}
        if part["version"] != version:
            wrong.append(f"{name} {version} is locked, and {part['version'] or 'none'} is installed")
        elif not part.get("licenses"):
            wrong.append(f"{name} {version} tells no licence")
        parts.append({**part, "scope": scope})
    if wrong:
        raise IncompleteError("; ".join(wrong) + ".")
    own = {**found[OWN], "type": "application", "hashes": [_digest(wheel.read_bytes())]}
    own.pop("externalReferences", None)  # where its sources lay on this machine
    parts.append({**DRAWING, "hashes": [_digest(drawing)]})
    named = {part["bom-ref"] for part in (own, *parts)}
    needs = {each["ref"]: {*each.get("dependsOn", ())} for each in installed["dependencies"] if each["ref"] in named}
    needs[own["bom-ref"]] |= {DRAWING["bom-ref"]}
    needs.setdefault(DRAWING["bom-ref"], set())
    return {
        **installed,
        "metadata": {**installed["metadata"], "component": own},
        "components": sorted(parts, key=lambda part: part["bom-ref"].lower()),
        "dependencies": [{"ref": ref, "dependsOn": sorted(needs[ref] & named)} for ref in sorted(needs)],
    }


def _digest(text: bytes) -> dict[str, str]:
    return {"alg": "SHA-256", "content": hashlib.sha256(text).hexdigest()}


def main(python: str, given: str, *locks: str) -> int:
    """Write the list beside the wheel; 1: it would be wrong, with why."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    command = [str(Path(sys.executable).with_name("cyclonedx-py")), "environment", "--output-reproducible", python]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    wheel = Path(given)
    drawing = Path(__file__).parent.parent.parent / "jobs/report/d3-parts.min.js"
    try:
        made = bill(json.loads(done.stdout), wheel, [*map(Path, locks)], drawing.read_bytes())
    except IncompleteError as error:
        print(error, file=sys.stderr)
        return 1
    text = json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        print(wrong, file=sys.stderr)
        return 1
    beside = wheel.with_suffix(".cdx.json")
    beside.write_text(text, encoding="utf-8")
    print(f"{beside}: {len(made['components'])} parts with their licences.")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
