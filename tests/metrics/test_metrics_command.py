"""hindsight metrics: a text that both formats' readers take, in a file that is replaced whole, or from a port."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

from hindsight.conf.failure import WRONG_USAGE
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.metrics.gauges import METRICS
from hindsight.schemas import DRIFT_INCIDENT, INGESTED_FILE
from tests.commands import command
from tests.metrics.read_gauges import told, values
from tests.pipeline.random_tables import one_row
from tests.without_spark import check_without_spark

HOSTILE = 'g"\\\n\u2028 \x07é'
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def hindsight(*words: object) -> subprocess.CompletedProcess[str]:
    return command("metrics", *words)


@pytest.fixture
def lake(tmp_path) -> LocalLake:
    """An open incident of a group whose name is not a kind one."""
    made = LocalLake(str(tmp_path / "lake"), retention_days=7)
    made.append(INGESTED_FILE, one_row(INGESTED_FILE, cluster="c", event_dates=[]))
    open_incident(made, HOSTILE)
    return made


def open_incident(lake: LocalLake, group: str) -> None:
    of = {"consumer_group": group, "severity": "HIGH", "state": "OPEN", "codes": ["ORPHAN_QUEUE"]}
    lake.append(DRIFT_INCIDENT, one_row(DRIFT_INCIDENT, cluster="c", **of))


def groups(text: str) -> set[str]:
    found = values(openmetrics.text_string_to_metric_families(text))
    return {labels[1] for labels in found["hindsight_consumer_group_open_incidents"]}


def test_stdout_is_text_that_both_formats_readers_take(sampled):
    text = hindsight("--lake", sampled).stdout
    assert text.endswith("# EOF\n")
    read = values(openmetrics.text_string_to_metric_families(text))
    assert read == values(parser.text_string_to_metric_families(text)) and list(read) == list(METRICS)
    assert {name.removeprefix("hindsight_"): of for name, of in read.items()} == told(sampled)
    samples = [s for family in openmetrics.text_string_to_metric_families(text) for s in family.samples]
    # node_exporter takes no file with a sample that has a time.
    assert len(samples) > 50 and not any(sample.timestamp or sample.exemplar for sample in samples)


def test_a_file_is_replaced_whole_and_nothing_else_looks_like_one(lake, tmp_path):
    file = tmp_path / "folder" / "hindsight.prom"
    file.parent.mkdir()
    file.write_text("of an earlier run")
    # What a run that was broken off left there is none that node_exporter reads.
    check_without_spark("metrics", "--lake", lake.root, "--output", file, ends=0)
    assert groups(file.read_text()) == {HOSTILE}
    assert list(file.parent.iterdir()) == [file]


def test_what_is_written_beside_the_file_does_not_end_as_it_does(lake, tmp_path, monkeypatch):
    beside: list[Path] = []
    monkeypatch.setattr(Path, "replace", lambda self, target: beside.append(self))
    from hindsight.jobs.metrics.gauges import write_file

    write_file(tmp_path / "hindsight.prom", list)
    assert [path.suffix == ".prom" for path in beside] == [False]


@pytest.mark.parametrize(
    "words",
    [
        ("--listen", "nowhere"),
        ("--listen", "65536"),
        ("--listen", "0", "--output", "file"),
        ("--listen", "0", "--engine", "spark"),
    ],
)
def test_wrong_words_are_refused(lake, words):
    check_without_spark("metrics", "--lake", lake.root, *words, ends=WRONG_USAGE)


def test_a_place_that_took_nothing_in_is_refused(tmp_path):
    said = check_without_spark("metrics", "--lake", tmp_path, ends=WRONG_USAGE)
    assert "has taken in no file yet" in said


def test_a_setting_bounds_the_series(sampled, tmp_path):
    own = tmp_path / "own.toml"
    own.write_text("[metrics]\nmost_series = 1\n")
    text = hindsight("--lake", sampled, "--settings", own).stdout
    assert groups(text) >= {"other"} and len(groups(text)) <= 2


@contextmanager
def listening(lake: LocalLake) -> Iterator[str]:
    command = [sys.executable, "-m", "hindsight.jobs.command_line", "metrics", "--lake", lake.root, "--listen", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        said = json.loads(process.stderr.readline())
        assert said["event"] == "listening" and said["address"].startswith("127.0.0.1:")
        yield f"http://{said['address']}/metrics"
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def asked(url: str, accept: str) -> tuple[str, str]:
    with urlopen(Request(url, headers={"Accept": accept}), timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_a_port_answers_with_what_the_lake_says_then_and_goes_on_after_a_failure(lake):
    with listening(lake) as url:
        kind, text = asked(url, OPENMETRICS)
        assert kind.startswith("application/openmetrics-text") and groups(text) == {HOSTILE}
        open_incident(lake, "later")
        kind, text = asked(url, "text/plain")
        assert kind.startswith("text/plain; version=0.0.4") and "# EOF" not in text
        found: dict[str, Any] = values(parser.text_string_to_metric_families(text))
        assert len(found["hindsight_consumer_group_open_incidents"]) == 2
        table = Path(lake.root) / "drift_incident"
        log = table / "_delta_log" / f"{1:020}.json"
        whole = log.read_text()
        log.write_text("no commit")
        with pytest.raises(HTTPError) as refused:
            asked(url, OPENMETRICS)
        assert refused.value.code == 500 and b"without --listen says why" in refused.value.read()
        log.write_text(whole)
        assert groups(asked(url, OPENMETRICS)[1]) == {HOSTILE, "later"}


SLOWLY = """
import duckdb
from hindsight.jobs.metrics.gauges import serve
def ask():
    print("asked", flush=True)
    return duckdb.sql("SELECT COUNT(*) FROM range(1000000000) a").fetchall()[:0]
serve("127.0.0.1", 0, ask)
"""


def test_ctrl_c_ends_it_when_who_is_being_answered_has_the_answer():
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-u", "-c", SLOWLY], preexec_fn=heard, **pipes) as process:
        port = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())[1]
        with socket.create_connection(("127.0.0.1", int(port))) as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert process.stdout.readline() == "asked\n"
            process.send_signal(signal.SIGINT)
            assert (process.wait(60), process.stderr.read()) == (0, "")
