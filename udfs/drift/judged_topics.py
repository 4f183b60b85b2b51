"""A topic of a round and what was found in it in; what the round says of the topic out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hindsight.udfs.consumer.listed_members import Row
from hindsight.udfs.consumer.topic_facts import TopicFacts


class JudgedTopic(NamedTuple):
    """A row of ``group_round``; instants are epoch us."""

    facts: TopicFacts
    round_us: int
    spread_ms: int
    loose: bool
    heartbeats: list[dict[str, Any]] | None
    verdict: str | None
    scope_reason: str | None
    inferred: list[str] | None
    findings: int


def verdict(
    facts: TopicFacts, found: Sequence[Row], scope: Row | None
) -> tuple[str | None, str | None, list[str] | None, int]:
    """What a round says of a topic, why the rules do not apply, strategies that explain its owners, how many findings.

    It says drift where a finding does, unknown where an input is missing or the rules do not apply, None if no verdict
    was due.

    A finding that is only possible leaves a round with missing inputs unknown. A group that is down reads no topic.
    """
    own = [row for row in found if row["severity"] != "INFO" and row["topic"] == facts.topic]
    is_certain = any(row["trust"] == "certain" for row in own) or any(row["code"] == "GROUP_DOWN" for row in found)
    reason, inferred = (None, None) if scope is None else (scope["scope_reason"], scope["inferred_strategies"])
    said: str | None = "ok"
    if facts.not_asked and not is_certain:
        said = None
    elif is_certain or (own and not facts.missing_inputs):
        said = "drift"
    elif facts.missing_inputs or reason is not None:
        said = "unknown"
    return said, reason, inferred, len(own)
