"""What somebody supposes of producers, of consumer groups and of topics: the premises of a what-if, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hindsight.udfs.producer.replay_rules import Override
from hindsight.udfs.values.message_queues import is_like

ALWAYS = -(1 << 62)  # before every instant, epoch us


class GroupPremise(NamedTuple):
    """What is supposed of the groups of some clusters (shell patterns); None: as it is recorded.

    Attributes:
        strategy: of every member that has a choice.
        virtual_node_count: of groups that share by CONSISTENT_HASH.
        client_version: release of every Java member.
        joins: client ids that are members too; ``leaves``: that are none.
        since: it holds in rounds from this instant on, epoch us.
    """

    cluster: str = "*"
    consumer_group: str = "*"
    strategy: str | None = None
    virtual_node_count: int | None = None
    client_version: str | None = None
    joins: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    since: int = ALWAYS

    def is_about(self, cluster: str, consumer_group: str) -> bool:
        """Whether a group is meant."""
        return is_like(cluster, self.cluster) and is_like(consumer_group, self.consumer_group)


class TopicPremise(NamedTuple):
    """How many queues a topic is supposed to have on each broker that holds some; shell patterns, ``since`` as above.

    A static topic, whose queues are logical, stays as it is.
    """

    queues: int
    topic: str
    broker_name: str = "*"
    cluster: str = "*"
    since: int = ALWAYS


class Premises(NamedTuple):
    """All that is supposed at once.

    Attributes:
        producers: entries as of ``[[replay.override]]``, which win over what is recorded (``under_premise``).
    """

    producers: Sequence[Override] = ()
    groups: Sequence[GroupPremise] = ()
    topics: Sequence[TopicPremise] = ()

    def of_cluster(self, cluster: str) -> Premises:
        """Those about groups and topics of one cluster."""
        groups = [premise for premise in self.groups if is_like(cluster, premise.cluster)]
        topics = [premise for premise in self.topics if is_like(cluster, premise.cluster)]
        return self._replace(groups=groups, topics=topics)

    @property
    def about_consumers(self) -> bool:
        """Whether anything is supposed of groups or topics."""
        return bool(self.groups or self.topics)


NOTHING_SUPPOSED = Premises()
