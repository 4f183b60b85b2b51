"""Every file below a landing folder is taken in, is a list of commands, or is named with the reason: one of these."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from hindsight.jobs.landing import landing_root
from hindsight.jobs.landing.landing_survey import Survey, survey, whole_survey
from hindsight.udfs.landing.landing_formats import FORMATS

FOLDERS = st.sampled_from(
    [*FORMATS, "client_logs", "cluster=c", "cluster=c.1", "cluster-c", "cluster=a b", "cluster=", "_x", "run", "é"]
)
NAMES = st.sampled_from(
    (
        *("a.log", "a.log.1", "a.log.bak", "a.jsonl", "a.jsonl.gz", "a.txt", "a@b", "a.parquet", ".a.jsonl", "_a.log"),
        *("commands.jsonl", "cluster=c.txt", "cluster=c", "client_log", "README.md", "a b", "\udcff.log"),
    )
)
ANYWHERE = st.tuples(st.lists(FOLDERS, max_size=4), NAMES).map(lambda path: [*path[0], path[1]])
IN_PLACE = st.tuples(st.sampled_from(sorted(FORMATS)), st.just("cluster=c"), NAMES)
WITH_COMMANDS = st.tuples(st.just("mqadmin"), st.sampled_from(["cluster=c", "run"]), st.just("commands.jsonl"))
PATHS = (ANYWHERE | IN_PLACE | WITH_COMMANDS).map("/".join)


def fates(found: Survey, path: str) -> list[str]:
    """What is said of a file; of one below a folder that no job knows, that folder's name."""
    return [
        *("taken in" for file in found.files if file.file == path),
        *("commands" for commands in found.commands if commands == path),
        *("left alone" for one in found.left_alone if one.path == path and one.reason),
        *("unknown" for one in found.unknown if one.reason and f"{path}/".startswith(one.path.rstrip("/") + "/")),
    ]


@given(st.lists(PATHS, max_size=12), st.sampled_from(["file", "link", "pipe"]))
def test_every_file_has_one_fate(paths, kind):
    make = {"file": Path.touch, "link": lambda path: path.symlink_to("/etc/hostname"), "pipe": os.mkfifo}
    with tempfile.TemporaryDirectory() as landing:
        for i, name in enumerate(paths):
            path = Path(landing, name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                make[kind if i == 0 else "file"](path)
            except OSError:  # a file stands there already, or where a folder should
                continue
        found = whole_survey(landing)
        stand = [
            os.path.relpath(Path(folder, name), landing)
            for folder, folders, files in os.walk(landing)
            for name in [*files, *(each for each in folders if Path(folder, each).is_symlink())]
        ]
    assert {path: len(fates(found, path)) for path in stand} == dict.fromkeys(stand, 1)
    assert len(found.files) + len(found.commands) + len(found.left_alone) <= len(stand)


REASONS = {
    "client_log/cluster=c/rocketmq_client.log.bak": "the name matches none of",
    "client_log/cluster=c/.a.log": "the name begins with '.' or '_'",
    "client_log/cluster=c/x/_a.log": "the name begins with '.' or '_'",
    "client_log/a.log": "directly in client_log/, not below client_log/cluster=<name>/",
    "client_log/cluster=c.log": "directly in client_log/",
    "client_log/prod/a.log": "not below client_log/cluster=<name>/; nearest to prod/: cluster=prod/",
    "client_log/cluster-x/a.log": "nearest to cluster-x/: cluster=x/",
    "client_log/Cluster_x y/a.log": "nearest to Cluster_x y/: cluster=x-y/",
    "client_log/cluster=a b/a.log": "letters, digits, '_', '.' or '-'; nearest: cluster=a-b/",
    "client_log/cluster=/a.log": "letters, digits, '_', '.' or '-'; nearest: cluster=<name>/",
    "mqadmin/run/commands.jsonl": "not below mqadmin/cluster=<name>/",
    "heartbeat": "not a folder",
}


@pytest.mark.parametrize("path", REASONS)
def test_a_file_that_is_left_alone_is_named_with_what_is_wrong(tmp_path, path):
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).touch()
    (one,) = survey(str(tmp_path), FORMATS).left_alone
    assert one.path == path and REASONS[path] in one.reason


UNKNOWN = {
    "client_logs/cluster=c/a.log": ("client_logs/", "nearest: client_log/"),
    "CLIENT LOGS/a.log": ("CLIENT LOGS/", "nearest: client_log/"),
    "heartbeats/a": ("heartbeats/", "nearest: heartbeat/"),
    "truth/a": ("truth/", "no format has this name"),
    "cluster=c/a.log": ("cluster=c/", "folders of clusters stand in the folder of a format"),
    "README.md": ("README.md", "only folders of formats are read"),
}


@pytest.mark.parametrize("path", UNKNOWN)
@pytest.mark.parametrize("in_store", [False, True])
def test_what_no_job_knows_is_named_with_the_nearest_format(tmp_path, monkeypatch, path, in_store):
    if in_store:
        store = fs.SubTreeFileSystem(str(tmp_path.parent), fs.LocalFileSystem())  # which is not taken for a disk
        monkeypatch.setattr(landing_root, "_system_of", lambda uri: (store, tmp_path.name))
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).touch()
    (tmp_path / "empty" / "folders").mkdir(parents=True)
    (one,) = whole_survey("mock:///" if in_store else str(tmp_path)).unknown
    name, reason = UNKNOWN[path]
    assert one.path == name and reason in one.reason


def test_a_folder_that_may_not_be_listed_and_belongs_to_no_job_stops_nothing(tmp_path, monkeypatch):
    (tmp_path / "lost+found").mkdir()
    listing = landing_root.LandingRoot.inside

    def refused(self, folder=""):
        if folder:
            raise PermissionError(13, "Permission denied", folder)
        return listing(self, folder)

    monkeypatch.setattr(landing_root.LandingRoot, "inside", refused)
    assert whole_survey(str(tmp_path)) == Survey([], [], [], [])
