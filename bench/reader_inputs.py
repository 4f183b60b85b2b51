"""Lines of real captures in, files of as many lines as asked for out: what the readers are timed on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from datetime import UTC
from functools import partial
from itertools import cycle, dropwhile, islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from bench.contest import ROOT
from hindsight.udfs.formats.fastjson import ObjectKey, parse_fastjson
from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.lines.bounded_lines import read_lines
from hindsight.udfs.lines.parsed_line import LandedFile

MAX_LINE_BYTES = 8 << 20
LINES, UNFOLDED = "lines", "unfolded"
_CAPTURES = ROOT / "tests/golden"
_LINES_PER_FILE = 50_000


class Input(NamedTuple):
    """What one reader is given: ``rows`` lines, made by repeating those of real files.

    ``head``: so many lines stand once at a file's beginning. ``about``: what the reader is told of each file.
    ``holds_documents``: ``raw`` is the text of a document. All of it travels to another process, hence no lambda.
    """

    name: str
    format: str
    title: str
    rows: int
    lines: Callable[[], list[bytes]]
    is_json: bool = True
    about: LandedFile = LandedFile()
    head: int = 0
    holds_documents: bool = False


def prepare(given: Input, data: Path, rows: int) -> None:
    """Write files of ``rows`` lines in all under ``data``, plain, not gzipped; those that hold documents twice."""
    lines = given.lines()
    head, body = lines[: given.head], cycle(lines[given.head :])
    (data / LINES).mkdir()
    suffix = "jsonl" if given.is_json else "log"
    for number, start in enumerate(range(0, rows, _LINES_PER_FILE)):
        count = min(_LINES_PER_FILE, rows - start)
        text = b"".join(line + b"\n" for line in (*head, *islice(body, count - len(head))))
        (data / LINES / f"part-{number:04}.{suffix}").write_bytes(text)
    if given.holds_documents:
        (data / UNFOLDED).mkdir()
        for path in files_of(data):
            (data / UNFOLDED / path.name).write_bytes(b"".join(map(_unfolded, path.read_bytes().splitlines())))


def _unfolded(line: bytes) -> bytes:
    """A line as strict JSON, with the document that it holds as a part of it."""
    fields = json.loads(line)
    if fields.get("raw"):
        fields["raw"] = _strict(parse_fastjson(fields["raw"]))
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _strict(value: Any) -> Any:
    if isinstance(value, list):
        return [_strict(item) for item in value]
    if isinstance(value, dict):
        return {json.dumps(dict(k)) if isinstance(k, ObjectKey) else str(k): _strict(v) for k, v in value.items()}
    return value


def files_of(data: Path) -> list[Path]:
    """The files that were prepared, in order."""
    return sorted((data / LINES).iterdir())


def chunks_of(path: Path) -> Iterator[bytes]:
    """A file's bytes, as the jobs read them."""
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


def _of_files(*patterns: str) -> list[bytes]:
    found = [path for pattern in patterns for path in sorted(_CAPTURES.glob(pattern))]
    raws = (path.read_bytes() for path in found)
    plain = (gzip.decompress(raw) if path.suffix == ".gz" else raw for path, raw in zip(found, raws, strict=True))
    return [line for raw in plain for line in raw.removesuffix(b"\n").split(b"\n")]


def _of_table(*patterns: str) -> list[bytes]:
    """The lines up to an empty one: totals repeated below a table would be outputs of their own."""
    return list(takewhile(bytes.strip, dropwhile(lambda line: not line.strip(), _of_files(*patterns))))


def _of_rows(format_name: str, table: str, *patterns: str) -> list[bytes]:
    """The rows that a reader makes of real files, as JSON lines of the canonical contract."""
    chunks = (line + b"\n" for line in _of_files(*patterns))
    lines = read_lines(chunks, gzipped=False, max_line_bytes=MAX_LINE_BYTES)
    rows = (r.row for one in PARSERS[format_name](lines, UTC) for r in one.records if r.table == table)
    return [json.dumps({name: value for name, value in row.items() if value is not None}).encode() for row in rows]


def _client_log(release: str) -> Input:
    places = (f"producers/client_logs/{release}", f"consumers/client_logs/consumer_{release}")
    return Input(
        f"client_log-{release}",
        "client_log",
        f"Client log of {release}",
        600_000,
        partial(_of_files, *(f"captures/{place}/*.gz" for place in places)),
        is_json=False,
        about=LandedFile("client/rocketmq_client.log"),
    )


_HOOK = "captures/producers/producer_*.gz"
_ADMIN = "captures/consumers/admin_snapshots.jsonl.gz"
INPUTS = (
    *map(_client_log, ("4.7.1", "4.9.8", "5.3.3")),
    Input(
        "broker_log",
        "broker_log",
        "Broker log, every second line an event",
        400_000,
        partial(_of_files, "captures/broker_logs/*.gz"),
        is_json=False,
        about=LandedFile("broker-a.log"),
    ),
    Input(
        "mqadmin",
        "mqadmin",
        "Text of mqadmin, consumerProgress",
        400_000,
        partial(_of_table, "captures/mqadmin/t140/consumerProgress_g_avg.txt"),
        is_json=False,
        about=LandedFile("t140/progress.txt", "consumerProgress -g g_avg", 1_795_253_675_931),
        head=1,
    ),
    Input(
        "trace_topic", "trace_topic", "Trace topic", 16_000, partial(_of_files, "captures/trace_topic/trace_*.jsonl.gz")
    ),
    Input(
        "consumer_hook", "consumer_hook", "Consume recorder", 60_000, partial(_of_files, "captures/consumer_hook/*.gz")
    ),
    Input("producer_hook", "producer_hook", "Producer hook", 120_000, partial(_of_files, _HOOK)),
    Input(
        "admin_snapshots",
        "admin_snapshots",
        "Admin snapshots",
        12_000,
        partial(_of_files, _ADMIN),
        holds_documents=True,
    ),
    Input(
        "heartbeat",
        "heartbeat",
        "Heartbeats",
        40_000,
        partial(_of_files, "heartbeats/*.jsonl"),
        holds_documents=True,
    ),
    Input(
        "canonical_sends",
        "canonical_sends",
        "Send attempts of the canonical contract",
        80_000,
        partial(_of_rows, "producer_hook", "send_attempt", "captures/producers/producer_4.*_short.jsonl.gz"),
    ),
    Input(
        "canonical_snapshots",
        "canonical_snapshots",
        "Queue ownership of the canonical contract",
        120_000,
        partial(_of_rows, "admin_snapshots", "queue_ownership", _ADMIN),
        about=LandedFile("queue_ownership/part-0.jsonl"),
    ),
)
