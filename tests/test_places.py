"""Secrets and patterns in --landing, --lake and the settings are refused in a sentence that does not repeat them."""

from __future__ import annotations

import errno
import socket
import traceback
from pathlib import Path

import pytest
import typer
from hdfs_native.fsspec import HdfsFileSystem

from hindsight.conf.failure import RUN_FAILED, WRONG_USAGE
from hindsight.conf.settings_file import SettingsError, load_settings
from hindsight.jobs.lake.lake_place import environment_of, file_system
from hindsight.jobs.landing.landing_root import LandingRoot
from hindsight.jobs.running.places import NoPortError, lake_folder, port_had, without_password
from tests.commands import command

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "uri",
    [
        "s3a://AKID:hush@bucket/lake",
        "s3://AKID:hu%2Fsh@bucket/landing?region=eu",
        "abfs://:hush@account.dfs.core.windows.net/c",
        "abfs://c@account/c?client_id=a&client_secret=hush",
        "https://host:[hush",
        "s3://AKID:hu/sh@bucket/x",
        "s3://AKID:hu?sh@bucket/x",
        "s3://AKID:hu#sh@bucket/x",
        "s3://AKID:/h/u/@bucket/x@y",
        "s3://someone@home:hu/sh@bucket/x",
        "abfs://c@account.dfs.core.windows.net/hu?sv=1&sig=hush",
    ],
)
def test_a_secret_in_a_uri_is_refused_and_not_repeated(uri):
    for checked in (without_password, lake_folder):
        with pytest.raises(typer.BadParameter) as refused:
            checked(uri)
        assert "hu" not in str(refused.value) and "AKID" not in str(refused.value)


@pytest.mark.parametrize(
    "place",
    [
        "lake",
        "/a b/it's",
        "s3://bucket/path",
        "abfs://container@account.dfs.core.windows.net/a",
        "file:///x",
        "s3://bucket/a@b/12:30@c",
        "hdfs://namenode:8020/a",
        "file:///at:12/x@y",
        "abfs://c@account:443/a",
    ],
)
def test_other_places_are_taken_as_they_are(place):
    assert (without_password(place), lake_folder(place)) == (place, place)


@pytest.mark.parametrize("place", ["lake[1]", "/lakes/*", "a{b,c}", "what?", "a`b", "a\\b", "s3a://bucket/*"])
def test_a_lake_that_spark_would_take_for_a_pattern_is_refused(place):
    assert without_password(place) == place  # a landing is never one
    with pytest.raises(typer.BadParameter, match="cannot hold"):
        lake_folder(place)


@pytest.mark.parametrize("uri", ["s3a://bucket/lake?x=hush", "s3a://hush*/x", "abfs://c@hush/{a}"])
def test_what_is_refused_of_a_lake_s_uri_is_said_without_it(uri):
    with pytest.raises(typer.BadParameter, match="cannot hold") as refused:
        lake_folder(uri)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("uri", ["s3://AKID:hu/sh@bucket/x", "hush://bucket/x", "s3://bucket/x?hush=1"])
def test_a_landing_uri_that_cannot_be_read_is_not_repeated(uri):
    with pytest.raises(OSError, match="correct --landing") as refused:
        LandingRoot(uri)
    told = "".join(traceback.format_exception(refused.value))
    assert "hu/sh@" not in told and "hush://" not in told and "hush=1" not in told


@pytest.mark.parametrize("option", ["--landing", "--lake"])
@pytest.mark.parametrize("uri", ["s3a://AKID:hush@bucket/x", "s3://AKID:hush/@bucket/x"])
def test_the_command_refuses_a_secret_before_anything_is_said_of_it(option, uri, tmp_path):
    options = {"--landing": str(tmp_path), "--lake": str(tmp_path)} | {option: uri}
    done = command("run-pipeline", *(w for pair in options.items() for w in pair))
    assert done.returncode == 64
    assert option in done.stderr and "hush" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "text",
    [
        '[spark.options]\n"spark.hadoop.fs.s3a.secret.key" = 2718281828',
        '[spark]\noptions = "fs.s3a.secret.key=2718281828"',
        '[spark]\n"fs.s3a.secret.key" = "2718281828"',
        'spark = "fs.s3a.secret.key=2718281828"',
    ],
)
def test_a_mistake_beside_a_secret_does_not_show_it(text, tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(text)
    with pytest.raises(SettingsError) as refused:
        load_settings(own)
    assert "2718281828" not in str(refused.value) and "spark" in str(refused.value)


def test_settings_do_not_show_spark_s_options(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text('[spark.options]\n"spark.hadoop.fs.s3a.secret.key" = "2718281828"')
    settings = load_settings(own)
    assert settings.spark.options["spark.hadoop.fs.s3a.secret.key"] == "2718281828"
    assert "2718281828" not in repr(settings)


@pytest.mark.parametrize("zone", ["No/Where", "../../etc/passwd", "/etc/passwd", "Europe", "", "a\x00b"])
def test_a_zone_that_is_none_is_refused(zone, tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(
        f"[ingest]\nclient_log_zone = {zone!r}" if "\x00" not in zone else '[ingest]\nclient_log_zone="a\\u0000b"'
    )
    with pytest.raises(SettingsError, match="no such time zone"):
        load_settings(own)
    own.write_text('[ingest.client_log_zones]\nc = "No/Where"')
    with pytest.raises(SettingsError, match="no such time zone"):
        load_settings(own)


@pytest.mark.parametrize(
    "words", [("metrics", "--output"), ("sql", "SELECT 1", "--output"), ("bundle", "x", "--output")]
)
def test_a_file_to_write_needs_a_folder_that_is_there(tmp_path, words):
    done = command(*words, tmp_path / "mistyped" / "file", "--lake", tmp_path)
    assert done.returncode == WRONG_USAGE
    assert f"'--output': there is no folder '{tmp_path}/mistyped'. Make it first" in done.stderr


@pytest.mark.parametrize("words", [("serve", "--port", "{}"), ("metrics", "--listen", "{}")])
def test_a_port_that_another_process_has_is_told_with_what_to_do(sampled, words):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = command(*(word.format(port) for word in words), "--lake", sampled)
    said = f"cannot listen at port {port} of 127.0.0.1: another process has it. `ss -ltnp` says which; end that one"
    assert (done.returncode, said in done.stderr, words[1] in done.stderr) == (RUN_FAILED, True, True), done.stderr


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.EACCES, "Give --port a port above 1023"), (errno.EADDRNOTAVAIL, "that `ip address` lists"), (None, "odd")],
)
def test_whatever_keeps_a_port_has_a_sentence(number, said):
    with pytest.raises(NoPortError, match=said), port_had("a", 80, "--port"):
        raise OSError(number, "odd")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, {}),
        ({"fs.s3a.endpoint": "http://store:9000"}, {"AWS_ENDPOINT_URL": "http://store:9000"}),
        ({"fs.s3a.endpoint": "store:9000"}, {"AWS_ENDPOINT_URL": "https://store:9000"}),
        (
            {"fs.s3a.endpoint": "store:9000", "fs.s3a.connection.ssl.enabled": "false", "fs.s3a.session.token": ""},
            {"AWS_ENDPOINT_URL": "http://store:9000"},
        ),
        (
            {"fs.s3a.access.key": "AKID", "fs.s3a.secret.key": "hush", "fs.s3a.endpoint.region": "eu-west-1"},
            {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_REGION": "eu-west-1"},
        ),
    ],
)
def test_what_spark_knows_of_a_store_is_told_to_other_libraries(options, told):
    assert environment_of(options.get) == told


def test_a_client_of_hdfs_is_not_kept_by_fsspec():
    """What fsspec keeps it ends in a process that is forked to start a JVM, and waits there for ever."""
    system, path = file_system("hdfs://127.0.0.1:9/lake")
    assert path == "/lake" and file_system("hdfs://127.0.0.1:9/lake")[0] is system
    assert HdfsFileSystem._cache == {}
