"""Holds what the locks pin against the known vulnerabilities that the Python package index publishes: `make audit`.

    python tests/audit/audit_locks.py PIP_AUDIT LOCK...

pip-audit itself ends with 0 and "No known vulnerabilities found" where the index answers nothing: here only a package
that was looked up counts as audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


class NotAuditedError(RuntimeError):
    """Raised where pip-audit gave no report."""


def audited(pip_audit: str, lock: str) -> list[dict[str, Any]]:
    """What pip-audit says of each package of a lock.

    Raises: NotAuditedError: with the last thing it said.
    """
    options = ["--format", "json", "--disable-pip", "--require-hashes", "--progress-spinner", "off"]
    done = subprocess.run([pip_audit, *options, "-r", lock], capture_output=True, text=True, check=False)
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise NotAuditedError(f"pip-audit gave no report: {last[:300]}") from None
    return packages


def complaints(lock: str, packages: Sequence[dict[str, Any]]) -> list[str]:
    """Sentences about what is vulnerable, and about what was not looked up; none: all of the lock is audited."""
    said = []
    for package in packages:
        for found in package.get("vulns", ()):
            fixed = ", ".join(found["fix_versions"]) or "no release yet"
            said.append(f"{lock}: {package['name']} {package['version']} has {found['id']}; fixed in {fixed}.")
    skipped = [package for package in packages if "skip_reason" in package]
    if skipped or not packages:
        why = f", e.g. {skipped[0]['skip_reason']}" if skipped else ""
        said.append(
            f"{lock}: NOT AUDITED, {len(skipped)} of {len(packages)} packages could not be looked up{why}. Run it "
            "where the Python package index itself can be reached: mirrors do not carry its vulnerabilities."
        )
    return said


def main(pip_audit: str, *locks: str) -> int:
    """Audit each lock; 1 unless all of every one is audited and without a known vulnerability."""
    failed = False
    for lock in locks:
        try:
            packages = audited(pip_audit, lock)
            found = complaints(lock, packages)
        except NotAuditedError as error:
            found = [f"{lock}: NOT AUDITED, {error}"]
        failed = failed or bool(found)
        print("\n".join(found or [f"{lock}: {len(packages)} packages, no known vulnerability."]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
