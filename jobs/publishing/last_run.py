"""What a whole run was given, what it left, and whether the next one finds just that: then no engine need start.

A run takes the landing folder's files, the settings and the contracts from outside, all else from its lake. While these
and the lake are what they were when a run had done all that there was to do, there is nothing to do.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from hindsight.conf.settings import Settings, fingerprint
from hindsight.jobs.lake.delta_log import newest_version
from hindsight.jobs.lake.lake_place import for_others, refuse_without_spark
from hindsight.jobs.lake.small_files import NOTES, LocalStore, Store, store_at
from hindsight.jobs.landing.landing_root import NOTHING_KNOWN, folder_of
from hindsight.jobs.landing.landing_survey import Survey
from hindsight.jobs.running.places import Engine
from hindsight.schemas import INCIDENT_EVENT, INGESTED_FILE, SCHEMA_VERSION, TABLES

if TYPE_CHECKING:
    from hindsight.jobs.engines.arrow_lake import ArrowLake

_NOTE, _AT_REST = "run_pipeline", "landing"
_OF_NO_ROW = ("spark", "events", "metrics")  # the sections of the settings that change none


class LastRun:
    """The last whole run on a lake of this machine. ``given``: what the next one is given (``given_to``)."""

    def __init__(self, lake: Path, given: str) -> None:
        self._lake, self._given = lake, given
        self._notes = LocalStore(lake / NOTES)
        last = _told(self._notes.read(_NOTE))
        self._is_same: bool = last.get("given") == given and last.get("left") == self._left()
        self.summary: list[str] | None = last.get("summary")

    def left_nothing_to_do(self) -> bool:
        """Whether a run that is given this would do nothing: files, settings, contracts and lake are the same."""
        return self._is_same

    def remember(self, summary: list[str] | None, *, confirm: Callable[[], None]) -> None:
        """Note that a run has done all that can be done with this; ``summary``: what it printed, None: it did not.

        ``given`` is of before that run: what has landed since then is new to the next one.
        """
        confirm()
        self._notes.write(_NOTE, json.dumps({"given": self._given, "left": self._left(), "summary": summary}))

    def _left(self) -> dict[str, Any]:
        """The newest commit of each table, the notes of all jobs, and what else stands beside the tables."""
        # What `hindsight events` notes is of no concern to a run.
        tables = (path for path in self._lake.glob("[!_]*") if path.is_dir() and path.name != INCIDENT_EVENT.name)
        return {
            "commits": {table.name: newest_version(table) for table in tables},
            "notes": {name: self._notes.read(name) for name in sorted(self._notes.names()) if name != _NOTE},
            "files": sorted(path.name for path in self._lake.glob("*") if path.is_file()),
        }


def last_run(lake: str, landed: Survey, settings: Settings, engine: Engine, master: str | None) -> LastRun | None:
    """The last run on a lake, seen by one that is about to begin and to take in what is new of what has landed.

    None: the lake is not to be seen without Spark.
    """
    folder = _on_this_machine(lake, engine, master)
    return None if folder is None else LastRun(folder, given_to(landed, settings))


def holds_input(lake: str, engine: Engine, master: str | None) -> bool | None:
    """Whether a lake has ever taken in a file; None: only Spark can tell."""
    folder = _on_this_machine(lake, engine, master)
    if folder is None:
        return None
    with suppress(FileNotFoundError), os.scandir(folder / INGESTED_FILE.name) as entries:
        return any(entry.name.endswith(".parquet") for entry in entries)
    return False


def folders_at_rest(lake: str, landing: str, engine: Engine, master: str | None) -> Mapping[str, int] | None:
    """Folders of which the runs before have taken in every file, as ``note_at_rest`` noted; None: only Spark sees that.

    Raises: StoreError, NoLocalEngineError: the lake's store does not answer, or this machine does not reach it.
    """
    folder = _on_this_machine(lake, engine, master)
    if folder is None and engine == "spark":
        return None
    noted = _told((LocalStore(folder / NOTES) if folder else _notes_elsewhere(lake)).read(_AT_REST))
    return noted.get("at_rest", NOTHING_KNOWN) if noted.get("landing") == landing else NOTHING_KNOWN


def _notes_elsewhere(lake: str) -> Store:
    refuse_without_spark(lake)
    from hindsight.jobs.lake.object_store import reached  # its client is not for those who need none

    reached(for_others(lake).rstrip("/"))
    return store_at(None, f"{lake.rstrip('/')}/{NOTES}")


def note_at_rest(lake: ArrowLake, landing: str, at_rest: Mapping[str, int]) -> None:
    """Note folders that were at rest when a run began that has taken in all that was new, and has written that down."""
    text = json.dumps({"landing": landing, "at_rest": dict(at_rest)}, sort_keys=True)
    noted = lake.noted(_AT_REST)
    if text != noted and (at_rest or noted):
        lake.note(_AT_REST, text)


def given_to(landed: Survey, settings: Settings) -> str:
    """A digest of what a run takes from outside its lake: files by name and size, settings, contracts."""
    files = [file for file in landed.files if folder_of(file.file) not in landed.at_rest]
    sections = (getattr(settings, name) for name in type(settings).model_fields if name not in _OF_NO_ROW)
    contracts = [(table.name, table.schema.simpleString()) for table in TABLES.values()]
    given = json.dumps([files, sorted(landed.at_rest.items()), fingerprint(*sections), SCHEMA_VERSION, contracts])
    return hashlib.sha256(given.encode()).hexdigest()


def _told(note: str | None) -> dict[str, Any]:
    """What a note says; nothing, where there is none or it is damaged."""
    with suppress(ValueError, TypeError):
        return dict(json.loads(note or "{}"))
    return {}


def _on_this_machine(lake: str, engine: Engine, master: str | None) -> Path | None:
    """The lake's folder; None: Spark may look elsewhere for it, as it does for plain paths on a cluster."""
    if lake.startswith("file:"):
        return Path(url2pathname(urlsplit(lake).path))
    if "://" in lake:
        return None
    if engine == "spark":
        from hindsight.jobs.running.spark_session import is_on_one_machine

        if "HADOOP_CONF_DIR" in os.environ or not is_on_one_machine(master):
            return None
    return Path(lake)
