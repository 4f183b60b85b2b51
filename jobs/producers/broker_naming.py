"""Names the brokers of stored trace records, which know only addresses, by the routes that are stored by now.

Traces and routes arrive in any order, so both ingest jobs call this: a name is set, and corrected, whenever either side
brings something new.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hindsight.jobs.engines.arrow_columns import chosen
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.data_files import TableFolder
from hindsight.jobs.engines.lake_rows import DataFile, Where
from hindsight.jobs.engines.runner import Blob, OfHeap, Runner, heaps
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.landing.ledger import ledger
from hindsight.schemas import SEND_ATTEMPT, TOPIC_ROUTE
from hindsight.schemas.arrow_types import arrow_schema
from hindsight.udfs.landing.landing_formats import TRACE

VIP_OFFSET = 2  # a VIP channel's port is the broker's minus this (BrokerController, MixAll#brokerVIPChannel)


class KnownAddress(NamedTuple):
    """A route showed at ``seen_at`` (epoch ms) that ``broker_name`` has this address, ``host:port``."""

    seen_at: int
    address: str
    broker_name: str


class StoreHosts:
    """Who had which address when. Addresses change hands only by redeployment: the nearest sighting decides."""

    def __init__(self, known: Iterable[KnownAddress]) -> None:
        self._seen: dict[str, list[tuple[int, str]]] = {}
        for seen_at, address, broker_name in sorted(set(known)):
            seen = self._seen.setdefault(address, [])
            if not seen or seen[-1][1] != broker_name:  # what was shown before says as much
                seen.append((seen_at, broker_name))

    def broker_of(self, address: str, at: int) -> str | None:
        """The broker with this address by the latest route at or before ``at``, else by the first after it.

        An address that no route shows is tried as a VIP channel's: port + 2. Of two names in one instant the greater
        wins, so that the answer does not depend on the order of arrival. None: unknown.
        """
        for candidate in (address, _behind_vip(address)):
            seen = self._seen.get(candidate) if candidate else None
            if seen:
                return seen[max(0, bisect_right(seen, (at, "\U0010ffff")) - 1)][1]
        return None


def _behind_vip(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    is_port = host and port.isascii() and port.isdigit() and len(port) <= 5
    return f"{host}:{int(port) + VIP_OFFSET}" if is_port else None


_NAMED, _DAYS = "named", "days"
_CHANGED = [*SEND_ATTEMPT.key, "broker_name"]


def trace_dates(lake: ArrowLake, clusters: Collection[str] | None = None) -> list[ClusterDate]:
    """The dates that trace records of these clusters (None: of all) reach, by the ledger."""
    files = ledger(lake, [TRACE]).select(["cluster", "event_dates"]).to_pylist()
    of_clusters = (file for file in files if clusters is None or file["cluster"] in clusters)
    return sorted({ClusterDate(file["cluster"], day) for file in of_clusters for day in file["event_dates"]})


def name_brokers(lake: ArrowLake, runner: Runner, dates: Collection[ClusterDate]) -> None:
    """Give the trace records of ``dates`` the names that the routes known by now give their addresses."""
    if not dates:
        return
    folder = TableFolder(lake.root, SEND_ATTEMPT)
    naming = Naming(folder, frozenset(dates), _hosts(lake, {date.cluster for date in dates}))
    files = lake.files(SEND_ATTEMPT, {date.event_date for date in dates})
    named = runner.each(OfHeap(naming), heaps(files, lambda file: file.size))
    days = {day for table in named.tables(_DAYS) for day in table["event_date"].to_pylist()}
    if days:
        schema = arrow_schema(SEND_ATTEMPT)
        changed = pa.schema([schema.field(name) for name in _CHANGED])
        lake.update(SEND_ATTEMPT, named.rows(_NAMED, changed), ["broker_name"], days)


def _hosts(lake: ArrowLake, clusters: Collection[str]) -> dict[str, StoreHosts]:
    """Who had which address when, by cluster."""
    known: dict[str, list[KnownAddress]] = {cluster: [] for cluster in clusters}
    names = ["cluster", "master_address", "broker_name"]
    routes = lake.counted(TOPIC_ROUTE, [*names, "captured_at"], Where(values={"cluster": clusters}))
    seen_at = routes["captured_at"].cast(pa.int64()).to_pylist()
    for at, row in zip(seen_at, routes.select(names).to_pylist(), strict=True):
        if row["master_address"]:
            known[row["cluster"]].append(KnownAddress(at, row["master_address"], row["broker_name"]))
    return {cluster: StoreHosts(of) for cluster, of in known.items()}


@dataclass(frozen=True)
class Naming:
    """Names the brokers of the trace records in a file of send_attempt.

    Attributes:
        hosts: by cluster, with instants in microseconds.
    """

    folder: TableFolder
    dates: frozenset[ClusterDate]
    hosts: Mapping[str, StoreHosts]

    def __call__(self, file: DataFile) -> Iterator[Blob]:
        """The keys of records whose broker has another name now, with this; the dates on which they fall."""
        where = Where(dates=self.dates, values={"source": [TRACE]})
        for place, piece in enumerate(self.folder.pieces(file, [*_CHANGED, "broker_address"])):
            records = chosen(piece, where)
            names = pa.array(self._names(records), pa.string())
            before = records["broker_name"]
            moved = pc.invert(pc.fill_null(pc.equal(names, before), pa.scalar(False)))
            moved = pc.and_(moved, pc.or_(pc.is_valid(names), pc.is_valid(before)))
            records = records.set_column(records.column_names.index("broker_name"), "broker_name", names).filter(moved)
            if len(records):
                yield Blob(_NAMED, 0, place, records.select(_CHANGED))
                yield Blob(_DAYS, 0, place, pa.table({"event_date": pc.unique(records["event_date"])}))

    def _names(self, records: pa.Table) -> list[str | None]:
        began = records["begin_at"].cast(pa.int64())
        columns = (records["cluster"], records["broker_address"], began)
        return [
            None if address is None else self.hosts[cluster].broker_of(address, at)
            for cluster, address, at in zip(*(column.to_pylist() for column in columns), strict=True)
        ]


def names_by_date(lake: ArrowLake) -> dict[ClusterDate, str]:
    """Per date with trace records, a digest of the names that their brokers have.

    A route that lands later may name brokers on dates that no file touches any more: the digest tells.
    """
    where = Where(dates=trace_dates(lake), values={"source": [TRACE]})
    names: dict[ClusterDate, list[str]] = {}
    columns = ["cluster", "event_date", "broker_address", "broker_name"]
    for row in lake.counted(SEND_ATTEMPT, columns, where).to_pylist() if where.dates else ():
        said = (row["broker_address"], row["broker_name"], str(row["rows"]))
        at = ClusterDate(row["cluster"], row["event_date"])
        names.setdefault(at, []).append("=".join(text for text in said if text is not None))
    return {at: hashlib.sha256("\n".join(sorted(of)).encode()).hexdigest() for at, of in names.items()}
