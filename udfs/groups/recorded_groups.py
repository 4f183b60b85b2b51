"""What is known of the groups of a bucket, and by which settings they are folded: what ``group_fold`` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from hindsight.udfs.consumer.broker_assignment import RequestModes
from hindsight.udfs.consumer.captured_rounds import CapturedRounds
from hindsight.udfs.consumer.member_rules import Setting, Shown
from hindsight.udfs.consumer.member_signs import Heartbeats
from hindsight.udfs.consumer.offset_marks import Lag
from hindsight.udfs.consumer.queue_ends import QueueEnds
from hindsight.udfs.consumer.rows_of_rounds import RoundKey
from hindsight.udfs.consumer.topic_routes import RoutedTopics
from hindsight.udfs.drift.root_cause import Trouble
from hindsight.udfs.drift.told_beside import NOTHING_BESIDE, Beside
from hindsight.udfs.groups.group_walk import WalkSettings
from hindsight.udfs.strategies.member_families import Declared

NO_MODES = RequestModes()


class FoldSettings(NamedTuple):
    """What the fold goes by beside the walk's settings; see ``hindsight.conf.settings.Drift`` and ``Rounds``."""

    walk: WalkSettings
    lookback_s: int
    progress_valid_s: int
    loose_spread_s: float


class Recorded(NamedTuple):
    """What is known of all groups of a bucket; topics and rounds are looked up in it.

    Attributes:
        rounds: by group and collector, instants of rounds, epoch us, in order, and their places in ``captured``.
        readings: by group and collector, instants at which offsets were read and the rounds of these, epoch us, sorted.
        lags: the rows of the reading of a round.
        asks_proxy: collectors, and the dates on which they asked a proxy.
        cut_rounds: collectors, and their rounds, epoch us, in which they had no time to ask everything.
        ends: the first offsets of queues, and dead letters.
        modes: how brokers hand out queues to groups that let them.
        troubles: of servers that a round may show effects of: by collector, the round, epoch us, and an instant, ms.
    """

    captured: CapturedRounds
    rounds: Mapping[tuple[str, str], Sequence[tuple[int, int]]]
    routes: RoutedTopics
    readings: Mapping[tuple[str, str], Sequence[tuple[int, int]]]
    lags: Callable[[RoundKey], list[Lag]]
    asks_proxy: frozenset[tuple[str, date]]
    cut_rounds: frozenset[tuple[str, int]]
    ends: QueueEnds
    modes: RequestModes = NO_MODES
    troubles: Callable[[str, int, int], Sequence[Trouble]] = lambda *_: ()


class Told(NamedTuple):
    """What is told of a group whoever collected it.

    Attributes:
        declared: what settings say of a member.
        heartbeats: of its members; None: no heartbeat was ever taken in.
        events: instants, epoch us, joins and leaves, and of whom; None: no broker's log was ever taken in.
        beside: what logs and brokers' settings add to findings.
    """

    shown: Shown
    setting: Setting
    declared: Callable[[str], Declared]
    heartbeats: Heartbeats | None
    events: Sequence[tuple[int, str, str]] | None
    beside: Beside = NOTHING_BESIDE
