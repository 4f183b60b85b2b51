"""Wrong configuration in what has landed: a table of rules, each a query over the newest records of each cluster.

A query gives ``cluster``, ``subject`` (what is set wrongly) and ``detail`` (what was found, as a sentence). What a rule
leaves out on purpose (retry topics, a cluster of one broker, queues that are taken away) stands in its query.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from hindsight.conf.failure import DRIFT_FOUND, ExpectedError
from hindsight.jobs.engines.asker import Asker, Record, as_records, on_last_date
from hindsight.jobs.running.terminal import legible
from hindsight.schemas import SEVERITIES, TABLES
from hindsight.udfs.values.message_queues import is_system_group, is_system_topic


class LintFoundError(ExpectedError):
    """Raised when something is as severe as the caller wants to hear of, or more."""

    exit_code = DRIFT_FOUND


class Rule(NamedTuple):
    """``breaks``: what goes wrong with it; ``change``: the line to write, ``{subject}`` being what it is about."""

    code: str
    severity: str
    breaks: str
    change: str
    query: str


def _last(table: str, *, and_before: bool = False) -> str:
    """Where ``lint`` puts whether a row lies on its cluster's last date; ``and_before``: or on the date before it."""
    return f"<{table} {int(and_before)}>"


_LAST = re.compile(r"<(\w+) ([01])>")


def _newest(columns: str, table: str, key: str) -> str:
    """The newest row of each key, as SQL that both engines know."""
    picked = ", ".join(f"MAX_BY({name}, captured_at) AS {name}" for name in columns.split())
    keys = key.replace(" ", ", ")
    return f"SELECT {keys}, {picked} FROM {table} WHERE {_last(table, and_before=True)} GROUP BY {keys}"


_GROUP = _newest(
    "consume_enable notify_consumer_ids_changed retry_queue_nums retry_max_times",
    "subscription_group",
    "cluster consumer_group broker_name",
)
# A read names all brokers of a topic; what an earlier one named may be gone. Topics by a broker's name are its own.
_ROUTES = f"""SELECT r.cluster, r.topic, r.broker_name, r.read_queue_nums, r.write_queue_nums, r.perm
  FROM (SELECT * FROM topic_route WHERE {_last("topic_route", and_before=True)}) r JOIN (
    SELECT cluster, collector, topic, MAX(captured_at) AS captured_at FROM topic_route
    WHERE {_last("topic_route", and_before=True)} GROUP BY cluster, collector, topic
  ) l ON r.cluster = l.cluster AND r.collector = l.collector AND r.topic = l.topic AND r.captured_at = l.captured_at
  WHERE SUBSTR(r.topic, 1, 7) <> '%RETRY%' AND SUBSTR(r.topic, 1, 5) <> '%DLQ%' AND r.topic <> r.broker_name"""
# The first latency that makes a broker unavailable.
_RUNGS = " ".join(
    f"WHEN TRY_ELEMENT_AT(not_available_ms, {n}) > 0 THEN TRY_ELEMENT_AT(latency_max_ms, {n})" for n in range(1, 9)
)
_PRODUCER = f"""SELECT cluster, producer_group, client_id, client_version, profile, latency_fault_enabled,
    detector_enabled, CASE {_RUNGS} END AS first_ms, recorded.send_timeout_ms AS send_timeout_ms,
    COALESCE(recorded.retry_times_sync, 2) AS retries
  FROM producer_replay WHERE {_last("producer_replay")}"""


def _of_group(condition: str, detail: str) -> str:
    return f"""SELECT cluster, consumer_group AS subject,
    CONCAT({detail}, ' at ', MIN(COALESCE(broker_name, 'its broker'))) AS detail
    FROM ({_GROUP}) WHERE {condition} GROUP BY cluster, consumer_group"""


def _open(cause: str) -> str:
    return f"""SELECT cluster, consumer_group AS subject, sentence AS detail FROM drift_incident
    WHERE root_cause = '{cause}' AND state <> 'RESOLVED'"""


def _producers(condition: str, detail: str) -> str:
    return f"""SELECT cluster, producer_group AS subject, CONCAT({detail}, ' (', MIN(client_id), ')') AS detail
    FROM ({_PRODUCER}) WHERE {condition} GROUP BY cluster, producer_group"""


def _consumers_by_pid(last: int) -> str:
    """Members up to a release (MQVersion ordinal) that were given no instance name: a number stands for it."""
    return f"""SELECT cluster, consumer_group AS subject, CONCAT('member ', MIN(client_id)) AS detail
    FROM consumer_heartbeat WHERE {_last("consumer_heartbeat")}
    AND language = 'JAVA' AND client_version <= {last}
    AND TRY_CAST(SPLIT_PART(client_id, '@', 2) AS BIGINT) IS NOT NULL GROUP BY cluster, consumer_group"""


RULES = (
    Rule(
        "CONSUME_OFF",
        "CRITICAL",
        "nobody in the group is given a message: brokers answer pulls with NO_PERMISSION",
        "mqadmin updateSubGroup -c CLUSTER -g {subject} -s true",
        _of_group("consume_enable = false", "'consumeEnable is false'"),
    ),
    Rule(
        "NO_RETRY_QUEUE",
        "CRITICAL",
        "a message that fails is thrown away: the broker takes it back and stores it nowhere",
        "mqadmin updateSubGroup -c CLUSTER -g {subject} -q 1",
        _of_group("retry_queue_nums <= 0", "CONCAT('retryQueueNums is ', MIN(retry_queue_nums))"),
    ),
    Rule(
        "NO_RETRIES",
        "HIGH",
        "the first failure of a message is its last: it goes to the dead letter queue",
        "mqadmin updateSubGroup -c CLUSTER -g {subject} -r 16",
        _of_group("retry_max_times <= 0", "CONCAT('retryMaxTimes is ', MIN(retry_max_times))"),
    ),
    Rule(
        "NOTIFY_OFF",
        "MEDIUM",
        "members hear of a change by their own timer alone: up to 20 s in which queues have no owner or two",
        "mqadmin updateSubGroup -c CLUSTER -g {subject} -a true",
        _of_group("notify_consumer_ids_changed = false", "'notifyConsumerIdsChangedEnable is false'"),
    ),
    Rule(
        "BROKERS_DIFFER",
        "MEDIUM",
        "what becomes of a message depends on the broker that holds it",
        "mqadmin updateSubGroup -c CLUSTER -g {subject} ... (the same at all brokers)",
        f"""SELECT cluster, consumer_group AS subject,
        'brokers hold different consumeEnable, retryMaxTimes or retryQueueNums of it' AS detail
        FROM ({_GROUP}) GROUP BY cluster, consumer_group
        HAVING MIN(retry_max_times) <> MAX(retry_max_times) OR MIN(retry_queue_nums) <> MAX(retry_queue_nums)
        OR MIN(CAST(consume_enable AS INT)) <> MAX(CAST(consume_enable AS INT))""",
    ),
    Rule(
        "FEWER_QUEUES_THAN_MEMBERS",
        "LOW",
        "members without a queue do nothing",
        "mqadmin updateTopic -c CLUSTER -t TOPIC -r MEMBERS -w MEMBERS, or fewer members in {subject}",
        f"""SELECT g.cluster, g.consumer_group AS subject, CONCAT('topic ', g.topic, ' has ',
        SIZE(g.queues), ' queues for ', SIZE(g.members), ' members') AS detail FROM (
          SELECT * FROM group_round WHERE {_last("group_round")}
        ) g JOIN (
          SELECT cluster, collector, consumer_group, topic, MAX(round_at) AS round_at FROM group_round
          WHERE {_last("group_round")}
          GROUP BY cluster, collector, consumer_group, topic
        ) l ON g.cluster = l.cluster AND g.collector = l.collector AND g.consumer_group = l.consumer_group
        AND g.topic = l.topic AND g.round_at = l.round_at
        WHERE SUBSTR(g.topic, 1, 7) <> '%RETRY%' AND g.message_model = 'CLUSTERING' AND g.scope_reason IS NULL
        AND SIZE(g.queues) > 0 AND SIZE(g.queues) < SIZE(g.members)""",
    ),
    Rule(
        "MORE_WRITE_THAN_READ_QUEUES",
        "HIGH",
        "what producers write into the queues above readQueueNums is never read",
        "mqadmin updateTopic -c CLUSTER -t {subject} -r WRITE_QUEUES",
        f"""SELECT cluster, topic AS subject, CONCAT(MIN(broker_name), ' has ', MAX(write_queue_nums),
        ' write queues and ', MIN(read_queue_nums), ' read queues') AS detail FROM ({_ROUTES})
        WHERE write_queue_nums > read_queue_nums AND (perm = 6 OR perm = 7) GROUP BY cluster, topic""",
    ),
    Rule(
        "QUEUES_ON_ONE_BROKER",
        "MEDIUM",
        "if that broker stops, nothing can be sent to the topic",
        "mqadmin updateTopic -c CLUSTER -t {subject} (a cluster, not one broker's address)",
        f"""SELECT t.cluster, t.topic AS subject, CONCAT('all queues are at ', MIN(t.broker_name)) AS detail
        FROM ({_ROUTES}) t JOIN (
          SELECT cluster, COUNT(DISTINCT broker_name) AS brokers FROM ({_ROUTES}) GROUP BY cluster
        ) c ON t.cluster = c.cluster
        WHERE c.brokers > 1 AND t.write_queue_nums > 0 AND t.perm IN (2, 3, 6, 7)
        GROUP BY t.cluster, t.topic HAVING COUNT(DISTINCT t.broker_name) = 1""",
    ),
    Rule(
        "CLIENT_ID_TWICE",
        "HIGH",
        "two processes take the same queues, and others have no owner",
        'consumer.setInstanceName("a name of its own") in each process of {subject}',
        _open("DUPLICATE_CLIENT_ID"),
    ),
    Rule(
        "SUBSCRIPTIONS_DIFFER",
        "HIGH",
        "brokers filter by whichever subscription came last: messages are lost to the others",
        "the same consumer.subscribe(topic, tags) in every member of {subject}",
        _open("SUBSCRIPTION_INCONSISTENT"),
    ),
    Rule(
        "STRATEGIES_DIFFER",
        "HIGH",
        "queues have two owners or none",
        "the same consumer.setAllocateMessageQueueStrategy(...) in every member of {subject}",
        _open("MIXED_STRATEGY"),
    ),
    Rule(
        "TIMEOUT_UNDER_THE_LADDER",
        "MEDIUM",
        "a send ends before it is slow enough to isolate its broker: the fault table learns of failures alone",
        "producer.setSendMsgTimeout(3000) in {subject}, or a ladder that begins below the time-out",
        _producers(
            "latency_fault_enabled AND send_timeout_ms <= first_ms",
            "CONCAT('sendMsgTimeout is ', MIN(send_timeout_ms), ' ms')",
        ),
    ),
    Rule(
        "RETRIES_DO_NOT_FIT",
        "MEDIUM",
        "one time-out covers all attempts of a send: the retries that are set are not made where sends are slow",
        "producer.setSendMsgTimeout(...) in {subject} of more than its attempts take together",
        f"""SELECT p.cluster, p.producer_group AS subject, CONCAT('an attempt takes ',
        CAST(MAX(a.mean_ms) AS BIGINT), ' ms on average: ', MAX(p.retries) + 1, ' do not fit into ',
        MIN(p.send_timeout_ms), ' ms') AS detail FROM ({_PRODUCER}) p JOIN (
          SELECT cluster, producer_group, client_id, AVG(latency_ms) AS mean_ms FROM send_attempt
          WHERE {_last("send_attempt")} AND outcome = 'SEND_OK' AND mode = 'SYNC'
          GROUP BY cluster, producer_group, client_id
        ) a ON p.cluster = a.cluster AND p.producer_group = a.producer_group AND p.client_id = a.client_id
        WHERE p.retries > 0 AND p.send_timeout_ms < (p.retries + 1) * a.mean_ms
        GROUP BY p.cluster, p.producer_group""",
    ),
    Rule(
        "FAULT_SWITCH_WITHOUT_DETECTOR",
        "HIGH",
        "in 5.1.4 a broker that failed once is left out until a send to it succeeds, which none may try",
        "producer.setStartDetectorEnable(true) in {subject}, or a client of 5.2.0 or later",
        _producers(
            "latency_fault_enabled AND NOT detector_enabled AND profile = 'P514'",
            "'sendLatencyFaultEnable is on, startDetectorEnable is not'",
        ),
    ),
    Rule(
        "RETRIES_GO_BACK",
        "HIGH",
        "with the fault switch on, clients through 4.7.1 retry at the broker that has just failed",
        "a client of 4.8.0 or later in {subject}, or producer.setSendLatencyFaultEnable(false)",
        _producers(
            "latency_fault_enabled AND profile IN ('P40', 'P43')", "CONCAT('client release ', MIN(client_version))"
        ),
    ),
    Rule(
        "COUNTER_STICKS",
        "MEDIUM",
        "in 4.8.0 to 4.9.3 a thread's counter of queues may stick or turn negative after 2^31 sends",
        "a client of 4.9.4 or later in {subject}",
        _producers("profile IN ('P48', 'P49a', 'P49b')", "CONCAT('client release ', MIN(client_version))"),
    ),
    Rule(
        "IDS_BY_PID",
        "LOW",
        "through 4.8.0 a client id is address and process id: containers with equal ones take the same queues",
        'consumer.setInstanceName("a name of its own") in {subject}, or a client of 4.9.0 or later',
        _consumers_by_pid(392),
    ),
)


def lint(asker: Asker, accepted: Sequence[str], *, cluster: str = "*") -> list[Record]:
    """What is wrong, the worst first: ``severity``, ``code``, ``cluster``, ``subject`` and sentences.

    ``accepted``: ``CODE`` or ``CODE:subject``, shell patterns. Topics and groups of RocketMQ's own are no fault.
    """
    found = []
    queries = _with_dates(asker, [rule.query for rule in RULES])
    for rule, rows in zip(RULES, asker.answers(queries), strict=True):
        for row in as_records(rows):
            if fnmatchcase(row["cluster"], cluster) and not _is_left_out(rule.code, row["subject"], accepted):
                change = rule.change.replace("{subject}", row["subject"]).replace("CLUSTER", row["cluster"])
                found.append(
                    {"severity": rule.severity, "code": rule.code, **row, "breaks": rule.breaks, "change": change}
                )
    return sorted(
        found, key=lambda one: (SEVERITIES.index(one["severity"]), one["code"], one["cluster"], one["subject"])
    )


def _with_dates(asker: Asker, queries: Iterable[str]) -> list[str]:
    """The queries with the last dates of clusters written out: engines leave files unread by what is constant."""

    @cache
    def condition(table: str, before: int) -> str:
        return on_last_date(asker, TABLES[table], days_before=before)

    return [_LAST.sub(lambda found: condition(found[1], int(found[2])), query) for query in queries]


def _is_left_out(code: str, subject: str, accepted: Iterable[str]) -> bool:
    is_own = is_system_topic(subject) or is_system_group(subject)
    return is_own or any(fnmatchcase(code, each) or fnmatchcase(f"{code}:{subject}", each) for each in accepted)


def told(found: Sequence[Record]) -> Iterator[str]:
    """Lines for a person."""
    for one in found:
        yield f"{one['severity']:<8} {one['code']}  {legible(one['cluster'])}  {legible(one['subject'])}"
        yield f"    {legible(one['detail'])}"
        yield f"    breaks: {one['breaks']}"
        yield f"    change: {legible(one['change'])}"
    yield f"{len(found)} found" if found else "Nothing is set wrongly in what has landed"


def refuse(found: Sequence[Record], severity: str) -> None:
    """Raises: LintFoundError: something is as severe as this, or more."""
    worst = [one for one in found if one["severity"] in SEVERITIES[: SEVERITIES.index(severity) + 1]]
    if worst:
        raise LintFoundError(f"{len(worst)} of severity {severity} or worse; settings [lint] accept what is meant so.")
