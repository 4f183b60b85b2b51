"""Questions of programs about one lake, each bounded; JSON out, for ``hindsight mcp`` and ``hindsight serve``.

What a question gives are fields of rows, each with the table and key of its row; names and sentences are data, whatever
they say. A question is cut by seconds, rows, bytes and memory, and the answer says where.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import date, datetime
from functools import partial, wraps
from pathlib import Path
from signal import SIGKILL
from subprocess import DEVNULL, PIPE, Popen
from threading import Event, Thread, get_ident
from time import monotonic, sleep
from typing import Any

import duckdb
import typer

from hindsight.conf.failure import ExpectedError
from hindsight.jobs.asking.config_lint import lint
from hindsight.jobs.asking.incident_story import story
from hindsight.jobs.asking.message_life import messages
from hindsight.jobs.asking.message_told import as_values
from hindsight.jobs.asking.open_drift import not_judged, open_incidents
from hindsight.jobs.commands.command_options import dates_of
from hindsight.jobs.engines.asker import BadQueryError, Record, as_records
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.explaining.explain_row import EXPLAINED, NotOneRowError, explain, incident_named, the_row
from hindsight.jobs.explaining.explain_row import as_values as explained
from hindsight.jobs.running.places import absolute
from hindsight.jobs.scenarios.other_lakes import command_of
from hindsight.jobs.scenarios.planned_rollout import Asked, planned
from hindsight.jobs.scenarios.weighed_ladders import weighed
from hindsight.schemas import TABLES

_MOST_ROWS, _MOST_BYTES = 1_000, 200_000
_LOOKS_S = 0.02
_ENDS = "the server ends."
_WHAT_IF_TIMES = 15  # as long as a question it may take
QUESTIONS = ("wrong_now", "explain", "story", "message", "tables", "sql", "upgrade", "ladder", "what_if")


class CutError(ValueError):
    """Raised where a question took too long, or its server ends."""


class Questions:
    """Each a question about one lake, bounded by seconds and megabytes."""

    def __init__(
        self, lake: str, accepted: tuple[str, ...], own: Path, *, seconds: float, megabytes: int, settings: Path | None
    ) -> None:
        """``own``: a folder for what-ifs, which goes when the server ends."""
        self._lake, self._accepted, self._own, self._settings = absolute(lake), accepted, own, settings
        self._seconds, self._megabytes = seconds, megabytes
        self._at_work: set[int] = set()  # threads
        self._ends = Event()

    def cut(self) -> None:
        """End what is answered, and answer no more: DuckDB aborts a process that ends while a thread is in it."""
        self._ends.set()
        while self._at_work:
            sleep(_LOOKS_S)

    def wrong_now(self, cluster: str = "*", group: str = "*", most: int = 50) -> str:
        """Open incidents, the worst first; groups that were not judged of late; wrong configuration.

        cluster and group are shell patterns.
        """
        with self._asked() as asker:
            incidents = open_incidents(asker, cluster=cluster, group=group)
            unknown = not_judged(asker, cluster=cluster, group=group)
            found = lint(asker, self._accepted, cluster=cluster)
        of = {"table": "drift_incident", "key": "incident_id"}
        return _told({"incidents": incidents, "not_judged": unknown, "configuration": found}, most, incidents_are=of)

    def explain(self, incident_id: str = "", table: str = "", where: str = "", most: int = 50) -> str:
        """The inputs of an incident (by its id), or of one row of a table (by SQL that picks it), line by line."""
        with self._asked() as asker:
            named = incident_named(asker, incident_id) if incident_id else (table, where)
            if named is None or named[0] not in EXPLAINED:
                raise BadQueryError(
                    f"there is no such incident, or no such table; tables: {', '.join(sorted(EXPLAINED))}"
                )
            told = explained(*named, explain(asker, *named), most)
        return _told(told, most)

    def story(self, incident_id: str) -> str:
        """An incident in order, as Markdown; each line ends with the table and key of its row."""
        with self._asked() as asker:
            named = incident_named(asker, incident_id)
            if named is None:
                raise BadQueryError("there is no such incident.")
            return _told({"markdown": list(story(asker, the_row(asker, *named)))}, _MOST_ROWS)

    def message(self, name: str, by_key: bool = False) -> str:
        """The life of a message by its id, its offset message id, or a business key, with a verdict of each group."""
        with self._asked() as asker:
            found = messages(asker, name, by_key=by_key, late_s=60, days=3)
        return _told({"messages": [as_values(one) for one in found]}, _MOST_ROWS)

    def upgrade(
        self, group: str, cluster: str = "", release: str = "", strategy: str = "", language: str = "JAVA"
    ) -> str:
        """A rollout to a release or strategy, member by member: who reads what, and how long nobody does."""
        asked = Asked(group, cluster or None, release or None, strategy or None, language.upper())
        with self._asked() as asker:
            return _told({"rows": planned(asker, asked)}, _MOST_ROWS, rows_are_from="group_round")

    def ladder(self, cluster: str = "*", producer_group: str = "*", first: str = "", last: str = "") -> str:
        """Ladders of the fault table by recorded sends of dates (ISO): healthy brokers avoided, sick ones met."""
        with self._asked() as asker:
            dates = dates_of(*(datetime.fromisoformat(day) if day else None for day in (first, last)))
            rows = weighed(asker, cluster, producer_group, dates, 550, 10_000)
        return _told({"rows": rows}, _MOST_ROWS, rows_are_from="send_attempt")

    def what_if(self, premises: str, first: str = "", last: str = "", most: int = 50) -> str:
        """Recorded dates (ISO) derived again under premises: what would differ; an open loop, and slow.

        premises is TOML: 'group = {consumer_group = "g", strategy = "AVG_BY_CIRCLE"}', with joins, leaves,
        since; 'producer = {producer_group = "p", not_available_ms = [...]}'; 'topic = {topic = "t", queues = 8}'.
        """
        for name in TABLES:  # read through links: what is written lies beside them
            table, link = Path(self._lake, name), self._own / name
            if table.is_dir() and not link.exists():
                link.symlink_to(table)
        words = [f"--suppose={premises}", *(f"--{end}={day}" for end, day in (("from", first), ("to", last)) if day)]
        words += [f"--settings={self._settings}"] if self._settings else []
        command = [*command_of(sys.executable), "what-if", "asked", "--lake", str(self._own)]
        given: dict[str, Any] = {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE, "text": True}
        with (
            self._begun(),
            Popen([*command, "--json", *words], start_new_session=True, **given) as process,
            self._in_time(_WHAT_IF_TIMES * self._seconds, partial(_kill, process)),
        ):
            answer, errors = process.communicate()
            if process.returncode:
                raise BadQueryError(errors.strip().splitlines()[-1] if errors.strip() else "the what-if failed.")
        return _told({"rows": [json.loads(line) for line in answer.splitlines()]}, most, premises=premises)

    def tables(self, table: str = "") -> str:
        """What each table has a row for; of one table, what each column means."""
        if table not in TABLES:
            return _told({"tables": {one.name: one.comment for one in TABLES.values()}}, _MOST_ROWS)
        return _told({"table": table, "key": TABLES[table].key, "columns": TABLES[table].comment_of}, _MOST_ROWS)

    def sql(self, query: str, most: int = 100) -> str:
        """One SELECT in DuckDB's SQL over tables and views; the answer has the query and the tables' versions."""
        wanted = min(max(most, 1), _MOST_ROWS)
        with self._asked() as asker:
            asker.check(query)  # opens what it names
            rows = as_records(asker.answer(query, wanted + 1).read_all())
            versions = {name: asker.lake.version(TABLES[name]) for name in TABLES if name in query.lower()}
        return _told({"query": query, "versions": versions, "rows": rows}, wanted)

    @contextmanager
    def _asked(self) -> Iterator[LocalAsker]:
        """The lake as it is now, for one question: bounded in time and memory, without files and settings."""
        with self._begun(), closing(LocalAsker(LocalLake(self._lake, retention_days=0))) as asker:
            asker.bound(self._megabytes)
            with self._in_time(self._seconds, asker.interrupt):
                yield asker

    @contextmanager
    def _begun(self) -> Iterator[None]:
        self._at_work.add(get_ident())
        try:
            if self._ends.is_set():
                raise CutError(_ENDS)
            yield
        finally:
            self._at_work.remove(get_ident())

    @contextmanager
    def _in_time(self, seconds: float, end: Callable[[], None]) -> Iterator[None]:
        last, answered, why = monotonic() + seconds, Event(), ""

        def watch() -> None:
            nonlocal why
            while not answered.wait(_LOOKS_S):  # again and again: DuckDB forgets an interrupt while no query runs
                if self._ends.is_set():
                    why = _ENDS
                elif monotonic() > last:
                    why = f"cut after {seconds:g} s: ask for fewer dates or rows."
                if why:
                    end()

        watching = Thread(target=watch, daemon=True)
        watching.start()
        try:
            yield
        except Exception as error:  # of DuckDB, or of Arrow's reader of what it answers
            if why:
                raise CutError(why) from error
            raise
        finally:
            answered.set()
            watching.join()  # it may be in DuckDB, as ``cut`` says


def _kill(process: Popen[str]) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.killpg(process.pid, SIGKILL)


def _told(fields: Record, most: int, **more: Any) -> str:
    """The fields as JSON; lists are cut at so many entries and the whole at so many bytes, and ``cut`` says so."""
    cut: dict[str, str] = {}
    while True:
        told = {name: _first(name, value, most, cut) for name, value in fields.items()}
        text = json.dumps(told | more | ({"cut": cut} if cut else {}), ensure_ascii=False, default=_plain)
        if len(text.encode()) <= _MOST_BYTES:
            return text
        if most == 1:
            return json.dumps({"cut": {"all": f"one entry alone has more than {_MOST_BYTES} bytes"}})
        most //= 2


def _first(name: str, value: Any, most: int, cut: dict[str, str]) -> Any:
    if isinstance(value, dict) and isinstance(value.get("rows"), list):
        return value | {"rows": _first(name, value["rows"], most, cut)}
    if isinstance(value, list) and len(value) > most:
        cut[name] = f"the first {most}"
        return value[:most]
    return value


def _plain(value: Any) -> str:
    return str(value) if isinstance(value, date) else repr(value)


def answering(question: Callable[..., str], failure: type[Exception]) -> Callable[..., str]:
    """The same question, whose errors say what to do."""

    @wraps(question)
    def answer(*args: Any, **named: Any) -> str:
        try:
            return question(*args, **named)
        except (BadQueryError, NotOneRowError, ExpectedError, ValueError, typer.BadParameter, duckdb.Error) as error:
            raise failure(str(error)) from error

    return answer
