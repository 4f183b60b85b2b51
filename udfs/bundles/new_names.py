"""All names of a bundle in; for each another one out: what rules go by stays, and nothing else of it.

New names sort as the old ones. A retry topic's name is made of its group's new one, a client id of its host's, a
broker's of its room's. RocketMQ's own names, and words of its errors that rules look for, stay.

Positions on CONSISTENT_HASH's ring: those of the old names, taken down under the new ones, and given again later.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from hindsight.udfs.allocation import NEARBY_PREFIX, STRATEGIES
from hindsight.udfs.clients.client_kinds import GRPC_CLIENT_ID, OTHER_CLASS
from hindsight.udfs.consumer.queue_ends import DEAD_LETTER_PREFIX
from hindsight.udfs.consumer.round_facts import RETRY_PREFIX
from hindsight.udfs.lines.parsed_line import UNREADABLE
from hindsight.udfs.logs.log_wrappers import log_of
from hindsight.udfs.producer.attempt_updates import TOLD_BY_MESSAGE
from hindsight.udfs.release_profiles import RESPONSE_CODE
from hindsight.udfs.servers.server_fold import MARKS
from hindsight.udfs.strategies.consistent_hash import HashFunction
from hindsight.udfs.values.java_strings import java_string_key
from hindsight.udfs.values.message_queues import (
    LIGHT_PREFIX,
    MessageQueue,
    is_light,
    is_system_group,
    is_system_topic,
    java_to_string,
    lite_parent,
)

# Of what names are made where a plain label would stand at the wrong place.
_LETTERS = "!-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
Recorded = Mapping[str, Mapping[str, int]]  # by hash, by text: the position

_QUEUE = re.compile(r"MessageQueue \[topic=(.*), brokerName=(.*), queueId=(-?\d+)\]", re.DOTALL)


class NoNameBetweenError(ValueError):
    """Raised where no name sorts between two that stay."""


def numbered(names: Iterable[str], form: Callable[[str, str], str]) -> dict[str, str]:
    """Each name's new one: ``form`` of it and of its place in their order, digits of one width."""
    ordered = sorted(set(names), key=java_string_key)
    width = max(4, len(str(len(ordered))))
    return {name: form(name, f"{place:0{width}}") for place, name in enumerate(ordered, 1)}


def ordered_names(
    names: Collection[str], fixed: Mapping[str, str], label: str, is_special: Callable[[str], bool] = lambda _: False
) -> dict[str, str]:
    """New names for ``names`` and those of ``fixed``, which have theirs already, that sort as the old ones do.

    A new name is a lead, ``<label>-`` where it may be, and a number. ``is_special``: whether a name means something to
    a rule: no new one does.

    Raises: NoNameBetweenError: two of ``fixed`` leave no room between them, or do not sort as before.
    """
    ordered = sorted({*names, *fixed}, key=java_string_key)
    width = max(4, len(str(len(ordered))))
    found: dict[str, str] = {}
    before: str | None = None
    number = 0
    for stretch, after in _stretches(ordered, fixed):
        if before is not None and after is not None and java_string_key(before) >= java_string_key(after):
            raise NoNameBetweenError(f"{before!r} and {after!r} do not sort as what they stand for.")
        if stretch:
            lead = _lead(before, after, label, is_special)
            for name in stretch:
                number += 1
                found[name] = f"{lead}{number:0{width}}"
        before = after
    return found | dict(fixed)


def _stretches(ordered: list[str], fixed: Mapping[str, str]) -> Iterator[tuple[list[str], str | None]]:
    """The names between those that are fixed, with the new name after them."""
    stretch: list[str] = []
    for name in ordered:
        if name in fixed:
            yield stretch, fixed[name]
            stretch = []
        else:
            stretch.append(name)
    yield stretch, None


def _lead(before: str | None, after: str | None, label: str, is_special: Callable[[str], bool]) -> str:
    for lead in _leads(before or "", label):
        above = before is None or (lead > before and not before.startswith(lead))
        below = after is None or (lead < after and not after.startswith(lead))
        if above and below and not is_special(f"{lead}0"):
            return lead
    raise NoNameBetweenError(f"no name sorts between {before!r} and {after!r}.")


def _leads(before: str, label: str) -> Iterator[str]:
    """What new names may begin with: the plainest first, then what stands ever nearer behind ``before``."""
    yield from (f"{label}-", f"{label.capitalize()}-", f"{label.upper()}-")
    for kept in range(len(before) + 1):
        yield from (f"{before[:kept]}{letter}{label}-" for letter in _LETTERS)


Found = Mapping[str, Collection[str]]

_LOGICAL = "__syslo__"  # before the scope, in the name of a static topic's broker
# RocketMQ's own names that end in one of a cluster or broker: what follows is replaced.
_OWN_BEGINNINGS = ("RMQ_SYS_", "rmq_sys_", "CID_RMQ_SYS_", "CID_ONSAPI_")
_OWN_NAMES = frozenset(
    [
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "rmq_sys_wheel_timer",
        "CID_RMQ_SYS_TRANS",
        "CID_RMQ_SYS_REVIVE_GROUP",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
    ]
)
_OLD_CPP_HOST = re.compile(r"\d+-[^@]+")  # <pid>-<ip>, before the instance
_GRPC_REST = re.compile(GRPC_CLIENT_ID.removeprefix("^[^@]+@").removesuffix("$"))
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_|]{0,59}")
_RELEASE = re.compile(r"(?:[A-Z]{1,8} )?[vV]?\d{1,3}(?:[._-][0-9A-Za-z]{1,16}){1,6}|[A-Z]\d")
_KNOWN_PACKAGES = re.compile(r"(?:org\.apache\.rocketmq|java|javax|io\.netty|io\.grpc)\.[\w.$]+")
# Kinds whose texts stay where they are the product's or everybody's own.
_STAYING = {"exception": _KNOWN_PACKAGES, "release": _RELEASE, "word": _WORD}
# What rules look for in the error of a read.
_MARKS = ("not online", "no consumer for this group", *MARKS)
_TAIL = 12  # characters of a message id that tell the messages of one process apart
_INFERRED_ROOMS = re.compile(r"MACHINE_ROOM\(machine_rooms=(.*)\)", re.DOTALL)


class NewNames:
    """The new name of each name that was found; a name that was not is refused (KeyError)."""

    def __init__(self, found: Found) -> None:
        """``found``: names by kind (``table_contract.NAMES``), and of kind ``word`` and ``told`` what else was met."""
        self._found: dict[str, set[str]] = defaultdict(set, {kind: {*names} - {""} for kind, names in found.items()})
        self._every = [name for names in self._found.values() for name in names]
        self._take_apart()
        plain = ("cluster", "collector", "name_server", "thread", "tag", "expression", "log_folder", "line")
        self._of: dict[str, Mapping[str, str]] = {kind: self._ordered(kind) for kind in plain}
        self._of["group"] = self._own_names("group", is_system_group)
        self._of["topic"] = self._topics()
        self._of["host"] = numbered(self._found["host"], _host)
        self._of["instance"] = numbered(self._found["instance"], _instance)
        self._of["client"] = {name: self._client(name) for name in self._found["client"]}
        self._of["port"] = numbered(self._found["port"], lambda _, place: place)
        self._of["address"] = {name: self._address(name) for name in self._found["address"]}
        self._of["broker"] = self._brokers()
        self._of["message"] = self._messages()
        self._of["file"] = self._files()
        for kind in ("incident", "error", "exception", "strategy", "release", "word", "told"):
            self._of[kind] = self._ordered(kind)
        self._ways: dict[str, Callable[[str], str]] = {
            "error": self._error,
            "strategy": self._strategy,
            "order_conf": self._order_conf,
            "evidence": self._evidence,
            "detail": lambda _: "replaced",
            "chooser": lambda text: text if text == "client" else "other",
            "told": self._told,
            "inferred": self._inferred,
        }

    def of(self, kind: str, name: str) -> str:
        """The new name. Raises: KeyError: the name was not found before."""
        if not name or (kind in _STAYING and _STAYING[kind].fullmatch(name)):
            return name
        way = self._ways.get(kind)
        return way(name) if way else self._of[kind][name]

    def known(self, kind: str) -> Mapping[str, str]:
        """All new names of a kind, by the old ones."""
        return self._of[kind]

    def _take_apart(self) -> None:
        """Names inside of names."""
        found = self._found
        for text in found["told"]:
            for kind, name in _named_in(text):
                found[kind].add(name)
        light = {topic for topic in found["topic"] if is_light(topic)}
        self._light = {topic: lite_parent(topic) for topic in light}
        found["topic"] = (found["topic"] - light) | {parent for parent in self._light.values() if parent}
        for topic in found["topic"]:
            for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
                if topic.startswith(prefix) and topic != prefix:
                    found["group"].add(topic.removeprefix(prefix))
        for conf in found["order_conf"]:
            found["broker"] |= {entry.split(":")[0] for entry in conf.split(";")} - {""}
        for line in found["evidence"]:
            found["file"].add(line.rpartition(":")[0])
        self._take_apart_hosts()
        for kind in found:
            found[kind].discard("")

    def _take_apart_hosts(self) -> None:
        found = self._found
        for client in found["client"]:
            host, at, instance = client.partition("@")
            found["host"].add(host + at)
            found["instance"].add(instance)
        for address in found["address"]:
            host, _, port = address.rpartition(":")
            found["host"].add(f"{host}@")
            found["port"].add(port)

    def _label(self, kind: str) -> str:
        """The kind itself, if no name holds it."""
        label = kind.replace("_", "-")
        while any(f"{label}-" in name.lower() for name in self._every):
            label += "x"
        return label

    def _ordered(self, kind: str, fixed: Mapping[str, str] | None = None) -> dict[str, str]:
        stay = {"*": "*"} if kind in ("tag", "expression") and "*" in self._found[kind] else {}
        return ordered_names(self._found[kind], fixed or stay, self._label(kind))

    def _own_names(
        self, kind: str, is_own: Callable[[str], bool], more: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """New names of all that are not RocketMQ's own."""
        names, label = self._found[kind], self._label(kind)
        fixed = {name: name for name in names if is_own(name) and not name.startswith(_OWN_BEGINNINGS)}
        for beginning in _OWN_BEGINNINGS:
            rests = {name.removeprefix(beginning) for name in names if name.startswith(beginning)}
            stay = {rest: rest for rest in rests if beginning + rest in _OWN_NAMES or not rest}
            made = ordered_names(rests, stay, label)
            fixed |= {beginning + rest: beginning + new for rest, new in made.items()}
        fixed |= more or {}
        return ordered_names(names, fixed, label, lambda name: is_own(name) or name.startswith("%"))

    def _topics(self) -> dict[str, str]:
        groups = self._of["group"]
        of_groups = {
            topic: prefix + groups[group]
            for topic in self._found["topic"]
            for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX)
            if topic.startswith(prefix) and (group := topic.removeprefix(prefix))
        }
        made = self._own_names("topic", is_system_topic, of_groups)
        # A light queue is named after its parent; of both parts the order stays.
        lites = numbered(self._light, lambda _, place: f"lite-{place}")
        named = {topic: f"${made[parent]}$" if parent else "" for topic, parent in self._light.items()}
        return made | {topic: f"{LIGHT_PREFIX}{named[topic]}{lites[topic]}" for topic in self._light}

    def _client(self, name: str) -> str:
        host, at, instance = name.partition("@")
        return f"{self._of['host'][host + at]}{at}{self._of['instance'].get(instance, instance)}"

    def _address(self, name: str) -> str:
        host, colon, port = name.rpartition(":")
        return f"{self._of['host'][f'{host}@']}{colon}{self._of['port'].get(port, port)}"

    def _brokers(self) -> dict[str, str]:
        names = self._found["broker"]
        logical = {name.removeprefix(_LOGICAL) for name in names if name.startswith(_LOGICAL)} - {""}
        scopes = ordered_names(logical, {}, self._label("scope"))
        fixed = {_LOGICAL + scope: _LOGICAL + new for scope, new in scopes.items()}
        if _LOGICAL in names:
            fixed[_LOGICAL] = _LOGICAL
        rooms = {name: _room_of(name) for name in names if name not in fixed}
        heads = {room or name for name, room in rooms.items()} | {f"{room}@" for room in self._found["room"]}
        made = ordered_names(heads, fixed, self._label("broker"))
        inside = numbered({name.removeprefix(room) for name, room in rooms.items() if room}, lambda _, place: place)
        self._of["room"] = {head.removesuffix("@"): made[head] for head in heads if head.endswith("@")}
        whole = {name: f"{made[room]}@{inside[name.removeprefix(room)]}" for name, room in rooms.items() if room}
        return {name: made[name] for name in names if name in made} | whole

    def _messages(self) -> dict[str, str]:
        """Of one process they begin alike, as their ids do where all are of one length."""
        names = self._found["message"]
        alike = len({len(name) for name in names}) == 1 and all(len(name) > _TAIL for name in names)
        heads = numbered({name[:-_TAIL] if alike else "" for name in names}, lambda _, place: place)
        ordered = sorted(names, key=java_string_key)
        return {
            name: f"message-{heads[name[:-_TAIL] if alike else '']}-{place:0{_TAIL}}"
            for place, name in enumerate(ordered)
        }

    def _files(self) -> dict[str, str]:
        """Files of one log stay files of one."""
        first: dict[str, str] = {}
        for name in sorted(self._found["file"] | self._found["log"], key=java_string_key):
            first.setdefault(log_of(name), name)
        places = numbered(first.values(), lambda _, place: place)
        self._of["log"] = {log: f"file-{places[first[log_of(log)]]}.log" for log in self._found["log"]}
        width = max(4, len(str(len(self._found["file"]))))
        return {
            name: f"file-{places[first[log_of(name)]]}.log.{place:0{width}}"
            for place, name in enumerate(sorted(self._found["file"], key=java_string_key), 1)
        }

    def _error(self, text: str) -> str:
        if text.startswith(UNREADABLE):
            code = text.removeprefix(UNREADABLE)
            return UNREADABLE + (code if _WORD.fullmatch(code) else self._of["error"][text])
        told = RESPONSE_CODE.search(text)
        tail = text.rpartition(": ")[2].strip()
        kept = [self._of["error"][text], *(mark for mark in _MARKS if mark in text)]
        said = " ".join([*kept, *([told[0]] if told else [])])
        return f"{said}: {tail}" if tail in TOLD_BY_MESSAGE else said

    def _strategy(self, text: str) -> str:
        if text.removeprefix(NEARBY_PREFIX).removeprefix(NEARBY_PREFIX) in STRATEGIES or text == "MACHINE_ROOM_NEARBY":
            return text
        return (OTHER_CLASS if text.startswith(OTHER_CLASS) else "") + self._of["strategy"][text]

    def _order_conf(self, text: str) -> str:
        brokers = self._of["broker"]
        entries = (entry.split(":") for entry in text.split(";"))
        return ";".join(
            ":".join([brokers.get(e[0], ""), *(n if n.isdecimal() else "x" for n in e[1:])]) for e in entries
        )

    def _evidence(self, text: str) -> str:
        file, colon, line = text.rpartition(":")
        return f"{self._of['file'][file]}{colon}{line if line.isdecimal() else '0'}"

    def _told(self, text: str) -> str:
        """A name of any kind, a word, or one of the forms in which the product names what it lacks."""
        for kind in ("client", "topic", "broker", "group", "address"):
            if text in self._of[kind]:
                return self._of[kind][text]
        for form, kind in _FORMS:
            if (said := form.fullmatch(text)) and said["name"] in self._of[kind]:
                return f"{said['before']}{self._of[kind][said['name']]}{said['after'] or ''}"
        if all(_WORD.fullmatch(word) for word in text.split(" + ")) or text in _PHRASES:
            return text
        return self._of["told"][text]

    def _inferred(self, text: str) -> str:
        """A strategy with its parameters, as it is inferred from owners."""
        if said := _INFERRED_ROOMS.fullmatch(text):
            return f"MACHINE_ROOM(machine_rooms={','.join(self._rooms(said[1].split(',')))})"
        return text

    def _rooms(self, rooms: Iterable[str]) -> list[str]:
        return [self._of["room"].get(room, "room") for room in rooms]


_FATES = (
    r"no answer|not asked for(?:: the sweep was cut)?|not_collected|refused, CODE -?\d+|the name servers differ"
    "|not read in this round"
)
_FATE = f"(?P<after>: (?:{_FATES}))?"
_FORMS = [
    (re.compile(f"(?P<before>consumer list of )(?P<name>.+?){_FATE}", re.DOTALL), "broker"),
    (re.compile(f"(?P<before>(?:topic_route|route) of )(?P<name>.+?){_FATE}", re.DOTALL), "topic"),
    (re.compile(f"(?P<before>running info of )(?P<name>.+?){_FATE}", re.DOTALL), "client"),
]
_PHRASES = frozenset({"consumer list", "running infos", "message model", "running info of a member"})


def _named_in(text: str) -> Iterable[tuple[str, str]]:
    """Kinds and names, where a text has one of the product's forms."""
    if text not in _PHRASES:
        for form, kind in _FORMS:
            if said := form.fullmatch(text):
                yield kind, said["name"]


def _host(name: str, place: str) -> str:
    """A C++ client of before 1.2.5 begins with its process id, which tells its family."""
    if not name.endswith("@"):
        return f"{place}.client"
    return f"{place}-host" if _OLD_CPP_HOST.fullmatch(name.removesuffix("@")) else f"{place}.host"


def _instance(name: str, place: str) -> str:
    """The form tells a gRPC client."""
    return f"{place}@0@0" if _GRPC_REST.fullmatch(name) else f"{place}.instance"


def _room_of(broker: str) -> str | None:
    """``room@`` of ``room@rest``; None: the name says no room."""
    room, at, rest = broker.partition("@")
    return room + at if room and rest and "@" not in rest else None


class RingRecorder:
    """Gives each new name the position of the old one, and remembers it."""

    def __init__(self, names: NewNames) -> None:
        self._old = {
            kind: {new: old for old, new in names.known(kind).items()} for kind in ("client", "topic", "broker")
        }
        self.positions: dict[str, dict[str, int]] = {}

    def __call__(self, name: str, own: HashFunction, text: str) -> int:
        """The position of the text that stands behind ``text``."""
        told = self.positions.setdefault(name, {})
        if text not in told:
            told[text] = own(self._old_text(text))
        return told[text]

    def _old_text(self, text: str) -> str:
        queue = _QUEUE.fullmatch(text)
        if queue:
            topic, broker = self._old["topic"][queue[1]], self._old["broker"][queue[2]]
            return java_to_string(MessageQueue(topic, broker, int(queue[3])))
        client, dash, replica = text.rpartition("-")
        if client in self._old["client"]:
            return f"{self._old['client'][client]}{dash}{replica}"  # Java counts behind the id
        digits = len(text) - len(text.lstrip("0123456789"))
        cuts = (cut for cut in range(1, digits + 1) if text[cut:] in self._old["client"])
        cut = next(cuts)  # Go counts before it
        return f"{text[:cut]}{self._old['client'][text[cut:]]}"


class GivenRing:
    """Positions as they were taken down; of a text that was not, its own hash."""

    def __init__(self, positions: Recorded) -> None:
        self._positions = positions

    def __call__(self, name: str, own: HashFunction, text: str) -> int:
        """The position of a text."""
        given = self._positions.get(name, {}).get(text)
        return own(text) if given is None else given
