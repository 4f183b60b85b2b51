"""Gauges for a monitoring system, as a file, on stdout or at a port: how things stood when they were last recorded.

No gauge depends on the clock: an age is for who reads to reckon, from an instant. A figure that is not known has no
series: it is never 0.
"""

from __future__ import annotations

import socket
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, timedelta
from importlib.resources import files
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from hindsight.conf.settings import Metrics
from hindsight.jobs.engines.asker import Asker, Record, as_records, query
from hindsight.jobs.publishing.publication_record import half_published
from hindsight.jobs.running.places import port_had
from hindsight.jobs.running.run_log import tell
from hindsight.jobs.running.run_metrics import replace_metrics
from hindsight.schemas import SEVERITIES

Labels = tuple[str, ...]  # the cluster, the name, and what else there is
Values = dict[Labels, float]
_HINT = "The same command without --listen says why."  # the text of an error may hold what was read

Ask = Callable[[], Iterable[GaugeMetricFamily]]


class Metric(NamedTuple):
    """A gauge: its labels, what it says, and how series that are left out are joined (None: none is left out).

    ``weight``: which names are shown, where there are too many.
    """

    labels: tuple[str, ...]
    help: str
    joined: Callable[[Iterable[float]], float] | None
    weight: Callable[[Labels, float], Any]


def _by_severity(labels: Labels, value: float) -> tuple[int, float]:
    return -SEVERITIES.index(labels[-1]), value


def _by_value(labels: Labels, value: float) -> float:
    return value


_JOINED: Mapping[str, Callable[[Iterable[float]], float]] = {"max": max, "sum": sum}


def _metric(labels: Sequence[str], help: str, joined: str = "") -> Metric:
    weight = _by_severity if labels[-1] == "severity" else _by_value
    return Metric(tuple(labels), help, _JOINED.get(joined), weight)


_TOLD = files("hindsight.jobs").joinpath("metrics", "gauges.toml").read_text(encoding="utf-8")
METRICS = {name: _metric(**told) for name, told in tomllib.loads(_TOLD).items()}


def gauges(asker: Asker, settings: Metrics) -> Iterator[GaugeMetricFamily]:
    """All gauges of a lake, those without a series too."""
    left_out: Values = {}
    for name, values in chain(_of_records(asker), _of_jobs(asker), _of_producers(asker), _of_consumers(asker)):
        metric = METRICS[name]
        if metric.joined is not None:
            found = bounded(values, settings.most_series, metric.joined, metric.weight)
            values, left_out[(name,)] = found.series, found.left_out
        yield _family(name, values)
    yield _family("hindsight_series_left_out", left_out)


def _of_records(asker: Asker) -> Iterator[tuple[str, Values]]:
    (reached,) = _answers(asker, "reached")
    ends = {row["event_date"] for row in reached}
    # What a file reaches may be a date that only its last record's consequences fall on.
    (newest,) = _answers(asker, "newest", of_dates=ends | {day - timedelta(days=1) for day in ends})
    yield "hindsight_newest_record_timestamp_seconds", _instants(newest, ("cluster", "format"), "newest_at")
    (judged,) = _answers(asker, "judged")
    yield "hindsight_judged_until_timestamp_seconds", _instants(judged, ("cluster", "side"), "until")


def _of_jobs(asker: Asker) -> Iterator[tuple[str, Values]]:
    published, gated = _answers(asker, "published", "gated")
    yield "hindsight_publication_timestamp_seconds", _instants(published, ("job",), "published_at")
    passed: Values = {
        (row["job"],): float(not row["failed"] and not half_published(asker.lake, row["job"])) for row in gated
    }
    yield "hindsight_checks_passed", passed


def _of_producers(asker: Asker) -> Iterator[tuple[str, Values]]:
    producers, brokers, of_groups = _answers(asker, "producers", "brokers", "producer_groups")
    yield "hindsight_producers", _by(producers, ("cluster", "verdict"), "producers")
    by_broker = ("cluster", "broker_name")
    yield "hindsight_broker_unavailable_producers", _by(brokers, by_broker, "producers")
    yield "hindsight_broker_unavailable_seconds", _by(brokers, by_broker, "seconds")
    yield "hindsight_producer_group_unavailable_brokers", _by(of_groups, ("cluster", "producer_group"), "brokers")


def _of_consumers(asker: Asker) -> Iterator[tuple[str, Values]]:
    dated, incidents, codes = _answers(asker, "last_dates", "incidents", "incident_codes")
    last = {row["cluster"]: row["event_date"] for row in dated}
    groups, lags, rebalances = _answers(asker, "groups", "lags", "rebalances", of_dates=last.values())

    def on_last_date(rows: Sequence[Record]) -> list[Record]:
        return [row for row in rows if row["event_date"] == last.get(row["cluster"])]

    yield "hindsight_consumer_groups", _by(on_last_date(groups), ("cluster", "verdict"), "consumer_groups")
    none = {(cluster, severity): 0.0 for cluster in last for severity in SEVERITIES}
    yield "hindsight_open_incidents", none | _by(incidents, ("cluster", "severity"), "incidents")
    of_groups, of_servers = "hindsight_consumer_group_open_incidents", "hindsight_server_open_incidents"
    yield of_groups, _by((r for r in codes if r["consumer_group"]), METRICS[of_groups].labels, "incidents")
    yield of_servers, _by((r for r in codes if not r["consumer_group"]), METRICS[of_servers].labels, "incidents")
    bounds: Values = {
        (row["cluster"], row["consumer_group"], bound): float(row[bound])
        for row in on_last_date(lags)
        for bound in ("at_least", "at_most")
        if row[bound] is not None
    }
    yield "hindsight_consumer_group_lag_seconds", bounds
    counts = _by(on_last_date(rebalances), ("cluster", "consumer_group"), "rebalances")
    yield "hindsight_consumer_group_rebalances", counts


def _answers(asker: Asker, *names: str, of_dates: Iterable[date] = ()) -> list[list[Record]]:
    """The rows of queries; without a date no row is of one."""
    days = ", ".join(f"DATE'{day}'" for day in sorted(set(of_dates)))
    condition = f"event_date IN ({days})" if days else "FALSE"
    texts = [query("queries", name, "metrics").format(of_dates=condition) for name in names]
    return [as_records(rows) for rows in asker.answers(texts)]


def _by(rows: Iterable[Record], labels: Sequence[str], value: str) -> Values:
    return {tuple(row[name] for name in labels): float(row[value]) for row in rows}


def _instants(rows: Iterable[Record], labels: Sequence[str], value: str) -> Values:
    known = (row for row in rows if row[value] is not None)
    return {tuple(row[name] for name in labels): row[value].replace(tzinfo=UTC).timestamp() for row in known}


def _family(name: str, values: Mapping[Labels, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, METRICS[name].help, labels=METRICS[name].labels)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family


OTHER = "other"


class Bounded(NamedTuple):
    """What is shown, and how many series were joined as ``OTHER``."""

    series: dict[Labels, float]
    left_out: int


def bounded(
    values: Mapping[Labels, float],
    most: int,
    joined: Callable[[Iterable[float]], float],
    weight: Callable[[Labels, float], Any] = _by_value,
) -> Bounded:
    """At most ``most`` series by name; what is left is joined as ``OTHER``, by cluster and further labels.

    All series of a name stay together. Names with the highest ``weight`` come first, as long as there is room; equal
    ones go by name, so the same values give the same series. A name that is called ``OTHER`` is joined too.
    """
    of_name: dict[Labels, list[Labels]] = {}
    for labels in values:
        of_name.setdefault(labels[:2], []).append(labels)
    heaviest = {name: max(weight(each, values[each]) for each in of_name[name]) for name in of_name}
    by_name = sorted(name for name in of_name if name[1] != OTHER)
    series: dict[Labels, float] = {}
    for name in sorted(by_name, key=heaviest.__getitem__, reverse=True):
        if len(series) + len(of_name[name]) > most:
            break
        series |= {labels: values[labels] for labels in of_name[name]}
    rest: dict[Labels, list[float]] = {}
    for labels in sorted(values.keys() - series.keys()):
        rest.setdefault((labels[0], OTHER, *labels[2:]), []).append(values[labels])
    series |= {labels: joined(of_rest) for labels, of_rest in rest.items()}
    return Bounded(dict(sorted(series.items())), sum(map(len, rest.values())))


class _Gauges(Collector):
    """What a lake says each time that it is asked; two never ask at once."""

    def __init__(self, ask: Ask, asking: Lock) -> None:
        self._ask, self._asking = ask, asking

    def collect(self) -> Iterable[GaugeMetricFamily]:
        with self._asking:
            return list(self._ask())


def as_text(ask: Ask) -> str:
    """The gauges as OpenMetrics text.

    There are only gauges, without times of their own: such a text is also one of Prometheus' older format, which is all
    that node_exporter's folder takes.
    """
    text: bytes = generate_latest(_registry(ask))
    return text.decode()


def write_file(path: Path, ask: Ask) -> None:
    """The same in a file; a reader sees the old file or the new one. Raises: OSError."""
    replace_metrics(path, _registry(ask))


def serve(host: str, port: int, ask: Ask) -> None:
    """Answer whoever asks a port, in the format that they ask for, until the process is stopped.

    The lake is asked each time. If that fails, the log says so, and the one who asked gets a 500. Ctrl-C ends it.
    Raises: NoPortError.
    """
    asking = Lock()
    answered = make_wsgi_app(_registry(ask, asking))

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            return list(answered(environ, start_response))
        except Exception as error:  # whatever it is, the next question may be answered
            tell("asked", failed=type(error).__name__, hint=_HINT)
            start_response("500 Internal Server Error", [("Content-Type", "text/plain")])
            return [f"The lake could not be read. {_HINT}\n".encode()]

    with port_had(host, port, "--listen"):

        class Server(ThreadingWSGIServer):
            address_family = socket.getaddrinfo(host, port)[0][0]

        server = make_server(host, port, application, Server, _Silent)
    with server:
        tell("listening", address=f"{host}:{server.server_port}")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
        asking.acquire()  # DuckDB aborts a process that ends while a thread of Python's is in it


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """No line for each question."""


def _registry(ask: Ask, asking: Lock | None = None) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Gauges(ask, asking or Lock()))
    return registry
