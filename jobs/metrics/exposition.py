"""Gauges in, a text of them out: in a file, on stdout, or to whoever asks a port."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from hindsight.jobs.running.run_log import tell
from hindsight.jobs.running.run_metrics import replace_metrics

_HINT = "The same command without --listen says why."  # the text of an error may hold what was read

Ask = Callable[[], Iterable[GaugeMetricFamily]]


class _Gauges(Collector):
    """What a lake says each time that it is asked; two never ask at once."""

    def __init__(self, ask: Ask) -> None:
        self._ask, self._asking = ask, Lock()

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

    The lake is asked each time. If that fails, the log says so, and the one who asked gets a 500.
    Raises: OSError: the port cannot be had.
    """
    answered = make_wsgi_app(_registry(ask))

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            return list(answered(environ, start_response))
        except Exception as error:  # whatever it is, the next question may be answered
            tell("asked", failed=type(error).__name__, hint=_HINT)
            start_response("500 Internal Server Error", [("Content-Type", "text/plain")])
            return [f"The lake could not be read. {_HINT}\n".encode()]

    class Server(ThreadingWSGIServer):
        address_family = socket.getaddrinfo(host, port)[0][0]

    with make_server(host, port, application, Server, _Silent) as server:
        tell("listening", address=f"{host}:{server.server_port}")
        server.serve_forever()


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """No line for each question."""


def _registry(ask: Ask) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Gauges(ask))
    return registry
