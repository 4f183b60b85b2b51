"""A process of the lives of messages whose clients are RocketMQ's C++ library, by the wheel ``rocketmq``.

Arguments: name servers, landing folder, truth file, then consumers: group;topic. What it is told and its truth are
those of ``Lives.java``. Producer hook lines are written as docs/send-records.md tells C++ programs to. The library's C
interface does not tell the queue of a message, so what it sends to has one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from rocketmq.client import Message, Producer, PushConsumer

_GROUP = "native_lives"


def main(name_servers: str, landing: str, truth: str, *consumers: str) -> None:
    """Do what stdin says until it says something else."""
    own = [_consumer(name_servers, Path(truth), *words.split(";")) for words in consumers]
    producer = None if own else Producer(_GROUP)
    if producer:
        producer.set_namesrv_addr(name_servers)
        producer.start()
    client_id = f"{os.getpid()}-127.0.0.1@DEFAULT"  # as the library makes it
    hook = Path(landing, "producer_hook", "cluster=real", f"native-{os.getpid()}.jsonl")
    if producer:
        _told(hook, {"type": "start", "ts": _now(), "group": _GROUP, "clientId": client_id, "language": "CPP"})
    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        if not line.startswith("send "):
            break
        _, kind, topic, tag, count = line.split()
        for _ in range(int(count)):
            _send(producer, hook, Path(truth), client_id, kind, topic, tag)
        print("done", flush=True)
    for one in own:
        one.shutdown()
    os._exit(0)  # the library's own threads may wait for long


def _send(producer: Producer, hook: Path, truth: Path, client_id: str, kind: str, topic: str, tag: str) -> None:
    message = Message(topic)
    message.set_tags(tag)
    message.set_body("x" * 10)
    begun = _now()
    result = producer.send_sync(message)
    place = {"topic": topic, "broker": "broker-a", "queueId": 0, "queueOffset": result.offset}
    send = {"mode": "SYNC", "times": 0, "beginMs": begun, "endMs": _now(), "status": "SEND_OK", "tag": tag}
    who = {"type": "attempt", "group": _GROUP, "clientId": client_id}
    _told(hook, who | place | send | {"msgId": result.msg_id})
    _wrote(truth, f"sent {kind} {result.msg_id}")


def _consumer(name_servers: str, truth: Path, group: str, topic: str) -> PushConsumer:
    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(name_servers)
    consumer.subscribe(topic, lambda message: _wrote(truth, f"consumed {group} {message.id} native"))
    consumer.start()
    return consumer


def _told(hook: Path, row: dict) -> None:
    hook.parent.mkdir(parents=True, exist_ok=True)
    _wrote(hook, json.dumps(row))


def _wrote(file: Path, line: str) -> None:
    with file.open("a") as lines:
        lines.write(f"{line}\n")


def _now() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main(*sys.argv[1:])
