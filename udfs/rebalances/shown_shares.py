"""What rounds of a group show of its members and their queues in; of each that differs from the one before, a
``ShareRound`` out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hindsight.udfs.consumer.group_rows import to_ms
from hindsight.udfs.consumer.owned_queues import Owned
from hindsight.udfs.consumer.round_facts import BROADCASTING, TopicQueue
from hindsight.udfs.consumer.topic_facts import GroupFacts, TopicFacts
from hindsight.udfs.rebalances.round_shares import Answer, ShareRound
from hindsight.udfs.values.system_names import is_system_topic


class ShownShares:
    """The rounds of a group as one collector read them, one after the other. Instants are epoch us."""

    def __init__(self, lookback_s: int) -> None:
        """``lookback_s``: a round that is longer ago says nothing of when something changed."""
        self._lookback_us = lookback_s * 1_000_000
        self._last_at: int | None = None
        self.shows: list[Any] | None = None  # what the last round of the date showed, as JSON values

    def pass_by(self, at: int) -> None:
        """A round was read from this instant on, whatever it shows: what came later it may not show."""
        self._last_at = at

    def is_other(self, members: int, topics: Sequence[TopicFacts], owned: Owned) -> bool:
        """Whether a round shows something else than the one before, or is the first of its date.

        ``members``: equal where two rounds show the same of the group's members; 0: it may be something else each time.
        """
        routes = [topic.queues.list_hash for topic in topics if topic.queues is not None]
        shows = [members, *owned.shows, routes]
        is_other, self.shows = not members or shows != self.shows, shows
        return is_other

    def close_date(self) -> None:
        """The next round is the first of its date, whether or not the same run walks on."""
        self.shows = None

    def shown(self, at: int, facts: GroupFacts, topics: Sequence[TopicFacts], owned: Owned) -> ShareRound:
        """A round; ``facts``: its own, with its own instants."""
        is_near = self._last_at is not None and at - self._last_at <= self._lookback_us
        held: dict[str, set[TopicQueue]] = defaultdict(set)
        for topic, of_topic in owned.by_topic().items():
            for queue, own in of_topic.items():
                for owner in () if is_system_topic(topic) else own:
                    held[owner.client_id].add((topic, *queue))
        return ShareRound(
            at // 1000,
            self._last_at // 1000 if is_near and self._last_at is not None else None,
            tuple(facts.members) if facts.is_listed else None,
            {row["client_id"]: _answer(row, held) for row in facts.reads.reads if row["answered"]},
            {topic.topic: topic.queues.list_hash for topic in topics if topic.queues is not None},
            facts.reads.ordered,
            not facts.shared and facts.model != BROADCASTING,
        )


def _answer(row: Mapping[str, Any], held: Mapping[str, set[TopicQueue]]) -> Answer:
    queues = frozenset(held.get(row["client_id"], ()))
    return Answer(to_ms(row["captured_at"]) or 0, row["evidence"], to_ms(row["client_started_at"]), queues)
