"""Listed clients in, a running info of each out, without holding a broker's admin threads.

A broker passes 307 on to the client and holds one of its 16 admin threads until the client answers, 10 s at most. So
each broker is asked for one client at a time, and after a time-out for none until its thread is surely free. A client
that did not answer is left out for a while. Where a broker says at once that its channel to the client fails, another
one that lists the client is asked too: the first may hold a connection that the client left long ago.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hindsight.jobs.collect.failures import SilentServerError, not_asked
from hindsight.jobs.collect.line_maker import LineMaker
from hindsight.jobs.collect.questions import running_info
from hindsight.jobs.collect.server import Server
from hindsight.jobs.collect.turns import Cut, begin_of

_BROKER_WAITS_S = 10.0  # Broker2Client#callClient
_MARGIN_S = 0.5
LEFT_OUT_S = 60.0
_CONSUME_MSG_TIMEOUT = 207  # the broker's own word for a client that did not answer
_CHANNEL_FAILS = "invoke consumer <"  # and, with code 1, for a channel to the client that fails: no answer of its own
_LOOK_EVERY_S = 0.02

Member = tuple[str, str]  # group, client id


@dataclass
class SilentClients:
    """Kept from sweep to sweep: until when each silent client is left out, and when each broker has a thread again.

    ``next_of``: with whom to begin in groups of which not all were asked.
    """

    until: dict[Member, float] = field(default_factory=dict)
    why: dict[Member, str] = field(default_factory=dict)
    thread_free_at: dict[str, float] = field(default_factory=dict)
    next_of: dict[str, str] = field(default_factory=dict)

    def forget_all_but(self, members: Iterable[Member], addresses: Iterable[str]) -> None:
        """Drop what is listed no more."""
        kept, asked = set(members), set(addresses)
        self.until = {member: at for member, at in self.until.items() if member in kept}
        self.why = {member: why for member, why in self.why.items() if member in kept}
        self.thread_free_at = {a: at for a, at in self.thread_free_at.items() if a in asked}


class RunningInfos:
    """Of one sweep. A member is asked for through the first free broker of those that list it.

    A proxy, which only says that it cannot ask, is turned to where no broker lists the member.
    """

    def __init__(
        self,
        servers: Iterable[Server],
        silent: SilentClients,
        maker: LineMaker,
        cut: Cut,
        told: Callable[[str, Any], None],
    ) -> None:
        self.first_left: dict[Server, str] = {}  # the group of the first client that a server was not asked for
        self._next_of: dict[str, str] = {}
        self._left: Counter[Server] = Counter()
        self._silent = silent
        self._maker = maker
        self._cut = cut
        self._told = told  # of a group, by a client
        self._waiting: dict[Server, asyncio.Queue[Member | None]] = {server: asyncio.Queue() for server in servers}
        self._taken: set[Member] = set()
        self._at_proxies: dict[Server, list[Member]] = {}
        self._were_silent: dict[Member, list[Server]] = {}
        self._listing: dict[Member, list[Server]] = {}
        self._asked: dict[Member, set[Server]] = {}
        self._unreached: list[Member] = []  # the broker that was asked last has no channel to it

    def listed(self, server: Server, group: str, client_ids: Iterable[str]) -> None:
        """Take in what a server lists of a group."""
        ids = list(client_ids)
        begin = begin_of(ids, self._silent.next_of.get(group))
        for member in ((group, client_id) for client_id in ids[begin:] + ids[:begin]):
            if "proxy" in server.place:
                self._at_proxies.setdefault(server, []).append(member)
                continue
            self._listing.setdefault(member, []).append(server)
            if member in self._silent.until:
                self._were_silent.setdefault(member, []).append(server)
            else:
                self._waiting[server].put_nowait(member)

    def all_listed(self) -> None:
        """Nothing more will be listed in this sweep."""
        for waiting in self._waiting.values():
            waiting.put_nowait(None)

    async def ask(self) -> None:
        """Ask for each member that is listed, until ``all_listed``; those that were silent or not reached come last."""
        async with asyncio.TaskGroup() as lanes:
            for server in self._waiting:
                lanes.create_task(self._lane(server))
        async with asyncio.TaskGroup() as last:
            for server, member in self._left_out():
                last.create_task(self._ask(server, member))
            for server, members in self._at_proxies.items():
                last.create_task(self._ask_each(server, members))
        await self._ask_elsewhere()
        self._silent.forget_all_but(self._taken, (server.address for server in self._waiting))
        self._silent.next_of = self._next_of
        for server, count in self._left.items():
            self._maker.left_out(server, "consumerRunningInfo", self._cut.why, count)

    async def _lane(self, server: Server) -> None:
        while (member := await self._waiting[server].get()) is not None:
            while not (self._is_free(server) or member in self._taken or self._cut.over()):
                await asyncio.sleep(_LOOK_EVERY_S)
            await self._ask_each(server, [member])

    async def _ask_each(self, server: Server, members: Iterable[Member]) -> None:
        for member in members:
            if member not in self._taken:
                self._taken.add(member)
                await self._ask(server, member)

    async def _ask_elsewhere(self) -> None:
        """Ask for members that a broker did not reach through the others that list them, one after the other."""
        while self._unreached:
            due: dict[Server, list[Member]] = {}
            for member in self._unreached:
                others = [s for s in self._listing.get(member, ()) if s not in self._asked[member]]
                if others:
                    due.setdefault(others[0], []).append(member)
            self._unreached = []
            async with asyncio.TaskGroup() as again:
                for server, members in due.items():
                    again.create_task(self._ask_again(server, members))

    async def _ask_again(self, server: Server, members: Iterable[Member]) -> None:
        for member in members:
            while not (self._is_free(server) or self._cut.over()):
                await asyncio.sleep(_LOOK_EVERY_S)
            if not self._cut.over():  # its line is there already
                await self._ask(server, member)

    def _left_out(self) -> Iterator[tuple[Server, Member]]:
        """Silent members to try again, one a broker at most; the others get their line."""
        used: set[Server] = set()
        now = asyncio.get_running_loop().time()
        for member, servers in sorted(self._were_silent.items(), key=lambda item: self._silent.until[item[0]]):
            self._taken.add(member)
            free = [server for server in servers if server not in used and self._is_free(server)]
            if free and self._silent.until[member] <= now and not self._cut.over():
                used.add(free[0])
                yield free[0], member
            elif self._cut.over():
                self._leave_out(servers[0], member)
            else:
                why = not_asked(
                    f"did not answer before, and is left out for {LEFT_OUT_S:.0f} s: {self._silent.why[member]}"
                )
                self._maker.failed(servers[0], running_info(*member), why)

    async def _ask(self, server: Server, member: Member) -> None:
        if self._cut.over():
            self._leave_out(server, member)
            return
        self._asked.setdefault(member, set()).add(server)
        begun = -_BROKER_WAITS_S  # not asked yet
        try:
            async with self._cut.limited():
                await server.pace()
                begun = asyncio.get_running_loop().time()
                heard = await self._maker.ask(server, running_info(*member))
        except TimeoutError:
            self._silent.thread_free_at[server.address] = begun + _BROKER_WAITS_S + _MARGIN_S
            self._leave_out(server, member)
            return
        if isinstance(heard.failure, SilentServerError):
            self._silent.thread_free_at[server.address] = begun + _BROKER_WAITS_S + _MARGIN_S
        if _CHANNEL_FAILS in str(heard.failure or ""):
            self._unreached.append(member)
        self._told(member[0], heard.value)
        if isinstance(heard.failure, SilentServerError) or heard.code == _CONSUME_MSG_TIMEOUT:
            self._silent.until[member] = asyncio.get_running_loop().time() + LEFT_OUT_S
            self._silent.why[member] = str(heard.failure)
        else:
            self._silent.until.pop(member, None)

    def _leave_out(self, server: Server, member: Member) -> None:
        group, client_id = member
        self._left[server] += 1
        self.first_left.setdefault(server, group)
        self._next_of.setdefault(group, client_id)

    def _is_free(self, server: Server) -> bool:
        return self._silent.thread_free_at.get(server.address, 0.0) <= asyncio.get_running_loop().time()
