"""One sweep: what is there, then what each name server and each broker says of it; a line for every question.

It ends when its time is over, whatever servers claim: what was not asked then is told in a line for each server, and is
what the next sweep begins with.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from hindsight.jobs.collect.cluster_view import ClusterView
from hindsight.jobs.collect.failures import NoAnswerError, SilentServerError, not_asked
from hindsight.jobs.collect.line_maker import Heard, LineMaker
from hindsight.jobs.collect.questions import (
    CLUSTER_INFO,
    MESSAGE_REQUEST_MODES,
    OF_BROKER,
    READS,
    REVIVE_PROGRESS,
    TOPIC_LIST,
    Question,
    of_group,
    of_topic,
    producer_connection,
    topic_route,
    topic_status,
)
from hindsight.jobs.collect.running_infos import RunningInfos, SilentClients
from hindsight.jobs.collect.server import Server
from hindsight.jobs.collect.turns import Cut, Turn, Turns
from hindsight.udfs.remoting.remoting_frames import listed_clients

_NOT_SUPPORTED = 3  # REQUEST_CODE_NOT_SUPPORTED; said to 106, it gives a proxy away
_SERVERS_AT_ONCE = 200

Hearing = Callable[[Server, Question, Heard], None]
Asking = Callable[[Server], Iterable[Question]]
About = Callable[[str], Sequence[Question]]


class Step(NamedTuple):
    """A part of a sweep. ``share``: how far into the sweep's time it may last, so that those behind it get theirs."""

    name: str
    share: float


SERVERS, LISTS = Step("servers", 0.15), Step("lists", 0.3)
ROUTES, TOPICS, DETAILS = Step("routes", 0.45), Step("topics", 0.55), Step("details", 0.65)
MEMBERS, TOLD = Step("members", 1.0), Step("told", 1.0)


class Sweep:
    """Asks servers side by side and each at most ``in_flight`` questions at once; a question is made when it is due."""

    def __init__(
        self, view: ClusterView, silent: SilentClients, turns: Turns, maker: LineMaker, cut: Cut, *, in_flight: int
    ) -> None:
        self._view = view
        self._silent = silent
        self._turns = turns
        self._maker = maker
        self._cut = cut
        self._in_flight = in_flight
        self._unknown: dict[tuple[Server, str], NoAnswerError] = {}  # requests that a server does not know

    async def run(self) -> None:
        """Ask everything that there is time for."""
        view = self._view
        view.begin_sweep()
        for server in view.servers():
            server.begin_sweep()
        await self._ask_all(SERVERS, view.name_servers(), self._once(CLUSTER_INFO))
        await self._ask_all(SERVERS, view.listing_servers(), self._once(TOPIC_LIST))
        view.settle_brokers()
        await self._ask_all(LISTS, filter(view.is_due, view.brokers()), self._once(*OF_BROKER))
        topics = view.routed_topics()
        await self._ask_about(ROUTES, view.name_servers(), lambda _: topics, lambda topic: [topic_route(topic)])
        view.settle_routes(topics)
        await self._ask_all(TOPICS, view.popping_brokers(), self._of_pop)
        await self._ask_about(TOPICS, view.brokers(), view.topics_at, lambda topic: [topic_status(topic)])
        owing = [server for server in view.brokers() if view.is_due(server) or self._turns.owes(server, DETAILS.name)]
        await self._ask_about(DETAILS, owing, view.topics_at, of_topic)
        view.settle_details()
        await self._ask_members()
        await self._ask_told(topics)
        self._maker.tell_left_out()

    async def _ask_members(self) -> None:
        servers = self._view.member_servers()
        infos = RunningInfos(servers, self._silent, self._maker, self._cut, self._view.found_consumed)

        def heard(server: Server, question: Question, answer: Heard) -> None:
            self._view.found_consumed(question.subject, answer.value)
            if question.kind == "consumerConnection" and answer.value is not None:
                self._view.found_members(server, question.subject)
                infos.listed(server, question.subject, listed_clients(answer.value))

        async with asyncio.TaskGroup() as both:
            both.create_task(infos.ask())
            await self._ask_about(MEMBERS, servers, self._view.groups_at, of_group, heard)
            producers = [producer_connection(name) for name in self._view.producers()]
            await self._ask_all(MEMBERS, self._view.brokers(), self._once(*producers), heard)
            infos.all_listed()
        for server, group in infos.first_left.items():
            self._turns.ended(server, MEMBERS.name, (group, 0))

    async def _ask_told(self, asked: Sequence[str]) -> None:
        """Topics that this sweep told of for the first time, of groups of this shard: their rounds need them."""
        view = self._view
        if told := view.told_topics():
            await self._ask_all(TOLD, view.name_servers(), self._once(*map(topic_route, told)))
            view.settle_routes([*asked, *told])
            here = {server: [t for t in view.topics_at(server) if t in told] for server in view.brokers()}

            def about(server: Server) -> Iterable[Question]:
                return (question for topic in here[server] for question in (topic_status(topic), *of_topic(topic)))

            await self._ask_all(TOLD, [server for server, held in here.items() if held], about)

    def _once(self, *questions: Question) -> Asking:
        return lambda _server: questions

    def _of_pop(self, server: Server) -> Iterable[Question]:
        # A mode that was set since explains what members take: without it they would seem to differ.
        modes = [] if self._view.is_due(server) else [MESSAGE_REQUEST_MODES]
        return [*modes, REVIVE_PROGRESS, *map(topic_status, self._view.pop_retry_topics_at(server))]

    async def _ask_about(
        self,
        step: Step,
        servers: Iterable[Server],
        subjects: Callable[[Server], Sequence[str]],
        about: About,
        heard: Hearing | None = None,
    ) -> None:
        """Ask each server about its subjects; who has no time for all goes on with the others in the next sweep."""

        def turn(server: Server) -> Turn:
            return self._turns.of(server, step.name, subjects(server), about, lambda: self._cut.over(step.share))

        await self._ask_all(step, servers, turn, heard)

    async def _ask_all(
        self, step: Step, servers: Iterable[Server], asking: Asking, heard: Hearing | None = None
    ) -> None:
        """Ask each server what ``asking`` gives; those that had no turn are the first of the next sweep."""
        self._cut.begin_step(step.share)
        in_turn = self._turns.in_turn(step.name, servers)
        waiting, late = iter(in_turn), list[Server]()

        async def one_after_the_other() -> None:
            for server in waiting:
                if self._cut.over(step.share):
                    late.append(server)
                await self._ask(step, server, asking(server), heard or self._heard)

        async with asyncio.TaskGroup() as lanes:
            for _ in in_turn[:_SERVERS_AT_ONCE]:
                lanes.create_task(one_after_the_other())
        self._turns.servers_left(step.name, late[0] if late else None)

    async def _ask(self, step: Step, server: Server, questions: Iterable[Question], heard: Hearing) -> None:
        due = iter(questions)
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._in_flight):
                workers.create_task(self._work(step, server, due, heard))
        left = questions.left if isinstance(questions, Turn) else Counter(question.kind for question in due)
        for kind, count in left.items():
            self._maker.left_out(server, kind, self._cut.why, count)
        if isinstance(questions, Turn):
            self._turns.ended(server, step.name, questions.next_place)

    async def _work(self, step: Step, server: Server, due: Iterator[Question], heard: Hearing) -> None:
        """Take a question when the rate allows one: none is taken that the cut then keeps from being asked."""
        while not self._cut.over(step.share):
            question = None
            try:
                async with self._cut.limited(step.share):
                    await server.pace()
                    if (question := next(due, None)) is None:
                        return
                    answer = await self._answer(server, question)
            except TimeoutError:
                if question is not None:
                    self._maker.left_out(server, question.kind, self._cut.why)
                return
            heard(server, question, answer)

    async def _answer(self, server: Server, question: Question) -> Heard:
        if unknown := self._unknown.get((server, question.kind)):
            await asyncio.sleep(0)
            return self._maker.failed(server, question, unknown)
        answer = await self._maker.ask(server, question)
        # A server's release lacks a request: it says so, or, where that is old, says nothing.
        is_silent = isinstance(answer.failure, SilentServerError) and not READS[question.kind].silence_tells
        if is_silent or answer.code == _NOT_SUPPORTED:
            self._unknown[server, question.kind] = not_asked(f"the server does not know this: {answer.failure}")
        return answer

    def _heard(self, server: Server, question: Question, answer: Heard) -> None:
        if answer.code == _NOT_SUPPORTED and question.kind == CLUSTER_INFO.kind:
            self._view.found_proxy(server)
        elif answer.value is not None and not (answer.failure and question.kind == CLUSTER_INFO.kind):
            self._view.heard(server, question, answer.value)
