"""Alert rules and the dashboard: of the shape that their tools take, and about gauges, labels and pages that exist.

With Prometheus' promtool on the path, or named by HINDSIGHT_PROMTOOL, it checks the rules, their tests and a real text;
the prometheus beside it answers each query of the dashboard from such a text.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from ruamel.yaml import YAML

from hindsight.jobs.metrics.gauges import METRICS
from hindsight.schemas import ALLOCATION_DRIFT, SEVERITIES
from tests.commands import command
from tests.page.test_documents import anchors

ROOT = Path(__file__).parent.parent.parent
RULES = ROOT / "docs" / "monitoring" / "alerts.yml"
DASHBOARD = ROOT / "docs" / "monitoring" / "dashboard.json"
TESTS = ROOT / "tests" / "metrics" / "alerts_test.yml"
SCHEMA = ROOT / "tests" / "metrics" / "dashboard.schema.json"
PROMTOOL = os.environ.get("HINDSIGHT_PROMTOOL") or shutil.which("promtool")

SELECTOR = re.compile(r"\b(hindsight_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"([^\"]*)\"")
GROUPING = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
TEMPLATE = re.compile(r"{{\s*(?:\$labels\.)?(\w+)")
VALUES = {"severity": SEVERITIES, "code": ALLOCATION_DRIFT.known("code"), "side": ("producers", "consumers")} | {
    "bound": ("at_least", "at_most"),
    "verdict": ("ok", "drift", "unknown", "replayed", "off", "not_applicable"),
}


def yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml(RULES)["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"] if panel["type"] != "row"]


def expressions() -> list[tuple[str, str]]:
    """Each query with the text that names its labels."""
    of_alerts = [(rule["expr"], " ".join(rule["annotations"].values())) for rule in alerts()]
    return of_alerts + [(of["expr"], of["legendFormat"]) for panel in panels() for of in panel["targets"]]


def selected(expression: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """The gauges that a query names, each with its conditions."""
    return [(name, MATCHER.findall(where)) for name, where in SELECTOR.findall(expression)]


@pytest.mark.parametrize(("expression", "told"), expressions())
def test_a_query_names_gauges_labels_and_values_that_there_are(expression, told):
    gauges = selected(expression)
    assert gauges
    for name, conditions in gauges:
        assert name in METRICS
        for label, value in conditions:
            assert label in METRICS[name].labels, (name, label)
            assert label not in VALUES or set(value.split("|")) <= set(VALUES[label]), value
    labels = set().union(*(METRICS[name].labels for name, _ in gauges))
    for grouping in GROUPING.findall(expression):
        assert {label.strip() for label in grouping.split(",")} <= labels, grouping
    kept = GROUPING.findall(expression)[:1] if re.match(r"\s*(?:sum|max) by", expression) else []
    for label in TEMPLATE.findall(told.replace("$value", "")):
        if label in ("humanizeDuration", "humanizePercentage", "value"):
            continue
        assert label in (re.split(r",\s*", kept[0]) if kept else labels), label


def test_the_page_about_gauges_has_each_with_its_labels():
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(hindsight_\w+)` \| (.+?) \| ", page, re.MULTILINE)
    assert [(name, tuple(re.findall(r"`(\w+)`", labels))) for name, labels in rows] == [
        (name, metric.labels) for name, metric in METRICS.items()
    ]


def test_every_gauge_is_on_the_dashboard():
    shown = {name for panel in panels() for of in panel["targets"] for name, _ in selected(of["expr"])}
    assert shown == set(METRICS)


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_has_a_runbook_that_exists(rule):
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    codes = ALLOCATION_DRIFT.known("code") if "{{" in anchor else ("",)
    assert "{{" not in anchor or anchor == "{{ $labels.code | toLower }}"
    for code in codes:
        assert not anchor or (code.lower() or anchor) in anchors(ROOT / page), (page, code or anchor)


def test_every_alert_has_a_test():
    tested = {of["alertname"] for test in yaml(TESTS)["tests"] for of in test["alert_rule_test"] if of["exp_alerts"]}
    assert tested == {rule["alert"] for rule in alerts()}


def test_the_dashboard_is_of_the_shape_that_grafana_reads():
    dashboard, schema = (json.loads(path.read_text(encoding="utf-8")) for path in (DASHBOARD, SCHEMA))
    Draft7Validator.check_schema(schema)
    assert [error.message for error in Draft7Validator(schema).iter_errors(dashboard)] == []
    misspelt = json.loads(DASHBOARD.read_text(encoding="utf-8").replace('"expr"', '"expression"', 1))
    assert not Draft7Validator(schema).is_valid(misspelt)


def test_panels_have_ids_and_places_of_their_own():
    whole = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in whole}) == len(whole)
    taken = [
        (panel["gridPos"]["y"] + row, panel["gridPos"]["x"] + column)
        for panel in whole
        for row in range(panel["gridPos"]["h"])
        for column in range(panel["gridPos"]["w"])
    ]
    assert len(set(taken)) == len(taken) and max(column for _, column in taken) < 24
    assert all(before["gridPos"]["y"] <= after["gridPos"]["y"] for before, after in pairwise(whole))


# -- Prometheus' own tool ----------------------------------------------------------------------------------------------

with_promtool = pytest.mark.skipif(not PROMTOOL, reason="needs Prometheus' promtool")


def promtool(*words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(PROMTOOL), *words], input=given, capture_output=True, text=True, check=False)


@with_promtool
@pytest.mark.parametrize("words", [("check", "rules", str(RULES)), ("test", "rules", str(TESTS))], ids=" ".join)
def test_promtool_takes_the_rules_and_their_tests(words):
    done = promtool(*words)
    assert done.returncode == 0, done.stdout + done.stderr


@with_promtool
def test_promtool_finds_nothing_to_say_of_a_real_text(sampled):
    text = command("metrics", "--lake", sampled).stdout
    done = promtool("check", "metrics", given=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def asked_of_prometheus(sampled, tmp_path_factory) -> Iterator[Any]:
    """A Prometheus that holds what `hindsight metrics` says: a function from a query to its series."""
    folder, now = tmp_path_factory.mktemp("prometheus"), int(time.time())
    said = command("metrics", "--lake", sampled).stdout.splitlines()
    (folder / "said").write_text("".join(f"{line}{'' if line[0] == '#' else f' {now}'}\n" for line in said))
    assert (
        promtool("tsdb", "create-blocks-from", "openmetrics", str(folder / "said"), str(folder / "data")).returncode
        == 0
    )
    (folder / "empty.yml").write_text("global: {}\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        host = f"127.0.0.1:{free.getsockname()[1]}"
    options = {"config.file": folder / "empty.yml", "storage.tsdb.path": folder / "data", "web.listen-address": host}
    server = [str(Path(PROMTOOL).with_name("prometheus")), *(f"--{name}={value}" for name, value in options.items())]

    def series(query: str) -> list[Any]:
        address = f"http://{host}/api/v1/query?" + urllib.parse.urlencode({"query": query, "time": now})
        with urllib.request.urlopen(address, timeout=30) as answer:
            return json.load(answer)["data"]["result"]

    with subprocess.Popen(server, stderr=subprocess.DEVNULL) as running:
        try:
            for _ in range(600):
                try:
                    series("1")
                    break
                except (urllib.error.URLError, ConnectionError):
                    time.sleep(0.1)
            yield series
        finally:
            running.terminate()


# of what the samples have none of: servers that do not answer, series without room
NONE = ("hindsight_server_open_incidents", "hindsight_series_left_out > 0")


@with_promtool
@pytest.mark.soak
@pytest.mark.parametrize("query", [of["expr"] for panel in panels() for of in panel["targets"]])
def test_prometheus_answers_each_query_of_the_dashboard(asked_of_prometheus, query):
    found = asked_of_prometheus(query.replace("$cluster", ".*"))
    assert bool(found) != any(name in query for name in NONE), found
