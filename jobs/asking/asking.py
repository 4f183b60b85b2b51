"""Opens a lake for questions: its place and an engine in, what answers out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from hindsight.jobs.engines.asker import Asker
from hindsight.jobs.running.places import Engine
from hindsight.jobs.running.run_context import RunContext
from hindsight.jobs.running.run_log import tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hindsight.conf.settings import Settings


@contextmanager
def asked(
    lake_root: str, settings: Settings | None, engine: Engine, *, name: str, master: str | None
) -> Iterator[Asker]:
    """A lake's tables and views, for as long as somebody asks; ``name``: what asks.

    ``settings``: None for one who writes nothing, on this machine's engine.
    """
    if engine == "spark" and settings is not None:
        from hindsight.jobs.running.spark_session import spark_session

        with spark_session(settings, app_name=f"hindsight {name}", master=master) as spark:
            yield spark_asker(spark, lake_root, settings)
    else:
        from hindsight.jobs.engines.local_asker import LocalAsker
        from hindsight.jobs.engines.local_lake import LocalLake
        from hindsight.jobs.publishing.publication_record import show_one_state

        lake = LocalLake(lake_root, retention_days=settings.delta.retention_days if settings else 0)
        if since := show_one_state(lake):
            tell("shows the state before the run that is at work, or was broken off", since=since)
        with closing(LocalAsker(lake)) as asker:
            yield asker


def spark_asker(spark: SparkSession, lake_root: str, settings: Settings, context: RunContext | None = None) -> Asker:
    """The tables and views of a lake in a session that goes on; ``context``: of the run that asks, if one does."""
    from hindsight.jobs.engines.delta_tables import Lake

    confirm = context.confirm if context else lambda: None
    return asker_on(Lake(spark, lake_root, retention_days=settings.delta.retention_days, confirm=confirm))


def asker_on(lake: Any) -> Asker:
    """The tables and views of a lake that is open, for the run that holds it."""
    if lake.spark is None:
        from hindsight.jobs.engines.local_asker import LocalAsker

        return LocalAsker(lake)
    from hindsight.jobs.engines.spark_asker import SparkAsker
    from hindsight.jobs.engines.sql_views import create_views

    create_views(lake.spark, lake)
    return SparkAsker(lake.spark, lake)
