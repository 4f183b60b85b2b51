"""What an ``mqadmin`` command asked, and of whom, from its line or its file's name; and names that it may have cut.

Options as the commands of 4.0.0 to 5.4.0 know them. A read that failed stands under the question that its command put:
``consumerStatus`` without ``-i`` first reads the group's connections, and it is this read that fails it as a whole.

mqadmin cuts names without a mark (UtilAll#frontStringAtLeast): a name that fills its column may be whole, or the
beginning of a longer one. Readers flag such names; here they are resolved among the names that are known.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from hindsight.udfs.lines.parsed_line import LandedFile, RefusedLineError

_EPOCH_MS = re.compile(r"(?<!\d)\d{13}(?!\d)")
_NAMED = re.compile(r"([A-Za-z]++)_(.++)")
_ENDINGS = (".gz", ".txt", ".stderr", ".err")
_GROUP = ("-g", "--consumerGroup", "--groupName", "--producerGroup")
_TOPIC = ("-t", "--topic", "--topicName")
_CLIENT = ("-i", "--clientId")
_BROKER = ("-b", "--brokerAddr")
_NAME_SERVER = ("-n", "--namesrvAddr")
_CLUSTER = ("-c", "--cluster")
# A shell's variable, or a text that was cut: it names nothing. Only names of Lite topics hold a ``$``.
_UNTOLD = re.compile(r"(?!%LMQ%\$)(?:.*\$[\w{(]|.*`|.*\.\.\.\Z|%%?[A-Za-z]\Z|%\w+%\Z)")
# What is known of the asked by the name of a file, <command>_<subject>: the part of the command that its subject is.
_SUBJECTS = {
    "consumerConnection": "group",
    "consumerProgress": "group",
    "consumerStatus": "group",
    "producerConnection": "group",
    "topicRoute": "topic",
    "topicStatus": "topic",
    "brokerConsumeStats": "broker",
}
_NAMES = {name.lower(): name for name in _SUBJECTS}  # mqadmin compares without regard to case
TAKEN = tuple(_SUBJECTS)
_OF_TOPICS = ("topicRoute", "topicStatus")
# What mqadmin calls the class of a command that failed; one of them is misspelt in every release.
_FAILED_CLASS = re.compile(r"\b([A-Z]\w{1,40}?)SubComm(?:and|ad) command failed")
_GROUP_OF_ERROR = re.compile(r"\bgroup ?\[([^\[\]]{1,255})\]")
_TOPIC_OF_ERROR = re.compile(r"\bfor th[ei]s? topic: ?([^\s,]{1,255})")
# Doubts about a row of queue_progress whose names fill their columns.
TOPIC_MAYBE_CUT, BROKER_MAYBE_CUT = "TOPIC_MAYBE_CUT", "BROKER_MAYBE_CUT"
CUT_MARK = "..."  # no topic may hold a dot, and no broker is named so: what ends with it is nobody's name


class Command(NamedTuple):
    """What was asked; ``name`` is empty where nothing says which command it was, the others None where not named.

    ``broker`` is an address. ``name_server`` is None, too, where several are named: mqadmin asks one of them, by lot.
    ``cluster``: through which the brokers of a topic without a route of its own are found.
    """

    name: str = ""
    group: str | None = None
    topic: str | None = None
    client_id: str | None = None
    broker: str | None = None
    name_server: str | None = None
    cluster: str | None = None

    @property
    def is_taken(self) -> bool:
        """Whether its output, or its failure, is something to store."""
        return self.name in _SUBJECTS


class Question(NamedTuple):
    """A read as ``snapshot_capture`` knows it; ``columns`` are those of the one asked for."""

    kind: str
    subject: str
    columns: dict[str, Any]


def command_of(file: LandedFile) -> Command:
    """The command behind a file: its line where a list of commands has one, else what the file's name says."""
    return command_of_line(file.args) if file.args is not None else _of_name(file.path.rpartition("/")[2])


def failed_command(known: Command, texts: list[str]) -> Command:
    """The command, completed by what its failure says of it: the class that failed, the group or topic asked for."""
    text = "\n".join(texts[:200])
    named = _FAILED_CLASS.search(text)
    name = known.name or (named[1][0].lower() + named[1][1:] if named else "")
    group, topic = _GROUP_OF_ERROR.search(text), _TOPIC_OF_ERROR.search(text)
    return known._replace(
        name=name,
        group=known.group or (group[1] if group and name.startswith(("consumer", "producer")) else None),
        topic=known.topic or (topic[1] if topic and name in _OF_TOPICS else None),
    )


def question_of(command: Command) -> Question:
    """The read that a taken command stands for; refused: NO_SUBJECT."""
    group, topic = command.group, command.topic
    if command.name in _OF_TOPICS and topic:
        return Question(command.name, _joined(topic, command.cluster), {"topic": topic})
    if command.name == "brokerConsumeStats" and command.broker:
        return Question("brokerConsumeStats", command.broker, {})
    if command.name == "consumerProgress" and not group:
        return Question("consumerProgress", "*", {})  # of all groups; no group has this name
    if not group or command.name not in _SUBJECTS:
        raise RefusedLineError("NO_SUBJECT", "nothing says which command this is the output of, or of whom")
    asked = {"consumer_group": group}
    if command.name == "producerConnection":
        return Question("producerConnection", _joined(group, topic), {"producer_group": group, "topic": topic})
    if command.name == "consumerProgress":
        return Question("consumeStats", _joined(group, topic, command.cluster), asked)
    if command.name == "consumerConnection":
        return Question("consumerConnection", group, asked)
    if command.client_id:
        return Question("consumerRunningInfo", f"{group}|{command.client_id}", asked | {"client_id": command.client_id})
    return Question("consumerConnection", f"consumerStatus -g {group}", asked)


def question_of_a_member(command: Command) -> Question:
    """The read of the members' running infos by ``consumerStatus -g``, which prints neither queues nor who fails."""
    return Question("consumerStatus", command.group or "", {"consumer_group": command.group})


def _joined(*names: str | None) -> str:
    """What was asked for; no name holds an ``@``."""
    return "@".join(name for name in names if name)


def command_of_line(args: str) -> Command:
    """The command that a command line is; ``mqadmin`` itself may stand before it."""
    words = _words(args)
    names = (_NAMES[word.lower()] for word in words if word.lower() in _NAMES)
    name = next(names, "") or next(iter(words), "?")
    options = dict(_options(words))

    def told(names: tuple[str, ...]) -> str | None:
        return next((options[n] for n in names if options.get(n) and not _UNTOLD.match(options[n])), None)

    servers = (told(_NAME_SERVER) or "").strip("; ")
    server = servers if ";" not in servers else None
    return Command(name, told(_GROUP), told(_TOPIC), told(_CLIENT), told(_BROKER), server or None, told(_CLUSTER))


def _words(args: str) -> list[str]:
    """The words of a command line as a shell takes them apart; where its quotes are odd, as they stand."""
    try:
        return shlex.split(args)
    except ValueError:
        return [word.strip("\"'") for word in args.split()]


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Each option with its value: the next word, or what follows in its own (``--topic=T``, ``-tT``)."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if word.startswith("--") and equals:
            yield name, value
        elif word[:1] == "-" and word[1:2] != "-" and len(word) > 2:
            yield word[:2], word[2:]
        elif word[:1] == "-":
            yield word, following.strip()


def _of_name(name: str) -> Command:
    stem = name
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending)
    named = _NAMED.fullmatch(_EPOCH_MS.sub("", stem).strip("_"))
    if named is None:
        return Command(stem if stem in _SUBJECTS else "")
    subject = named[2].removesuffix("_list").strip("_") or None
    if named[1] not in _SUBJECTS:
        return Command("", subject, subject)
    if named[1] == "producerConnection" and subject:
        group, _, topic = subject.partition("@")
        return Command(named[1], group or None, topic or None)
    asked: dict[str, Any] = {_SUBJECTS[named[1]]: subject}
    return Command(named[1], **asked)


def whole_name(printed: str, *known: Collection[str]) -> str:
    """The name that was printed; ``known``: names by how near they are told, the first that knows any of it decides.

    The one known name that is it or begins with it. Where several do, it is nobody's: the name with ``CUT_MARK``. One
    of which nothing is known stays as it was printed.
    """
    for names in known:
        found = {name for name in names if name.startswith(printed)}
        if found:
            return found.pop() if len(found) == 1 else printed + CUT_MARK
    return printed
