"""Many fake servers in a process of their own: ``python -m tests.collect.simulated_fleet BROKERS GROUPS EACH_AT``.

More words after these: members of each group (3), topics (a tenth of the groups), brokers of each twentieth group
(``EACH_AT``), and N: of one group of N, and of one topic of N, the offsets move with each answer (0: of none). Prints
the two name servers' addresses and serves until it is killed. Answers are as long as real ones; a tenth of the groups
is offline.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
import sys
from collections.abc import Callable

Answer = tuple[int, bytes]


def compact(value) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Speaker(asyncio.Protocol):
    """One connection; answers at once."""

    def __init__(self, answer: Callable[[int, dict[str, str]], Answer]) -> None:
        self.answer = answer
        self.bytes = b""

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        data, out = self.bytes + data, []
        while len(data) >= 8 and len(data) >= 4 + (size := struct.unpack(">i", data[:4])[0]):
            request = json.loads(data[8 : 4 + size])
            code, body = self.answer(request["code"], request["extFields"])
            remark = ',"remark":"the consumer group is not online"' if code else ""
            head = f'{{"code":{code},"flag":1,"language":"JAVA","opaque":{request["opaque"]}{remark},"version":479}}'
            out.append(struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head.encode() + body)
            data = data[4 + size :]
        self.bytes = data
        self.transport.write(b"".join(out))


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
    ) -> None:
        self.members = members
        self.brokers = [f"broker-{n:02}" for n in range(brokers)]
        at = [each_at if n % 20 else twentieth_at or each_at for n in range(groups)]
        self.groups = {f"g_consumer_{n:04}": self._some(n, at[n]) for n in range(groups)}
        self.topics = {f"Topic_{n:03}": self._some(n, each_at) for n in range(topics or groups // 10)}
        moving = slice(1, None, one_moves_of) if one_moves_of else slice(0)
        self.moving = {*list(self.groups)[moving], *list(self.topics)[moving]}
        self.offsets = itertools.count(1_000_000)
        self.addresses: dict[str, str] = {}
        info = {"PROP_CLIENT_VERSION": "V5_3_3", "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "x": "y" * 600}
        queue = {"cachedMsgCount": 0, "commitOffset": 17, "droped": False, "lastPullTimestamp": 1, "locked": False}
        keyed = b",".join(b'{"brokerName":"b","queueId":%d,"topic":"T"}:%s' % (n, compact(queue)) for n in range(12))
        self.info = b'{"mqTable":{%s},"properties":%s,"subscriptionSet":[]}' % (keyed, compact(info))
        offsets = compact({"brokerOffset": 17, "consumerOffset": 16, "lastTimestamp": 1, "pullOffset": 17})
        self.stats = b'{"offsetTable":{%s}}' % b",".join(
            b'{"brokerName":"b","queueId":%d,"topic":"T"}:%s' % (n, offsets) for n in range(8)
        )
        self.config = {"brokerId": 0, "consumeEnable": True, "retryMaxTimes": 16, "x": "y" * 300}

    def _some(self, first: int, each_at: int) -> list[str]:
        return [self.brokers[(first + n) % len(self.brokers)] for n in range(min(each_at, len(self.brokers)))]

    def of_name_server(self, code: int, fields: dict[str, str]) -> Answer:
        if code == 106:
            table = {b: {"brokerAddrs": {"0": self.addresses[b]}, "brokerName": b} for b in self.brokers}
            return 0, compact({"brokerAddrTable": table, "clusterAddrTable": {"Fleet": self.brokers}})
        if code == 206:
            return 0, compact({"topicList": [*self.topics, *(f"%RETRY%{group}" for group in self.groups)]})
        topic = fields["topic"]
        at = self.topics.get(topic) or self.groups.get(topic.removeprefix("%RETRY%"), [])
        queues = [{"brokerName": b, "perm": 6, "readQueueNums": 4, "writeQueueNums": 4} for b in at]
        return 0, compact({"brokerDatas": [], "queueDatas": queues})

    def of_broker(self, name: str) -> Callable[[int, dict[str, str]], Answer]:
        here = [group for group, at in self.groups.items() if name in at]
        configured = compact({"subscriptionGroupTable": {g: {**self.config, "groupName": g} for g in here}})

        def answer(code: int, fields: dict[str, str]) -> Answer:
            group = fields.get("consumerGroup", "")
            is_online = not group.endswith("0")
            ids = [f"10.{n}.0.1@{group}" for n in range(self.members)]
            if code == 203 and is_online:
                clients = [{"clientAddr": "10.0.0.1:1", "clientId": c, "language": "JAVA", "version": 479} for c in ids]
                return 0, compact({"connectionSet": clients, "subscriptionTable": {"T": {"x": "y" * 200}}})
            if code == 38 and is_online:
                return 0, compact({"consumerIdList": ids})
            if code in (203, 38):
                return 206, b""
            bodies = {201: configured, 307: self.info, 208: self.stats, 202: self.stats, 300: b'{"groupList":[]}'}
            body = bodies.get(code, b"{}")
            if self.moving.isdisjoint((group, fields.get("topic"))):
                return 0, body
            return 0, body.replace(b'Offset":17', b'Offset":%d' % next(self.offsets))

        return answer


async def serve(fleet: Fleet) -> None:
    loop = asyncio.get_running_loop()

    async def listen(answer) -> str:
        server = await loop.create_server(lambda: Speaker(answer), "127.0.0.1", 0)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    for name in fleet.brokers:
        fleet.addresses[name] = await listen(fleet.of_broker(name))
    print(";".join([await listen(fleet.of_name_server) for _ in range(2)]), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Fleet(*map(int, sys.argv[1:]))))
