"""The page inside of a bundle, for whoever opens it."""

from __future__ import annotations

from hindsight.jobs.bundling.made_bundle import Bundle
from hindsight.jobs.bundling.versions import versions


def readme(bundle: Bundle) -> str:
    """Plain text."""
    days = bundle.dates.dates
    of = "one consumer group" if bundle.of_groups else "one producer" if bundle.of else "all producers of one cluster"
    return _PAGE.format(
        table=bundle.named[0],
        of=of,
        days=f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}",
        hindsight=versions()["hindsight"],
        inputs=_counts(bundle.inputs),
        claims=_counts(bundle.claims),
    )


def _counts(tables: object) -> str:
    assert isinstance(tables, dict)
    return "\n".join(
        f"  {table.name}: {len(rows)} rows" for table, rows in sorted(tables.items(), key=lambda e: e[0].name)
    )


_PAGE = """An evidence bundle of hindsight: what was recorded, and what follows from it.

It was made for a row of {table}. It holds the records of {of}, {days} (UTC), and nothing else.

To see for yourself, on any machine that has hindsight (this one was made with {hindsight}):

  hindsight replay BUNDLE.zip

It derives the rows again from inputs/ and compares them with claims/. The exit code is 0 if all are the same, 4 if not.

What is in it
  inputs/*.parquet   rows of hindsight's input tables, as docs/contracts.md has them
  claims/*.parquet   what was derived from them
  settings.json      the settings that bear on it
  ring.json          where client ids and queues stood on CONSISTENT_HASH's ring; empty where nobody asked
  manifest.json      dates, versions, the row that was asked for

What was replaced
  Names of clusters, topics, groups, brokers, rooms and collectors, client ids, addresses, host names, threads, message
  ids, tags, expressions of subscriptions, names of files and logs, texts of errors, classes that are not RocketMQ's or
  Java's. Each has one new name everywhere in this file. New names sort as the old ones did, because clients share
  queues in the order of names. Message keys, bodies and texts of log lines are not in it.

What stayed
  Instants, durations, counts, offsets, queue numbers, releases, languages, names of strategies that are RocketMQ's,
  and names that are RocketMQ's own: %RETRY%, %DLQ%, TBW102 and such.

Inputs
{inputs}

Claims
{claims}
"""
