"""``hindsight ladder``: what the recorded sends say of ladders of the fault table; an open loop, with bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Annotated

import pyarrow as pa
import typer

from hindsight.jobs.asking.sql_output import table
from hindsight.jobs.commands.command_options import From, Json, LakeThere, To, dates_of, show
from hindsight.jobs.engines.asker import BadQueryError, Record
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.running.places import absolute, require_lake
from hindsight.jobs.running.terminal import columns, legible
from hindsight.jobs.scenarios.weighed_ladders import weighed
from hindsight.udfs.not_available_duration import LadderTooShortError

_SHOWN = ("which", "latency_max_ms", "not_available_ms", "healthy_avoided_s", "sick_sends", "better_than_own")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("ladder")
def ladder(
    lake: LakeThere,
    cluster: Annotated[str, typer.Option(help="Shell pattern.")] = "*",
    producer_group: Annotated[str, typer.Option(help="Shell pattern.")] = "*",
    slow: Annotated[
        int, typer.Option(min=1, help="Milliseconds from which a send says that its broker is sick.")
    ] = 550,
    near: Annotated[int, typer.Option(min=0, help="Seconds for which a broker stays as two sends in turn say.")] = 10,
    given: Annotated[
        list[str] | None,
        typer.Option("--ladder", metavar="MAX:AVOID", help="One more ladder, e.g. 50,100,550:0,0,2000; may repeat."),
    ] = None,
    first: From = None,
    last: To = None,
    as_lines: Json = False,
) -> None:
    """Weigh ladders of the fault table by recorded sends: healthy brokers avoided, and sends that met a sick one."""
    require_lake(lake)
    ladders = [_ladder(text) for text in given or ()]
    with closing(LocalAsker(LocalLake(absolute(lake), retention_days=0))) as asker:
        try:
            rows = weighed(asker, cluster, producer_group, dates_of(first, last), slow, near * 1_000, ladders)
        except (BadQueryError, LadderTooShortError) as error:
            raise typer.BadParameter(str(error)) from error
    show(as_lines, rows, _told(rows))


def _ladder(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    try:
        latency, avoid = (tuple(int(number) for number in part.split(",")) for part in text.split(":"))
    except ValueError as error:
        raise typer.BadParameter(f"--ladder {text!r} is not like 50,100,550:0,0,2000.") from error
    if len(latency) != len(avoid):
        raise typer.BadParameter(f"--ladder {text!r} has {len(latency)} latencies and {len(avoid)} times.")
    return latency, avoid


def _told(rows: Sequence[Record]) -> Iterator[str]:
    parts: defaultdict[str, list[Record]] = defaultdict(list)
    for row in rows:
        parts[row["part"]].append(row)
    yield "How brokers were seen, by all sends to them; in the rest of the time nobody knows:"
    yield from table(pa.Table.from_pylist(parts["broker"]).drop_columns("part"), width=columns())
    for row in parts["unknown"]:
        yield legible(f"  Left out: {row['client_id']} of {row['producer_group']}: {row['unknown_because']}")
    yield ""
    yield "Ladders, all producers together: seconds in which healthy brokers are avoided, sends that meet a sick one."
    yield "Open loop, at least and at most; on the frontier no ladder on trial is better in both at most."
    ladders = [_short(row) for row in parts["ladder"]]
    yield from table(pa.Table.from_pylist(ladders).select(list(_SHOWN)), width=columns())
    for row in parts["ladder"]:
        if row["which"] == "default":
            yield f"  default {row['not_available_ms']}: releases {row['releases']}"


def _short(row: Record) -> Record:
    return row | {
        "latency_max_ms": _numbers(row["latency_max_ms"]),
        "not_available_ms": _numbers(row["not_available_ms"]),
        "healthy_avoided_s": f"{row['healthy_avoided_at_least_s']:g} to {row['healthy_avoided_at_most_s']:g}",
        "sick_sends": f"{row['sick_sends_at_least']} to {row['sick_sends_at_most']}",
    }


def _numbers(values: Sequence[int] | None) -> str:
    return "its own" if values is None else ",".join(map(str, values))
