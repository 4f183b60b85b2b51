"""Record one sweep of a real cluster, frame by frame: what tests/golden/remoting holds and the fake servers replay.

``python -m tests.collect.record_frames RELEASE OUT.jsonl.gz`` starts the cluster and its clients, see real_cluster.py.
Each line: the server's address, code and fields of the request, and the answer's frame in base64.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import struct
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hindsight.jobs.collect.cluster_view import Wanted
from hindsight.jobs.collect.collector import Plan, run_collector
from hindsight.jobs.collect.failures import timed_out
from hindsight.jobs.collect.server import Server, split_address
from hindsight.udfs.remoting.remoting_frames import FrameDecoder, encode_request
from tests.collect.real_cluster import cluster, looker

OPAQUE = 1_999_999_999  # of every request; replayed answers carry the asker's instead


async def exchange(address: str, code: int, fields: dict[str, str]) -> bytes:
    """One request on a connection of its own, and the bytes of its answer."""
    reader, writer = await asyncio.open_connection(*split_address(address))
    writer.write(encode_request(code, OPAQUE, fields))
    size = await reader.readexactly(4)
    frame = size + await reader.readexactly(*struct.unpack(">i", size))
    writer.close()
    return frame


def record(out: Path, name_servers: str, landing: Path) -> None:
    """One sweep in which every exchange is kept."""
    with gzip.open(out, "wt", encoding="utf-8") as file:

        async def ask(self, code, fields, *, silence_tells=True):
            try:
                async with asyncio.timeout(3):
                    frame = await exchange(self.address, code, fields)
            except TimeoutError:
                raise timed_out(self.address, 3) from None
            told = {"address": self.address, "code": code, "fields": dict(fields)}
            file.write(json.dumps({**told, "frame": base64.b64encode(frame).decode()}) + "\n")
            (answer,) = FrameDecoder().feed(frame)
            return answer

        with patch.object(Server, "ask", ask):
            wanted = Wanted(producers=("pg_look@LookOrders",))
            run_collector(Plan(tuple(name_servers.split(";")), "recorded", landing, rounds=1, wanted=wanted))


def main(release: str, out: str) -> None:
    with TemporaryDirectory() as folder:
        home, many = Path(folder), release >= "5"
        with (
            cluster(release, home, brokers=2 if many else 1, name_servers=2 if many else 1) as name_servers,
            looker("5.3.3", home / "look", name_servers),
        ):
            time.sleep(40)
            record(Path(out), name_servers, home / "landing")


if __name__ == "__main__":
    main(*sys.argv[1:])
