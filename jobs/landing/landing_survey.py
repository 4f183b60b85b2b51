"""A landing folder in; the files to take in out, those left alone with the reason, and what no job knows.

Every file that stands there is one of these, or a list of commands.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from hindsight.jobs.landing.landing_root import NOTHING_KNOWN, LandingRoot, LeftAlone, Listing
from hindsight.udfs.landing.landing_formats import FORMATS, LandingFormat

_CLUSTER_FOLDER = re.compile(r"cluster=([A-Za-z0-9_.\-]{1,255})")
_NO_CLUSTER_NAME = re.compile(r"[^A-Za-z0-9_.\-]+")
_HIDDEN = (".", "_")
_LONGEST_CLUSTER = 255


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
    folders of dates that are over, of files that are all taken in or known: ``survey`` need not list them again.
    """

    files: list[LandingFile]
    commands: list[str]
    left_alone: list[LeftAlone]
    unknown: list[LeftAlone]
    at_rest: Mapping[str, int] = NOTHING_KNOWN


NOTHING_LANDED = Survey([], [], [], [])


def survey(landing: str, formats: Iterable[str], known: Mapping[str, int] = NOTHING_KNOWN) -> Survey:
    """Look through the folders of ``formats``; an absent one holds nothing. ``unknown`` is not looked for.

    ``known``: what was at rest; where that has not changed since, it is not looked through.

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
    )


def whole_survey(landing: str, known: Mapping[str, int] = NOTHING_KNOWN) -> Survey:
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


def folder_of(path: str) -> str:
    """The folder that a path lies in."""
    return path.rpartition("/")[0]


def nearest_format(name: str) -> str | None:
    """The format whose folder was probably meant."""
    plain = re.sub(r"[\s.\-]+", "_", name.lower())
    return next(iter(difflib.get_close_matches(plain, FORMATS, n=1)), None)


def _sorted_out(landing_format: LandingFormat, listing: Listing) -> Survey:
    sizes, found = {}, Survey([], [], list(listing.left_alone), [])
    for file in listing.files:
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
    return found._replace(files=with_commands, at_rest=at_rest)


def why_left_alone(landing_format: LandingFormat, path: str) -> str | None:
    """Why a file in the folder of a format is not taken in; None: it is."""
    name = path.rpartition("/")[2]
    if misplaced := _misplaced(landing_format, path):
        return misplaced
    if is_hidden(name):
        return "the name begins with '.' or '_', as while a file is written"
    if not _is_of(landing_format, name):
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


def _is_of(landing_format: LandingFormat, name: str) -> bool:
    return not name.startswith(_HIDDEN) and landing_format.takes(name)


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
