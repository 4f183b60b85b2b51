"""Questions typed one after the other: an asker in, a prompt that completes names and shows each answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hindsight.jobs.engines.asker import BadQueryError
from hindsight.jobs.engines.sql_views import columns_by_name
from hindsight.jobs.running.interrupts import TerminatedError
from hindsight.jobs.running.terminal import write

_WORD = re.compile(r"\w+")
_ENDS = ("exit", "quit", "\\q")
_WORDS = ("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "COUNT(*)", "DESCRIBE TABLE", "exit")
_HELP = "A query ends with a semicolon; Tab completes names of tables, views and columns; exit or Ctrl-D leaves."


class NameCompleter(Completer):
    """Completes tables, views, words of SQL, and the columns of what the query names, or of all if it names nothing."""

    def __init__(self) -> None:
        self._columns = columns_by_name()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What may stand where the cursor is."""
        begun = document.get_word_before_cursor(pattern=_WORD)
        for name, what in self._names(document.text, but=begun):
            if begun and name.lower().startswith(begun.lower()):
                yield Completion(name, start_position=-len(begun), display_meta=what)

    def _names(self, text: str, *, but: str) -> Iterator[tuple[str, str]]:
        named = [word for word in _WORD.findall(text.lower()) if word in self._columns and word != but.lower()]
        columns = {column: table for table in reversed(named or list(self._columns)) for column in self._columns[table]}
        yield from columns.items()
        yield from ((name, "") for name in sorted(self._columns) if name not in columns)
        yield from ((word, "") for word in _WORDS)


def ask(answer: Callable[[str], None], session: PromptSession[str] | None = None) -> None:
    """Show the answer to each query that is typed, until there are no more; one that is wrong is said, and asked anew.

    ``answer`` shows the answer to one query.
    """
    session = session or PromptSession(completer=NameCompleter())
    write([_HELP])
    lines: list[str] = []
    while True:
        try:
            line = session.prompt("        ...> " if lines else "hindsight> ")
        except TerminatedError:
            raise
        except KeyboardInterrupt:
            lines = []
            continue
        except EOFError:
            return
        if not lines and line.strip().rstrip(";").lower() in _ENDS:
            return
        lines += [line] if lines or line.strip() else []
        if line.rstrip().endswith(";"):
            _answered(answer, "\n".join(lines))
            lines = []


def _answered(answer: Callable[[str], None], query: str) -> None:
    try:
        answer(query)
    except TerminatedError:
        raise
    except (BadQueryError, KeyboardInterrupt) as error:
        write([str(error) or "interrupted"])
