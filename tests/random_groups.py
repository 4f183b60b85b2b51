"""A seed in; rows of a cluster's consumer side over a midnight out, as tables hold them: members come and go, routes
change, reads fail or are left out, names are cut, several collectors and sources read the same groups."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import Any

from hindsight.udfs.allocation import MessageQueue, allocate, sort_client_ids

MIDNIGHT = datetime(2026, 3, 3, tzinfo=UTC)
ROUND_S, ROUNDS = 30, 24
GROUPS = ("g_a", "g_b", "order_event_payment_consumer_v01", "CID_ONSAPI_x")
TOPICS = ("T", "order_event_payment_confirmed_v1", "order_event_payment_confirmed_v1_done", "TBW102")
STRATEGIES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "class:com.shop.Own")
Row = dict[str, Any]


class RandomGroups:
    """What a seed's cluster shows; ``tables``: rows by table."""

    def __init__(self, cluster: str, seed: int) -> None:
        self.draw, self.cluster = random.Random(seed), cluster
        self.tables: dict[str, list[Row]] = defaultdict(list)
        self._line = 0
        self._is_perfect = self.draw.random() < 0.2
        self._share = 0 if self._is_perfect else self.draw.choice((0.02, 0.1))
        self._brokers = {f"b{n}": self.draw.randint(1, 4) for n in range(self.draw.randint(1, 3))}
        self._asks_brokers = self.draw.random() < 0.5
        self._servers = self.draw.choice(((None,), ("n1", "n2")))
        self._through_proxy = self.draw.random() < 0.1
        self._members = {group: [self._client(n) for n in range(self.draw.randint(1, 4))] for group in GROUPS}
        self._strategy = {group: self.draw.choice(STRATEGIES) for group in GROUPS}
        self._topics = {group: self.draw.sample(TOPICS, self.draw.randint(1, 2)) for group in GROUPS}
        self._offsets: dict[tuple[str, str, str, int], int] = {}
        self._ends: dict[tuple[str, str, int], int] = {}
        self._dead: dict[str, int] = {}
        collectors = [("", "admin_snapshots")]
        more = self.draw.choice((None, ("mqadmin", "mqadmin"), ("another", "admin_snapshots")))
        collectors += [more] if more else []
        self._read_by = {c: self.draw.sample(GROUPS, self.draw.randint(2, len(GROUPS))) for c, _ in collectors}
        for number in range(-ROUNDS // 2, ROUNDS // 2):
            self._change()
            for collector, source in collectors:
                shift = 7 if collector else 0
                self._round(collector, source, MIDNIGHT + timedelta(seconds=number * ROUND_S + shift))
        self._logs()
        self._break_servers(random.Random(f"servers of {seed}"))

    def _break_servers(self, draw: random.Random) -> None:
        """A broker and a name server answer nothing for a few rounds."""
        for column, server in (("broker_name", "b0"), ("name_server", "n1")):
            first = MIDNIGHT + timedelta(seconds=ROUND_S * draw.randint(-ROUNDS // 2, ROUNDS // 2))
            last = first + timedelta(seconds=ROUND_S * draw.randint(1, 8))
            why = draw.choice(("RemotingTimeoutException", "RemotingConnectException: Connection refused"))
            broken = {"answered": False, "error": why, "error_code": None, "member_ids": None}
            for table in ("snapshot_capture", "consumer_heartbeat", "topic_route"):
                rows = self.tables[table]
                of_server = [row.get(column) == server and first <= row["round_at"] < last for row in rows]
                if table == "snapshot_capture":
                    for row, is_broken in zip(self.tables[table], of_server, strict=True):
                        row |= broken if is_broken else {}
                elif table == "consumer_heartbeat" or column == "name_server":
                    kept = zip(self.tables[table], of_server, strict=True)
                    self.tables[table] = [row for row, is_broken in kept if not is_broken]

    def _client(self, number: int) -> str:
        return f"10.0.{self.draw.randint(0, 9)}.{number}@{self.draw.randint(1, 99)}"

    def _is_hit(self, share: float | None = None) -> bool:
        return self.draw.random() < (self._share if share is None else share)

    def _change(self) -> None:
        for members in self._members.values():
            if self._is_hit(0.08):
                members.append(self._client(len(members)))
            elif members and self._is_hit(0.08):
                members.pop(self.draw.randrange(len(members)))
        if self._is_hit(0.03):
            self._brokers[self.draw.choice([*self._brokers, "b_new"])] = self.draw.randint(0, 5)

    def _row(self, table: str, at: datetime, source: str | None, **columns: Any) -> None:
        self._line += 1
        own = {"cluster": self.cluster, "event_date": at.date(), "run_id": "r", "ingested_at": MIDNIGHT}
        if source is not None:
            own |= {"source": source, "source_file": f"{source}/{self.cluster}.jsonl", "source_line": self._line}
        self.tables[table].append(own | columns)

    def _round(self, collector: str, source: str, round_at: datetime) -> None:
        second = 0.0

        def place() -> Row:
            nonlocal second
            second += self.draw.choice((0.01, 0.2, 0.9))
            return {"collector": collector, "round_at": round_at, "captured_at": round_at + timedelta(seconds=second)}

        for topic in TOPICS[:3]:
            for server in self._servers:
                if not self._is_hit():
                    self._route(place(), source, topic, server)
        for topic in (*TOPICS[:3], *(f"%DLQ%{group}" for group in GROUPS)):
            if not self._is_hit():
                self._status(place(), source, topic)
        for group in GROUPS:
            if group in self._read_by[collector] and not self._is_hit():
                self._group(place, source, group)

    def _capture(self, at: Row, source: str, kind: str, *, answered: bool, **columns: Any) -> None:
        code = None if answered else self.draw.choice((None, 17, 206))
        if self._through_proxy and kind == "consumerRunningInfo" and not answered:
            code = 3
        error = None if answered else self.draw.choice(("time-out", "answer not readable: BAD_RAW", f"CODE: {code}"))
        told = {"kind": kind, "subject": str(self._line), "answered": answered, "error": error, "error_code": code}
        end = at["captured_at"] + timedelta(milliseconds=self.draw.choice((3, 40, 2_000)))
        self._row(
            "snapshot_capture", at["captured_at"], source, **at, **told, **columns, captured_end_at=end, doubts=None
        )

    def _route(self, at: Row, source: str, topic: str, server: str | None) -> None:
        answered = not self._is_hit()
        self._capture(at, source, "topicRoute", answered=answered, topic=topic, name_server=server)
        if not answered:
            return
        for broker, queues in self._brokers.items():
            is_odd = self._is_hit(self._share / 4)
            static = {}
            if topic == TOPICS[2]:
                held = [{"logical_id": q, "queue_id": q} for q in range(queues)]
                static = {"logical_broker_name": "__syslo__g", "logical_queue_nums": 5, "logical_queues": held}
            counts = {"read_queue_nums": queues + is_odd, "write_queue_nums": queues, "perm": 2 if is_odd else 6}
            flags = {"has_master": True, "is_static_topic": bool(static)}
            named = {"topic": topic, "broker_name": broker, "name_server": server}
            self._row("topic_route", at["captured_at"], source, **at, **named, **counts, **flags, **static)

    def _group(self, place: Any, source: str, group: str) -> None:
        members = sort_client_ids(self._members[group])
        for broker in [*(self._brokers if self._asks_brokers else ()), None]:
            if not self._is_hit(0.3 if broker is None and self._asks_brokers else None):
                self._list(place(), source, group, broker, members)
        for client_id in members:
            if not self._is_hit():
                self._info(place(), source, group, client_id, members)
        if self._is_hit(0.25):
            self._progress(place(), source, group)

    def _list(self, at: Row, source: str, group: str, broker: str | None, members: list[str]) -> None:
        answered = not self._is_hit() and bool(members)
        seen = members[1:] if self._is_hit() else members
        if self._is_hit(0.3):
            ids = list(reversed(seen)) if answered else None
            self._capture(
                at, source, "consumerIdList", answered=answered, consumer_group=group, broker_name=broker,
                member_ids=ids,
            )  # fmt: skip
            return
        self._capture(
            at, source, "consumerConnection", answered=answered, consumer_group=group, broker_name=broker,
            message_model="CLUSTERING" if answered else None,
        )  # fmt: skip
        for client_id in seen if answered else ():
            kind = "grpc" if self._is_hit(self._share / 4) else "push"
            self._row(
                "consumer_heartbeat", at["captured_at"], source, **at, consumer_group=group, broker_name=broker,
                client_id=client_id, address=f"h:{self.draw.randint(1, 2)}", language=self.draw.choice(("JAVA", None)),
                client_version=self.draw.choice((355, 409, 453)) if self._is_hit() else 409, client_kind=kind,
                message_model="CLUSTERING",
            )  # fmt: skip

    def _info(self, at: Row, source: str, group: str, client_id: str, members: list[str]) -> None:
        answered = not self._is_hit() and not self._through_proxy
        told: Row = {"consumer_group": group, "client_id": client_id}
        if answered:
            names = [t for t in self._topics[group] if not self._is_hit(self._share / 2)]
            own = [{"topic": t, "expression_type": "TAG", "sub_string": "*", "tags": []} for t in names]
            strategy = self._strategy[group] if self._is_hit(0.6) else None
            told |= {
                "subscriptions": own, "message_model": "CLUSTERING", "consume_orderly": group == "g_b",
                "client_version": "V4_9_8", "consume_type": "CONSUME_PASSIVELY", "strategy": strategy,
                "client_rebalance": False if self._is_hit(self._share / 8) else None,
                "client_started_at": MIDNIGHT - timedelta(days=1), "client_kind": self.draw.choice(("push", "push")),
            }  # fmt: skip
        self._capture(at, source, "consumerRunningInfo", answered=answered, **told)
        for topic in self._topics[group] if answered else ():
            queues = [MessageQueue(topic, b, q) for b, n in sorted(self._brokers.items()) for q in range(n)]
            named = self._strategy[group] if not self._strategy[group].startswith("class") else "AVG"
            for queue in (allocate(named, queues, members)[client_id] or ()) if queues else ():
                if not self._is_hit(self._share / 4):
                    self._owned(at, source, group, client_id, queue)

    def _owned(self, at: Row, source: str, group: str, client_id: str, queue: MessageQueue) -> None:
        pulled = at["captured_at"] - timedelta(seconds=200 if self._is_hit(self._share / 4) else 1)
        self._row(
            "queue_ownership", at["captured_at"], source, **at, consumer_group=group, client_id=client_id,
            topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id, locked=not self._is_hit(),
            dropped=self._is_hit(self._share / 2), last_pull_at=pulled, last_consume_at=pulled, last_lock_at=None,
            cached_messages=self.draw.randint(0, 2), commit_offset=1,
        )  # fmt: skip

    def _status(self, at: Row, source: str, topic: str) -> None:
        """Brokers delete what nobody may have read; a dead letter queue grows now and then."""
        is_dead = topic.startswith("%DLQ%")
        for broker, count in self._brokers.items():
            for queue_id in range(1 if is_dead else count):
                key, stored = (topic, broker, queue_id), None
                if is_dead and self._is_hit(0.05):
                    self._dead[topic] = self._dead.get(topic, 0) + 1
                    stored = at["captured_at"] - timedelta(seconds=self.draw.randint(0, 20))
                if not is_dead and self._is_hit(0.1):
                    self._ends[key] = self._ends.get(key, 0) + self.draw.randint(0, 60)
                first = self._ends.get(key, 0)
                last = self._dead.get(topic, 0) if is_dead else first + 1000
                self._row(
                    "topic_status", at["captured_at"], source, **at, topic=topic, broker_name=broker,
                    queue_id=queue_id, broker_asked=broker, min_offset=first, max_offset=last, last_update_at=stored,
                )  # fmt: skip

    def _progress(self, at: Row, source: str, group: str) -> None:
        retry = f"%RETRY%{group}"
        for topic in (*self._topics[group], retry):
            printed = topic[:32]
            cut = ["TOPIC_MAYBE_CUT"] if source == "mqadmin" and len(printed) == 32 else None
            tps = self.draw.choice((0.0, 0.0, 3.0, None))
            for broker, count in self._brokers.items():
                for queue_id in range(1 if topic == retry else count):
                    moved, written = self._moved(group, topic, broker, queue_id)
                    self._row(
                        "queue_progress", at["captured_at"], source, **at, consumer_group=group,
                        topic=printed if cut else topic, broker_name=broker, queue_id=queue_id, broker_offset=written,
                        consumer_offset=moved, lag=written - moved, doubts=cut, broker_asked=None, consume_tps=tps,
                    )  # fmt: skip

    def _moved(self, group: str, topic: str, broker: str, queue_id: int) -> tuple[int, int]:
        """Where a group stands, which is set back now and then, and what its broker holds."""
        at, held = (group, topic, broker, queue_id), (topic, broker, -1 - queue_id)
        before = self._offsets.get(at, 100)
        moved = self.draw.randint(0, before) if self._is_hit(self._share / 4) else before + self.draw.randint(0, 3)
        self._offsets[at] = moved
        self._ends[held] = max(self._ends.get(held, 0), moved + self.draw.randint(0, 60))
        return moved, self._ends[held]

    def _logs(self) -> None:
        for group, members in self._members.items():
            for client_id in members:
                at = MIDNIGHT + timedelta(seconds=self.draw.randint(-360, 360))
                if self._is_hit(0.3):
                    self._row(
                        "rebalance_result", at, "client_log", consumer_group=group, topic="T", client_id=client_id,
                        logged_at=at, resolution_ms=1, strategy=self.draw.choice(("AVG", "AVG_BY_CIRCLE", "")),
                        queue_count=1, member_count=1, queues=[], queues_text="", occurrence=1,
                    )  # fmt: skip
                kind = self.draw.choice(("consumer_connected", "consumer_channel_closed", "subscription_added"))
                self._row(
                    "membership_event", at, "broker_log", kind=kind, client_group=group, logged_at=at,
                    client_id=client_id if kind == "consumer_connected" else None, address="h:1",
                )  # fmt: skip
                for beat in range(-12, 12):
                    heard = MIDNIGHT + timedelta(seconds=beat * 30, microseconds=self.draw.randint(0, 999_999))
                    if self._is_hit(0.7):
                        role = "producer" if self._is_hit(0.1) else "consumer"
                        self._row(
                            "client_heartbeat", heard, "heartbeat", role=role, client_group=group,
                            client_id=client_id, received_at=heard,
                        )  # fmt: skip

    def dates(self) -> list[date]:
        """Those of which there are rows."""
        return sorted({row["event_date"] for row in self.tables["snapshot_capture"]})
