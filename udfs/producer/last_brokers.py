"""Attempts in; the same out, retries whose line does not name the last broker with the one that the record shows.

That is the broker of the attempt before it in the same send. Where that one is not recorded, or several are (an
application may send one message twice), nothing is told.
Source: DefaultMQProducerImpl#sendDefaultImpl, 4.0.0 to 5.3.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

SEND = ["producer_group", "client_id", "topic", "msg_id"]


def sends_that_lack(attempts: pa.Table) -> pa.Table:
    """The sends of which a retry does not name its last broker: each once."""
    return attempts.filter(_lack(attempts)).select(SEND).group_by(SEND).aggregate([])


def lacks_last_broker(attempts: pa.Table) -> bool:
    """Whether some retry does not name its last broker."""
    return bool(pc.any(_lack(attempts)).as_py())


def brokers_before(parts: Sequence[pa.Table], sends: pa.Table) -> pa.Table:
    """Of these sends, per number of an attempt the one broker that the attempt before it went to, as ``told``.

    ``parts``: all attempts that may be of them.
    """
    own = pa.concat_tables(
        [
            part.select([*SEND, "attempt", "broker_name"])
            .cast(_PLAIN)
            .join(sends.cast(pa.schema([(name, pa.string()) for name in SEND])), SEND, join_type="left semi")
            for part in parts
        ]
    )
    own = own.set_column(4, "attempt", pc.add(own["attempt"], pa.scalar(1, pa.int32())))
    counted = own.group_by([*SEND, "attempt"]).aggregate(
        [("broker_name", "min"), ("broker_name", "count_distinct"), ([], "count_all"), ("broker_name", "count")]
    )
    sure = pc.and_(
        pc.equal(counted["broker_name_count_distinct"], 1),
        pc.equal(counted["broker_name_count"], counted["count_all"]),
    )
    return counted.filter(sure).select([*SEND, "attempt", "broker_name_min"]).rename_columns([*SEND, "attempt", "told"])


_PLAIN = pa.schema([*((name, pa.string()) for name in SEND), ("attempt", pa.int32()), ("broker_name", pa.string())])


def with_last_brokers(attempts: pa.Table, told: pa.Table) -> pa.Table:
    """Attempts, retries without ``last_broker_name`` with the broker before them as ``told`` (``brokers_before``)."""
    lack = _lack(attempts)
    if not told.num_rows or not lacks_last_broker(attempts):
        return attempts
    retries = attempts.filter(lack)
    keys = retries.select([*SEND, "attempt"]).cast(pa.schema([_PLAIN.field(n) for n in (*SEND, "attempt")]))
    keys = keys.append_column("place", pa.array(range(len(keys))))
    named = keys.join(told, [*SEND, "attempt"], join_type="left outer").sort_by("place")["told"]
    place = attempts.schema.get_field_index("last_broker_name")
    retries = retries.set_column(place, attempts.schema.field(place), named.cast(attempts.schema.field(place).type))
    return pa.concat_tables([attempts.filter(pc.invert(lack)), retries])


def _lack(attempts: pa.Table) -> pa.ChunkedArray:
    is_retry = pc.fill_null(pc.greater(attempts["attempt"], 0), False)
    return pc.and_(is_retry, pc.is_null(attempts["last_broker_name"]))
