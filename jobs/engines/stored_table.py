"""One version of a Delta table, opened without a JVM: a place in, delta-rs's table out, or why not."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from hindsight.conf.failure import ExpectedError
from hindsight.jobs.lake.lake_place import NoLocalEngineError

_READER, _WRITER = 1, 2  # Delta's protocol of a table without any feature that shuts others out


class UnreadableTableError(ExpectedError):
    """Raised where delta-rs cannot read a table's log; nothing was done."""


def stored_table(place: str, options: Mapping[str, str], *, as_of: int | datetime | None = None) -> DeltaTable:
    """The latest version of a table, or the one of a number or an instant.

    Raises: NoLocalEngineError: it has a feature that only Spark knows. UnreadableTableError: its log is damaged.
    """
    try:
        stored = DeltaTable(place, storage_options=dict(options))
    except DeltaError as error:
        said = str(error).partition("\n")[0].strip(" .")
        raise UnreadableTableError(
            f"the table at {place} cannot be opened: {said}. Its log is damaged, or has a feature that delta-rs does "
            "not know, which --engine spark may read. Restore the folder, or build the lake again from its landing "
            "files, in another folder."
        ) from error
    if as_of is not None:
        stored.load_as_version(as_of)
    protocol = stored.protocol()
    if protocol.min_reader_version > _READER or protocol.min_writer_version > _WRITER:
        raise NoLocalEngineError(
            f"{place} has Delta's protocol {protocol.min_reader_version}, {protocol.min_writer_version}, which this "
            "machine's engine does not write; run with --engine spark."
        )
    return stored
