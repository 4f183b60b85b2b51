"""``hindsight bundle``: a lake and a row in; one file, and what to say of it, out. Nothing is written into the lake."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import cast

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.conf.settings import Settings
from hindsight.jobs.bundling.bundle_file import packed
from hindsight.jobs.bundling.made_bundle import made_bundle
from hindsight.jobs.bundling.subject import subject_of
from hindsight.jobs.engines.asker import Asker
from hindsight.jobs.engines.local_lake import LocalLake


class NotIntoTheLakeError(ExpectedError):
    """Raised where a bundle would be written into the lake that it is made of."""

    exit_code = WRONG_USAGE


def written_bundle(
    asker: Asker, settings: Settings, what: str, where: str | None, first: date | None, output: Path
) -> Iterator[str]:
    """Lines for the terminal; the file is whole or not there.

    Raises: NothingToBundleError, NotOneRowError, DoesNotFollowError, NotIntoTheLakeError.
    """
    lake = cast("LocalLake", asker.lake)
    if output.resolve().is_relative_to(Path(lake.root).resolve()):
        raise NotIntoTheLakeError(f"{output} lies in the lake, which a bundle changes nothing of; name another place.")
    bundle = made_bundle(lake, settings, subject_of(asker, what, where, first))
    content = packed(bundle)
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
    days = bundle.dates.dates
    yield f"{output}: {len(content)} bytes, {days[0]} to {days[-1]}"
    for word, tables in (("inputs", bundle.inputs), ("claims", bundle.claims)):
        yield f"{word}: {', '.join(f'{len(rows)} {table.name}' for table, rows in tables.items() if len(rows))}"
    yield "Every claimed row was derived again from these inputs under the new names, and is what the lake holds."
    yield "Look into it before you send it: instants, counts and releases stay as they are (docs/bundle.md)."
