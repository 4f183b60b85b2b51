"""What ``--landing`` names in; a refusal with what was expected and the nearest name out, or what is to be said of it.

Nothing that stands there is passed over in silence.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.jobs.landing.landing_root import NOTHING_KNOWN, LandingRoot, LeftAlone
from hindsight.jobs.landing.landing_survey import Survey, is_hidden, whole_survey
from hindsight.jobs.running.run_log import tell
from hindsight.udfs.landing.landing_formats import FORMATS

_EXPECTED = f"files below <landing>/<format>/cluster=<name>/, with <format> one of {', '.join(FORMATS)}"
_MOST_PATHS = 10  # shown of those that a reason holds for
_FEW = 3  # the same in a sentence
_MOST_REASONS = 10
_MOST_NAMES = 1_000  # looked through for a near one


class NotALandingError(ExpectedError):
    """Raised where ``--landing`` names no folder, or one that holds files of which no job knows any."""

    exit_code = WRONG_USAGE


class LandingPlace(NamedTuple):
    """The landing folder as it stands before a run; ``survey`` is None where there is no such folder."""

    landing: str
    survey: Survey | None

    @property
    def has_files(self) -> bool:
        """Whether there is a file that a job knows: then nothing is refused, whatever the lake holds."""
        return bool(self.survey and (self.survey.files or self.survey.at_rest))

    def require(self, *, lake_has_input: bool | None) -> None:
        """Refuse what cannot be meant; ``lake_has_input``: whether the lake has taken in files, None: not known yet.

        Once it has, files may be gone, and with them what a store calls a folder. A folder of a disk is still there.

        Raises: NotALandingError: it is no landing folder.
        """
        if self.survey is None:
            if lake_has_input is False or LandingRoot(self.landing).keeps_empty_folders():
                raise NotALandingError(_absent(self.landing))
        elif lake_has_input is False and not self.has_files:
            stands = [one for one in self.others() if not is_hidden(one.path)]
            if stands:
                raise NotALandingError(_of_no_job(self.landing, stands))

    def said(self) -> list[str]:
        """Lines for a person: that there is nothing to take in, and what is left alone, with the reason."""
        return [*self.nothing_to_take_in(), *left_alone_told(self.others(), _MOST_PATHS)]

    def tell(self, run_id: str) -> None:
        """Log the same."""
        for said in self.nothing_to_take_in():
            tell("finds nothing to take in", run_id=run_id, reason=said)
        for reason, paths in islice(_by_reason(self.others()).items(), _MOST_REASONS):
            tell("leaves files alone", run_id=run_id, reason=reason, files=len(paths), paths=_first(paths, _MOST_PATHS))

    def nothing_to_take_in(self) -> list[str]:
        """A sentence, where it is so."""
        if self.has_files:
            return []
        found = "contains no file that a job can read" if self.others() else "contains no file at all"
        return [f"nothing to take in: {self.landing!r} {found}; expected: {_EXPECTED}"]

    def others(self) -> list[LeftAlone]:
        """What is not taken in: first what no job knows."""
        return [*self.survey.unknown, *self.survey.left_alone] if self.survey else []


def look_at(landing: str, known: Mapping[str, int] = NOTHING_KNOWN) -> LandingPlace:
    """What stands in the landing folder; what is ``known`` to be at rest in it is not looked through.

    Raises: OSError: it cannot be listed.
    """
    return LandingPlace(landing, whole_survey(landing, known) if LandingRoot(landing).is_folder() else None)


def left_alone_told(others: Iterable[LeftAlone], most_paths: int) -> list[str]:
    """A line for each reason, and below it so many of the paths."""
    groups = list(_by_reason(others).items())
    told = []
    for reason, paths in groups[:_MOST_REASONS]:
        more = len(paths) - most_paths
        told += [f"left alone: {reason}", *(f"    {path}" for path in paths[:most_paths])]
        told += [f"    and {more:,} more"] if more > 0 else []
    more = sum(len(paths) for _, paths in groups[_MOST_REASONS:])
    return told + ([f"and {more:,} more, for other reasons"] if more else [])


def _by_reason(others: Iterable[LeftAlone]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for one in others:
        groups.setdefault(one.reason, []).append(one.path)
    return groups


def _first(paths: list[str], most: int) -> str:
    more = len(paths) - most
    return ", ".join(paths[:most]) + (f" and {more:,} more" if more > 0 else "")


def _absent(landing: str) -> str:
    nearest = _nearest_place(landing)
    asked = f"; did you mean {nearest!r}?" if nearest else "."
    return f"there is no landing folder {landing!r}{asked} Expected: {_EXPECTED}."


def _nearest_place(landing: str) -> str | None:
    """A folder beside the first part of the path that does not exist, with a name near to it."""
    parent, _, name = landing.rstrip("/").rpartition("/")
    with suppress(OSError):
        while not parent.endswith("/") and not LandingRoot(parent or "/").is_folder():
            parent, _, name = parent.rpartition("/")
        if parent.endswith("/"):  # of a URI nothing is left but where it leads
            return None
        beside = islice(LandingRoot(parent or "/").inside(), _MOST_NAMES)
        folders = [other for other, is_folder in beside if is_folder and other != name]
        near = difflib.get_close_matches(name, folders, n=1)
        return f"{parent}/{near[0]}" if near else None
    return None


def _of_no_job(landing: str, stands: list[LeftAlone]) -> str:
    meant = _folder_meant(landing, stands)
    asked = f" Did you mean {meant!r}?" if meant else ""
    reasons = islice(_by_reason(stands).items(), _FEW)
    found = "; ".join(f"{_first(paths, _FEW)} ({reason})" for reason, paths in reasons)
    return f"no job knows any file in {landing!r}. Found: {found}.{asked} Expected: {_EXPECTED}."


def _folder_meant(landing: str, stands: list[LeftAlone]) -> str | None:
    """The landing folder, where the folder of a format or cluster in it was named, or the folder that it lies in."""
    parts = landing.rstrip("/").split("/")
    for i, part in enumerate(parts):
        if part in FORMATS and i >= len(parts) - 2:
            return "/".join(parts[:i]) or "/"
    root = LandingRoot(landing)
    for one in islice((one for one in stands if one.path.endswith("/")), _MOST_NAMES):
        with suppress(OSError):
            if any(name in FORMATS for name, _ in root.inside(one.path.rstrip("/"))):
                return f"{landing.rstrip('/')}/{one.path.rstrip('/')}"
    return None
