"""Captures and routes in; what each sweep shows of brokers and name servers out, a row for each server and sign.

A server that answers anything, a refusal too, is there. What is lost on the way to it says how: it refuses connections
(nobody listens: the process is gone), it is silent (it takes connections and answers nothing: frozen, or its host is),
or it cannot be reached. Running infos are the clients' answers: that one does not come says nothing of the broker.

Source: AdminBrokerProcessor#callConsumer, 4.0.0 to 5.5.0, for a channel to a client that is dead and still listed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.consumer.listed_members import INFO
from hindsight.udfs.consumer.round_reads import OF_CHANNEL
from hindsight.udfs.consumer.rows_of_rounds import microseconds
from hindsight.udfs.consumer.topic_routes import ROUTE
from hindsight.udfs.lines.parsed_line import NOT_ASKED, UNREADABLE
from hindsight.udfs.values.row_hashes import whole

ANSWERED, REFUSES, SILENT, UNREACHED = "answered", "refuses", "silent", "unreached"
DEAD_CHANNEL, WRITABLE, READ_ONLY, ROUTES_READ = "dead channel", "writable", "read only", "routes read"
SIGNS = pa.schema(
    [
        ("collector", pa.string()),
        ("round_us", pa.int64()),
        ("broker_name", pa.string()),
        ("name_server", pa.string()),  # neither: of the sweep
        ("said", pa.string()),
        ("consumer_group", pa.string()),  # of a dead channel; else null
        ("count", pa.int64()),  # of questions; of topics, or of clients
        ("first_us", pa.int64()),
        ("last_us", pa.int64()),  # when it was asked last
        ("evidence", pa.string()),  # file and line of one of them
    ]
)
_OF_SERVER = ["collector", "round_us", "broker_name", "name_server", "said", "consumer_group"]
_LOST = (
    ("RemotingConnectException", UNREACHED),
    ("RemotingSendRequestException", UNREACHED),
    ("RemotingTimeoutException", SILENT),
    ("no connection in time", SILENT),
    ("Connection refused", REFUSES),
)
_ANSWERS = ("RemotingCommandException", UNREADABLE)
MARKS = (*(words for words, _ in _LOST), _ANSWERS[0], OF_CHANNEL)  # what is looked for in the error of a question
_WRITE = 2


def signs_of(captures: pa.Table) -> pa.Table:
    """``SIGNS`` of rows of ``snapshot_capture``, one file's, each of a round: others may have more of it."""
    asked = captures.filter(pc.invert(pc.equal(captures["kind"], NOT_ASKED)))
    said = said_of_servers(asked)
    group = pc.if_else(pc.equal(said, DEAD_CHANNEL), whole(asked, "consumer_group"), None)
    columns = _columns(asked, {"said": said, "name_server": asked["name_server"], "consumer_group": group})
    named = pc.or_(pc.is_valid(asked["broker_name"]), pc.is_valid(asked["name_server"]))
    of_servers = columns.filter(pc.and_(named, pc.is_valid(said)))
    routes = columns.filter(pc.and_(pc.equal(asked["kind"], ROUTE), pc.equal(said, ANSWERED)))
    nobody = pa.nulls(len(routes), pa.string())
    of_sweep = routes.set_column(2, "broker_name", nobody).set_column(3, "name_server", nobody)
    of_sweep = of_sweep.set_column(4, "said", pa.repeat(pa.scalar(ROUTES_READ), len(routes)))
    return counted(pa.concat_tables([of_servers, of_sweep]))


def said_of_servers(asked: pa.Table) -> pa.Array:
    """What each question says of who was asked; null: nothing."""
    error, is_info = whole(asked, "error").fill_null(""), pc.equal(whole(asked, "kind"), INFO)
    came = pc.or_(whole(asked, "answered"), pc.is_valid(whole(asked, "error_code")))
    for unread in _ANSWERS:
        came = pc.or_(came, pc.match_substring(error, unread))
    found: pa.Array = pa.nulls(len(asked), pa.string())
    for words, what in _LOST:
        found = pc.if_else(pc.match_substring(error, words), what, found)
    left_out = pc.or_(pc.starts_with(error, "not asked: "), is_info)
    found = pc.if_else(left_out, pa.scalar(None, pa.string()), found)
    found = pc.if_else(came, ANSWERED, found)
    return pc.if_else(pc.and_(is_info, pc.match_substring(error, OF_CHANNEL)), DEAD_CHANNEL, found)


def signs_of_routes(entries: pa.Table) -> pa.Table:
    """``SIGNS`` of rows of ``topic_route``: whether brokers may be written to."""
    bits = pc.bit_wise_and(pc.cast(whole(entries, "perm"), pa.int32()), pa.scalar(_WRITE, pa.int32()))
    said, nothing = pc.if_else(pc.equal(bits, 0), READ_ONLY, WRITABLE), pa.nulls(len(entries), pa.string())
    return counted(_columns(entries, {"said": said, "name_server": nothing, "consumer_group": nothing}))


def _columns(rows: pa.Table, more: dict[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    """``SIGNS`` of single rows."""
    begun = microseconds(rows, "captured_at")
    columns = {"collector": rows["collector"], "round_us": pa.array(microseconds(rows, "round_at"))}
    columns |= {"broker_name": rows["broker_name"], **more, "count": pa.array(np.ones(len(rows), np.int64))}
    columns |= {"first_us": pa.array(begun), "last_us": pa.array(begun)}
    lines = pc.cast(whole(rows, "source_line"), pa.string())
    columns["evidence"] = pc.binary_join_element_wise(whole(rows, "source_file"), lines, ":")
    return pa.table({name: columns[name] for name in SIGNS.names}).cast(SIGNS)


def counted(signs: pa.Table) -> pa.Table:
    """``SIGNS``, those of one sweep, server and kind as one, sorted by sweep."""
    sums = [("count", "sum"), ("first_us", "min"), ("last_us", "max"), ("evidence", "min")]
    made = signs.group_by(_OF_SERVER).aggregate(sums)
    made = made.rename_columns([*_OF_SERVER, "count", "first_us", "last_us", "evidence"]).select(SIGNS.names)
    return made.sort_by([(name, "ascending") for name in _OF_SERVER]).cast(SIGNS)
