"""One sweep: what is there, then what each name server and each broker says of it; a line for every question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping

from hindsight.jobs.collect.cluster_view import ClusterView
from hindsight.jobs.collect.failures import NoAnswerError, SilentServerError, not_asked
from hindsight.jobs.collect.line_maker import Heard, LineMaker
from hindsight.jobs.collect.questions import (
    CLUSTER_INFO,
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
from hindsight.udfs.remoting.remoting_names import listed_clients

_NOT_SUPPORTED = 3  # REQUEST_CODE_NOT_SUPPORTED; said to 106, it gives a proxy away

Plan = Mapping[Server, Iterable[Question]]


class Sweep:
    """Asks servers side by side and each at most ``in_flight`` questions at once; a question is made when it is due."""

    def __init__(
        self,
        view: ClusterView,
        silent: SilentClients,
        maker: LineMaker,
        *,
        in_flight: int,
        cut: Callable[[], NoAnswerError | None],
    ) -> None:
        self._view = view
        self._silent = silent
        self._maker = maker
        self._in_flight = in_flight
        self._cut = cut
        self._unknown: dict[tuple[Server, str], NoAnswerError] = {}  # requests that a server does not know

    async def run(self, *, begin_anywhere: bool = False) -> None:
        """Ask everything; from when ``cut`` gives a reason on, lines with it are all that still comes."""
        view = self._view
        view.begin_sweep()
        await self._ask_all(dict.fromkeys(view.name_servers(), (CLUSTER_INFO,)), self._cluster_info_heard)
        await self._ask_all(dict.fromkeys(view.listing_servers(), (TOPIC_LIST,)), self._topic_list_heard)
        view.settle_brokers()
        await self._ask_all(dict.fromkeys(view.due_brokers(), OF_BROKER), self._of_broker_heard)
        view.settle_groups()
        topics = view.routed_topics()
        await self._ask_all({server: map(topic_route, topics) for server in view.name_servers()}, self._route_heard)
        view.settle_routes(topics)
        await self._ask_all({server: self._of_topics(server) for server in view.brokers()}, self._topic_heard)
        view.settle_details(begin_anywhere=begin_anywhere)
        await self._ask_members()

    async def _ask_members(self) -> None:
        servers = self._view.member_servers()
        infos = RunningInfos(servers, self._silent, self._maker, self._cut)

        def heard(server: Server, question: Question, answer: Heard) -> None:
            if question.kind == "consumerConnection":
                infos.listed(server, question.subject, listed_clients(answer.value))

        async with asyncio.TaskGroup() as both:
            both.create_task(infos.ask())
            await self._ask_all({server: self._of_groups(server) for server in servers}, heard)
            infos.all_listed()

    def _of_topics(self, server: Server) -> Iterator[Question]:
        is_due = self._view.is_due(server)
        if self._view.may_pop(server):
            yield REVIVE_PROGRESS
            yield from map(topic_status, self._view.pop_retry_topics_at(server))
        for topic in self._view.topics_at(server):
            yield topic_status(topic)
            if is_due:
                yield from of_topic(topic)

    def _of_groups(self, server: Server) -> Iterator[Question]:
        for group in self._view.groups_at(server):
            yield from of_group(group)
        if not self._view.is_proxy(server):
            yield from map(producer_connection, self._view.wanted.producers)

    async def _ask_all(self, plan: Plan, heard: Callable[[Server, Question, Heard], None]) -> None:
        async with asyncio.TaskGroup() as workers:
            for server, questions in plan.items():
                due = iter(questions)
                for _ in range(self._in_flight):
                    workers.create_task(self._work(server, due, heard))

    async def _work(
        self, server: Server, due: Iterator[Question], heard: Callable[[Server, Question, Heard], None]
    ) -> None:
        for question in due:
            if left_out := self._cut() or self._unknown.get((server, question.kind)):
                self._maker.failed(server, question, left_out)
                await asyncio.sleep(0)
                continue
            await server.pace()
            answer = await self._maker.ask(server, question)
            if _is_unknown(question, answer):
                self._unknown[server, question.kind] = not_asked(f"the server does not know this: {answer.failure}")
            heard(server, question, answer)

    def _cluster_info_heard(self, server: Server, _question: Question, answer: Heard) -> None:
        if answer.code == _NOT_SUPPORTED:
            self._view.found_proxy(server)
        elif answer.failure is None:
            self._view.found_brokers(server, answer.value)

    def _topic_list_heard(self, _server: Server, _question: Question, answer: Heard) -> None:
        self._view.found_topics(answer.value)

    def _of_broker_heard(self, server: Server, question: Question, answer: Heard) -> None:
        if answer.value is None:
            return
        if question.kind == "subscriptionGroups":
            self._view.found_groups(server, answer.value)
        elif question.kind == "messageRequestModes":
            self._view.found_popping(server)

    def _route_heard(self, _server: Server, question: Question, answer: Heard) -> None:
        if answer.value is not None:
            self._view.found_route(question.subject, answer.value)

    def _topic_heard(self, server: Server, question: Question, answer: Heard) -> None:
        if question.kind == "topicConsumeByWho" and answer.value is not None:
            self._view.found_consumers(server, question.subject, answer.value)


def _is_unknown(question: Question, answer: Heard) -> bool:
    """Whether a server's release lacks a request: it says so, or, where that is old, says nothing."""
    is_silent = isinstance(answer.failure, SilentServerError) and not READS[question.kind].silence_tells
    return is_silent or answer.code == _NOT_SUPPORTED
