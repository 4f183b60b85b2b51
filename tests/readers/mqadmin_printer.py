"""What mqadmin prints of given facts, release by release: its own format strings, filled as Java fills them.

Taken from the classes of rocketmq-tools: ConsumerConnectionSubCommand, ConsumerProgressSubCommand,
BrokerConsumeStatsSubCommad, TopicRouteSubCommand, ProducerConnectionSubCommand, ConsumerStatusSubCommand,
TopicStatusSubCommand.
"""

from __future__ import annotations

import json
from typing import NamedTuple

MEMBERS = [("10.0.0.1@7#1", "10.0.0.1:50001", "JAVA", "V4_9_8"), ("10.0.0.2@8", "10.0.0.2:50002", "GO", "V4_5_2")]
SUBSCRIBED = [("%RETRY%g", "*"), ("T", "TagA || TagB"), ("a_topic_that_is_longer_than_its_column_is", "*")]
# topic, broker, queue, broker's offset, the group's, owner, time
QUEUES = [
    ("%RETRY%g", "broker-a", 0, 0, 0, None, None),
    ("T", "broker-a", 0, 3415, 3400, "10.0.0.1@7#1", "2026-11-21 09:28:50"),
    ("T", "broker-b", 1, 12007, 12007, "10.0.0.2@8", "2026-11-21 09:32:36"),
]
# broker, queue, first offset, next offset, last stored
STATUS = [
    ("broker-a", 0, 12, 3415, "2026-11-21 09:28:50,141"),
    ("broker-b", 1, 0, 0, None),
    ("b" * 40, 2, 5, 9, "2026-11-21 09:32:36,233"),
]
BROKERS = [("broker-a", "10.1.0.11:10911", 4, 4), ("broker-b", "10.1.0.12:10911", 8, 2)]


class Release(NamedTuple):
    """How a release prints: the width of topics, and what else differs."""

    name: str
    topic: int = 32
    glued: bool = True  # connections without headers and line ends
    client: str | None = None  # the column of owners: what stands for none, or None without the column
    inflight: bool = False
    total: str = "Diff Total"
    never: str | None = "1970-01-01 00:00:00"
    has_list: bool = False
    status_header: bool = False


RELEASES = (
    Release("4.0.0"),
    Release("4.1.0", client="NA"),
    Release("4.3.0", client="N/A", never="N/A"),
    Release("4.9.0", never="N/A", has_list=True),
    Release("4.9.0 -s", client="N/A", never="N/A", has_list=True),
    Release("4.9.3", 64, glued=False, never="N/A", has_list=True),
    Release("5.0.0-PREVIEW", 64, never="N/A", has_list=True),
    Release("4.9.8", 64, glued=False, never="N/A", has_list=True, status_header=True),
    Release("5.1.0", 64, False, None, True, "Consume Diff Total", "N/A", True, True),
    Release("5.3.3 -s", 64, False, "N/A", True, "Consume Diff Total", "N/A", True, True),
)


def java(layout: str, *told: object) -> str:
    return layout % told


def connection(release: Release, members=MEMBERS) -> str:
    if release.glued:
        lines = [java("%03d  %-32s %-22s %-8s %s\n", i, *member) for i, member in enumerate(members, 1)]
        lines += ["\nBelow is subscription:"]
        lines += [java("%03d  Topic: %-40s SubExpression: %s\n", i, *sub) for i, sub in enumerate(SUBSCRIBED, 1)]
    else:
        header = ("#ClientId", "#ClientAddr", "#Language", "#Version")
        lines = [java("%-36s %-22s %-10s %s\n", *row) for row in (header, *members)]
        lines += ["\nBelow is subscription:\n"]
        lines += [java("%-20s %s\n", *row) for row in (("#Topic", "#SubExpression"), *SUBSCRIBED)] + ["\n"]
    trailer = "ConsumeType: CONSUME_PASSIVELY\nMessageModel: CLUSTERING\nConsumeFromWhere: CONSUME_FROM_LAST_OFFSET\n"
    return "".join(lines) + trailer


def progress(release: Release, queues=QUEUES) -> str:
    widths = (
        [release.topic, 32, 4, 20, 20] + ([20] if release.client else []) + [20] + ([20] if release.inflight else [])
    )
    header = ["#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset"]
    header += (["#Client IP"] if release.client else []) + ["#Diff"] + (["#Inflight"] if release.inflight else [])
    lines = [_row(widths, [*header, "#LastTime"])]
    for topic, broker, queue, at_broker, at_group, owner, time in queues:
        row = [topic[: release.topic], broker[:32], queue, at_broker, at_group]
        row += [owner or release.client] if release.client else []
        row += [at_broker - at_group] + ([0] if release.inflight else [])
        lines.append(_row(widths, [*row, time or release.never]))
    return "".join(lines) + f"\nConsume TPS: 0.72\n{release.total}: 15\n"


def broker_stats(release: Release, queues=QUEUES, group="g") -> str:
    widths = [release.topic, release.topic, 32, 4, 20, 20, 20]
    header = ["#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime"]
    lines = [_row(widths, header)]
    for topic, broker, queue, at_broker, at_group, _, time in queues:
        row = [
            topic[: release.topic],
            group,
            broker[:32],
            queue,
            at_broker,
            at_group,
            at_broker - at_group,
            time or "-",
        ]
        lines.append(_row(widths, row))
    return "".join(lines) + "\nDiff Total: 15\n"


def topic_status(queues=STATUS, *, put_tps: bool = False) -> str:
    lines = [
        java("%-32s  %-4s  %-20s  %-20s    %s\n", "#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")
    ]
    for broker, queue, low, high, last in queues:
        lines.append(java("%-32s  %-4d  %-20d  %-20d    %s\n", broker[:32], queue, low, high, last or ""))
    return "".join([*lines, "\nTopic Put TPS: 0.0\n" if put_tps else ""])


def _row(widths: list[int], told: list) -> str:
    *columns, last = (str(one) for one in told)
    return "".join(f"{one:<{width}}  " for one, width in zip(columns, widths, strict=True)) + f"{last}\n"


def route_list(release: Release, brokers=BROKERS) -> str:
    layout = "%-45s %-32s %-50s %-10s %-11s %-5s\n"
    lines = [layout % ("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")]
    lines += [layout % ("C", name, f"{{0={address}}}", read, write, 6) for name, address, read, write in brokers]
    return "".join(lines) + "-" * 158 + "\n" + layout % ("Total:", len(brokers), "", 12, 6, "")


def route_json(release: Release, of=BROKERS) -> str:
    brokers = [{"brokerAddrs": {"0": a}, "brokerName": b, "cluster": "C"} for b, a, _, _ in of]
    queues = [{"brokerName": b, "perm": 6, "readQueueNums": r, "writeQueueNums": w} for b, _, r, w in of]
    answer = {"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": queues}
    return json.dumps(answer, indent="\t").replace('"0": ', "0:") + "\n"


def producers(release: Release) -> str:
    return "".join(java("%04d  %-32s %-22s %-8s %s\n", i, *member) for i, member in enumerate(MEMBERS, 1))


def status(release: Release) -> str:
    layout = "%-10d %-40s %-20s %s\n" if release.status_header else "%03d  %-40s %-20s %s\n"
    header = java("%-10s %-40s %-20s %s\n", "#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile")
    rows = [layout % (i, m[0], m[3], f"1795253582923/{m[0]}") for i, m in enumerate(MEMBERS, 1)]
    ends = "\n\nSame subscription in the same group of consumer\n\nRebalance OK\n"
    return (header if release.status_header else "") + "".join(rows) + ends


def all_groups(release: Release) -> str:
    layout = f"%-{release.topic}s  %-6s  %-24s %-5s  %-14s  %-7s  %s\n"
    header = layout % ("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
    return header + layout % ("g", 2, "V4_9_8", "PUSH", "CLUSTERING", 3, 15)


def running_info(group: str, topics: list[str], owned: list[tuple[str, str, int]]) -> str:
    """ConsumerRunningInfo#formatString of 5.1.4, the parts that all releases have."""
    said = {"messageModel": "CLUSTERING", "consumerGroup": group, "PROP_CLIENT_VERSION": "V5_1_4"}
    said |= {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMEORDERLY": "false"}
    lines = ["#Consumer Properties#\n", *(java("%-40s: %s\n", *item) for item in said.items())]
    lines += ["\n\n#Consumer Subscription#\n"]
    layout = "%03d Topic: %-40s ClassFilter: %-8s SubExpression: %s\n"
    lines += [java(layout, i, topic, "false", "*") for i, topic in enumerate(topics, 1)]
    lines += ["\n\n#Consumer Offset#\n"]
    lines += [java("%-64s  %-32s  %-4s  %-20s\n", "#Topic", "#Broker Name", "#QID", "#Consumer Offset")]
    lines += [java("%-32s  %-32s  %-4d  %-20d\n", *queue, 100) for queue in owned]
    lines += ["\n\n#Consumer MQ Detail#\n"]
    lines += [java("%-64s  %-32s  %-4s  %-20s\n", "#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo")]
    held = "ProcessQueueInfo [commitOffset=100, droped=false]"
    lines += [java("%-64s  %-32s  %-4d  %s\n", *queue, held) for queue in owned]
    rates = ("#Topic", "#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS", "#ConsumeFailed TPS")
    lines += [
        "\n\n#Consumer RT&TPS#\n",
        java("%-64s  %14s %14s %14s %14s %18s  %25s\n", *rates, "#ConsumeFailedMsgsInHour"),
    ]
    return "".join(lines)
