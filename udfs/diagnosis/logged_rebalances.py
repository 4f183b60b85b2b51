"""The results that clients printed in, the rebalances that they belong to out: what set each off, and how long it took.

Results of one group with one number of members, each soon after the one before,
are one rebalance: a client that is not told of a change finds it at its next timer, 20 s later.
Source: RebalanceService, ClientRemotingProcessor#notifyConsumerIdsChanged, MQClientInstance#rebalanceImmediately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hindsight.udfs.diagnosis.log_findings import Event
from hindsight.udfs.diagnosis.logged_ownership import STOPPED, ProcessWalk
from hindsight.udfs.diagnosis.logged_results import (
    JOINED,
    LEFT,
    NOT_SAID,
    ONE_REBALANCE_MS,
    REPLACED,
    ROUTE,
    STARTED,
    WOKEN_WITHIN_MS,
    Result,
    ResultReader,
)

BY_NOTICE, BY_START, BY_TIMER = "notification", "start", "timer"
_SECOND_MS = 1_000  # a broker's stamp may be as much too early


class Sign(NamedTuple):
    """A member that came (``joined``) or went, as a log tells; ``broker_name`` None: as it tells itself."""

    at: int
    consumer_group: str
    client_id: str
    joined: bool
    how: str
    broker_name: str | None


class Rebalance(NamedTuple):
    """``began_at``: of the first sign of it, ``ended_at``: of the last result. ``moved``: queues that somebody gained.

    ``members_before`` and ``members_after``: as the clients counted. ``joined``, ``left``: whom a log names.
    """

    consumer_group: str
    topics: tuple[str, ...]
    began_at: int
    ended_at: int
    triggers: tuple[str, ...]
    woken_by: str
    members_before: int | None
    members_after: int | None
    joined: tuple[str, ...]
    left: tuple[str, ...]
    clients: tuple[str, ...]
    moved: int

    @property
    def took_ms(self) -> int:
        """From its first sign to the last client's result."""
        return self.ended_at - self.began_at


def rebalances_of(walks: Iterable[ProcessWalk], memberships: Iterable[tuple[str, Event]]) -> list[Rebalance]:
    """All rebalances in order; ``memberships``: broker's name and what its log tells."""
    walks = list(walks)
    by_group: dict[str, list[Result]] = defaultdict(list)
    for walk in walks:
        for result in ResultReader(walk).read():
            by_group[result.key.consumer_group].append(result)
    signs = sorted({*signs_of(memberships), *_own_signs(walks)}, key=lambda sign: (sign.at, str(sign)))
    found = []
    for group, results in by_group.items():
        of_group = [sign for sign in signs if sign.consumer_group == group]
        found += [_rebalance(group, waves, of_group) for waves in _grouped(results)]
    return sorted(found, key=lambda one: (one.began_at, one.consumer_group, one.ended_at, one.topics))


_SIGNS: Mapping[str, tuple[bool, str]] = {
    "consumer_connected": (True, "connected"),
    "consumer_unregistered": (False, "unregistered"),
    "consumer_channel_closed": (False, "channel closed"),
    "proxy_client_gone": (False, "forgotten by a proxy"),
}


def signs_of(memberships: Iterable[tuple[str, Event]]) -> list[Sign]:
    """Members that came and went, as brokers' logs tell."""
    return [
        Sign(event.at, event.row["client_group"], event.row["client_id"], *_SIGNS[event.kind], broker_name)
        for broker_name, event in memberships
        if event.kind in _SIGNS and event.row.get("client_group")
    ]


def _own_signs(walks: Iterable[ProcessWalk]) -> list[Sign]:
    """Members that say themselves that they stopped."""
    return [
        Sign(said.at, key.consumer_group, key.client_id, False, "stopped", None)
        for walk in walks
        for key, all_said in walk.said.items()
        for said in all_said
        if said.state == STOPPED and key.client_id is not None
    ]


def _grouped(results: Iterable[Result]) -> list[list[Result]]:
    """Results of one group, by the rebalance that they belong to."""
    found: list[list[Result]] = []
    current: dict[tuple[object, ...], list[Result]] = {}
    for one in sorted(results, key=lambda result: (result.at, str(result.key))):
        of = _what(one)
        wave = current.get(of)
        if wave is None or one.at - wave[-1].at > ONE_REBALANCE_MS:
            wave = current[of] = []
            found.append(wave)
        wave.append(one)
    return found


def _what(result: Result) -> tuple[object, ...]:
    """What results of one rebalance share."""
    if {JOINED, LEFT, STARTED, REPLACED} & set(result.causes) and result.member_count is not None:
        return ("members", result.member_count)
    if ROUTE in result.causes:
        return (ROUTE, result.key.topic, result.queue_count)
    return (*result.causes, result.key.topic)


def _rebalance(group: str, wave: list[Result], signs: list[Sign]) -> Rebalance:
    causes = {cause for one in wave for cause in one.causes}
    woken = [one.woken_at for one in wave if one.woken_at is not None]
    by_itself = BY_START if causes == {STARTED} else BY_TIMER if wave[0].is_log_whole else NOT_SAID
    woken_by = BY_NOTICE if woken else by_itself
    began, ended = min(one.began_at for one in wave), max(one.at for one in wave)
    earliest = began - (ONE_REBALANCE_MS if woken_by in (BY_TIMER, NOT_SAID) else WOKEN_WITHIN_MS)
    near = [sign for sign in signs if earliest - _SECOND_MS <= sign.at <= ended + _SECOND_MS]
    before = [one.members_before for one in wave if one.members_before is not None]
    after = [one.member_count for one in wave if one.member_count is not None]
    left = {sign.client_id for sign in near if not sign.joined} if LEFT in causes or REPLACED in causes else set()
    joined = {sign.client_id for sign in near if sign.joined} if {JOINED, REPLACED, STARTED} & causes else set()
    joined |= {str(one.key.client_id) for one in wave if STARTED in one.causes}
    own = [sign.at for sign in near if sign.broker_name is None and sign.client_id in left and sign.at <= ended]
    return Rebalance(
        group,
        tuple(sorted({one.key.topic for one in wave})),
        min([began, *own]),
        ended,
        tuple(sorted(causes)),
        woken_by,
        before[0] if before else None,
        after[-1] if after else None,
        tuple(sorted(joined)),
        tuple(sorted(left)),
        tuple(sorted({str(one.key.client_id) for one in wave})),
        len({(one.key.topic, queue) for one in wave for queue in one.gained}),
    )
