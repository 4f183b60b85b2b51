"""What a run clears away of a lake: files that no kept version needs, expired refused lines; few tables at a time.

Each table is looked at once a day, so that no run pays for all, and nothing beside the runs is to be scheduled.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from hindsight.conf.settings import Settings
from hindsight.jobs.engines.arrow_lake import ArrowLake
from hindsight.jobs.engines.lake_rows import Where
from hindsight.jobs.publishing import publication_record, quality_gate
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import PUBLICATION, QUALITY_RESULT, QUARANTINE, TABLES, Table

_NOTE = "upkeep"
_TABLES_A_RUN = 2


def keep_up(lake: ArrowLake, settings: Settings, context: RunContext) -> None:
    """Clear away what has expired of the tables that were not looked at on this date. All rows that count stay."""
    today = context.started_at.date().isoformat()
    there = [table for table in TABLES.values() if lake.exists(table)]
    noted = lake.noted(_NOTE)
    # A table that is new, as all of a new lake, has nothing that is old.
    seen = {table.name: today for table in there} | json.loads(noted or "{}")
    due = [table for table in there if seen[table.name] != today][:_TABLES_A_RUN]
    with lake.silenced():
        for table in due:
            clear_away(lake, table, settings, context.started_at)
    text = json.dumps(seen | dict.fromkeys((table.name for table in due), today), sort_keys=True)
    if text != noted:
        lake.note(_NOTE, text)


def clear_away(lake: ArrowLake, table: Table, settings: Settings, now: datetime) -> None:
    """Remove what has expired: refused lines; publications and checks of versions that nobody can ask for any more, and
    the files of these."""
    expired = now - timedelta(days=settings.delta.retention_days)
    if table is QUARANTINE:
        lake.delete(table, Where(before={"ingested_at": now - timedelta(days=settings.quarantine.keep_days)}))
    elif table is PUBLICATION:
        publication_record.forget(lake, expired)
    elif table is QUALITY_RESULT:
        quality_gate.forget(lake, expired)
    lake.vacuum(table)
