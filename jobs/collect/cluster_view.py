"""What is known of the cluster between and during sweeps: its servers, and which topics and groups to ask each for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from hindsight.jobs.collect.questions import Question
from hindsight.jobs.collect.server import Manners, Server
from hindsight.jobs.running.run_log import tell
from hindsight.udfs.remoting.remoting_frames import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    broker_addresses,
    chosen_groups,
    chosen_topics,
    cluster_names,
    configured_groups,
    consuming_groups,
    listed_topics,
    retrying_groups,
    route_brokers,
    topics_of_group,
)

# A broker that dies leaves the name servers' lists at once, as one that was taken away does: its silence is told of.
_REMEMBERED_S = 600.0
_SHARD = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})")


@dataclass(frozen=True)
class Wanted:
    """Shell patterns of what to ask for, none: everything; producer groups by name, as ``group`` or ``group@topic``."""

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    producers: tuple[str, ...] = ()


class Shard(NamedTuple):
    """The ``number``-th of so many ``parts`` of a cluster, from 1 on.

    Names alone tell which: several collectors do not talk to each other.
    """

    number: int = 1
    parts: int = 1

    def has(self, name: str) -> bool:
        """Whether a group or topic of that name lies in this part; the same in every process and release."""
        return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) % self.parts == self.number - 1

    def collector(self, name: str | None) -> str | None:
        """The name of the collector of this part: each is one of its own, whose rounds are judged alone."""
        return name if self.parts == 1 else f"{name or 'collector'}-{self.number}-of-{self.parts}"


def shard_of(text: str) -> Shard:
    """``I/N``. Raises: ValueError: it is none, or I is greater than N."""
    found = _SHARD.fullmatch(text)
    if not found or int(found[1]) > int(found[2]):
        raise ValueError(f"{text!r} is not I/N with 1 <= I <= N, such as 2/4")
    return Shard(int(found[1]), int(found[2]))


class ClusterView:
    """``heard`` and ``found_*`` take in what a sweep hears, ``settle_*`` end a step of it.

    The others say whom to ask for what.
    """

    def __init__(
        self,
        name_servers: Iterable[str],
        manners: Manners,
        wanted: Wanted,
        *,
        details_every_s: float,
        clock: Callable[[], float],
        shard: Shard | None = None,
    ) -> None:
        self._wanted = wanted
        self._shard = shard or Shard()
        self.has_answered = False  # any name server or proxy, ever
        self._requests_of_gone = 0
        self._manners = manners
        self._details_every_s = details_every_s
        self._clock = clock
        self._name_servers = {a: Server(a, manners, {"name_server": a}) for a in name_servers}
        self._proxies: set[Server] = set()
        self._brokers: dict[str, Server] = {}
        self._due: set[Server] = set()
        self._popping: set[Server] = set()
        self._seen_at: dict[str, float] = {}
        self._due_at: dict[str, float] = {}
        self._clusters: set[str] = set()
        self._topics: set[str] = set()
        self._chosen: list[str] = []  # topics of this shard
        self._known: list[str] = []  # those of all
        self._consumed: dict[str, set[str]] = {}  # by group of this shard: topics
        self._met: dict[str, set[str]] = {}  # by broker: groups that it is asked for until its next details
        self._topics_at: dict[str, list[str]] = {}
        self._pop_retries: list[str] = []
        self._routes: dict[str, set[str]] = {}
        self._configured: dict[str, set[str]] = {}
        self._consumers: dict[str, set[str]] = {}
        self._groups_at: dict[str, list[str]] = {}
        self._groups: list[str] = []
        self.begin_sweep()

    def begin_sweep(self) -> None:
        """Forget what only the last sweep heard."""
        self._addresses: dict[str, str] = {}
        self._found_topics: set[str] = set()
        self._found_routes: dict[str, set[str]] = {}
        self._told_groups: set[str] = set()  # brokers
        self._found_consumers: dict[str, set[str]] = {}

    @property
    def requests(self) -> int:
        """Requests sent so far."""
        return self._requests_of_gone + sum(server.requests for server in self.servers())

    @property
    def sees_nothing(self) -> bool:
        """Whether there are only proxies, and no topic or group is named to them."""
        are_all = len(self._proxies) == len(self._name_servers)
        return are_all and not (self._brokers or self._groups or self._chosen)

    def servers(self) -> list[Server]:
        """All that are known."""
        return [*self._name_servers.values(), *self._brokers.values()]

    def name_servers(self) -> list[Server]:
        """What was named as such, proxies among them."""
        return list(self._name_servers.values())

    def listing_servers(self) -> list[Server]:
        """Name servers that can list topics: proxies cannot."""
        return [server for server in self._name_servers.values() if server not in self._proxies]

    def brokers(self) -> list[Server]:
        """Brokers of all name servers."""
        return list(self._brokers.values())

    def member_servers(self) -> list[Server]:
        """Who can list a group's members."""
        return [*self._brokers.values(), *(s for s in self._name_servers.values() if s in self._proxies)]

    def is_due(self, server: Server) -> bool:
        """Whether to ask a broker for what changes seldom."""
        return server in self._due

    def routed_topics(self) -> list[str]:
        """Topics whose routes are asked for: those chosen, and retry topics of chosen groups."""
        known = set().union(*self._configured.values(), *self._consumers.values())
        retries = retrying_groups(self._topics, known)
        chosen = set(self._of_shard({*known, *retries.values()}))
        self._pop_retries = [t for t, group in retries.items() if group in chosen and t != f"{RETRY_PREFIX}{group}"]
        return [*self._chosen, *(retry for retry, group in retries.items() if group in chosen)]

    def producers(self) -> list[str]:
        """Producer groups of this shard, as they were named."""
        return [name for name in self._wanted.producers if self._shard.has(name.partition("@")[0])]

    def told_topics(self) -> list[str]:
        """Topics that this shard's groups turned out to consume since topics were chosen; they are chosen now."""
        before = set(self._chosen)
        self._choose_topics()
        return [topic for topic in self._chosen if topic not in before]

    def topics_at(self, server: Server) -> list[str]:
        """Chosen topics that a broker holds."""
        return self._topics_at.get(server.place["broker"], [])

    def popping_brokers(self) -> list[Server]:
        """Brokers that can hand out messages by POP: 5.0 on."""
        return [server for server in self._brokers.values() if server in self._popping]

    def pop_retry_topics_at(self, server: Server) -> Iterator[str]:
        """Topics into which a broker puts what chosen groups popped and did not acknowledge in time."""
        broker = server.place["broker"]
        return (topic for topic in self._pop_retries if broker in self._routes.get(topic, ()))

    def groups_at(self, server: Server) -> list[str]:
        """Chosen groups that a broker knows; a proxy may know any."""
        return self._groups if server in self._proxies else self._groups_at.get(server.place["broker"], [])

    def found_proxy(self, server: Server) -> None:
        """A name server said that it does not know what a name server knows (106: code 3)."""
        self.has_answered = True
        if server not in self._proxies:
            tell(
                "a proxy, no name server: it lists neither brokers nor topics nor groups, and gives no progress and no "
                "running infos; only what --group and --topic name is asked of it",
                server=server.address,
            )
        self._proxies.add(server)
        server.place = {"proxy": server.address}

    def heard(self, server: Server, question: Question, value: Any) -> None:
        """A server answered; of the kinds of questions that are not named here nothing is known anew."""
        broker = server.place.get("broker", "")
        match question.kind:
            case "clusterInfo":
                self.has_answered = True
                self._proxies.discard(server)
                server.place = {"name_server": server.address}
                self._addresses |= broker_addresses(value)
                self._clusters |= cluster_names(value)
            case "topicList":
                self._found_topics.update(listed_topics(value))
            case "topicRoute":
                self._found_routes.setdefault(question.subject, set()).update(route_brokers(value))
            case "subscriptionGroups":
                self._configured[broker] = configured_groups(value)
                self._told_groups.add(broker)
            case "messageRequestModes":
                self._popping.add(server)
            case "topicConsumeByWho":
                self._found_consumers.setdefault(broker, set()).update(consuming_groups(value, question.subject))

    def found_consumed(self, group: str, answer: Any) -> None:
        """A broker or client told what a group consumes (203, 208, 307)."""
        if told := topics_of_group(answer):
            self._consumed.setdefault(group, set()).update(told)

    def found_members(self, server: Server, group: str) -> None:
        """A broker listed members of a group (203)."""
        if "broker" in server.place:
            self._met.setdefault(server.place["broker"], set()).add(group)

    def settle_brokers(self) -> None:
        """Draw the conclusions of 106 and 206. Where no name server answered, what was known goes on."""
        now = self._clock()
        self._topics = self._found_topics or self._topics
        for broker, address in self._addresses.items():
            self._seen_at[broker] = now
            if broker in self._brokers and self._brokers[broker].address != address:
                self._part_from(broker)
            if broker not in self._brokers:
                self._brokers[broker] = Server(address, self._manners, {"broker": broker})
                self._due_at[broker] = now
        for broker in [b for b in self._brokers if now - self._seen_at[b] > _REMEMBERED_S and self._addresses]:
            self._part_from(broker)
            for known in (self._seen_at, self._due_at, self._configured, self._consumers, self._met):
                known.pop(broker, None)
        self._due = {server for broker, server in self._brokers.items() if self._due_at[broker] <= now}
        self._known = chosen_topics(self._topics, self._wanted.topics, {*self._clusters, *self._brokers})
        self._choose_topics()

    def settle_routes(self, asked: Iterable[str]) -> None:
        """Draw the conclusions of 105; a topic of which no name server told keeps the route that was known."""
        known = self._routes | self._found_routes
        self._routes = {topic: known[topic] for topic in asked if topic in known}
        self._topics_at = {}
        for topic in self._chosen:
            for broker in self._routes.get(topic, ()):
                self._topics_at.setdefault(broker, []).append(topic)

    def settle_details(self) -> None:
        """Draw the conclusions of 300: which groups are asked for at which broker."""
        self._consumers |= self._found_consumers
        for broker in self._told_groups:
            self._due_at[broker] = self._clock() + self._details_every_s
        at = self._groups_by_broker()
        self._groups = self._of_shard({group for groups in at.values() for group in groups})
        unknown = set(self._groups).difference(*at.values())
        self._groups_at = {
            broker: [group for group in self._groups if group in groups or group in unknown]
            for broker, groups in at.items()
        }

    def _part_from(self, broker: str) -> None:
        server = self._brokers.pop(broker)
        self._popping.discard(server)
        self._requests_of_gone += server.requests
        server.close()

    def _of_shard(self, groups: Iterable[str]) -> list[str]:
        return [group for group in chosen_groups(groups, self._wanted.groups) if self._shard.has(group)]

    def _choose_topics(self) -> None:
        consumed = set().union(*self._consumed.values())
        self._chosen = [t for t in self._known if self._shard.has(t.removeprefix(DLQ_PREFIX)) or t in consumed]

    def _groups_by_broker(self) -> dict[str, set[str]]:
        """Where a group's topics and retry topics lie, its offsets, and its members; else where it is configured.

        A broker that has a configuration alone is asked with what changes seldom.
        """
        known = set().union(*self._configured.values(), *self._consumers.values())
        held: dict[str, set[str]] = {b: set(self._consumers.get(b, ())) for b in self._brokers}
        retries = retrying_groups(self._topics, known).items()
        topics = ((topic, group) for group, topics in self._consumed.items() for topic in topics)
        for topic, group in (*retries, *topics):
            for broker in self._routes.get(topic, set()) & held.keys():
                held[broker].add(group)
        for broker in self._brokers:
            old = set() if broker in self._told_groups else self._met.get(broker, set())
            self._met[broker] = held[broker] | old
        placed = set().union(*self._met.values())
        due = {server.place["broker"] for server in self._due}
        return {
            broker: groups | (self._configured.get(broker, set()) - (set() if broker in due else placed))
            for broker, groups in self._met.items()
        }
