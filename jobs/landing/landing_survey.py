"""What stands in a landing folder: files to take in, files left alone with the reason, and what no job knows.

Every file is one of these, or a list of commands: nothing is passed over in silence. A folder that cannot be meant is
refused, with what was expected and the nearest name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from hindsight.conf.failure import WRONG_USAGE, ExpectedError
from hindsight.jobs.landing.landing_root import NOTHING_KNOWN, LandingRoot, LeftAlone, Listing, folder_of
from hindsight.jobs.running.run_log import tell
from hindsight.udfs.landing.hour_folders import SEAL
from hindsight.udfs.landing.landing_formats import FORMATS, LandingFormat

_CLUSTER_FOLDER = re.compile(r"cluster=([A-Za-z0-9_.\-]{1,255})")
_NO_CLUSTER_NAME = re.compile(r"[^A-Za-z0-9_.\-]+")
_HIDDEN = (".", "_")
_LONGEST_CLUSTER = 255
_EXPECTED = f"files below <landing>/<format>/cluster=<name>/, with <format> one of {', '.join(FORMATS)}"
_MOST_PATHS = 10  # shown of those that a reason holds for
_FEW = 3  # the same in a sentence
_MOST_REASONS = 10
_MOST_NAMES = 1_000  # looked through for a near one


class LandingFile(NamedTuple):
    """A file to take in; ``file`` is its path relative to the landing root.

    ``size_bytes`` counts the list of commands beside it too: when that changes the file is read again.
    """

    cluster: str
    format: str
    file: str
    size_bytes: int


class Survey(NamedTuple):
    """What stands in a landing folder, each list sorted.

    ``commands``: lists that say which command wrote the files beside them. ``left_alone``: in the folders of formats.
    ``unknown``: what else stands in the root and is or holds a file; a folder's path ends in a slash. ``at_rest``:
    folders that are sealed or of dates that are over, of files that are all taken in or known: ``survey`` need not list
    them again. ``unnamed``: files in folders that are sealed, whose seal does not name them.
    """

    files: list[LandingFile]
    commands: list[str]
    left_alone: list[LeftAlone]
    unknown: list[LeftAlone]
    at_rest: Mapping[str, int] = NOTHING_KNOWN
    unnamed: Sequence[str] = ()


NOTHING_LANDED = Survey([], [], [], [])


def survey(landing: str, formats: Iterable[str], known: Mapping[str, int] | None = None) -> Survey:
    """Look through the folders of ``formats``; an absent one holds nothing. ``unknown`` is not looked for.

    ``known``: what was at rest; where that has not changed since, it is not looked through. None: that is of no use.

    Raises: OSError: a folder cannot be listed.
    """
    root = LandingRoot(landing)
    found = [_sorted_out(FORMATS[name], root.list(name, known)) for name in formats]
    return Survey(
        sorted(file for each in found for file in each.files),
        sorted(path for each in found for path in each.commands),
        sorted(one for each in found for one in each.left_alone),
        [],
        {path: at for each in found for path, at in each.at_rest.items()},
        tuple(path for each in found for path in each.unnamed),
    )


def whole_survey(landing: str, known: Mapping[str, int] | None = None) -> Survey:
    """Look through the folders of all formats, and at what stands beside them.

    Raises: OSError: a format's folder, or the root, cannot be listed.
    """
    root = LandingRoot(landing)
    others = sorted((name, is_folder) for name, is_folder in root.inside() if name not in FORMATS)
    unknown = [
        LeftAlone(f"{name}/" if is_folder else name, _why_unknown(name, is_folder=is_folder))
        for name, is_folder in others
        if not is_folder or _holds_a_file(root, name)
    ]
    return survey(landing, FORMATS, known)._replace(unknown=unknown)


def is_hidden(path: str) -> bool:
    """Whether a path's last part begins as files do that are not whole yet."""
    return path.rstrip("/").rpartition("/")[2].startswith(_HIDDEN)


def nearest_format(name: str) -> str | None:
    """The format whose folder was probably meant."""
    plain = re.sub(r"[\s.\-]+", "_", name.lower())
    return next(iter(difflib.get_close_matches(plain, FORMATS, n=1)), None)


def _sorted_out(landing_format: LandingFormat, listing: Listing) -> Survey:
    sizes, found = {}, Survey([], [], list(listing.left_alone), [])
    for file in listing.files:
        if file.name == SEAL:
            continue
        if file.name == landing_format.commands and not _misplaced(landing_format, file.path):
            found.commands.append(file.path)
            sizes[folder_of(file.path)] = file.size
        elif reason := why_left_alone(landing_format, file.path):
            found.left_alone.append(LeftAlone(file.path, reason))
        else:
            cluster = file.path.split("/")[1].removeprefix("cluster=")
            found.files.append(LandingFile(cluster, landing_format.name, file.path, file.size))
    with_commands = [
        file._replace(size_bytes=file.size_bytes + sizes.get(folder_of(file.file), 0)) for file in found.files
    ]
    others = {folder_of(one.path) for one in found.left_alone}
    at_rest = {path: at for path, at in listing.at_rest.items() if path not in others}
    return found._replace(files=with_commands, at_rest=at_rest, unnamed=listing.unnamed)


def why_left_alone(landing_format: LandingFormat, path: str) -> str | None:
    """Why a file in the folder of a format is not taken in; None: it is."""
    name = path.rpartition("/")[2]
    if misplaced := _misplaced(landing_format, path):
        return misplaced
    if is_hidden(name):
        return "the name begins with '.' or '_', as while a file is written"
    if not landing_format.takes(name):
        packed = ".gz or .zip" if landing_format.zipped else ".gz"
        return f"the name matches none of {', '.join(landing_format.patterns)} (each also with {packed})"
    return None


def _misplaced(landing_format: LandingFormat, path: str) -> str | None:
    """What is wrong with the folder that a file lies in."""
    folder, _, below = path.removeprefix(f"{landing_format.name}/").partition("/")
    if below and _CLUSTER_FOLDER.fullmatch(folder):
        return None
    expected = f"{landing_format.name}/cluster=<name>/"
    if path == landing_format.name:
        return "not a folder"
    if not below:
        return f"directly in {landing_format.name}/, not below {expected}"
    nearest = f"cluster={_as_cluster(folder)}"
    if folder.startswith("cluster="):
        return f"a cluster's name is 1 to {_LONGEST_CLUSTER} letters, digits, '_', '.' or '-'; nearest: {nearest}/"
    return f"not below {expected}; nearest to {folder}/: {nearest}/"


def _as_cluster(folder: str) -> str:
    """The name of a cluster that was probably meant by a folder that names none."""
    name = re.sub(r"^cluster[^A-Za-z0-9]+", "", folder, flags=re.IGNORECASE)
    return _NO_CLUSTER_NAME.sub("-", name).strip("-")[:_LONGEST_CLUSTER] or "<name>"


def _why_unknown(name: str, *, is_folder: bool) -> str:
    if not is_folder:
        return "in the landing folder itself only folders of formats are read"
    if name.startswith("cluster="):
        return "folders of clusters stand in the folder of a format"
    nearest = nearest_format(name)
    return "no format has this name" + (f"; nearest: {nearest}/" if nearest else "")


def _holds_a_file(root: LandingRoot, folder: str) -> bool:
    """Whether anything but folders lies below; what may not be listed holds nothing that could be meant for a job."""
    folders = [folder]
    while folders:
        place = folders.pop()
        with suppress(OSError):
            for name, is_folder in root.inside(place):
                if not is_folder:
                    return True
                folders.append(f"{place}/{name}")
    return False


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


def look_at(landing: str, known: Mapping[str, int] | None = None) -> LandingPlace:
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
