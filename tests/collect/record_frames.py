"""Record one sweep of a real cluster, frame by frame: what tests/golden/remoting holds and the fake servers replay.

``python -m tests.collect.record_frames OUT.jsonl.gz HOST:PORT[;HOST:PORT] [PRODUCER_GROUP ...]``
Each line: the server's address, code and fields of the request, and the answer's frame in base64.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import struct
import sys
from pathlib import Path
from unittest.mock import patch

from jobs.collect.cluster_view import Wanted
from jobs.collect.collector import Plan, run_collector
from jobs.collect.server import Server, split_address
from udfs.remoting_frames import FrameDecoder, encode_request

OPAQUE = 1_999_999_999  # of every request; replayed answers carry the asker's instead


async def exchange(address: str, code: int, fields: dict[str, str]) -> bytes:
    """One request on a connection of its own, and the bytes of its answer."""
    reader, writer = await asyncio.open_connection(*split_address(address))
    writer.write(encode_request(code, OPAQUE, fields))
    size = await reader.readexactly(4)
    frame = size + await reader.readexactly(*struct.unpack(">i", size))
    writer.close()
    return frame


def main(out: str, name_servers: str, *producers: str) -> None:
    with gzip.open(out, "wt", encoding="utf-8") as file:

        async def ask(self, code, fields, *, silence_tells=True):
            frame = await exchange(self.address, code, fields)
            told = {"address": self.address, "code": code, "fields": dict(fields)}
            file.write(json.dumps({**told, "frame": base64.b64encode(frame).decode()}) + "\n")
            (answer,) = FrameDecoder().feed(frame)
            return answer

        with patch.object(Server, "ask", ask):
            wanted = Wanted(producers=producers)
            landing = Path(out).with_suffix(".landing")
            run_collector(Plan(tuple(name_servers.split(";")), "recorded", landing, rounds=1, wanted=wanted))


if __name__ == "__main__":
    main(*sys.argv[1:])
