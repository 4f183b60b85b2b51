"""``hindsight ship``: what recorders have finished goes to a landing folder, or to a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from obstore.exceptions import BaseError

from hindsight.jobs.collect.ship import Shipper, Store, landing_folder, run, shipper_name
from hindsight.jobs.commands.command_options import Json
from hindsight.jobs.lake.lake_place import for_others, is_local
from hindsight.jobs.lake.object_store import ObjectStore, reached
from hindsight.jobs.running.places import without_password
from hindsight.jobs.running.run_log import tell
from hindsight.jobs.running.terminal import write_json

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("ship")
def ship(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER...", help="Where recorders write <format>/cluster=<name>/ into."),
    ],
    to: Annotated[str, typer.Option(help="Landing folder: on this machine, or s3://bucket/path.")],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds from one shipment to the next.")] = 60.0,
    once: Annotated[bool, typer.Option("--once", help="One shipment.")] = False,
    by_hour: Annotated[
        bool, typer.Option("--by-hour", help="Put files into a folder for each hour, which is sealed once it is over.")
    ] = False,
    as_lines: Json = False,
) -> None:
    """Ship what recorders have finished, as fewer and larger files, to a landing folder or an S3 store.

    A file is deleted when what it holds is stored.
    """
    without_password(to)

    def told(event: str, **facts: Any) -> None:
        tell(event, **facts)
        if as_lines and event == "shipped":
            write_json([facts])

    hours_of = shipper_name(folders) if by_hour else ""
    run(Shipper(folders, _store(for_others(to), folders), told, hours_of=hours_of), every_s=every, once=once)


def _store(to: str, folders: list[Path]) -> Store:
    if is_local(to):
        return landing_folder(Path(to), folders)
    if not to.startswith("s3://"):
        raise typer.BadParameter("--to is a folder on this machine, or s3://bucket/path.")
    reached(to)
    return StoreOfObjects(ObjectStore.at(to))


class StoreOfObjects:
    """A landing folder on a store."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def put(self, path: str, content: Path) -> None:
        """As ``Store.put``."""
        with _as_of_a_disk():
            self._objects.create_from(path, content)

    def sizes(self, folder: str) -> dict[str, int]:
        """As ``Store.sizes``."""
        with _as_of_a_disk():
            return self._objects.sizes(folder)


@contextmanager
def _as_of_a_disk() -> Iterator[None]:
    """What a store refuses, another minute may mend, as a disk that is full."""
    try:
        yield
    except BaseError as error:
        raise OSError(str(error).partition("\n\nDebug source")[0]) from error
