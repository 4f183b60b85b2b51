"""All names that a lake holds, in each form in which a file might hold them."""

from __future__ import annotations

import base64
import re
import zipfile
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from urllib.parse import quote

import pyarrow as pa

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.schemas import TABLES
from hindsight.udfs.values.message_queues import is_system_group, is_system_topic

_COLUMNS = {
    *("cluster", "consumer_group", "producer_group", "client_group", "topic", "broker_name", "client_id", "address"),
    *("broker_address", "master_address", "member_ids", "client_host", "name_server", "client_ip", "thread", "msg_id"),
    *("offset_msg_id", "message_key", "transaction_id", "tags", "sub_string", "source_file", "log_folder", "error"),
    *(
        "text",
        "line_digest",
        "incident_id",
        "member_list_hash",
        "subject",
        "trace_msg_id",
        "queues_text",
        "stack_trace",
    ),
}
_SHORTEST = 4
_MOST = 300  # names of a column that are looked for: of message ids there are many
# Parts of texts that are words, not names: those of sentences, of formats and of RocketMQ's own constants.
_WORD = re.compile(r"[a-z_']+[.:)]?|[A-Z][A-Z_]+|[A-Z]?[a-z]+")
_ADDRESS = re.compile(r"\b(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\b")
# Threads and parts of errors that are words of the bundle's own page, columns or kinds as well.
_WORDS = {"main", "TAG", "topic", "group", "consumerId"}


def originals(lake: LocalLake) -> set[str]:
    """Names of all kinds, with the parts that client ids, addresses, topics and files are made of."""
    found: set[str] = set()
    for table in TABLES.values():
        rows = lake.rows(table)
        for name in set(rows.column_names) & _COLUMNS:
            texts = sorted({text for text in _texts(rows[name]) if text})
            found |= set(texts[:: 1 + len(texts) // _MOST])
    parts = {part for text in found if len(text) < 300 for part in re.split(r"[@:/%;,\s]", text)}
    every = {text for text in found | {part for part in parts if not _WORD.fullmatch(part)} if len(text) >= _SHORTEST}
    every -= _WORDS
    return {text for text in every if not _stays(text)}


def _stays(text: str) -> bool:
    """RocketMQ's own names, words of hindsight's formats, and plain numbers."""
    if text.isdigit() or (re.fullmatch(r"[\d.]+", text) and not _ADDRESS.fullmatch(text)):
        return True
    if text.startswith(("org.apache.rocketmq.", "java.")):
        return True
    return is_system_topic(text) or is_system_group(text) or text.strip("%") in ("RETRY", "DLQ")


def _texts(column: pa.ChunkedArray) -> Iterator[str]:
    for value in column.unique().to_pylist() if pa.types.is_string(column.type) else column.to_pylist():
        yield from [value] if isinstance(value, str) else [v for v in value or () if isinstance(v, str)]


@cache
def forms(text: str) -> frozenset[bytes]:
    """Bytes that show a text: UTF-8, UTF-16, percent, hexadecimal, base64 at each alignment; an address as numbers."""
    plain = text.encode("utf-8", "surrogatepass")
    shown = {plain, text.encode("utf-16-le", "surrogatepass"), text.encode("utf-16-be", "surrogatepass")}
    shown |= {quote(text, safe="", errors="surrogatepass").encode(), plain.hex().encode(), plain.hex().upper().encode()}
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + plain + b"\0" * (-(before + len(plain)) % 3))
        # Characters that the neighbours' bits are in tell nothing.
        shown.add(whole[2 * (before > 0) + before // 1 * 1 : len(whole) - 4].strip(b"="))
    if address := _ADDRESS.fullmatch(text):
        as_hex = "".join(f"{int(part):02x}" for part in address.groups())
        shown |= {as_hex.encode(), as_hex.upper().encode()}
    return frozenset(form for form in shown if len(form) >= _SHORTEST)


def contents(packed: bytes) -> dict[str, bytes]:
    """The entries of a file, and the names of these."""
    with zipfile.ZipFile(BytesIO(packed)) as archive:
        return {entry.filename: entry.filename.encode() + b"\0" + archive.read(entry) for entry in archive.infolist()}


def left(names: set[str], packed: bytes) -> list[tuple[str, str]]:
    """Names of which a form is in a file, with the entry."""
    found = set()
    by_first = _by_first_piece(frozenset(names))
    for entry, content in contents(packed).items():
        # A form of which some four bytes are nowhere is not there: few are left to be searched for.
        pieces = {*_pieces(content)}
        for piece in by_first.keys() & pieces:
            found |= {
                (name, entry)
                for form, name in by_first[piece]
                if form[-_SHORTEST:] in pieces and form[len(form) // 2 - 2 :][:_SHORTEST] in pieces and form in content
            }
    return sorted(found)


@cache
def _by_first_piece(names: frozenset[str]) -> dict[bytes, list[tuple[bytes, str]]]:
    """Every form of names, with the name, by its first bytes."""
    found: dict[bytes, list[tuple[bytes, str]]] = {}
    for name in names:
        for form in forms(name):
            found.setdefault(form[:_SHORTEST], []).append((form, name))
    return found


def _pieces(content: bytes) -> Iterator[bytes]:
    return (content[at : at + _SHORTEST] for at in range(len(content) - _SHORTEST + 1))
