"""The capture `scope` told again by fake servers, round by round, to a collector whose clock is the capture's."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hindsight.jobs.collect import line_maker, running_infos
from hindsight.jobs.collect import server as server_module
from hindsight.jobs.collect.cluster_view import Shard
from hindsight.jobs.collect.collector import Collector, Plan
from hindsight.jobs.collect.line_maker import LineMaker
from hindsight.jobs.collect.server import Manners
from tests.collect import virtual_time
from tests.collect.fake_servers import (
    CLUSTER,
    CONFIG,
    CONNECTIONS,
    GROUPS,
    IDS,
    INFO,
    PRODUCERS,
    ROUTE,
    STATS,
    STATUS,
    TOPICS,
    WHO,
    FakeServer,
)
from tests.conftest import CAPTURES

SCOPE = CAPTURES / "scope" / "admin_snapshots" / "cluster=scope"
NAME_SERVERS = ("127.0.0.1:19876", "127.0.0.1:19877")
BROKERS = {"127.0.0.1:20911": "broker-a", "127.0.0.1:20931": "broker-b"}
_KINDS = {
    CLUSTER: "clusterInfo",
    TOPICS: "topicList",
    ROUTE: "topicRoute",
    CONFIG: "topicConfig",
    WHO: "topicConsumeByWho",
    CONNECTIONS: "consumerConnection",
    IDS: "consumerIdList",
    STATS: "consumeStats",
    INFO: "consumerRunningInfo",
    PRODUCERS: "producerConnection",
}
_CODE = re.compile(r"CODE: (\d+)  DESC: (.*?)(?: BROKER: \S+)?$")

Line = dict[str, Any]


def rounds_of_the_capture() -> list[list[Line]]:
    """Lines of each sweep, those asked of each broker with them; the marker comes first."""
    parts: list[list[list[Line]]] = []
    for name in ("collector.jsonl.gz", "per_broker.jsonl.gz"):
        lines = map(json.loads, gzip.decompress((SCOPE / name).read_bytes()).splitlines())
        sweeps: list[list[Line]] = [[]]
        for line in lines:
            if line["kind"] == "sweepEnd":
                sweeps.append([])
            else:
                sweeps[-1].append(line)
        parts.append(sweeps[:-1])
    return [one + other for one, other in zip(*parts, strict=True)]


class Story:
    """Answers of the round that is told; what a round did not ask for is answered as when it was last asked."""

    def __init__(self, sweeps: list[list[Line]], first: int) -> None:
        self.sweeps = iter(sweeps)
        self.known: dict[tuple[str, str, str], Line] = {}
        self.begins_at = 0
        self.begun = 0.0
        for _ in range(first):
            self.next_round()

    def next_round(self) -> None:
        sweep = next(self.sweeps)
        self.begins_at, self.begun = sweep[0]["ts"], asyncio.get_running_loop().time()
        for line in sweep[1:]:
            if line["kind"] == "consumerRunningInfo" or "broker" in line or "name_server" in line:
                place = line.get("broker") or line.get("name_server") or ""
                self.known[line["kind"], line["subject"], place] = line
            elif line["kind"] in ("clusterInfo", "topicList", "topicConsumeByWho", "producerConnection"):
                self.known[line["kind"], line["subject"], ""] = line

    def now_ms(self) -> int:
        return self.begins_at + int((asyncio.get_running_loop().time() - self.begun) * 1000)

    def answer(self, address: str, request: Any) -> None:
        place, fields = BROKERS.get(address, address), request.fields
        subject = fields.get("topic") or fields.get("consumerGroup") or ""
        if request.code == STATUS:
            return request.answer({"offsetTable": {}})
        if request.code == GROUPS:
            return request.answer(self._groups(place))
        if request.code == INFO:
            subject = f"{subject}|{fields['clientId']}"
        elif request.code == PRODUCERS:
            subject = f"{fields['producerGroup']}@ScopeOrders"
        if request.code not in _KINDS:
            return request.answer(code=3, remark=f" request type {request.code} not supported")
        kind = _KINDS[request.code]
        line = self.known.get((kind, subject, place)) or self.known.get((kind, subject, ""))
        return None if line is None and kind == "consumerRunningInfo" else self._tell(request, kind, line)

    def _tell(self, request: Any, kind: str, line: Line | None) -> None:
        if line is None:
            request.answer(code=17, remark="not in the capture")
        elif line["raw"] is not None:
            is_list = kind == "consumerIdList"
            request.answer(f'{{"consumerIdList":{line["raw"]}}}'.encode() if is_list else line["raw"].encode())
        elif said := _CODE.search(line["error"]):
            request.answer(code=int(said[1]), remark=said[2])

    def _groups(self, broker: str) -> bytes:
        told = {
            s: line["raw"]
            for (kind, s, at), line in self.known.items()
            if (kind, at) == ("subscriptionGroupConfig", broker)
        }
        return (
            b'{"subscriptionGroupTable":{%s}}'
            % ",".join(f'"{s}":{raw}' for s, raw in told.items() if raw not in (None, "null")).encode()
        )


def tell_the_story(
    landing: Path, cluster: str, first: int = 0, last: int | None = None, shard: Shard | None = None
) -> None:
    """Collect sweeps of the story, from ``first`` up to ``last``, into a landing folder, as fast as it goes.

    ``shard``: with the clock standing still in each sweep, so that how much a shard asks moves no instant.
    """
    sweeps = rounds_of_the_capture()[:last]
    mark = LineMaker.mark

    async def run() -> None:
        story = Story(sweeps, first)

        def marked(self: LineMaker, kind: str, **facts: Any) -> None:
            if kind == "round":
                story.next_round()
            mark(self, kind, **facts)

        servers: dict[str, FakeServer] = {}
        async with AsyncExitStack() as stack:
            for address in (*NAME_SERVERS, *BROKERS):
                fake = FakeServer(lambda request, address=address: story.answer(address, request))
                servers[address] = await stack.enter_async_context(fake.run())
            with (
                patch.object(LineMaker, "mark", marked),
                patch.object(line_maker, "now_ms", (lambda: story.begins_at) if shard else story.now_ms),
                patch.object(server_module, "split_address", lambda address: ("127.0.0.1", servers[address].port)),
                patch.multiple(running_infos, _BROKER_WAITS_S=0.0, _MARGIN_S=0.0, LEFT_OUT_S=0.0),
            ):
                own = {"shard": shard, "collector": shard.collector(None)} if shard else {}
                of = {"every_s": 0.01, "manners": Manners(0.3), "rounds": len(sweeps) - first}
                plan = Plan(NAME_SERVERS, cluster, landing, **own, **of)
                await Collector(plan).run()

    virtual_time.run(run())
