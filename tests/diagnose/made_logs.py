"""Messages at seconds in, logs of clients that print them out: for tests of one rule each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

BEGIN = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)
A, B = "10.0.0.1@7", "10.0.0.1@7#2"


def ms(second: float) -> int:
    return int(BEGIN.timestamp() * 1000) + int(second * 1000)


def log(*lines: tuple[float, str], pid: int | None = None) -> bytes:
    """A log of 4.9.8, or with ``pid`` of 5.3.3, of messages at seconds."""
    made = []
    for second, message in sorted(lines, key=lambda line: line[0]):
        at = BEGIN + timedelta(seconds=second)
        if pid is None:
            made.append(f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03} INFO RocketmqClient - {message}\r\n")
        else:
            at += timedelta(hours=8)
            stamp = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"
            made.append(f"{stamp} INFO  [{pid}] [t] [o.a.r.X#?:?] - {message}\n")
    return "".join(made).encode()


def queue(number, topic="T"):
    return f"MessageQueue [topic={topic}, brokerName=b, queueId={number}]"


def result(client, *queues, group="g", topic="T", members=2, queue_count=8):
    printed = ", ".join(queue(number, topic) for number in queues)
    return (
        "rebalanced result changed. allocateMessageQueueStrategyName=AVG, "
        f"group={group}, topic={topic}, clientId={client}, mqAllSize={queue_count}, cidAllSize={members}, "
        f"rebalanceResultSize={len(queues)}, rebalanceResultSet=[{printed}]"
    )


APPLIED = "T Rebalance changed, also update version: 1, 2"


def got(second, client, *queues, **options):
    return [(second, result(client, *queues, **options)), (second + 0.001, APPLIED)]


def beats(first, last, step=5):
    """Ordinary lines, which tell that the process runs."""
    return [(second, "a line") for second in range(first, last + 1, step)]


def created(client, index=0):
    instance = f"InstanceIndex:{index}, ClientID:{client}, ClientConfig:x, ClientVersion:V4_9_8, SerializerType:JSON"
    return f"Created a new client Instance, {instance}"
