"""Delta tables without a JVM: a place in; delta-rs's table out, or why there is none, and what was committed since.

Opening a table reads its log from the last checkpoint on; an open table reads only what has been committed since. Of
commits since a version the files are told whose rows they added or took away: those that were only brought together
(``dataChange`` false) hold rows as they were.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from hindsight.conf.failure import ExpectedError
from hindsight.jobs.engines.lake_rows import DataFile
from hindsight.jobs.lake.delta_log import commit_name, is_newest
from hindsight.jobs.lake.lake_place import NoLocalEngineError, file_system, is_local

_READER, _WRITER = 1, 2  # Delta's protocol of a table without any feature that shuts others out
_COMMITS_OF_CHECKPOINT = 10
# To look for expired commits takes 10 us for each that is kept; upkeep does it once a day.
_NO_HOOK = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class UnreadableTableError(ExpectedError):
    """Raised where delta-rs cannot read a table's log; nothing was done."""


def stored_table(place: str, options: Mapping[str, str], *, as_of: int | datetime | None = None) -> DeltaTable:
    """The latest version of a table, or the one of a number or an instant.

    Raises: NoLocalEngineError: it has a feature that only Spark knows. UnreadableTableError: its log is damaged.
    TableNotFoundError: there is none.
    """
    try:
        stored = DeltaTable(place, storage_options=dict(options))
    except TableNotFoundError:
        raise
    except DeltaError as error:
        said = str(error).partition("\n")[0].strip(" .")
        raise UnreadableTableError(
            f"the table at {place} cannot be opened: {said}. Its log is damaged, or has a feature that delta-rs does "
            "not know, which --engine spark may read. Restore the folder, or build the lake again from its landing "
            "files, in another folder."
        ) from error
    if as_of is not None:
        stored.load_as_version(as_of)
    return _writable(stored, place)


def _writable(stored: DeltaTable, place: str) -> DeltaTable:
    protocol = stored.protocol()
    if protocol.min_reader_version > _READER or protocol.min_writer_version > _WRITER:
        raise NoLocalEngineError(
            f"{place} has Delta's protocol {protocol.min_reader_version}, {protocol.min_writer_version}, which this "
            "machine's engine does not write; run with --engine spark."
        )
    return stored


class OpenTables:
    """The tables of a lake by their places, each opened once.

    While the lake is held, nobody else writes: what is open is then looked at again only after a commit of its own.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._open: dict[str, DeltaTable] = {}
        self._current: set[str] | None = None  # of a lake that is held, those that show what is there

    def hold(self) -> None:
        """From now on nobody else writes."""
        self._current = set()

    def latest(self, place: str) -> DeltaTable | None:
        """The latest version of the table at a place; None: there is none.

        Raises: NoLocalEngineError, UnreadableTableError: as ``stored_table``.
        """
        if self._current is not None and place in self._current:
            return self._open.get(place)
        found = self._brought_up(place)
        if self._current is not None:
            self._current.add(place)
        return found

    def _brought_up(self, place: str) -> DeltaTable | None:
        stored = self._open.get(place)
        try:
            if stored is not None:
                if not (is_local(place) and is_newest(Path(place), stored.version())):
                    stored.update_incremental()
                return _writable(stored, place)
        except DeltaError:
            pass  # the log that it knows is gone; what is there is opened anew
        self._open.pop(place, None)
        try:
            self._open[place] = stored_table(place, self._options)
        except TableNotFoundError:
            return None
        return self._open[place]

    def changed(self, place: str) -> None:
        """A table was created, or written to by others than ``commit``."""
        if self._current is not None:
            self._current.discard(place)

    def commit(
        self,
        place: str,
        stored: DeltaTable,
        actions: Sequence[AddAction | RemoveAction],
        partition_by: Collection[str],
        *,
        is_blind: bool,
    ) -> None:
        """Make one version of these actions, and at times a checkpoint, from which readers begin.

        Raises: CommitFailedError: the version rests on ``stored``, and others have written since.
        """
        stored.create_write_transaction(
            list(actions),
            "append",
            stored.schema(),
            [*partition_by] or None,
            commit_properties=CommitProperties(max_commit_retries=None if is_blind else 0),
            post_commithook_properties=_NO_HOOK,
        )
        self.changed(place)
        made = self.latest(place)
        if made is not None and made.version() % _COMMITS_OF_CHECKPOINT == 0:
            made.create_checkpoint()


class Change(NamedTuple):
    """A file whose rows were added, or taken away."""

    file: DataFile
    is_added: bool


def changes_since(root: str, table: str, first: int, last: int) -> list[Change] | None:
    """What the commits after the version ``first``, up to ``last``, changed; None: not all of them are there."""
    system, folder = file_system(f"{root}/{table}/_delta_log")
    found: list[Change] = []
    for version in range(first + 1, last + 1):
        try:
            with system.open_input_stream(f"{folder}/{commit_name(version)}") as stream:
                found += _changes(stream.read().decode())
        except FileNotFoundError:
            return None
    return found


def _changes(commit: str) -> Iterator[Change]:
    for line in commit.splitlines():
        action: dict[str, Any] = json.loads(line) if line.strip() else {}
        for kind in ("add", "remove"):
            told = action.get(kind)
            if told is not None and told.get("dataChange", True):
                day = (told.get("partitionValues") or {}).get("event_date")
                file = DataFile(unquote(told["path"]), told.get("size") or 0, None, day and date.fromisoformat(day))
                yield Change(file, kind == "add")
