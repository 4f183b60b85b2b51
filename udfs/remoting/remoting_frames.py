"""RocketMQ's remoting protocol: requests in, bytes out; bytes of a connection in, whole frames out; whom answers name.

A frame is ``int32 size, int32 mark, header, body``, big-endian: ``size`` counts what follows it, the mark's high byte
is the header's format (0 JSON, 1 ROCKETMQ), its other three the header's length. An answer of another shape names
nobody: what a server leaves out is not there.
Source: RemotingCommand, RocketMQSerializable, NettyDecoder (4.3.0 to 5.5.0).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeGuard

import orjson

from hindsight.udfs.values.message_queues import is_system_group, is_system_topic

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
_PATTERN_MARKS = frozenset("*?[")
_IS_BROKER_ID = re.compile(r"[0-9]{1,18}").fullmatch
# BrokerConfig, 5.0 on: by what a broker hands out queues to members that let it assign.
_HANDS_OUT_BY = frozenset({"defaultMessageRequestMode", "defaultPopShareQueueNum", "serverLoadBalancerEnable"})
# RunningStats: of each delay level `delayOffset,maxOffset`.
SCHEDULE_OFFSET = "scheduleMessageOffset_"
_HOW_IT_IS = frozenset(
    {
        "bootTimestamp",
        "brokerVersionDesc",
        "commitLogMaxOffset",
        "timerReadBehind",
        "timerOffsetBehind",
        "timerCongestNum",
    }
)
_HALF_PAIR = re.compile("[\ud800-\udfff]").search
LONGEST_FRAME = 16_777_216  # com.rocketmq.remoting.frameMaxLength: Java's own clients take no longer one
# MQVersion of 5.3.3. From 401 (4.9.4) on name servers answer routes in standard JSON.
ASKER_VERSION = 479
_IS_ANSWER = 1
_JSON, _ROCKETMQ = 0, 1
_TWO_INTS = struct.Struct(">ii")
_ROCKETMQ_HEAD = struct.Struct(">hbhiii")  # code, language, version, opaque, flag, length of the remark


def broker_addresses(cluster_info: Any) -> dict[str, str]:
    """By broker name (106) the address of its master, or of the replica of the lowest id where there is no master."""
    found = {}
    for name, broker in _members(cluster_info, "brokerAddrTable").items():
        by_id = {
            int(id_): address
            for id_, address in _members(broker, "brokerAddrs").items()
            if _IS_BROKER_ID(str(id_)) and _is_text(address)
        }
        if by_id and _is_text(name):
            found[name] = by_id[min(by_id)]
    return found


def cluster_names(cluster_info: Any) -> set[str]:
    """The clusters that a name server knows (106); each has a topic of its name."""
    return set(filter(_is_text, _members(cluster_info, "clusterAddrTable")))


def listed_topics(topic_list: Any) -> list[str]:
    """Topics that a name server knows (206)."""
    return _texts(topic_list, "topicList")


def route_brokers(route: Any) -> set[str]:
    """Names of the brokers that hold a topic (105)."""
    return {name for queue in _objects(route, "queueDatas") if _is_text(name := queue.get("brokerName"))}


def configured_groups(subscription_groups: Any) -> set[str]:
    """Groups that a broker has a configuration of (201)."""
    return set(filter(_is_text, _members(subscription_groups, "subscriptionGroupTable")))


def consuming_groups(group_list: Any, topic: str) -> set[str]:
    """Groups that are connected for a topic or have offsets of it at a broker (300).

    5.3.3 names the topic itself among them, which is no group; one of that name is configured (201).
    """
    return set(_texts(group_list, "groupList")) - {topic}


def configured(properties: str) -> dict[str, str]:
    """Of a broker's properties (26, ``name=value`` lines) those that say how it hands out queues; all else is left."""
    lines = (line.partition("=") for line in properties.splitlines())
    return {name: value for name, _, value in lines if name in _HANDS_OUT_BY}


def of_runtime_info(runtime_info: Any) -> dict[str, dict[str, str]]:
    """Of a broker's runtime info (28) how far it is with delayed messages and timers, and since when it runs."""
    table = _members(runtime_info, "table")
    own = {name: value for name, value in table.items() if name in _HOW_IT_IS or name.startswith(SCHEDULE_OFFSET)}
    return {"table": own}


def listed_clients(consumer_connection: Any) -> list[str]:
    """Client ids that a broker or a proxy lists for a group (203), each once, in the answer's order."""
    connections = _objects(consumer_connection, "connectionSet")
    return list(dict.fromkeys(c["clientId"] for c in connections if _is_text(c.get("clientId"))))


def topics_of_group(answer: Any) -> set[str]:
    """Topics that a group consumes: by its connections (203), its offsets (208) or a running info (307)."""
    keys = (key for name in ("offsetTable", "mqTable") for key in _members(answer, name))
    queues = [dict(key) for key in keys if isinstance(key, tuple)]
    told = [one.get("topic") for one in (*queues, *_objects(answer, "subscriptionSet"))]
    return set(filter(_is_text, (*told, *_members(answer, "subscriptionTable"))))


def retrying_groups(topics: Iterable[str], known_groups: Collection[str]) -> dict[str, str]:
    """By retry topic the group that it belongs to.

    ``%RETRY%<group>``; of POP also ``%RETRY%<group>_<topic>`` and, from 5.2.0 on, ``%RETRY%<group>+<topic>``. A ``_``
    is legal in names too: such a topic is POP's where group and topic are both known, and the whole is no known group.
    """
    names = set(topics)
    found = {}
    for retry in sorted(names):
        if retry.startswith(RETRY_PREFIX):
            own = retry.removeprefix(RETRY_PREFIX)
            group = own.partition("+")[0]
            found[retry] = group if group != own or own in known_groups else _pop_group(own, names, known_groups)
    return found


def _pop_group(own: str, topics: Collection[str], known_groups: Collection[str]) -> str:
    cuts = (at for at, mark in enumerate(own) if mark == "_")
    return next((own[:at] for at in cuts if own[:at] in known_groups and own[at + 1 :] in topics), own)


def chosen_topics(topics: Iterable[str], patterns: Collection[str], of_servers: Collection[str]) -> list[str]:
    """Topics to ask for, sorted: those that a pattern fits, without patterns all but RocketMQ's own.

    Retry topics are left out. ``of_servers``: names of clusters and brokers, each of which has a topic of its own.
    """

    def is_own(topic: str) -> bool:
        return is_system_topic(topic) or topic in of_servers or topic.removesuffix("_REPLY_TOPIC") in of_servers

    return _chosen((t for t in topics if not t.startswith(RETRY_PREFIX)), patterns, is_own)


def chosen_groups(groups: Iterable[str], patterns: Collection[str]) -> list[str]:
    """Groups to ask for, sorted: those that a pattern fits, without patterns all but RocketMQ's own."""
    return _chosen(groups, patterns, is_system_group)


def _chosen(names: Iterable[str], patterns: Collection[str], is_own: Callable[[str], bool]) -> list[str]:
    if not patterns:
        return sorted({name for name in names if not is_own(name)})
    fitting = {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}
    return sorted(fitting | {pattern for pattern in patterns if not _PATTERN_MARKS & set(pattern)})


def _is_text(value: Any) -> TypeGuard[str]:
    """Whether a value can be asked for and written: a text, not empty, without halves of surrogate pairs."""
    return isinstance(value, str) and value != "" and not _HALF_PAIR(value)


def _members(value: Any, name: str) -> Mapping[Any, Any]:
    members = value.get(name) if isinstance(value, dict) else None
    return members if isinstance(members, dict) else {}


def _items(value: Any, name: str) -> list[Any]:
    items = value.get(name) if isinstance(value, dict) else None
    return items if isinstance(items, list) else []


def _texts(value: Any, name: str) -> list[str]:
    return [item for item in _items(value, name) if _is_text(item)]


def _objects(value: Any, name: str) -> list[dict[Any, Any]]:
    return [item for item in _items(value, name) if isinstance(item, dict)]


class FrameError(ValueError):
    """Raised for bytes that are no frame: from there on the connection cannot be read."""


class Frame(NamedTuple):
    """What a server sent; ``code`` is the response code where ``is_answer``, else that of a request of its own."""

    code: int
    opaque: int
    is_answer: bool
    remark: str | None
    body: bytes


def encode_request(code: int, opaque: int, fields: Mapping[str, str]) -> bytes:
    """The frame of a request without a body; ``opaque`` (an int32) comes back in its answer."""
    header = orjson.dumps(
        {
            "code": code,
            "language": "OTHER",
            "version": ASKER_VERSION,
            "opaque": opaque,
            "flag": 0,
            "extFields": dict(fields),
            "serializeTypeCurrentRPC": "JSON",
        }
    )
    return _TWO_INTS.pack(4 + len(header), len(header)) + header


class FrameDecoder:
    """Bytes of one connection, cut anywhere; holds no more than one unfinished frame and what was fed last."""

    def __init__(self, longest: int = LONGEST_FRAME) -> None:
        self._longest = longest
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole with these bytes; to be read to its end.

        Raises: FrameError: a length that cannot be, longer than ``longest`` bytes in all, or an unreadable header.
        """
        self._bytes += data
        at = 0
        try:
            while len(self._bytes) - at >= _TWO_INTS.size:
                size, mark = _TWO_INTS.unpack_from(self._bytes, at)
                header_length = mark & 0xFFFFFF
                self._check(size, header_length)
                end = at + 4 + size
                if len(self._bytes) < end:
                    break
                body_at = at + _TWO_INTS.size + header_length
                header = bytes(self._bytes[at + _TWO_INTS.size : body_at])
                body = bytes(self._bytes[body_at:end])
                at = end
                yield _frame(mark >> 24 & 0xFF, header, body)
        finally:
            del self._bytes[:at]

    def _check(self, size: int, header_length: int) -> None:
        if not 4 <= size <= self._longest - 4:
            raise FrameError(f"a frame of {size:,} bytes, expected 4 to {self._longest - 4:,}")
        if header_length > size - 4:
            raise FrameError(f"a header of {header_length:,} bytes in a frame of {size:,}")


def _frame(header_format: int, header: bytes, body: bytes) -> Frame:
    if header_format == _JSON:
        return _of_json(header, body)
    if header_format == _ROCKETMQ:
        return _of_rocketmq(header, body)
    raise FrameError(f"a header of format {header_format}, expected 0 (JSON) or 1 (ROCKETMQ)")


def _of_json(header: bytes, body: bytes) -> Frame:
    try:
        fields = orjson.loads(header)
    except orjson.JSONDecodeError as error:
        raise FrameError(f"a header that is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise FrameError("a header that is no JSON object")
    code, opaque, flag = (_int32(fields, name) for name in ("code", "opaque", "flag"))
    remark = fields.get("remark")
    if remark is not None and not isinstance(remark, str):
        raise FrameError("a header whose 'remark' is no text")
    return Frame(code, opaque, bool(flag & _IS_ANSWER), remark, body)


def _int32(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise FrameError(f"a header whose {name!r} is no 32-bit number")
    return value


def _of_rocketmq(header: bytes, body: bytes) -> Frame:
    if len(header) < _ROCKETMQ_HEAD.size:
        raise FrameError(f"a ROCKETMQ header of {len(header)} bytes")
    code, _language, _version, opaque, flag, length = _ROCKETMQ_HEAD.unpack_from(header)
    remark = header[_ROCKETMQ_HEAD.size : _ROCKETMQ_HEAD.size + max(length, 0)]
    if length < 0 or len(remark) < length:
        raise FrameError(f"a ROCKETMQ header with a remark of {length:,} bytes in {len(header)}")
    return Frame(code, opaque, bool(flag & _IS_ANSWER), remark.decode(errors="replace") or None, body)


_NAMES = {"accessKey": "access_key", "secretKey": "secret_key", "securityToken": "security_token"}


class CredentialsError(ValueError):
    """Raised for credentials that cannot be used; the message repeats none of them."""


@dataclass(frozen=True)
class Credentials:
    """A key pair, and a token where one belongs to it; its ``repr`` shows the access key alone."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def hidden_in(self, text: str) -> str:
        """A text of a server's without the secret key and the token, should it repeat them."""
        # The longer one first: it may hold the other.
        for secret in sorted((self.secret_key, self.security_token or ""), key=len, reverse=True):
            text = text.replace(secret, "***") if secret else text
        return text


def signed_fields(fields: Mapping[str, str], credentials: Credentials) -> dict[str, str]:
    """The fields of a request without a body, with ``AccessKey``, ``SecurityToken`` if there is one, ``Signature``."""
    told = {**fields, "AccessKey": credentials.access_key}
    if credentials.security_token:
        told["SecurityToken"] = credentials.security_token
    text = "".join(told[name] for name in sorted(told))
    digest = hmac.new(credentials.secret_key.encode(), text.encode(), hashlib.sha1).digest()
    return {**told, "Signature": base64.b64encode(digest).decode()}


def read_credentials(text: str) -> Credentials:
    """Credentials from lines ``accessKey: ...``, ``secretKey: ...`` and perhaps ``securityToken: ...``.

    That is what rocketmq-tools' own ``conf/tools.yml`` holds; ``=`` in place of the colon and quotes are taken too.
    Raises: CredentialsError: a line of another name, or no key pair.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        at = min((at for at in (line.find(":"), line.find("=")) if at >= 0), default=0)
        name = line[:at].strip()
        if name not in _NAMES:
            raise CredentialsError(f"line {number} is none of {', '.join(_NAMES)}.")
        found[_NAMES[name]] = line[at + 1 :].strip().strip("\"'")
    return credentials_of(**found)


def credentials_of(
    access_key: str | None = None, secret_key: str | None = None, security_token: str | None = None
) -> Credentials:
    """The credentials of these words; raises CredentialsError where the access key or the secret key is missing."""
    if not access_key or not secret_key:
        raise CredentialsError(f"there is no {'access key' if secret_key else 'secret key'}.")
    return Credentials(access_key, secret_key, security_token or None)
