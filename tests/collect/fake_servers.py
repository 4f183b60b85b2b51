"""Servers on loopback that speak the remoting protocol as told: made apart from the collector's own frames."""

from __future__ import annotations

import asyncio
import json
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from hindsight.jobs.collect.collector import Collector, Plan

ROUTE, CLUSTER, TOPICS = 105, 106, 206
GROUPS, WHO, CONFIG, STATUS = 201, 300, 351, 202
MODES, BROKER_CONFIG, RUNTIME_INFO, HA_STATUS = 402, 26, 28, 907
CONNECTIONS, IDS, STATS, INFO, PRODUCERS = 203, 38, 208, 307, 204


@dataclass
class Request:
    """What was asked, and how to answer it."""

    code: int
    fields: dict[str, str]
    header: dict[str, Any]
    writer: asyncio.StreamWriter = field(repr=False)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def frame(self, value: Any = None, *, code: int = 0, remark: str | None = None, **more: Any) -> bytes:
        body = value if isinstance(value, bytes) else b"" if value is None else compact(value)
        head = {"code": code, "flag": 1, "language": "JAVA", "opaque": self.header["opaque"], "version": 479, **more}
        return frame_of({**head, **({"remark": remark} if remark is not None else {})}, body)

    def answer(self, value: Any = None, **more: Any) -> None:
        self.send(self.frame(value, **more))


Answer = Callable[[Request], Awaitable[None] | None]


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def frame_of(header: dict[str, Any], body: bytes = b"") -> bytes:
    head = compact(header)
    return struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head + body


class FakeServer:
    """Answers each request by a function; remembers all of them, and how many it had not answered at once."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.connections = 0
        self.most_at_once = 0
        self.at_once = 0
        self.port = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def asked(self, code: int) -> list[dict[str, str]]:
        return [request.fields for request in self.requests if request.code == code]

    @asynccontextmanager
    async def run(self, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None):
        async with asyncio.TaskGroup() as tasks:

            async def one(request: Request) -> None:
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                try:
                    done = self.answer(request)
                    if done is not None:
                        await done
                finally:
                    self.at_once -= 1

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                self.connections += 1
                self._writers.add(writer)
                try:
                    while True:
                        size, head_size = struct.unpack(">ii", await reader.readexactly(8))
                        header = json.loads(await reader.readexactly(head_size))
                        await reader.readexactly(size - 4 - head_size)
                        request = Request(header["code"], header.get("extFields", {}), header, writer)
                        self.requests.append(request)
                        begun.add(task := tasks.create_task(one(request)))
                        task.add_done_callback(begun.discard)
                except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                    pass  # asyncio logs a stream's cancelled task as an error
                finally:
                    self._writers.discard(writer)
                    writer.close()

            begun: set[asyncio.Task[None]] = set()
            server = await asyncio.start_server(serve, host, port, ssl=tls)
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                server.close()
                self.drop_connections()
                for task in begun:
                    task.cancel()

    def drop_connections(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()


@dataclass
class FakeCluster:
    """A name server and brokers that agree with each other: which group is where, and who its members are.

    ``instead`` answers in a broker's or (``""``) the name server's place where it returns true.
    """

    brokers: tuple[str, ...] = ("broker-a", "broker-b")
    topics: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"Orders": ("broker-a", "broker-b")})
    groups: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"g": ("broker-a", "broker-b")})
    members: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"g": ("10.0.0.1@c1", "10.0.0.2@c2")})
    instead: Callable[[str, Request], Any] = lambda _name, _request: False
    servers: dict[str, FakeServer] = field(default_factory=dict)

    @asynccontextmanager
    async def run(self, tls: ssl.SSLContext | None = None):
        async with AsyncExitStack() as stack:
            for name in ("", *self.brokers):
                server = FakeServer(lambda request, name=name: self._answer(name, request))
                self.servers[name] = await stack.enter_async_context(server.run(tls=tls))
            yield self

    @property
    def name_server(self) -> str:
        return self.servers[""].address

    def asked(self, code: int) -> list[tuple[str, dict[str, str]]]:
        return [(name, fields) for name, server in self.servers.items() for fields in server.asked(code)]

    def _answer(self, name: str, request: Request):
        done = self.instead(name, request)
        if done is False:
            return (self._of_name_server if name == "" else self._of_broker)(name, request)
        return done if asyncio.iscoroutine(done) else None

    def _of_name_server(self, _name: str, request: Request) -> None:
        if request.code == CLUSTER:
            table = {
                broker: {"brokerAddrs": {0: server.address}, "brokerName": broker, "cluster": "Cl"}
                for broker, server in self.servers.items()
                if broker
            }
            # The dialect: broker ids are bare numbers.
            body = compact({"brokerAddrTable": table, "clusterAddrTable": {"Cl": list(self.brokers)}})
            request.answer(body.replace(b'{"0":', b"{0:"))
        elif request.code == TOPICS:
            request.answer({"topicList": [*self.topics, *(f"%RETRY%{g}" for g in self.groups), "TBW102", "Cl"]})
        elif request.code == ROUTE:
            topic = request.fields["topic"]
            at = self.topics.get(topic) or self.groups.get(topic.removeprefix("%RETRY%"), ())
            brokers = tuple(broker for broker in at if broker in self.servers)
            if not brokers:
                request.answer(code=17, remark=f"No topic route info in name server for the topic: {topic}\nSee FAQ")
            else:
                request.answer(self._route(brokers))
        else:
            request.answer(code=3, remark=f" request type {request.code} not supported")

    def _route(self, brokers: tuple[str, ...]) -> dict[str, Any]:
        queue = {"perm": 6, "readQueueNums": 4, "writeQueueNums": 4, "topicSysFlag": 0}
        addresses = [{"brokerName": b, "brokerAddrs": {"0": self.servers[b].address}, "cluster": "Cl"} for b in brokers]
        return {"brokerDatas": addresses, "queueDatas": [{"brokerName": b, **queue} for b in brokers]}

    def _of_broker(self, name: str, request: Request) -> None:
        group = request.fields.get("consumerGroup", "")
        here = self.members.get(group, ()) if name in self.groups.get(group, ()) else ()
        clients = [{"clientId": c, "clientAddr": "10.0.0.9:1", "language": "JAVA", "version": 479} for c in here]
        values = {
            GROUPS: {"subscriptionGroupTable": {g: {"groupName": g} for g, at in self.groups.items() if name in at}},
            MODES: {"messageRequestModeMap": {}},
            BROKER_CONFIG: b"accessKey=secret\ndefaultMessageRequestMode=PULL\ndefaultPopShareQueueNum=-1\n",
            WHO: {"groupList": []},
            RUNTIME_INFO: {"table": {"scheduleMessageOffset_3": "5,9", "secretPath": "/secret"}},
            HA_STATUS: {"master": True, "inSyncSlaveNums": 0, "haConnectionInfo": [], "masterCommitLogMaxOffset": 9},
            CONFIG: {"topicName": request.fields.get("topic"), "readQueueNums": 4, "writeQueueNums": 4, "perm": 6},
            STATUS: {"offsetTable": {}},
            STATS: {"offsetTable": {}},
            CONNECTIONS: {"connectionSet": clients, "subscriptionTable": {}, "messageModel": "CLUSTERING"},
            IDS: {"consumerIdList": list(here)},
            INFO: {"mqTable": {}, "properties": {}, "subscriptionSet": []},
            PRODUCERS: {"connectionSet": []},
        }
        if request.code == CONNECTIONS and not here:
            request.answer(code=206, remark=f"the consumer group[{group}] not online")
        elif request.code == IDS and not here:
            request.answer(code=1, remark=f"no consumer for this group, {group}")
        elif request.code in values:
            request.answer(values[request.code])
        else:
            request.answer(code=3, remark=f" request type {request.code} not supported")


async def collected(plan: Plan) -> list[dict[str, Any]]:
    """Collect, and the lines of all files."""
    await Collector(plan).run()
    return lines_of(plan)


def lines_of(plan: Plan) -> list[dict[str, Any]]:
    files = sorted((plan.landing / "admin_snapshots" / f"cluster={plan.cluster}").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
