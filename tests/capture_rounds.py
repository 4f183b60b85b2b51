"""A consumer capture in; its rounds as the drift job brings them together, out: in plain Python, without Spark."""

from __future__ import annotations

import gzip
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from hindsight.udfs.allocation import STRATEGIES, java_string_key
from hindsight.udfs.consumer.expected_allocation import MemberRule, Shares, expected_allocation
from hindsight.udfs.consumer.offset_marks import Reading, Readings
from hindsight.udfs.consumer.round_facts import Owner
from hindsight.udfs.formats.admin_snapshot_lines import parse_admin_snapshots
from hindsight.udfs.groups.group_walk import WalkSettings, close, new_history, opened, step
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.release_profiles import profile_for

KEYS = ("cluster", "collector", "consumer_group")


def instant(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def owners_by_topic(rows) -> dict:
    """Of rows of ``queue_ownership``, instants epoch ms: by topic and queue the owners, by client id."""
    found: dict = {}
    for row in sorted(rows, key=lambda r: (r["client_id"], r["broker_name"], r["queue_id"])):
        of_topic, queue = found.setdefault(row["topic"], {}), (row["broker_name"], row["queue_id"])
        of_topic[queue] = (*of_topic.get(queue, ()), Owner(*(row[name] for name in Owner._fields)))
    return found


def recorded_reading(rows) -> Readings:
    """Of rows of ``queue_progress``, instants epoch ms."""
    names = ("captured_at", "broker_offset", "consumer_offset", "consume_tps", "min_offset", "broker_asked")
    own = (((row["topic"], row["broker_name"], row["queue_id"]), *map(row.get, names)) for row in rows)
    return Readings.of(Reading(*values) for values in own)


def parsed_lines(path: Path):
    """(line number, table, row) of a snapshot file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        texts = [Line(number, 0, 0, text.rstrip("\n"), None) for number, text in enumerate(lines, 1)]
    for parsed in parse_admin_snapshots(iter(texts)):
        assert parsed.refusal is None
        for record in parsed.records:
            yield parsed.line.number, record.table, record.row


def walk(rows, settings: WalkSettings):
    """Rows of the drift tables by kind, and what is said of topics (SCOPE), of many groups.

    Args:
        rows: sorted by cluster, collector, consumer group and time, each with its ``row_kind``: a group's opening state
            first, and at the end of each date ``close``.
    """
    history = None
    for row in rows:
        key = tuple(row[name] for name in KEYS)
        if history is None or history.key != key:
            history = new_history(key, settings)
        if row["row_kind"] == "state":
            history = opened(key, row, settings)
        elif row["row_kind"] == "round":
            yield from step(history, row)
        else:
            yield from close(history, row, settings)


class CaptureRounds:
    """Rounds by their markers; what each group showed in each."""

    def __init__(self, path: Path, *, loose_spread_s: float = 5) -> None:
        self.loose_spread_s = loose_spread_s
        self.markers: list[int] = []
        self.rows: dict[int, list] = {}
        for number, table, row in parsed_lines(path):
            if table == "collection_round":
                self.markers.append(row["round_at"])
                self.rows[row["round_at"]] = []
            else:
                self.rows[self.markers[-1]].append((number, table, row))
        captures = [c for rows in self.rows.values() for _, table, c in rows if table == "snapshot_capture"]
        self.groups = sorted({c["consumer_group"] for c in captures if c.get("consumer_group")})
        self.collected = {c["topic"] for c in captures if c["kind"] == "topicRoute"}

    def of_group(self, group: str):
        """The rows that ``walk`` takes, the end of the date at the end."""
        shown: dict[str, tuple[str, str]] = {}
        reading = None
        before: dict[str, list] = {}
        for round_at in self.markers:
            rows = [(n, t, r) for n, t, r in self.rows[round_at] if r.get("consumer_group") == group or "topic" in r]
            captures = [(n, r) for n, t, r in rows if t == "snapshot_capture" and r.get("consumer_group") == group]
            stats = [r for _, t, r in rows if t == "queue_progress" and r["consumer_group"] == group]
            if stats:
                reading = (stats[0]["captured_at"], stats)
            row = self._round(group, round_at, rows, captures, shown, before)
            valid = reading is not None and self._until(captures) - reading[0] <= 120_000
            read_at, lags = reading if valid else (None, None)
            yield {
                **dict(zip(KEYS, ("c", "", group), strict=True)),
                "row_kind": "round",
                "at": row["at"],
                "progress_at": instant(read_at),
                "lags": lambda lags=lags: lags and recorded_reading(lags),
                "signature": None,
                "oldest_pull_at": None,
                "oldest_consume_at": None,
                "round": lambda row=row: row,
            }
        day = instant(self.markers[-1]).date()
        yield {
            **dict(zip(KEYS, ("c", "", group), strict=True)),
            "row_kind": "close",
            "event_date": day,
            "is_last": True,
        }

    @staticmethod
    def _until(captures) -> int:
        return max((c.get("captured_end_at") or c["captured_at"] for _, c in captures), default=0)

    def _round(self, group, round_at, rows, captures, shown, before):
        infos = [(n, c) for n, c in captures if c["kind"] == "consumerRunningInfo"]
        listings = [(n, c) for n, c in captures if c["kind"] == "consumerConnection"]
        beats = [r for _, t, r in rows if t == "consumer_heartbeat" and r["consumer_group"] == group]
        for _, capture in infos:
            if capture.get("strategy"):
                shown[capture["client_id"]] = (capture["strategy"], "running_info")
        members = sorted((b["client_id"] for b in beats), key=java_string_key)
        versions = {b["client_id"]: profile_for(b["client_version"]).id for b in beats}
        rules = [
            {
                "client_id": c,
                "strategy": shown.get(c, (None,))[0],
                "source": "running_info" if c in shown else None,
                "profile": versions.get(c),
            }
            for c in dict.fromkeys(members)
        ]
        known = Counter(r["strategy"] for r in rules if r["strategy"])
        strategy = min(known, key=lambda s: (-known[s], list(STRATEGIES).index(s)), default="AVG")
        answered = [c for _, c in infos + listings if c["answered"]]
        spread = (
            max(c.get("captured_end_at") or c["captured_at"] for c in answered)
            - min(c["captured_at"] for c in answered)
            if answered
            else 0
        )
        owned = [r for _, t, r in rows if t == "queue_ownership" and r["consumer_group"] == group and not r["dropped"]]
        model = next((b["message_model"] for b in beats), None)
        subscribed = {s["topic"] for _, c in captures for s in c.get("subscriptions") or ()}
        silent = [f"running info of {c['client_id']}: no answer" for _, c in infos if not c["answered"]]
        topics = []
        for name in sorted(subscribed | {r["topic"] for r in owned}):
            topics.append(self._topic(name, rows, members, rules, strategy, known, model, infos, silent, before))
        return {
            "cluster": "c",
            "collector": "",
            "consumer_group": group,
            "event_date": instant(round_at).date(),
            "round_at": instant(round_at),
            "at": instant(max((c["captured_at"] for _, c in infos + listings), default=round_at)),
            "message_model": model,
            "members": members,
            "member_rules": rules,
            "reads": [self._read(n, c) for n, c in infos],
            "listings": self._listings(listings),
            "broker_views": [{"broker_name": None, "members": members}]
            if listings and listings[-1][1]["answered"]
            else [],
            "through_proxy": False,
            "connections": [
                {"broker_name": None, "client_id": b["client_id"], "address": b["address"], "kind": None} for b in beats
            ],
            "ordered": max((bool(c.get("consume_orderly")) for _, c in infos), default=None),
            "loose": spread > self.loose_spread_s * 1000,
            "shared": False,
            "owners": owners_by_topic(owned),
            "topics": topics,
            "member_list_hash": "h",
            "distinct_views": 1,
            "member_events": None,
        }

    def _topic(self, name, rows, members, rules, strategy, known, model, infos, silent, before):
        not_asked = [f"topic_route of {name}: not_collected"] if name not in self.collected else []
        if not infos:
            not_asked.append("running infos: not asked for in this round")
        brokers = [r for _, t, r in rows if t == "topic_route" and r["topic"] == name and r["perm"] & 4]
        queues = [
            (b["broker_name"], q)
            for b in sorted(brokers, key=lambda b: java_string_key(b["broker_name"]))
            for q in range(b["read_queue_nums"])
        ]
        shares = None
        if queues and members and not not_asked:
            profiles = Counter(r["profile"] for r in rules)
            made = expected_allocation(
                model,
                strategy,
                profiles.most_common(1)[0][0],
                name,
                queues,
                members,
                [MemberRule(r["client_id"], r["strategy"], r["profile"]) for r in rules],
            )
            shares = Shares(queues, made)
        previous, before[name] = before.get(name), shares
        return {
            "topic": name,
            "queues": tuple(queues) or None,
            "strategy": strategy,
            "strategy_source": "running_info" if known else "default",
            "strategy_parameters": "",
            "queue_list_hash": "q",
            "shares": shares,
            "shares_before": previous,
            "evidence": next(
                (f"f:{n}" for n, t, r in rows if t == "snapshot_capture" and r.get("topic") == name), None
            ),
            "queue_kind": "physical",
            "hosts": [],
            "route_brokers": [b["broker_name"] for b in brokers],
            "routes_differ": False,
            "name_servers": 1,
            "not_asked": not_asked,
            "missing_inputs": [*not_asked, *silent],
        }

    @staticmethod
    def _read(number, capture):
        return {
            "client_id": capture["client_id"],
            "answered": capture["answered"],
            "error": capture["error"],
            "subscriptions": capture.get("subscriptions"),
            "captured_at": instant(capture["captured_at"]),
            "evidence": f"f:{number}",
            "client_started_at": instant(capture.get("client_started_at")),
            "message_model": capture.get("message_model"),
            "consume_from_where": capture.get("consume_from_where"),
            "error_code": capture["error_code"],
            "client_kind": capture.get("client_kind"),
            "client_version": capture.get("client_version"),
        }

    @staticmethod
    def _listings(listings):
        return [
            {
                "broker_name": None,
                "captured_at": instant(last["captured_at"]),
                "told": last["answered"],
                "error": last["error"],
                "error_code": last["error_code"],
                "evidence": f"f:{number}",
            }
            for number, last in listings[-1:]
        ]
