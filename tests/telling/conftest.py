"""A lake whose events are told, and a server on the loopback interface that takes them."""

from __future__ import annotations

import json
import shutil
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SO_LINGER, SOL_SOCKET
from struct import pack
from threading import Thread

import pytest


@pytest.fixture
def lake(sampled, tmp_path):
    return shutil.copytree(sampled, tmp_path / "lake")


@pytest.fixture
def server():
    """A server that notes what it is sent; ``answers``: statuses and texts to give first, then 200.

    A third word says that the text is cut: ``chunk`` of more that was promised, ``reset`` of the connection.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            running.taken.append((self.path, dict(self.headers), body))
            status, text, *cut = running.answers.pop(0) if running.answers else (200, '{"errcode": 0}')
            self.send_response(status)
            if cut == ["chunk"]:
                self.send_header("Transfer-Encoding", "chunked")
                text = f"ff\r\n{text}"
            elif cut:
                self.send_header("Content-Length", "500")
                self.connection.setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
            self.end_headers()
            self.wfile.write(text.encode())
            if cut == ["reset"]:
                time.sleep(0.2)
                self.connection.close()

        def log_message(self, *_):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.taken, running.answers = [], []
    running.url = f"http://127.0.0.1:{running.server_port}"
    Thread(target=running.serve_forever, daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()
