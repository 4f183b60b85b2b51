"""Another release of hindsight and a lake in; the lake that it makes of the same input, out.

The other release need not know of comparing. It either derives from a copy of the tables that were taken in, which are
shared as files and never written; or, where it does not know these tables' columns, takes the landing folder in itself.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from hindsight.conf.failure import ExpectedError
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.lake_place import for_others, is_local
from hindsight.jobs.running.run_log import tell
from hindsight.jobs.scenarios.table_differences import DERIVED
from hindsight.schemas import PUBLICATION, QUALITY_RESULT, TABLES

_DERIVING = ("rebuild-availability", "flag-allocation-drift")
_OWN_PLACES = ("PYTHONPATH", "PYTHONHOME")  # they would show the other interpreter this release
_SAID = 5  # lines of what it wrote


class OtherReleaseError(ExpectedError):
    """Raised where the other release did not do what it was asked; nothing was compared."""


def command_of(asked: str) -> list[str]:
    """The words that start a release: a command with its arguments, or a Python interpreter that has it."""
    words = shlex.split(asked)
    is_python = len(words) == 1 and Path(words[0]).name.startswith("python")
    return [*words, "-m", "hindsight.jobs.command_line"] if is_python else words


def derived_by(
    command: list[str], lake: LocalLake, folder: Path, landing: str | None, settings: Path | None
) -> LocalLake:
    """The lake that another release makes in ``folder``; from ``landing``, or else from the lake's own input tables.

    Raises: OtherReleaseError: it failed, or the lake is on a store, whose files cannot be shared.
    """
    own = LocalLake(str(folder / "lake"), retention_days=lake.retention_days)
    with_settings = [] if settings is None else ["--settings", str(settings)]
    if landing is not None:
        _run([*command, "run-pipeline", "--landing", landing, "--lake", own.root, *with_settings])
        return own
    if not is_local(lake.root):
        raise OtherReleaseError(f"{lake.root} is on a store; name the landing folder with --landing.")
    share_inputs(Path(for_others(lake.root)), Path(own.root))
    (folder / "landing").mkdir()
    for job in _DERIVING:
        _run([*command, job, "--landing", str(folder / "landing"), "--lake", own.root, *with_settings])
    return own


def share_inputs(lake: Path, into: Path) -> None:
    """Copy the tables that were taken in, with the ledger. Data files are linked: no release writes into one."""
    not_inputs = {table.name for table in (*DERIVED, PUBLICATION, QUALITY_RESULT)}
    for name in TABLES:
        if name not in not_inputs and (lake / name).is_dir():
            shutil.copytree(lake / name, into / name, copy_function=_linked)


def _linked(source: str, target: str) -> None:
    if source.endswith(".parquet") and "_delta_log" not in source:
        try:
            os.link(source, target)
            return
        except OSError:  # another disk, or one without links
            pass
    shutil.copy2(source, target)


def _run(words: list[str]) -> None:
    tell("runs the other release", command=shlex.join(words))
    environment = {name: value for name, value in os.environ.items() if name not in _OWN_PLACES}
    environment["PYTHONSAFEPATH"] = "1"  # "python -m" would else take a hindsight in the current folder for it
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise OtherReleaseError(f"{words[0]!r} cannot be started: {error.strerror}.") from error
    if done.returncode:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_SAID:])
        raise OtherReleaseError(
            f"{shlex.join(words)} ended with {done.returncode}:\n{said}\nIf it does not know these tables, let it take "
            "in the landing folder itself: --landing."
        )
