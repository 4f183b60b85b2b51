"""Landing files with one trouble each, between good lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.conftest import CAPTURES

CLUSTER = "damaged"
# Spark would put the variable in its place, take the star for a pattern, and end a literal at the quote.
HOSTILE_NAME = "${env:HOME} it's *\x1b[31m\n"


def hook_lines(name: str, count: int) -> list[bytes]:
    with gzip.open(CAPTURES / "producers" / f"producer_{name}.jsonl.gz") as lines:
        return [next(lines) for _ in range(count)]


def changed(line: bytes, **changes) -> bytes:
    return json.dumps({**json.loads(line), **changes}).encode() + b"\n"


def write_damaged_files(landing: Path) -> None:
    """Files of cluster ``damaged``, named after their trouble."""
    folder = landing / "producer_hook" / f"cluster={CLUSTER}"
    folder.mkdir(parents=True)
    good = hook_lines("5.3.3_laton", 200)
    write = {
        "bad_utf8": [*good[:3], good[3].replace(b'"OracleOrders"', b'"Oracle\xff\xfe"'), good[4]],
        "no_key_field": [good[5], changed(good[6], msgId=None), good[7]],
        "seconds": [good[8], changed(good[9], beginMs=1795252691, endMs=1795252692), good[10]],
        "negative_queue": [good[11], changed(good[12], queueId=-1), good[13]],
        "huge_line": [good[14], b'{"type":"attempt","pad":"' + b"x" * 20_000_000 + b'"}\n', good[15]],
        HOSTILE_NAME: [good[18], b"{ nonsense\n"],
        "not_json": [good[16], b"{ nonsense\n", b"\n", good[17]],
    }
    for name, lines in write.items():
        (folder / f"{name}.jsonl").write_bytes(b"".join(lines))
    whole = gzip.compress(b"".join(good[20:120]))
    (folder / "truncated.jsonl.gz").write_bytes(whole[: len(whole) * 2 // 3])
    (folder / "not_gzip.jsonl.gz").write_bytes(b"plain text\n")
    (landing / "outside.jsonl").write_bytes(b"a password\n")
    (folder / "link.jsonl").symlink_to(landing / "outside.jsonl")
    strange = changed(good[0], version="9.9.9", clientId="10.0.0.1@strange")
    sent = [changed(line, clientId="10.0.0.1@strange") for line in good[130:140]]
    (folder / "unknown_version.jsonl").write_bytes(b"".join([strange, *sent]))
    snapshots = landing / "admin_snapshots" / f"cluster={CLUSTER}"
    snapshots.mkdir(parents=True)
    with gzip.open(CAPTURES / "consumers" / "admin_snapshots.jsonl.gz") as lines:
        captures = [next(lines) for _ in range(10)][1:]  # without the round's marker
    broken = json.loads(captures[6])
    broken["raw"] = broken["raw"][:200]
    (snapshots / "s.jsonl").write_bytes(b"".join([*captures[:6], json.dumps(broken).encode() + b"\n", *captures[7:]]))
