"""Which engine runs a command, and which lakes this machine's engine refuses."""

from __future__ import annotations

import pytest
import typer
from deltalake import DeltaTable

from hindsight.conf.failure import RUN_FAILED, WRONG_USAGE
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.engines.opened import opened_here as opened
from hindsight.jobs.lake.lake_lease import LakeHeldError, LeaseFolder, LeaseLostError, take
from hindsight.jobs.lake.lake_place import NoLocalEngineError, UnknownStoreError, file_system, for_hadoop, for_others
from hindsight.jobs.running.exit_codes import exit_code
from hindsight.jobs.running.places import chosen_engine
from hindsight.jobs.running.run_context import RunContext
from hindsight.schemas import TOPIC_ROUTE

CONTEXT = RunContext("landing")


@pytest.fixture
def settings():
    return load_settings(None)


@pytest.mark.parametrize(
    ("asked", "master", "submitted", "engine"),
    [
        (None, None, False, "local"),
        ("local", None, False, "local"),
        ("spark", None, False, "spark"),
        (None, "local[2]", False, "spark"),
        ("spark", "local[2]", False, "spark"),
        (None, None, True, "spark"),
        ("spark", None, True, "spark"),
    ],
)
def test_who_starts_it_decides_unless_it_is_asked_for(asked, master, submitted, engine, monkeypatch):
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    if submitted:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert chosen_engine(asked, master) == engine


@pytest.mark.parametrize(("master", "submitted", "said"), [("local[2]", False, "--master"), (None, True, "submit")])
def test_two_that_exclude_each_other_are_wrong_usage(master, submitted, said, monkeypatch, capsys):
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    if submitted:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(typer.BadParameter, match=said):
        chosen_engine("local", master)
    assert exit_code(lambda: chosen_engine("local", master)) == WRONG_USAGE
    assert "--engine local" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["s3://b/lake", "s3a://b/lake"])
def test_a_store_has_one_spelling_for_hadoop_and_one_for_all_others(place):
    assert (for_hadoop(place), for_others(place)) == ("s3a://b/lake", "s3://b/lake")


@pytest.mark.parametrize("place", ["/a/lake", "hdfs://n/lake"])
def test_other_places_stay_as_they_are(place):
    assert (for_hadoop(place), for_others(place)) == (place, place)


@pytest.mark.parametrize("place", ["hdfs://n/a/lake", "hdfs://n:9000/a/lake"])
def test_a_place_on_hdfs_needs_no_service_of_that_name_and_no_port(place):
    assert file_system(place)[1] == "/a/lake"


@pytest.mark.parametrize(
    ("place", "told"), [("oss://key:hush@bucket/lake", "oss://.*hdfs://"), ("hdfs:///lake", "HADOOP_CONF_DIR")]
)
def test_a_store_that_workers_do_not_know_is_told_without_its_secrets(place, told, monkeypatch):
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UnknownStoreError, match=told) as refused:
        file_system(place)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("place", ["hdfs://n/lake", "gs://b/lake"])
def test_a_lake_that_only_spark_can_hold_is_refused_with_the_way_out(place, settings, capsys):
    def run():
        with opened(place, settings, CONTEXT):
            pytest.fail("opened")

    assert exit_code(run) == RUN_FAILED
    assert "--engine spark" in capsys.readouterr().err


def test_a_lake_with_a_table_that_only_spark_reads_is_refused_before_it_is_held(tmp_path, settings):
    lake = LocalLake(str(tmp_path), retention_days=7)
    lake.create(TOPIC_ROUTE)
    DeltaTable(lake.path(TOPIC_ROUTE)).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    with (
        pytest.raises(NoLocalEngineError, match=r"topic_route .* --engine spark"),
        opened(str(tmp_path), settings, CONTEXT),
    ):
        pytest.fail("opened")
    assert not (tmp_path / "_lease").exists()


def test_a_lake_is_held_and_given_back(tmp_path, settings):
    with opened(str(tmp_path), settings, CONTEXT) as (lake, _, holding):
        lake.create(TOPIC_ROUTE)
        holding.confirm()
        with pytest.raises(LakeHeldError), opened(str(tmp_path), settings, RunContext("landing")):
            pytest.fail("opened twice")
    with opened(str(tmp_path), settings, RunContext("landing")) as (lake, _, _):
        assert lake.version(TOPIC_ROUTE) == 0
        for file in (tmp_path / "_lease").iterdir():
            file.unlink()
        with pytest.raises(LeaseLostError):
            lake.note("a_job", "text")
        take(LeaseFolder.of(None, str(tmp_path)), "another")


def test_nothing_is_written_without_the_lease(tmp_path):
    def lost() -> None:
        raise LeaseLostError

    lake = LocalLake(str(tmp_path), retention_days=7, confirm=lost)
    for write, given in {
        "create": (),
        "append": (None,),
        "store": (None, None, [], 0),
        "update": (None, [], []),
        "replace_dates": (None, []),
        "replace_files": (None, "source_file", []),
        "replace": (None, None),
        "delete": (None,),
    }.items():
        with pytest.raises(LeaseLostError):
            getattr(lake, write)(TOPIC_ROUTE, *given)
    with pytest.raises(LeaseLostError):
        lake.add_candidates(TOPIC_ROUTE, None, first=True)
    assert list(tmp_path.iterdir()) == []
