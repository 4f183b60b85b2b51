"""Ordinary lines of a client log in, what they tell of who runs out: which client, in which group, in which way.

They are no events: the client writes them again and again while all is well. A client that holds queues says so every
5 s, with its offsets; what it says of itself in a heartbeat is written with every 20th.
Source: RemoteBrokerOffsetStore#persistAll, HeartbeatData and ConsumerData#toString, DefaultMQPushConsumerImpl,
DefaultLitePullConsumerImpl and DefaultMQPullConsumerImpl#shutdown; 4.0.0 to 5.5.0.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_OFFSETS = re.compile(r"\[persistAll\] Group: (?P<group>[^ ]++) ClientId: (?P<client_id>[^ ]++) updateConsume")
_BEAT = re.compile(r"HeartbeatData \[clientID=(?P<client_id>[^,\[\]]++), producerDataSet=")
_OF_GROUP = re.compile(
    r"ConsumerData \[groupName=(?P<group>[^,\[\]]++), consumeType=(?P<consume_type>[A-Z_]++), "
    r"messageModel=(?P<message_model>[A-Z_]++)"
)
_STOPPED = re.compile(r"the consumer \[(?P<group>[^\[\]]++)\] shutdown OK")


class Consumes(NamedTuple):
    """How a client says that it consumes in a group."""

    client_id: str
    consumer_group: str
    consume_type: str
    message_model: str


class Ordinary(NamedTuple):
    """What a line tells; ``client_id``: of the client that wrote it, ``stopped_group``: whose consumer it stopped."""

    client_id: str | None = None
    consumes: tuple[Consumes, ...] = ()
    stopped_group: str | None = None


NOTHING = Ordinary()


def read_ordinary(text: str) -> Ordinary:
    """What a line of a client log tells beside its events; most tell nothing."""
    if "[persistAll] " in text:
        found = _OFFSETS.search(text)
        return Ordinary(found["client_id"]) if found else NOTHING
    if "HeartbeatData [" in text:
        found = _BEAT.search(text)
        return _of_heartbeat(found["client_id"], text) if found else NOTHING
    if "] shutdown OK" in text:
        found = _STOPPED.search(text)
        return Ordinary(stopped_group=found["group"]) if found else NOTHING
    return NOTHING


def _of_heartbeat(client_id: str, text: str) -> Ordinary:
    consumes = tuple(
        Consumes(client_id, one["group"], one["consume_type"], one["message_model"]) for one in _OF_GROUP.finditer(text)
    )
    return Ordinary(client_id, consumes)
