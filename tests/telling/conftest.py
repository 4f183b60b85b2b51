"""A lake whose events are told, and a server on the loopback interface that takes them."""

from __future__ import annotations

import json
import shutil
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest


@pytest.fixture
def lake(sampled, tmp_path):
    return shutil.copytree(sampled, tmp_path / "lake")


@pytest.fixture
def server():
    """A server that notes what it is sent; ``answers``: statuses and texts to give first, then 200."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            running.taken.append((self.path, dict(self.headers), body))
            status, text = running.answers.pop(0) if running.answers else (200, '{"errcode": 0}')
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.taken, running.answers = [], []
    running.url = f"http://127.0.0.1:{running.server_port}"
    Thread(target=running.serve_forever, daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()
