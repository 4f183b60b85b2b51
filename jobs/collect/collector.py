"""Sweeps one after the other, none piled on another, until enough are done or somebody says stop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import resource
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry, Gauge

from hindsight.jobs.collect.cluster_view import ClusterView, Shard, Wanted
from hindsight.jobs.collect.failures import CollectError
from hindsight.jobs.collect.landing_writer import LandingWriter, Limits
from hindsight.jobs.collect.line_maker import LineMaker, now_ms
from hindsight.jobs.collect.running_infos import SilentClients
from hindsight.jobs.collect.server import Manners
from hindsight.jobs.collect.sweep import Sweep
from hindsight.jobs.collect.turns import Cut, Turns
from hindsight.jobs.running.interrupts import handled_by
from hindsight.jobs.running.run_log import tell
from hindsight.jobs.running.run_metrics import replace_metrics

LONGEST_SWEEP_S = 110.0  # the pipeline counts a line to its round for 120 s
_GRACE_S = 10.0  # for the sweep that is under way when somebody says stop

# Told after a sweep that another will follow: how many there were, and how to give the open file its final name.
OnSweep = Callable[[int, Callable[[], None]], None]
# Told after each sweep, the last one too: what it was.
Swept = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Plan:
    """What the command line says."""

    name_servers: tuple[str, ...]
    cluster: str
    landing: Path
    every_s: float = 15.0
    rounds: int | None = None
    wanted: Wanted = field(default_factory=Wanted)
    manners: Manners = field(default_factory=Manners)
    limits: Limits = field(default_factory=Limits)
    details_every_s: float = 300.0
    gzipped: bool = False
    short_lines: bool = False
    by_hour: bool = False
    collector: str | None = None
    metrics: Path | None = None
    shard: Shard = field(default_factory=Shard)


class Collector:
    """``run`` is the whole of it; ``stop`` lets the sweep under way end, a second ``stop`` cuts it."""

    def __init__(self, plan: Plan, on_sweep: OnSweep | None = None, swept: Swept | None = None) -> None:
        self._plan = plan
        self._on_sweep, self._swept = on_sweep, swept
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._stop_at = math.inf
        self._cut: Cut | None = None
        hours_of = (plan.collector or "collector") if plan.by_hour else ""
        self._writer = LandingWriter(
            plan.landing, plan.cluster, plan.limits, gzipped=plan.gzipped, short=plan.short_lines, hours_of=hours_of
        )
        self._view = ClusterView(
            plan.name_servers,
            plan.manners,
            plan.wanted,
            details_every_s=plan.details_every_s,
            clock=self._loop.time,
            shard=plan.shard,
        )
        self._silent = SilentClients()
        self._turns = Turns()

    async def run(self) -> bool:
        """Sweep until ``rounds`` are done or ``stop`` is called; whether it was called. Raises: CollectError."""
        _allow_many_connections()
        try:
            self._writer.start()
        except OSError as error:
            raise CollectError(f"the landing folder cannot be written to: {error}") from error
        try:
            await self._sweep_on()
        finally:
            self._writer.close()
            for server in self._view.servers():
                server.close()
        if not self._view.has_answered:
            raise CollectError(
                f"no name server of {', '.join(self._plan.name_servers)} ever answered; the lines say why."
            )
        return self._stopping.is_set()

    def stop(self) -> None:
        """Begin no other sweep."""
        self._stop_at = self._loop.time() + (0.0 if self._stopping.is_set() else _GRACE_S)
        self._stopping.set()
        if self._cut is not None:
            self._cut.stop(self._stop_at)

    async def _sweep_on(self) -> None:
        every, begun, tick = self._plan.every_s, self._loop.time(), 0
        for number in itertools.count():
            await self._sweep(number)
            if self._view.sees_nothing:
                raise CollectError("a proxy lists neither topics nor groups: name them with --topic and --group.")
            if number + 1 == self._plan.rounds or self._stopping.is_set():
                return
            if self._on_sweep is not None:
                self._on_sweep(number + 1, self._writer.close)
            # Sweeps that were due meanwhile are left out.
            tick = max(tick + 1, math.ceil((self._loop.time() - begun) / every))
            wait = begun + tick * every - self._loop.time()
            self._writer.close_if_old(wait + every)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)
                return

    async def _sweep(self, number: int) -> None:
        plan, loop = self._plan, self._loop
        maker = LineMaker(self._writer.write, plan.collector, plan.manners.credentials)
        begun, asked = loop.time(), self._view.requests
        self._cut = cut = Cut(LONGEST_SWEEP_S)
        cut.stop(self._stop_at)
        maker.mark("round", round=number)
        sweep = Sweep(self._view, self._silent, self._turns, maker, cut, in_flight=plan.manners.in_flight)
        await sweep.run()
        seconds, requests = loop.time() - begun, self._view.requests - asked
        self._writer.flush()
        facts = {
            "seconds": round(seconds, 3),
            "requests": requests,
            "requests_per_second": round(requests / seconds, 1) if seconds else 0.0,
            "lines": maker.lines + 1,
            "errors": maker.errors,
            "late_s": round(max(0.0, seconds - plan.every_s), 3) if plan.rounds != 1 else 0.0,
            "is_cut": maker.was_cut,
            "left_out": maker.questions_left_out,
            "lost_lines": self._writer.take_lost(),
        }
        maker.mark("sweepEnd", round=number, **facts)
        self._writer.flush()
        self._told(number, facts)

    def _told(self, number: int, facts: dict[str, Any]) -> None:
        late = {"late": f"the sweep took longer than --every {self._plan.every_s:g}"} if facts["late_s"] else {}
        told = {"cluster": self._plan.cluster, "round": number, **facts, **late}
        tell("sweep", **told)
        if self._swept is not None:
            self._swept(told)
        if self._plan.metrics is None:
            return
        try:
            collector = self._plan.collector if self._plan.shard.parts > 1 else None
            write_sweep_metrics(self._plan.metrics, self._plan.cluster, number, facts, collector)
        except OSError as error:
            tell("the metrics file cannot be written", file=str(self._plan.metrics), error=str(error))


def _allow_many_connections() -> None:
    """One to each server is kept open: as many as this process may have, not only as many as is usual."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def write_sweep_metrics(
    path: Path, cluster: str, number: int, facts: dict[str, Any], collector: str | None = None
) -> None:
    """The facts of the last sweep, and when it ended: what an alert looks at."""
    registry, labels = CollectorRegistry(), {"cluster": cluster, **({"collector": collector} if collector else {})}
    for name, value in {"round": number, **facts}.items():
        told = f"hindsight_collect_sweep_{name}"
        gauge = Gauge(told, f"{name.replace('_', ' ')}, of the last sweep", list(labels), registry=registry)
        gauge.labels(**labels).set(float(value))
    ended = Gauge(
        "hindsight_collect_sweep_end_timestamp_seconds", "end of the last sweep", list(labels), registry=registry
    )
    ended.labels(**labels).set(now_ms() / 1000)
    replace_metrics(path, registry)


def run_collector(plan: Plan, swept: Swept | None = None) -> bool:
    """Collect until all is done or a signal says stop; whether one did. Raises: as ``Collector.run``."""

    async def collect() -> bool:
        collector, loop = Collector(plan, swept=swept), asyncio.get_running_loop()
        with handled_by(lambda *_: loop.call_soon_threadsafe(collector.stop)):
            return await collector.run()

    return asyncio.run(collect())


class CollectorThread:
    """The collector beside what the main thread does; ``on_end`` is called in its thread when it has ended."""

    def __init__(self, plan: Plan, on_sweep: OnSweep, on_end: Callable[[], None]) -> None:
        self._plan, self._on_sweep, self._on_end = plan, on_sweep, on_end
        self._result: Future[bool] = Future()
        self._stop: Future[Callable[[], object]] = Future()
        self._thread = Thread(target=self._run, name="collector")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """As ``Collector.stop``; from any thread, before the begin and after the end as well."""

        def stop(ready: Future[Callable[[], object]]) -> None:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                ready.result()()

        self._stop.add_done_callback(stop)

    def result(self) -> bool:
        """Wait for the end; whether it was stopped. Raises: as ``Collector.run``."""
        return self._result.result()

    def _run(self) -> None:
        try:
            self._result.set_result(asyncio.run(self._collect()))
        except Exception as error:
            self._result.set_exception(error)
        finally:
            self._on_end()

    async def _collect(self) -> bool:
        collector = Collector(self._plan, self._on_sweep)
        self._stop.set_result(partial(asyncio.get_running_loop().call_soon_threadsafe, collector.stop))
        return await collector.run()
