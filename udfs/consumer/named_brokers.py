"""Rows that name brokers by the address at which they were asked in, and what routes tell; the brokers' names out.

``mqadmin -b`` takes an address. Routes say whose it is.
"""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc

BROKER = "broker_name"


def with_names_of_brokers(rows: pa.Table, routes: pa.Table) -> pa.Table:
    """The rows, each ``broker_name`` that is an address of one broker of the routes replaced by this broker's name.

    Args:
        rows: with ``broker_name``, whatever else; others than those that name an address stay as they are.
        routes: of ``topic_route``; an address that they tell of two brokers is nobody's.
    """
    asked = [name for name in pc.unique(rows[BROKER]).to_pylist() if name is not None and ":" in name]
    if not asked:
        return rows
    owners = _owners(routes)
    names = {address: next(iter(owners[address])) for address in asked if len(owners.get(address, ())) == 1}
    told = pa.array([names.get(name, name) for name in rows[BROKER].to_pylist()], pa.string())
    place = rows.column_names.index(BROKER)
    return rows.set_column(place, BROKER, told.cast(rows.schema.field(BROKER).type))


def _owners(routes: pa.Table) -> dict[str, set[str]]:
    """By address the brokers that have it, as master or as slave."""
    owners: dict[str, set[str]] = defaultdict(set)
    columns = [BROKER, "master_address"]
    masters = routes.select(columns).group_by(columns).aggregate([])
    for name, address in zip(*(column.to_pylist() for column in masters.columns), strict=True):
        owners[address].add(name)
    slaves = routes["slaves"].combine_chunks()
    names = routes[BROKER].combine_chunks().take(pc.list_parent_indices(slaves))
    addresses = pc.struct_field(slaves.flatten(), "address")
    for name, address in set(zip(names.to_pylist(), addresses.to_pylist(), strict=True)):
        owners[address].add(name)
    return owners
