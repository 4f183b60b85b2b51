"""The lines of a file in; the outputs of commands that it holds out, each with the command that it is known to be of.

A file need not hold one output: loops of shells and cron append, ``script`` records, ``watch`` repeats, terminals are
copied. An output begins below the prompt that shows its command, or where its own first line stands. Whose it is, is
known

- by the command line above it, if that names all that was asked: a shell's ``$group`` names nothing;
- by a name in the output itself, which its reader looks for;
- by the file's own command, where the file holds one output of that command, or the same one again and again: each
  below an instant of its own, ``_AGAIN_MS`` or more apart, as no loop over groups or topics runs it.

When it was taken says the last instant above it (of ``date``, ``watch``, ``script``), else the file.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise, takewhile
from typing import NamedTuple

from hindsight.udfs.formats.mqadmin_command import TAKEN, command_of, command_of_line
from hindsight.udfs.formats.mqadmin_output import SUBSCRIPTIONS, named_group
from hindsight.udfs.formats.mqadmin_outputs import LAYOUTS, SAME
from hindsight.udfs.lines.parsed_line import EARLIEST_MS, LATEST_MS, LandedFile, RefusedLineError
from hindsight.udfs.logs.log_stamps import MONTHS, epoch_ms, first_stamp, zone_of_offset

_DAY_NAME = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*+[,.]? +)?"
_MONTH = rf"(?P<name>{'|'.join(MONTHS)})[a-z]*+"
_CLOCK = r"(?P<hour>\d\d?):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{3})\d*+)?(?: (?P<half>[AP]M))?"
_ZONE = r"(?: ?(?P<offset>Z|[+-]\d\d:?\d\d)| \(?(?P<letters>[A-Z]{2,5}|[+-]\d\d)\)?)?"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"{_DAY_NAME}{_MONTH} +(?P<day>\d\d?),? {_CLOCK}{_ZONE} (?P<year>\d{{4}})",
        rf"{_DAY_NAME}(?P<day>\d\d?) {_MONTH} (?P<year>\d{{4}}),? {_CLOCK}{_ZONE}",
        rf"(?P<year>\d{{4}})[-/.](?P<month>\d\d)[-/.](?P<day>\d\d)[ T_]{_CLOCK}{_ZONE}",
        rf"(?P<year>\d{{4}}) ?年 ?(?P<month>\d\d?) ?月 ?(?P<day>\d\d?) ?日 ?(?:[星周]期?[一二三四五六日天] ?)?"
        rf"(?P<han>上午|下午)? ?{_CLOCK}{_ZONE}",
        r"(?P<epoch>\d{10}(?:\d{3})?)",
    )
)
_MAY_TELL = re.compile(r"\d:\d\d:\d\d|\d{10}")
_AROUND = "=-#*+~<>|:[]() \t"
_LABEL = re.compile(r"(?:date|time|now|at|when|时间)\s*[:：=]?\s*", re.IGNORECASE)
_MOST_CHARS = 120


class Moment(NamedTuple):
    """An instant, epoch ms; None: it names a zone that is not known."""

    at: int | None
    text: str


def moment_of_line(text: str, zone: tzinfo) -> Moment | None:
    """The instant that a whole line tells, with signs around it; None: it tells of something else, too."""
    if len(text) > _MOST_CHARS or _MAY_TELL.search(text) is None:
        return None
    inner = text.strip(_AROUND)
    for told in (inner, _LABEL.sub("", inner, count=1)):
        if found := moment_of(told, zone):
            return found
    return None


def moment_of(text: str, zone: tzinfo) -> Moment | None:
    """The instant that a text is; None: it is none."""
    found = next((match for form in _FORMS if (match := form.fullmatch(text.strip()))), None)
    if found is None:
        return None
    parts = found.groupdict()
    if parts.get("epoch"):
        at = int(parts["epoch"]) * (1000 if len(parts["epoch"]) == 10 else 1)
        return Moment(at, text) if EARLIEST_MS <= at < LATEST_MS else None
    try:
        local = _local(parts)
        own = zone_of_offset(parts.get("offset"))
    except (ValueError, RefusedLineError):
        return None
    letters = parts.get("letters")
    if own is None and letters in ("UTC", "GMT"):
        own = UTC
    if own is None and letters is not None and local.replace(tzinfo=zone).tzname() != letters:
        return Moment(None, text)
    at = int(local.replace(tzinfo=own or zone).timestamp() * 1000)
    return Moment(at, text) if EARLIEST_MS <= at < LATEST_MS else None


def _local(parts: dict[str, str | None]) -> datetime:
    def number(name: str) -> int:
        return int(parts.get(name) or 0)

    month = MONTHS.index(parts["name"]) + 1 if parts.get("name") else number("month")
    hour = number("hour")
    half = parts.get("half") or {"上午": "AM", "下午": "PM"}.get(parts.get("han") or "")
    if half is not None:
        hour = hour % 12 + 12 * (half == "PM")
    day = datetime(number("year"), month, number("day"), hour, number("minute"), number("second"))
    return day + timedelta(milliseconds=number("fraction"))


_AGAIN_MS = 10_000
_OTHER_PROGRAM = "another-program"  # as the command line of what a shell ran beside mqadmin
_MQADMIN = re.compile(
    r"(?:\bmqadmin(?:\.sh|\.cmd|\.bat)?[\"']?|\bMQAdminStartup) ++(?=(?:-n ++\S++ ++)?([a-zA-Z]\w{3,}+))"
)
_FOLLOWS_NAME = re.compile(r"\s*+(?:\Z|-|[;|&<>)`\\])")
# A command as programs around mqadmin take and echo it: nothing stands before it.
_BARE = re.compile(rf"\s*+(?=(?:{'|'.join(TAKEN)}) ++-)", re.IGNORECASE)
_USAGE = re.compile(r"\s*+usage: ")
_PROMPT = re.compile(
    r"(?:\([\w.-]+\) ?)?(?:\[[^\[\]]{1,100}+\]|[\w.-]{1,60}@[\w.-]{1,60}[: ]?[^\s#$%>]{0,200}+|(?:ba|z)?sh-\d[\w.]*+"
    r"|[~/][^\s#$%>]{0,200}+) ?[#$%>❯](?: |\Z)|[#$%❯] (?=\S)|(?:PS )?[A-Za-z]:\\[^<>|]{0,200}>"
)
_WATCH = re.compile(r"Every \d+[.,]\d+s: (?P<command>.*?)(?: {2,}(?:[\w.-]+: )?(?P<time>\w.*))?")
_SCRIPT = re.compile(r"Script (?:started|done)(?: on |,|\Z)(?P<time>[^\[]*+)")
_PUNCTUATION = ";|&<>()`"
_ENDS_COMMAND = (";", "&&", "||", "&", ")", "`")
_PASSES_ALL = ("tee", "cat")
_SHORT = 60  # no row of most tables is so short
_FIRST_WORDS = ("Below", "Same", "WARN", "date", "Date", "time", "Time", *TAKEN)


# What stands in a line of a shell, or in the first or the last of an output; few rows hold any of it.
_SIGNS = (
    *("# ", "$ ", "% ", "> ", "❯ ", "mqadmin", "MQAdmin", "SubComm", "usage: ", "Total:", "FromWhere:", "Every "),
    "\\",
)
_BEGINS_ROW = re.compile(r"[\w%|+-]++[ \t]++\S")


def _is_row(text: str) -> bool:
    """Whether a line is a row of a table as most are: quick, and false where there is any doubt."""
    if _BEGINS_ROW.match(text) is None or text.startswith(("0", "Script", *_FIRST_WORDS)) or len(text) < _SHORT:
        return False
    return all(sign not in text for sign in _SIGNS)


_OF_COMMAND = {layout.name: layout.command for layout in LAYOUTS}
# With what an output ends; one of another layout ends where something else begins.
_ENDS = {
    "progress": re.compile(r"(?:Consume )?Diff Total:|Consume Inflight Total:"),
    "broker progress": re.compile("Diff Total:"),
    "connection": re.compile("ConsumeFromWhere:"),
    "route list": re.compile("Total:"),
}


@dataclass(eq=False)
class Session:
    """An output and what stands above it.

    Attributes:
        start, end: its lines are those from one index to before another.
        lines: the command lines that may be its own; None: there is no prompt.
        said: the last instant above it.
        begins: its own first line; -1: it has none.
        layout: how it is printed; '': none that is known begins in it.
        has_ended: whatever follows is no part of it.
    """

    start: int
    lines: tuple[_CommandLine, ...] | None = None
    said: Moment | None = None
    begins: int = -1
    layout: str = ""
    has_ended: bool = False
    end: int = 0


class _CommandLine(NamedTuple):
    """A command line of mqadmin; ``is_filtered``: another program took its output, ``is_shown``: no file did."""

    args: str
    is_filtered: bool = False
    is_shown: bool = True


class ToldOutput(NamedTuple):
    """An output, from one line to before another, as if it stood in a file of its own.

    Attributes:
        begins: its first line that is no shell's.
        refused: why it cannot be read.
    """

    begins: int
    end: int
    file: LandedFile
    refused: str | None = None


def outputs_of(texts: Sequence[str], zone: tzinfo, file: LandedFile) -> list[ToldOutput]:
    """The outputs in a file, in order; lines of none of them are a shell's, or blank."""
    # A command that ran and printed nothing has an output too.
    sessions = [
        session
        for session in _sessions(texts, zone)
        if session.begins >= 0 or (session.lines and all(line.is_shown for line in session.lines))
    ]
    if not sessions:
        return [ToldOutput(0, len(texts), file)]
    if len(sessions) == 1 and not sessions[0].lines:
        said = sessions[0].said
        return [ToldOutput(0, len(texts), file._replace(ran_at=said.at) if said and file.ran_at is None else file)]
    own = _of_the_file(sessions, texts, file)
    by_prompt: dict[tuple[int, str], list[Session]] = defaultdict(list)
    for session in sessions:
        by_prompt[id(session.lines), session.layout].append(session)
    return [
        _told(session, by_prompt[id(session.lines), session.layout], file, is_own=id(session) in own)
        for session in sessions
    ]


def _told(session: Session, beside: Sequence[Session], file: LandedFile, *, is_own: bool) -> ToldOutput:
    begins = session.begins if session.begins >= 0 else session.start
    end = session.end if session.begins >= 0 else session.start
    at = file.ran_at if session.said is None else session.said.at
    if is_own:
        return ToldOutput(begins, end, file._replace(ran_at=at))
    line = _line_of(session, beside)
    if line is None:
        return ToldOutput(begins, end, LandedFile("", None, at))
    why = "another program took what it printed, so that lines may be missing" if line.is_filtered else None
    return ToldOutput(begins, end, LandedFile("", line.args, at), why)


def _line_of(session: Session, beside: Sequence[Session]) -> _CommandLine | None:
    """Its command line; None: there is none, or there are several of its layout and not as many outputs."""
    command = _OF_COMMAND.get(session.layout)
    fitting = [line for line in session.lines or () if command in (command_of_line(line.args).name, None)]
    if len(fitting) == 1:
        return fitting[0]
    place = next(i for i, one in enumerate(beside) if one is session)
    return fitting[place] if fitting and len(fitting) == len(beside) else None


def _of_the_file(sessions: Sequence[Session], texts: Sequence[str], file: LandedFile) -> set[int]:
    """The outputs that are of the file's own command."""
    command = command_of(file)
    of_command = [s for s in sessions if not s.lines and _OF_COMMAND.get(s.layout) == command.name]
    failed = [s for s in sessions if not s.lines and not s.layout and s.has_ended]
    both = [s for s in sessions if s in of_command or s in failed]
    fitting = next((some for some in (both, of_command) if len(some) == 1 or _are_apart(some)), [])
    names = ((s, named_group(texts[s.begins : s.end])) for s in fitting)
    return {id(s) for s, name in names if name is None or name == command.group or command.topic is not None}


def _are_apart(sessions: Sequence[Session]) -> bool:
    instants = [session.said.at if session.said else None for session in sessions]
    return all(a is not None and b is not None and b - a >= _AGAIN_MS for a, b in pairwise(instants))


def _sessions(texts: Sequence[str], zone: tzinfo) -> Iterator[Session]:
    cutter = _Cutter(zone)
    for index, text in enumerate(texts):
        if text.strip():
            yield from cutter.see(index, text)
    cutter.open.end = len(texts)
    yield cutter.open


class _Cutter:
    """Goes through the lines and gives each output when it ends."""

    def __init__(self, zone: tzinfo) -> None:
        self.zone = zone
        self.open = Session(0)
        self.depth = 0  # of braces of a route that are open
        self.joined = ""  # a command line that goes on in the next line

    def see(self, index: int, text: str) -> Iterator[Session]:
        """Take the next line."""
        if self.open.layout and _is_row(text) and not self.joined and self.open.layout != "route":
            return
        if self.joined or (text.rstrip().endswith("\\") and _command_lines(text)):
            self.joined += " " + text.rstrip().removeprefix("> ")
            if self.joined.endswith("\\"):
                self.joined = self.joined[:-1]
                return
            text, self.joined = self.joined, ""
        shell = self._of_shell(text)
        if shell is not None:
            yield self._begun(index, shell)
            return
        is_inside = self.depth > 0 and not text.startswith("#")  # of a route
        layout = "" if is_inside else next((one.name for one in LAYOUTS if one.shows(text)), "")
        if layout and self._is_another(layout, text):
            yield self._begun(index, Session(index, self.open.lines, self.open.said))
        if self.open.begins < 0:
            self.open.begins = index
        if layout and not self.open.layout and layout != "failure":
            self.open.layout = layout
        self._end(layout, text)

    def _begun(self, index: int, session: Session) -> Session:
        ended, self.open = self.open, session
        ended.end = self.open.start = index
        self.depth = 0
        return ended

    def _of_shell(self, text: str) -> Session | None:
        """What begins with a line of a shell, or of a program that runs commands; None: it is none."""
        said = self.open.said
        if watched := _WATCH.fullmatch(text.strip()):
            lines = _command_lines(watched["command"])
            return Session(0, lines or None, moment_of(watched["time"] or "", self.zone) or said)
        if script := _SCRIPT.match(text):
            return Session(0, None, moment_of(script["time"].strip(), self.zone) or said)
        if moment := moment_of_line(text, self.zone):
            return Session(0, self.open.lines, moment)
        if lines := _command_lines(text):
            stamp = first_stamp(text, min(len(text), 80))  # in the prompt
            return Session(0, lines, Moment(epoch_ms(stamp, self.zone), text) if stamp else said)
        if _PROMPT.match(text):
            return Session(0, (_CommandLine(_OTHER_PROGRAM),), said)
        return None

    def _is_another(self, layout: str, text: str) -> bool:
        """Whether an output begins with this line, and one is open."""
        now = self.open.layout
        if layout == "failure":
            return self.open.has_ended or now in ("topic status", "running info", "producers")
        if layout == "other":
            return bool(now) and now != "running info" and not (now == "connection" and "#SubExpression" in text)
        if now == layout and text.startswith((SUBSCRIPTIONS, *SAME)):
            return self.open.has_ended
        return bool(now) or self.open.has_ended

    def _end(self, layout: str, text: str) -> None:
        if self.open.layout == "route":
            self.depth += text.count("{") - text.count("}")
            self.open.has_ended = self.depth <= 0
        elif layout == "failure" or ((ends := _ENDS.get(self.open.layout)) and ends.match(text)):
            self.open.has_ended = True


def _command_lines(text: str) -> tuple[_CommandLine, ...]:
    """The command lines of mqadmin that a line holds."""
    if _USAGE.match(text):
        return ()
    if bare := _BARE.match(text):
        return (_command_line(text[bare.end() :]),)
    places = [begin.end() for begin in _MQADMIN.finditer(text) if _FOLLOWS_NAME.match(text, begin.end(1))]
    return tuple(_command_line(text[place:]) for place in places)


def _command_line(text: str) -> _CommandLine:
    """The command that a text begins with, up to its end; where its quotes are odd, all words."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        words = text.replace('"', " ").replace("'", " ").split()
    ends = [place for place, word in enumerate(words) if word[0] in _PUNCTUATION] or [len(words)]
    own = words[: ends[0]]
    if own and own[-1] in ("1", "2") and words[ends[0] : ends[0] + 1] and words[ends[0]].startswith(">"):
        own = own[:-1]  # of ``2>&1``
    rest = list(pairwise([*takewhile(lambda word: word not in _ENDS_COMMAND, words[ends[0] :]), ""]))
    if "-h" in own or "--help" in own:
        return _CommandLine(_OTHER_PROGRAM)
    is_filtered = any(word == "|" and following not in _PASSES_ALL for word, following in rest)
    is_kept = not any(word in (">", ">>") for word, _ in rest)
    return _CommandLine(shlex.join(own), is_filtered, is_kept)
