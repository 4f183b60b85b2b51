"""Lines of a broker's or proxy's log in, rows of ``membership_event`` out: members, subscriptions, locks.

Layout of all releases: ``2026-01-05 10:15:00 INFO thread - text``, GMT+8, one-second resolution; others are read as
``log_layouts`` says. Messages are looked for anywhere in a line, under whatever wraps it; a line without any that is
registered here is ignored, and so is what a stack trace quotes.
The log does not say whose it is: the broker's name is the file's (``broker-a.log``), else its folder's.
``lock.log`` (who holds the lock of a queue) and ``proxy.log`` (clients that are gone) are read too; a line of a fault
table is a proxy's own only in a file of a server's name. Of servers' other files no line answers a question.
Of a name server's log, brokers that came and went there, and topics that no broker has any more.
Source: RouteInfoManager of name servers; ConsumerManager, ConsumerGroupInfo, ProducerManager, QueryAssignmentProcessor,
RebalanceLockManager, 4.0.0 to 5.5.0;
GrpcClientChannel, RemotingChannel, RemoteChannel and SimpleChannel of the proxy, its ClientActivity,
ClientManagerActivity, DefaultReceiptHandleManager and TopicRouteService, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import tzinfo
from itertools import takewhile
from typing import Any

from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import (
    ParsedLine,
    Record,
    RefusedLineError,
    ignored,
    instant_or_never,
    java_number,
)
from hindsight.udfs.logs.log_layouts import LogReading, Occurrences, continues_trace, read_head, stamp, without_colours
from hindsight.udfs.logs.log_stamps import Fractions, Look
from hindsight.udfs.logs.log_templates import Reader, Template, TemplateIndex, read_message, templates
from hindsight.udfs.logs.log_wrappers import Unwrapper, may_be_wrapped

_PARTS = {
    "GROUP": r"(?P<client_group>[^ ]++)",
    # A channel prints itself in its class's own way, which may hold anything: it ends where the rest begins.
    "CHANNEL": (
        r"ClientChannelInfo \[channel=(?P<channel>"
        r"[^,C]*+(?:(?:,(?! clientId=[^,\[\]]*+, language=)|C(?!lientChannelInfo \[))[^,C]*+)*), "
        r"clientId=(?P<client_id>[^,\[\]]++), "
        r"language=(?P<language>[^,\[\]]++), version=(?P<client_version>\d{1,10}+), "
        r"lastUpdateTimestamp=(?P<last_update_at>\d{1,19}+)\]"
    ),
    "SUBSCRIPTION": r"SubscriptionData \[(?P<subscription>.*+)",
    "QUEUE": (
        r"MessageQueue \[topic=(?P<topic>[^,\[\]]++), brokerName=(?P<queue_broker>[^,\[\]]++), "
        r"queueId=(?P<queue_id>\d{1,10}+)\]"
    ),
    "CLIENT": r"(?P<client_id>[^, ]++)",
    "HOLDER": r"(?P<held_by>[^, ]++)",
    "IN_LOCK": r"(?#)group=(?P<client_group>[^, ]++)",
    "AT_NAME_SERVER": (
        r"(?:BrokerIdentityInfo \[clusterName=[^,\[\]]*+, brokerAddr=)?(?P<broker_address>[^, \[\]]++)\]?"
    ),
}
_MEMBERS = templates(
    r"""
consumer_connected | new consumer connected, (?#)group: {GROUP} (?P<consume_type>[A-Z_]++) (?P<message_model>[A-Z_]++)
    channel: {CHANNEL}
consumer_unregistered | unregister a consumer\[(?P<client_group>[^\]]++)\] from consumerGroupInfo {CHANNEL}
consumer_group_removed | unregister consumer ok, (?#)no any connection, and remove consumer group, {GROUP}
consumer_channel_closed | NETTY EVENT: remove not active channel\[(?#){CHANNEL}\] from ConsumerGroupInfo
    groupChannelTable, consumer group: {GROUP}
consumer_channel_expired | SCAN: remove expired channel from ConsumerManager(?#)
    consumerTable(?:, all clear, |\. )(?:channel=(?P<address>[^ ,]++), )?consumerGroup={GROUP}
consumer_id_changed | \[BUG\] consumer channel exist in broker, but clientId not equal\. (?#)GROUP: {GROUP} OLD:
    .*?NEW: {CHANNEL} ?
consumer_id_changed | ConsumerGroupInfo: consumer channel exists in broker, but clientId is not the same one,
    (?#)group=(?P<client_group>[^,]++), old clientChannelInfo=.*?, new clientChannelInfo={CHANNEL}
subscription_added | subscription changed, add new topic, (?#)group: {GROUP} {SUBSCRIPTION}
subscription_removed | subscription changed, group: {GROUP} remove topic (?P<topic>[^ ]++) {SUBSCRIPTION}
    | " remove topic "
subscription_changed | subscription changed, group: {GROUP} OLD: SubscriptionData \[(?P<old_subscription>.*?)\] NEW:
    {SUBSCRIPTION} | " OLD: "
producer_connected | new producer connected, (?#)group: {GROUP} channel: {CHANNEL}
producer_group_removed | unregister a producer group\[(?P<client_group>[^\]]++)\] from groupChannelTable
producer_unregistered | unregister a producer\[(?P<client_group>[^\]]++)\] from groupChannelTable {CHANNEL}
producer_channel_closed | NETTY EVENT: remove channel\[(?#){CHANNEL}\]\[(?P<address>[^\]]*+)\] from ProducerManager
    groupChannelTable, producer group: {GROUP}
producer_channel_expired | SCAN: remove expired channel\[(?P<address>[^\]]*+)\] from ProducerManager
    groupChannelTable, producer group name: {GROUP}
producer_channel_expired | ProducerManager#scanNotActiveChannel: remove expired channel\[(?P<address>[^\]]*+)\] from
    ProducerManager groupChannelTable, producer group name: {GROUP}
producer_channel_expired | SCAN: remove expired channel from ProducerManager(?#) groupChannelTable, all clear,
    group={GROUP}
group_not_known | getConsumerGroupInfo failed, {GROUP} (?P<address>[^ ]++)
group_without_clients | getAllClientId failed, {GROUP} (?P<address>[^ ]++)
assignment_failed | QueryLoad: no assignment for
    group\[(?P<client_group>[^\]]++)\](?: |, the )topic\[(?P<topic>[^\]]++)\](?:, get consumer id list failed|,
    allocate message queue exception\. .*+| does not exist\.)
""",
    _PARTS,
)
# Lines of lock.log, in the words of 4.0.0 to 4.9.7 and of 5.0.0 on.
_TRIED = r"""
queue_locked | {BY}, message queue not locked, I got it\. (?#)Group: {GROUP} NewClientId: {CLIENT} {QUEUE}
lock_taken_over | {BY}, message queue lock expired, I got it\. (?#)Group: {GROUP} OldClientId: {HOLDER} NewClientId:
    {CLIENT} {QUEUE}
lock_refused | {BY}, message queue locked by other client\. (?#)Group: {GROUP} OtherClientId: {HOLDER} NewClientId:
    {CLIENT} {QUEUE}
queue_locked | RebalanceLockManager#{BY}: lock a message (?#)(?:queue )?+which has not been locked yet, {IN_LOCK},
    clientId={CLIENT}, mq={QUEUE}
lock_taken_over | RebalanceLockManager#{BY}: try to lock a expired message queue, {IN_LOCK}, mq={QUEUE}, old client
    id={HOLDER}, new client id={CLIENT}
lock_refused | RebalanceLockManager#{BY}: message queue has been locked by other client, {IN_LOCK}, mq={QUEUE}, locked
    client id={HOLDER}, current client id={CLIENT}
"""
_OTHERS = templates(
    r"""
queue_unlocked | unlockBatch, Group: {GROUP} {QUEUE} {CLIENT}
unlock_refused | unlockBatch, but mq locked by other client: {HOLDER}, Group: {GROUP} {QUEUE} {CLIENT}
unlock_refused | unlockBatch, but mq not locked, (?#)Group: {GROUP} {QUEUE} {CLIENT}
queue_unlocked | RebalanceLockManager#unlockBatch: unlock mq, {IN_LOCK}, clientId={CLIENT}, mqs?={QUEUE}
unlock_refused | RebalanceLockManager#unlockBatch: mq not locked, {IN_LOCK}, clientId={CLIENT}, mqs?={QUEUE}
unlock_refused | RebalanceLockManager#unlockBatch: mq locked by other client, {IN_LOCK}, locked clientId={HOLDER},
    current clientId={CLIENT}, mqs={QUEUE}
# Of proxies: a client that is gone, what was kept for it, and the fault table of its own (sendLatencyEnable).
proxy_handles_cleared | clear handle of this client when client unregister\. (?#)group:(?P<client_group>[^, ]++),
    clientChannelInfo:{CHANNEL}
proxy_client_gone | remove grpc channel when client unregister\. (?#)group:(?P<client_group>[^, ]++),
    clientChannelInfo:{CHANNEL}, removed:(?:true|false)
proxy_client_gone | remove remoting channel when client unregister\. (?#)clientChannelInfo:{CHANNEL}
broker_isolated | (?P<isolated_broker>[^ ]++) will be isolated for (?P<duration_ms>\d{1,18}+) ms\.
broker_unreachable | (?P<isolated_broker>[^ ]++) is unreachable, it will not be used(?#) until it's reachable
broker_reachable | (?P<isolated_broker>[^ ]++) is reachable now, then it can be used(?#)\.
# Of name servers: brokers that come and go there, and topics that no broker has any more.
broker_registered | new broker registered, {AT_NAME_SERVER} HASer(?:ver|vice): .*+
broker_unregistered | unregisterBroker, remove from brokerLiveTable OK, {AT_NAME_SERVER}
broker_expired | The broker channel expired, {AT_NAME_SERVER} (?P<duration_ms>\d{1,18}+)ms
broker_channel_destroyed | the broker's channel destroyed, (?:submit the unregister request at once, broker info:
    .{0,1000}?brokerAddr='?)?+(?P<broker_address>[^, '\[\]{}]++).*+
topic_unregistered | remove topic\[(?P<topic>[^ \[\]]++)\] all queue, from topicQueueTable, because channel destroyed
    | "] all queue, from topicQueueTable"
topic_unregistered | removeTopicByBrokerName, remove the topic all queue (?P<topic>[^ ]++)
""",
    _PARTS,
)
_LOCKED = (form for by in ("tryLock", "tryLockBatch") for form in templates(_TRIED, {**_PARTS, "BY": by}))
TEMPLATES = (*_MEMBERS, *_LOCKED, *_OTHERS)
_NEEDLES = (
    *("ockBatch", "anceLockManager#tryLock:", "tryLock, message q", "emove ", "unregister", "onsumer channel exist"),
    *("iption changed, ", "er connected, ", "reachable", "GroupInfo fail", "AllClientId fail", "yLoad: no assignme"),
    *("ill be isolated for", "roker registered, ", "rokerLiveTable OK", "roker channel expir", " channel destroyed"),
    "he topic all queue",
)
_MESSAGES = TemplateIndex(TEMPLATES, _NEEDLES)
# Netty's own channels and SimpleChannel of the proxy: ``[id: 0x1, L:/10.0.0.1:8080 - R:/10.0.0.2:5000]``;
# GrpcClientChannel and RemotingChannel name both addresses; RemoteChannel (of another proxy) names none.
_REMOTE = re.compile(r"\bremoteAddress=([^,}\]\s]*+)| R:([^ \]]*+)\]")
_LOCAL = re.compile(r"\blocalAddress=([^,}\]\s]*+)| L:([^ \]]*+) ")
# What RocketMQ calls the file itself: rmq.broker.logback.xml and the like, 4.0.0 to 5.5.0.
_OWN_NAME = re.compile(
    r"(?:broker(?:_default|_traffic|_metrics?)?|auth_audit|coldctr|commercial|controller(?:_default|_traffic)?|dledger|"
    r"filter|jraft|lite|lock|namesrv(?:_default|_traffic)?|pop|protection|remoting|rocksdb|stats|store|storeerror|"
    r"tiered_store|transaction|watermark)(?:\.\d+)?"
).fullmatch
_OF_PROXY = re.compile(r"proxy(?:_metric|_traffic|_watermark)?(?:\.\d+)?").fullmatch
ISOLATIONS = frozenset({"broker_isolated", "broker_unreachable", "broker_reachable"})
# In a log that is no server's own these words are a client's; what else the line says is looked for all the same.
_NO_ISOLATIONS = TemplateIndex([one for one in TEMPLATES if one.kind not in ISOLATIONS], _NEEDLES)
_NAMELESS = frozenset({"otherdays", "other_days", "rocketmqlogs"})  # folders that RocketMQ makes
_STATIC = "__syslo__"  # as broker of a logical queue
_UPDATED = "lastUpdateTimestamp"
_MEMBER = {name: re.compile(rf"(?:^|, ){name}=([^,\[\]]*+)") for name in ("topic", "subVersion")}


def parse_broker_log(
    lines: Iterable[Line], *, zone: tzinfo, file: str = "", look: Look | None = None
) -> Iterator[ParsedLine]:
    """One ``ParsedLine`` per line.

    Args:
        lines: of one file.
        zone: of a layout of one's own that writes a comma before milliseconds; RocketMQ's own is GMT+8.
        file: the file's path inside its cluster's folder.
        look: gives the lines anew; None: they can be read only once.
    """
    reader = _Reader(broker_of(file), LogReading(zone, fractions=Fractions(look)), is_server=is_server_s(file))
    unwrapper = Unwrapper()
    for line in lines:
        text = line[3]
        if line[4] is None and not (may_be_wrapped(text) or _MESSAGES.may_hold_one(text)):
            yield ignored(line)
        else:
            for entry, inner in unwrapper.take(line):
                yield ignored(entry) if inner is None else reader.take(entry, inner)
    for entry, inner in unwrapper.rest():
        yield reader.take(entry, inner)


class _Reader:
    """Reads wanted lines; remembers which lines this instant has had."""

    def __init__(self, broker_name: str, reading: LogReading, *, is_server: bool) -> None:
        self.broker_name = broker_name
        self.is_server = is_server
        self.reading = reading
        self.occurrences = Occurrences()

    def take(self, line: Line, text: str) -> ParsedLine:
        """A line with the text that the broker wrote."""
        if line.refusal is not None:
            return ParsedLine(line, refusal=line.refusal)
        text = without_colours(text.partition("\n")[0])  # below it stands what was thrown
        found = (_MESSAGES if self.is_server else _NO_ISOLATIONS).search(text)
        if found is None or continues_trace(text):
            return ignored(line)
        try:
            row = self._event(text, *found)
        except RefusedLineError as refused:
            return ParsedLine(line, refusal=refused.refusal)
        return ParsedLine(line, (Record("membership_event", row),))

    def _event(self, text: str, start: int, form: Template) -> dict[str, Any]:
        head = read_head(text, start, self.reading)
        message = text[start:]
        row = read_message(form, message, _READ)
        stamp(row, head, text, message, self.occurrences)
        queue_s = row.pop("queue_broker", "")
        row["broker_name"] = self.broker_name if queue_s.startswith(_STATIC) else queue_s or self.broker_name
        row.setdefault("client_group", "")
        return row


def is_server_s(file: str) -> bool:
    """Whether a file has a name that brokers, name servers, controllers or proxies give to their own logs."""
    stem = file.rpartition("/")[2].partition(".log")[0]
    return bool(_OWN_NAME(stem) or _OF_PROXY(stem))


def broker_of(file: str) -> str:
    """``broker-a`` for ``broker-a.log.gz`` and ``broker-a/otherdays/broker.1.log.gz``; '' for a mere ``broker.log``.

    A proxy's own log is ``proxy``, or ``proxy@<folder>``.
    """
    *folders, name = file.split("/")
    stem = name.partition(".log")[0]
    own = takewhile(lambda folder: "=" not in folder, reversed(folders))  # below the landing folder's cluster=...
    folder = next((folder for folder in own if folder not in _NAMELESS), "")
    if _OF_PROXY(stem):
        return f"proxy@{folder}" if folder else "proxy"
    return folder if _OWN_NAME(stem) else stem


def _end(column: str, pattern: re.Pattern[str], printed: str) -> dict[str, Any]:
    """An address of a channel, by name where it has names."""
    found = sorted((end[1] is None, end[1] or end[2] or "") for end in pattern.finditer(printed))
    address = found[0][1].removeprefix("/") if found else ""
    return {column: address} if address and address != "null" else {}


def _subscription(printed: str) -> dict[str, Any]:
    topic, version = _MEMBER["topic"].search(printed), _MEMBER["subVersion"].search(printed)
    row: dict[str, Any] = {"topic": topic[1]} if topic else {}
    if version and version[1]:
        row["sub_version"] = java_number(version[1], 64)
    return row | {"sub_string": _sub_string(printed)}


def _sub_string(printed: str) -> str | None:
    """An SQL92 expression may hold anything: it ends where the tags begin."""
    after = printed.partition("subString=")[2]
    expression, found, _ = after.rpartition(", tagsSet=")
    return expression if found else None


_READ: dict[str, Reader] = {
    "channel": lambda text: _end("address", _REMOTE, text) | _end("broker_address", _LOCAL, text),
    "queue_id": lambda text: {"queue_id": java_number(text, 32)},
    "duration_ms": lambda text: {"duration_ms": java_number(text, 64)},
    "client_version": lambda text: {"client_version": java_number(text, 32)},
    "last_update_at": lambda text: {"last_update_at": instant_or_never({_UPDATED: java_number(text, 64)}, _UPDATED)},
    "subscription": _subscription,
    "old_subscription": lambda text: {"old_sub_string": _sub_string(text)},
}
