"""Bytes of logs in, what the kernels tell of them out: for the tests of ``hindsight diagnose``."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path

from hindsight.udfs.diagnosis.log_diagnosis import SILENCE_MS, Diagnosis, diagnosis_of
from hindsight.udfs.diagnosis.log_findings import LogFindings, find_in_log
from hindsight.udfs.diagnosis.logged_ownership import Ownership
from hindsight.udfs.lines.bounded_lines import read_lines
from tests.conftest import CAPTURES

SCOPE = sorted(CAPTURES.glob("scope/*_log/*/*.log.gz"))
CLUSTER = sorted([*CAPTURES.glob("consumers/client_logs/*/*.gz"), *CAPTURES.glob("broker_logs/*.gz")])
SCOPE_T0, CLUSTER_T0 = 1795569372964, 1795253414272


def unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def found(path: str, raw: bytes, *, zone=UTC, silence_ms: int = SILENCE_MS, **options) -> LogFindings:
    lines = read_lines([raw], gzipped=raw.startswith(b"\x1f\x8b"), max_line_bytes=1 << 20)
    return find_in_log(lines, path=path, zone=zone, silence_ms=silence_ms, **options)


def told(logs: Mapping[str, bytes], *, silence_ms: int = SILENCE_MS, **options) -> Diagnosis:
    """The diagnosis of logs by name."""
    logs_found = [found(name, raw, silence_ms=silence_ms, **options) for name, raw in logs.items()]
    return diagnosis_of(logs_found, silence_ms)


def held_at(diagnosis: Diagnosis, group: str, topic: str, client_id: str | None, at: int) -> Ownership | None:
    """What is said of one instant."""
    said = [
        one
        for one in diagnosis.ownership
        if one.key == (group, topic, client_id) and one.since <= at and (one.until is None or at < one.until)
    ]
    assert len(said) <= 1, said
    return said[0] if said else None
