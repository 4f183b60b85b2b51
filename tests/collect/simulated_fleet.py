"""Many fake servers in a process of their own: ``python -m tests.collect.simulated_fleet BROKERS GROUPS EACH_AT``.

More words after these: members of each group (3), topics (a tenth of the groups), brokers of each twentieth group
(``EACH_AT``), and N: of one group of N, and of one topic of N, the offsets move (0: of none). Prints the two name
servers' addresses and serves until it is killed. Answers are as long as real ones; a tenth of the groups is offline.

With ``--life SECONDS`` members come and go, a third of the groups has a fault, and brokers freeze, all in so many
seconds from the start; ``--truth FILE`` is where it is written down before. All of it follows from the seed, and each
answer from the instant at which it is given.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import struct
import time
from bisect import bisect
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

Answer = tuple[int, bytes, str]  # code, body, remark
Queue = tuple[str, str, int]  # topic, broker, number
OFF = 206
KINDS = ("mute", "blocked", "down", "view", "subscription", "orphan", "double", "strategy")
STRATEGY = "org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely"
_DEAD_CHANNEL_MS = 120_000  # until a broker takes a client that fell silent from its lists
_ONE_MESSAGE_MS = 500
_PER_BROKER = 4
_EVER = 1 << 62


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Fault(NamedTuple):
    """What is wrong from when to when, ms from the fleet's start; what it is about, as far as it is about that."""

    kind: str
    begin: int
    end: int
    group: str = ""
    client: str = ""
    broker: str = ""
    queue: int | None = None


class Member(NamedTuple):
    """When a client lives, and until when brokers list it."""

    client: str
    joined: int
    gone: int
    unlisted: int
    subscribed: str = "*"
    by_circle: bool = False


class Group:
    """A group's members, and who of them holds which queue when, ms from the fleet's start."""

    def __init__(self, name: str, topic: str, brokers: list[str], draw: random.Random) -> None:
        self.name, self.topic, self.brokers, self.draw = name, topic, brokers, draw
        self.retry = f"%RETRY%{name}"
        self.queues_of: dict[str, list[Queue]] = {
            topic: [
                (topic, broker, n)
                for broker in sorted(brokers)
                for n in range(1 if topic == self.retry else _PER_BROKER)
            ]
            for topic in (topic, self.retry)
        }
        self.members: list[Member] = []
        self.fault: Fault | None = None
        self.moves = False
        self.number = 0

    def join(self, at: int, until: int = _EVER, *, silently: bool = False, **how: Any) -> Member:
        """A client that comes; ``silently``: it dies without a word, and is listed for two minutes more."""
        self.number += 1
        client = f"10.{self.number}.{self.draw.randrange(250)}.1@{100 + self.number}#{self.draw.randrange(10**12)}"
        member = Member(client, at, until, until + _DEAD_CHANNEL_MS if silently else until, **how)
        self.members.append(member)
        return member

    def comes_and_goes(self, begin: int, end: int) -> None:
        """Members join, leave and die now and then."""
        at = begin
        while (at := at + self.draw.randrange(60_000, 200_000)) < end - 60_000:
            here = [m for m in self.members if m.joined < at < m.gone == _EVER]
            if len(here) < 3 or self.draw.random() < 0.5:
                self.join(at)
                continue
            goes, dies = self.draw.choice(here), self.draw.random() < 0.3
            place = self.members.index(goes)
            self.members[place] = goes._replace(gone=at, unlisted=at + (_DEAD_CHANNEL_MS if dies else 0))

    def fall_ill(self, kind: str, begin: int, end: int) -> None:
        """Plant a fault."""
        one = self.draw.choice(self.members)
        about: dict[str, Any] = {}
        if kind == "down":
            self.members = [m._replace(gone=begin, unlisted=begin) for m in self.members]
            for _ in self.members[:]:
                self.join(end)
        elif kind == "subscription":  # from before the first sweep: what a newcomer brings may be a rolling upgrade
            begin = -100_000
            about["client"] = self.join(begin, end, subscribed="TagB").client
        elif kind == "strategy":
            about["client"] = self.join(begin, end, by_circle=True).client
        elif kind in ("orphan", "double"):
            _, about["broker"], about["queue"] = self.draw.choice(self._share(self.topic, one, self.members))
        else:
            about |= {"client": one.client} | ({"broker": self.brokers[0]} if kind == "view" else {})
        self.fault = Fault(kind, begin, end, self.name, **about)

    def listed(self, broker: str, at: int) -> list[Member]:
        """Whom a broker lists."""
        told = [m for m in self.members if m.joined <= at < m.unlisted]
        return [m for m in told if not (self.is_ill("view", at, m.client) and self.fault.broker == broker)]

    def is_ill(self, kind: str, at: int, client: str = "") -> bool:
        """Whether the group has that fault then; of a client where one is named."""
        fault = self.fault
        is_now = fault is not None and fault.kind == kind and fault.begin <= at < fault.end
        return is_now and client in ("", fault.client)

    def _share(self, topic: str, member: Member, listed: list[Member]) -> list[Queue]:
        ids, queues = sorted(m.client for m in listed), self.queues_of[topic]
        if member.client not in ids:
            return []
        mine, count = ids.index(member.client), len(ids)
        if member.by_circle:
            return queues[mine::count]
        each, more = divmod(len(queues), count)
        first = mine * each + min(mine, more)
        return queues[first : first + each + (mine < more)]

    @cached_property
    def held(self) -> dict[str, list[tuple[int, list[Queue]]]]:
        """By client: from when on it holds which queues. Each member shares anew a moment after a list changed."""
        held: dict[str, list[tuple[int, list[Queue]]]] = {m.client: [] for m in self.members}
        changes = {at for m in self.members for at in (m.joined, m.unlisted) if at < _EVER}
        changes |= set((self.fault or ())[1:3])
        for at in sorted(changes):
            for place, member in enumerate(self.members):
                soon = at + self.draw.randrange(20, 400)
                if member.joined <= at and soon < member.gone:
                    held[member.client].append((soon, self._taken(member, place, soon)))
        for member in self.members:
            if member.gone < _EVER:
                held[member.client].append((member.gone, []))
            held[member.client].sort(key=lambda step: step[0])
        return held

    def _taken(self, member: Member, place: int, at: int) -> list[Queue]:
        """Of a group with two views every other member goes by the one."""
        listed = self.listed(self.brokers[-(place % 2)], at)
        takes = [queue for topic in self.queues_of for queue in self._share(topic, member, listed)]
        ill = self.fault and (self.topic, self.fault.broker, self.fault.queue)
        if self.is_ill("orphan", at):
            takes = [queue for queue in takes if queue != ill]
        if self.is_ill("double", at) and place < 2 and ill not in takes:
            takes = [*takes, ill]
        return takes

    def holds(self, client: str, at: int) -> list[Queue]:
        """What a client holds."""
        steps = self.held[client]
        place = bisect(steps, at, key=lambda step: step[0])
        return steps[place - 1][1] if place else []

    @cached_property
    def _reads(self) -> dict[Queue, list[tuple[int, int]]]:
        """By queue: from when to when somebody consumes it."""
        reads: dict[Queue, list[tuple[int, int]]] = {
            queue: [] for queues in self.queues_of.values() for queue in queues
        }
        for client, steps in self.held.items():
            ends = [at for at, _ in steps[1:]] + [_EVER]
            for (begin, queues), end in zip(steps, ends, strict=True):
                parts = [(begin, end)]
                if self.fault and self.fault.kind == "blocked" and self.fault.client == client:
                    parts = [(begin, min(end, self.fault.begin)), (max(begin, self.fault.end), end)]
                for queue in queues:
                    reads[queue] += [part for part in parts if part[0] < part[1]]
        return reads

    def read_until(self, queue: Queue, at: int) -> int:
        """When the queue was consumed last."""
        return max((min(end, at) for begin, end in self._reads[queue] if begin <= at), default=0)


class Fleet:
    def __init__(
        self,
        brokers: int,
        groups: int,
        each_at: int,
        members: int = 3,
        topics: int = 0,
        twentieth_at: int = 0,
        one_moves_of: int = 0,
        *,
        life_ms: int = 0,
        seed: int = 1,
    ) -> None:
        draw = random.Random(seed)
        self.brokers = [f"broker-{n:02}" for n in range(brokers)]
        self.addresses: dict[str, str] = {}
        self.groups: dict[str, Group] = {}
        self.faults: list[Fault] = []
        self.topics = {f"Topic_{n:03}": self._some(n, each_at) for n in range(topics or groups // 10)}
        for n in range(groups):
            at = each_at if n % 20 else twentieth_at or each_at
            group = Group(f"g_consumer_{n:04}", f"Of_{n:04}", self._some(n, at), random.Random(draw.random()))
            self.groups[group.name], self.topics[group.topic] = group, group.brokers
            if n % 10:
                for _ in range(members):
                    group.join(-draw.randrange(300_000, 900_000))
                group.moves = bool(one_moves_of) and n % one_moves_of == 1 % one_moves_of
                self._live(group, n, life_ms)
        for broker in self.brokers[:: max(10, brokers // 5)] if life_ms else ():
            begin = life_ms * 87 // 100 + draw.randrange(10_000)
            self.faults.append(Fault("frozen", begin, begin + 60_000, broker=broker))
        self.frozen = {fault.broker: fault for fault in self.faults if fault.kind == "frozen"}
        self.of = {topic: group for group in self.groups.values() for topic in (group.topic, group.retry)}

    def _live(self, group: Group, n: int, life_ms: int) -> None:
        if not life_ms:
            return
        if n % 3 == 1:
            begin = life_ms // 5 + group.draw.randrange(life_ms // 10)
            group.fall_ill(KINDS[n // 3 % len(KINDS)], begin, life_ms * 7 // 10)
            self.faults.append(group.fault)
        else:
            group.comes_and_goes(0, life_ms)

    def truth(self) -> list[dict[str, Any]]:
        """What is done, in order: faults, and members that come and go."""
        told = [fault._asdict() for fault in self.faults]
        for group in self.groups.values():
            for member in (m for m in group.members if m.joined > 0 or m.gone < _EVER):
                dies = member.unlisted > member.gone
                about = {"group": group.name, "client": member.client, "begin": member.joined}
                told.append({"kind": "died" if dies else "member", **about, "end": min(member.gone, _EVER)})
        return sorted(told, key=lambda row: row["begin"])

    def _some(self, first: int, each_at: int) -> list[str]:
        return [self.brokers[(first + n) % len(self.brokers)] for n in range(min(each_at, len(self.brokers)))]

    def of_name_server(self, code: int, fields: dict[str, str], at: int) -> Answer:
        if code == 106:
            table = {b: {"brokerAddrs": {"0": self.addresses[b]}, "brokerName": b} for b in self.brokers}
            return 0, compact({"brokerAddrTable": table, "clusterAddrTable": {"Fleet": self.brokers}}), ""
        if code == 206:
            return 0, compact({"topicList": [*self.topics, *(f"%RETRY%{group}" for group in self.groups)]}), ""
        topic = fields.get("topic", "")
        at_brokers = self.topics.get(topic) or (self.of[topic].brokers if topic in self.of else [])
        if not at_brokers:
            return 17, b"", f"No topic route info in name server for the topic: {topic}"
        count = 1 if topic.startswith("%RETRY%") else _PER_BROKER
        queues = [
            {"brokerName": b, "perm": 6, "readQueueNums": count, "topicSysFlag": 0, "writeQueueNums": count}
            for b in at_brokers
        ]
        servers = [{"brokerAddrs": {"0": self.addresses[b]}, "brokerName": b, "cluster": "Fleet"} for b in at_brokers]
        return 0, compact({"brokerDatas": servers, "filterServerTable": {}, "queueDatas": queues}), ""

    def of_broker(self, name: str) -> Callable[[int, dict[str, str], int], Answer | None]:
        """How a broker answers; nothing: it does not."""
        here = {group.name: group for group in self.groups.values() if name in group.brokers}
        kept = {"brokerId": 0, "consumeEnable": True, "retryMaxTimes": 16, "x": "y" * 300}
        configured = compact({"subscriptionGroupTable": {g: {**kept, "groupName": g} for g in here}})
        settings = b"brokerName=%s\ndefaultMessageRequestMode=PULL\n" % name.encode()

        def answer(code: int, fields: dict[str, str], at: int) -> Answer | None:
            frozen = self.frozen.get(name)
            if frozen and frozen.begin <= at < frozen.end:
                return None
            group = here.get(fields.get("consumerGroup", ""))
            if group and code in (203, 38, 307, 208):
                told = {203: self._connections, 38: self._ids, 307: self._info, 208: self._stats}
                return told[code](group, name, fields, at)
            topic = fields.get("topic", "")
            queue_counts = {"perm": 6, "readQueueNums": 4, "topicName": topic, "writeQueueNums": 4}
            bodies = {201: lambda: configured, 26: lambda: settings, 402: lambda: b'{"messageRequestModeMap":{}}'}
            bodies |= {300: lambda: self._who(topic), 202: lambda: self._ends(topic, name, at)}
            bodies |= {351: lambda: compact(queue_counts), 28: lambda: b'{"table":{}}'}
            body = bodies.get(code)
            return (0, body(), "") if body else (OFF, b"", "the consumer group is not online")

        return answer

    def _who(self, topic: str) -> bytes:
        group = self.of.get(topic)
        return compact({"groupList": [group.name] if group else []})

    def _connections(self, group: Group, broker: str, fields: dict[str, str], at: int) -> Answer:
        listed = group.listed(broker, at)
        if not listed:
            return OFF, b"", f"the consumer group[{group.name}] not online"
        clients = [
            {"clientAddr": f"{m.client.split('@')[0]}:40001", "clientId": m.client, "language": "JAVA", "version": 479}
            for m in listed
        ]
        told = {"connectionSet": clients, "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"}
        told |= {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
        last = max(listed, key=lambda m: m.joined)
        return 0, compact({**told, "subscriptionTable": {s["topic"]: s for s in _subscribed(group, last)}}), ""

    def _ids(self, group: Group, broker: str, fields: dict[str, str], at: int) -> Answer:
        listed = [m.client for m in group.listed(broker, at)]
        return (0, compact({"consumerIdList": listed}), "") if listed else (1, b"", "no consumer for this group")

    def _info(self, group: Group, broker: str, fields: dict[str, str], at: int) -> Answer:
        client = fields["clientId"]
        member = next((m for m in group.listed(broker, at) if m.client == client), None)
        if member is None:
            return OFF, b"", f"The Consumer <{group.name}> <{client}> not online"
        if group.is_ill("mute", at, client) or at >= member.gone:
            return 207, b"", f"consumer <{group.name}> <{client}> Timeout: 10000ms"
        properties = {
            "PROP_CLIENT_VERSION": "V5_3_3",
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CONSUMEORDERLY": "false",
            "PROP_CONSUMER_START_TIMESTAMP": str(self.begun_ms + member.joined),
            "allocateMessageQueueStrategy": STRATEGY + ("ByCircle" if member.by_circle else "") + "@1a2b3c",
            "consumerGroup": group.name,
            "messageModel": "CLUSTERING",
            "x": "y" * 400,
        }
        told_at = self.begun_ms + at
        is_blocked = group.is_ill("blocked", at, client)
        consumed_at = self.begun_ms + group.fault.begin if is_blocked else told_at - 500
        queue = {"cachedMsgCount": 300 * is_blocked, "commitOffset": 17, "droped": False}
        queue |= {"lastConsumeTimestamp": consumed_at, "lastLockTimestamp": 0, "lastPullTimestamp": told_at - 300}
        queue |= {"locked": False}
        table = b",".join(_key(held) + b":" + compact(queue) for held in group.holds(client, at))
        more = compact({"properties": properties, "subscriptionSet": _subscribed(group, member)})[1:]
        return 0, b'{"mqTable":{%s},%s' % (table, more), ""

    begun_ms = 0  # the instant of the fleet's start, Unix time

    def _end(self, group: Group | None, broker: str, at: int) -> int:
        """A queue's end: one message more each half second, but while its broker is frozen."""
        frozen = self.frozen.get(broker)
        still = 0 if frozen is None else max(0, min(at, frozen.end) - frozen.begin)
        return 10_000 + ((at - still) // _ONE_MESSAGE_MS if group and (group.moves or group.fault) else 0)

    def _ends(self, topic: str, broker: str, at: int) -> bytes:
        group = None if topic.startswith("%") else self.of.get(topic)
        end = {"lastUpdateTimestamp": self.begun_ms + at, "maxOffset": self._end(group, broker, at), "minOffset": 0}
        count = 1 if topic.startswith("%") else _PER_BROKER
        return _table(((topic, broker, n) for n in range(count)), lambda _: end)

    def _stats(self, group: Group, broker: str, fields: dict[str, str], at: int) -> Answer:

        def offsets(queue: Queue) -> dict[str, int]:
            of = group if queue[0] == group.topic else None
            end = self._end(of, broker, at)
            read = self._end(of, broker, group.read_until(queue, at)) if of else end
            told = {"brokerOffset": end, "consumerOffset": read, "lastTimestamp": self.begun_ms + at}
            return {**told, "pullOffset": read}

        queues = (queue for queues in group.queues_of.values() for queue in queues if queue[1] == broker)
        return 0, _table(queues, offsets), ""


def _subscribed(group: Group, member: Member) -> list[dict[str, Any]]:
    tags = [] if member.subscribed == "*" else [member.subscribed]
    all_of = {"classFilterMode": False, "expressionType": "TAG", "subVersion": 1}
    return [
        {**all_of, "codeSet": [], "subString": member.subscribed, "tagsSet": tags, "topic": group.topic},
        {**all_of, "codeSet": [], "subString": "*", "tagsSet": [], "topic": group.retry},
    ]


def _key(queue: Queue) -> bytes:
    return compact({"brokerName": queue[1], "queueId": queue[2], "topic": queue[0]})


def _table(queues: Iterable[Queue], told: Callable[[Queue], dict[str, int]]) -> bytes:
    return b'{"offsetTable":{%s}}' % b",".join(_key(queue) + b":" + compact(told(queue)) for queue in queues)


class Speaker(asyncio.Protocol):
    """One connection; answers at once, or not at all."""

    def __init__(self, answer: Callable[[int, dict[str, str], int], Answer | None], now: Callable[[], int]) -> None:
        self.answer, self.now = answer, now
        self.bytes = b""

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        data, out = self.bytes + data, []
        while len(data) >= 8 and len(data) >= 4 + (size := struct.unpack(">i", data[:4])[0]):
            request = json.loads(data[8 : 4 + size])
            told = self.answer(request["code"], request.get("extFields") or {}, self.now())
            data = data[4 + size :]
            if told is None:
                continue
            code, body, remark = told
            remark = ',"remark":' + json.dumps(remark) if code else ""
            head = f'{{"code":{code},"flag":1,"language":"JAVA","opaque":{request["opaque"]}{remark},"version":479}}'
            out.append(struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head.encode() + body)
        self.bytes = data
        self.transport.write(b"".join(out))


async def listening(fleet: Fleet, now: Callable[[], int]) -> tuple[list[str], list[asyncio.Server]]:
    """The two name servers' addresses, when all servers listen; ``now``: ms from the fleet's start."""
    loop, servers = asyncio.get_running_loop(), []

    async def listen(answer) -> str:
        servers.append(await loop.create_server(lambda: Speaker(answer, now), "127.0.0.1", 0))
        return f"127.0.0.1:{servers[-1].sockets[0].getsockname()[1]}"

    for name in fleet.brokers:
        fleet.addresses[name] = await listen(fleet.of_broker(name))
    return [await listen(fleet.of_name_server) for _ in range(2)], servers


async def serve(fleet: Fleet) -> None:
    fleet.begun_ms = int(time.time() * 1000)
    name_servers, _ = await listening(fleet, lambda: int(time.time() * 1000) - fleet.begun_ms)
    print(";".join(name_servers), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("sizes", type=int, nargs="+")
    words.add_argument("--life", type=int, default=0)
    words.add_argument("--truth", type=Path)
    asked = words.parse_args()
    made = Fleet(*asked.sizes, life_ms=asked.life * 1000)
    if asked.truth:
        asked.truth.write_text("".join(json.dumps(row) + "\n" for row in made.truth()))
    asyncio.run(serve(made))
