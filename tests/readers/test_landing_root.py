"""Whoever may write to the landing folder cannot have a run read what lies outside it, wait, loop or stop."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hindsight.jobs.landing.landing_lines import ReadOptions, parse_file
from hindsight.jobs.landing.landing_root import LandingRoot
from hindsight.jobs.landing.landing_survey import survey
from hindsight.udfs.limits.door import severities
from hindsight.udfs.lines.parsed_line import ParsedLine

HOOK, MQADMIN = "producer_hook", "mqadmin"


@pytest.fixture
def folder(tmp_path) -> Path:
    """A cluster's folder, with one honest file."""
    folder = tmp_path / "landing/producer_hook/cluster=c"
    folder.mkdir(parents=True)
    (folder / "honest.jsonl").write_text('{"type":"other"}\n')
    (tmp_path / "secret.jsonl").write_text("the password\n")
    return folder


def listed(folder: Path, *formats) -> list[str]:
    landing = folder.parent.parent
    return [
        file.file.removeprefix("producer_hook/cluster=c/") for file in survey(str(landing), formats or [HOOK]).files
    ]


def test_a_link_is_not_followed(folder, tmp_path):
    (folder / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (folder / "up").symlink_to("../../..")
    (folder / "inside.jsonl").symlink_to("honest.jsonl")
    (folder.parent / "cluster=other").symlink_to(folder)
    (folder.parent.parent / "heartbeat").symlink_to(tmp_path)
    assert listed(folder, HOOK, "heartbeat") == ["honest.jsonl"]


def test_links_to_its_own_folder_make_no_listing_without_end(folder):
    for name in "abc":
        (folder / name).symlink_to(folder)
    assert listed(folder) == ["honest.jsonl"]


def test_the_landing_root_itself_may_be_a_link(folder, tmp_path):
    (tmp_path / "elsewhere").symlink_to(folder.parent.parent)
    (file,) = survey(str(tmp_path / "elsewhere"), [HOOK]).files
    assert file.file == "producer_hook/cluster=c/honest.jsonl"
    with LandingRoot(f"{tmp_path}/elsewhere/").opened(file.file) as stream:
        assert stream.read(100) == b'{"type":"other"}\n'


@pytest.mark.parametrize("uri", [False, True])
def test_pipes_and_links_are_left_alone_and_named_with_the_reason(folder, uri):
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "pipe2.jsonl").symlink_to("pipe.jsonl")
    landing = folder.parent.parent
    found = survey(f"file://{landing}" if uri else str(landing), [HOOK])
    assert [file.file for file in found.files] == ["producer_hook/cluster=c/honest.jsonl"]
    assert found.left_alone == [
        ("producer_hook/cluster=c/pipe.jsonl", "a pipe, a socket or a device"),
        ("producer_hook/cluster=c/pipe2.jsonl", "a link, which is not followed"),
    ]


def test_a_name_that_is_not_text_stops_no_run(folder):
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.jsonl")).write_text("x")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).mkdir()
    found = survey(str(folder.parent.parent), [HOOK])
    assert [file.file for file in found.files] == ["producer_hook/cluster=c/honest.jsonl"]
    assert [ascii(one.path)[-12:] for one in found.left_alone] == ["cluster=c/\\udcff'"[-12:], "\\udcff.jsonl'"[-12:]]
    assert {one.reason for one in found.left_alone} == {"the path is not UTF-8, or too long"}


def test_folders_too_deep_to_open_stop_no_run(folder):
    here = os.open(folder, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    assert listed(folder) == ["honest.jsonl"]


@pytest.mark.parametrize("name", ["cluster=a%2Fb", "cluster=", "cluster=a b", "cluster=a\n", "cluster=a'b", "other"])
def test_no_other_folder_is_taken_for_a_cluster(folder, name):
    odd = folder.parent / name
    odd.mkdir(exist_ok=True)
    (odd / "a.jsonl").write_text("x")
    assert listed(folder) == ["honest.jsonl"]


def test_a_file_in_the_place_of_a_format_s_folder_is_no_input(folder):
    (folder.parent.parent / "heartbeat").write_text("x")
    assert listed(folder, "heartbeat", "trace_topic") == []  # the second is absent


NAMES = [
    "a b.jsonl",
    "*.jsonl",
    "[a].jsonl",
    "a\nb.jsonl",
    "a\x1b[31m.jsonl",
    "${env:HOME}.jsonl",
    "'; --.jsonl",
    "..jsonl.jsonl",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_any_characters_is_opened_as_itself(folder, name):
    (folder / name).write_text("its own")
    (folder / "ab.jsonl").write_text("another")
    with LandingRoot(str(folder.parent.parent)).opened(f"producer_hook/cluster=c/{name}") as stream:
        assert stream.read(100) == b"its own"


ELSEWHERE = [
    "producer_hook/cluster=c/../../../secret.jsonl",
    "../secret.jsonl",
    "producer_hook/../../secret.jsonl",
    "producer_hook/cluster=../../../secret.jsonl",
    "producer_hook/cluster=c/..",
    "..",
    "{outside}/secret.jsonl",
    "producer_hook/cluster=c//honest.jsonl",
    "producer_hook/cluster=c/./honest.jsonl",
    "producer_hook/cluster=c/honest.jsonl/",
    "",
]


@pytest.mark.parametrize("path", ELSEWHERE)
@pytest.mark.parametrize("seekable", [False, True])
@pytest.mark.parametrize("local", [True, False])
def test_a_path_that_leads_elsewhere_is_refused(folder, tmp_path, path, seekable, local):
    (folder.parent / "cluster=..").mkdir()  # through it the secret can be reached, too
    path = path.format(outside=tmp_path)
    root = LandingRoot(str(folder.parent.parent))
    root._is_local = local  # else the disk stands in for a store, which it would read ".." of
    with pytest.raises(OSError, match="not a path below") as refused, root.opened(path, seekable=seekable):
        pass
    assert refused.value.filename == path
    for ask in (root.exists, root.list):
        with pytest.raises(OSError, match="not a path below"):
            ask(path)


def test_names_in_a_store_that_lead_elsewhere_are_left_alone():
    root = LandingRoot("mock:///landing")
    for name in ("cluster=c/a.jsonl", "cluster=c/..b", "cluster=c/../../secret.jsonl", "../x.jsonl"):
        root._system.create_dir(f"landing/producer_hook/{name}".rpartition("/")[0])
        root._system.open_output_stream(f"landing/producer_hook/{name}").close()
    listing = root.list("producer_hook")
    assert sorted(file.path for file in listing.files) == [
        "producer_hook/cluster=c/..b",
        "producer_hook/cluster=c/a.jsonl",
    ]
    reason = "a part of the path is empty, '.' or '..'"
    assert sorted(listing.left_alone) == [
        ("producer_hook/../x.jsonl", reason),
        ("producer_hook/cluster=c/../../secret.jsonl", reason),
    ]


def swapped_for_a_link(file: Path, secret: Path) -> None:
    file.unlink()
    file.symlink_to(secret)


def swapped_folder(file: Path, secret: Path) -> None:
    file.parent.rename(file.parent.with_name("gone"))
    (secret.parent / file.name).write_text("the password\n")
    file.parent.symlink_to(secret.parent)


def swapped_for_a_pipe(file: Path, secret: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def swapped_for_a_folder(file: Path, secret: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("swap", [swapped_for_a_link, swapped_folder, swapped_for_a_pipe, swapped_for_a_folder])
@pytest.mark.parametrize("seekable", [False, True])
def test_what_replaces_a_listed_file_is_not_read(folder, tmp_path, swap, seekable):
    root = LandingRoot(str(folder.parent.parent))
    (file,) = root.list("producer_hook").files
    swap(folder / "honest.jsonl", tmp_path / "secret.jsonl")
    with pytest.raises(OSError, match="has taken the place") as refused, root.opened(file.path, seekable=seekable):
        pass
    assert refused.value.filename == file.path


def test_a_parquet_file_that_was_replaced_is_not_called_damaged(tmp_path):
    folder = tmp_path / "canonical_sends/cluster=c"
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_bytes(b"x")
    (file,) = survey(str(tmp_path), ["canonical_sends"]).files
    swapped_for_a_pipe(folder / "a.parquet", folder)
    with pytest.raises(OSError, match="has taken the place"):
        list(parse_file(file, options(tmp_path)))


def test_a_list_of_commands_that_is_a_link_says_nothing(tmp_path):
    folder = tmp_path / "landing/mqadmin/cluster=c"
    folder.mkdir(parents=True)
    (tmp_path / "secret").write_text('{"ts": 1795253591125, "file": "a.txt", "args": "topicRoute -t T"}\n')
    (folder / "commands.jsonl").symlink_to(tmp_path / "secret")
    (folder / "a.txt").write_text("nothing known\n")
    (file,) = survey(str(tmp_path / "landing"), [MQADMIN]).files
    assert file.size_bytes == len("nothing known\n")
    assert not LandingRoot(str(tmp_path / "landing")).exists("mqadmin/cluster=c/commands.jsonl")


def test_files_are_read_through_a_uri_as_through_a_path(folder):
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(b'{"type":"other"}\nx\n'))
    landing = folder.parent.parent
    for place in (str(landing), f"file://{landing}"):
        files = survey(place, [HOOK]).files
        read = [len(list(parse_file(file, options(landing)._replace(landing=place)))) for file in files]
        assert read == [2, 1]


def rows_in(folder: Path, table: pa.Table, **how) -> Iterator[ParsedLine]:
    folder = folder / "canonical_sends/cluster=c"
    folder.mkdir(parents=True)
    parquet.write_table(table, folder / "a.parquet", **how)
    (file,) = survey(str(folder.parent.parent), ["canonical_sends"]).files
    return parse_file(file, options(folder.parent.parent))


def test_a_parquet_file_of_far_more_rows_than_bytes_is_refused_whole(tmp_path):
    many = 12_000_000
    nulls = pa.table({"attempt": pa.nulls(many, pa.int8())})
    line = next(rows_in(tmp_path, nulls, row_group_size=many, max_rows_per_page=many, data_page_size=1 << 30))
    assert line.refusal.code == "ARCHIVE_BOMB" and f"{many} rows" in line.refusal.detail


def test_a_long_row_of_a_parquet_file_is_refused_as_a_long_line_is(tmp_path):
    long, short = rows_in(tmp_path, pa.table({"topic": ["x" * (1 << 20), "T"]}))
    assert long.refusal.code == "LINE_TOO_LONG" and len(long.line.text) == 4096
    assert short.refusal.code == "MISSING_FIELD"


def test_a_deep_parquet_row_stops_no_run(tmp_path, monkeypatch):
    monkeypatch.setattr("hindsight.udfs.formats.canonical_lines.json.dumps", lambda *_, **__: json.loads("[" * 10**5))
    (line,) = rows_in(tmp_path, pa.table({"topic": ["T"]}))
    assert (line.refusal.code, line.line.number) == ("NOT_PARQUET", 1)


def options(landing: Path) -> ReadOptions:
    return ReadOptions(str(landing), 1 << 20, 100, {}, "UTC", severities({}))
