"""`hindsight serve`: its questions by a plain HTTP client, and who is not answered."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import BoundedSemaphore, Event, Semaphore, Thread
from threading import enumerate as enumerate_threads
from time import sleep
from urllib.parse import urlencode

import duckdb
import pytest

from hindsight.jobs.commands import bounded_questions
from hindsight.jobs.commands.bounded_questions import CutError, Questions
from hindsight.jobs.commands.serve_command import _AT_ONCE, _Handler, _Server
from hindsight.jobs.engines.asker import BadQueryError
from hindsight.jobs.engines.local_asker import LocalAsker
from tests.pipeline.asked_lake import ORDERS
from tests.processes import processes

ENDLESS = "SELECT COUNT(*) FROM range(1000000000000) a, range(1000000) b"


class Server:
    """One that runs; ``ask`` is a request to it."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, question: str, /, *, method: str = "GET", headers: dict[str, str] | None = None, **words: object):
        """The status and the fields of the answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        own = {"Host": f"localhost:{self.port}"} | (headers or {})
        try:
            connection.request(method, f"/{question}?{urlencode(words)}", headers=own)
            answer = connection.getresponse()
            text = answer.read().decode()
            assert not [one for one in answer.headers if one.lower().startswith("access-control")]
            return answer.status, json.loads(text) if answer.headers["Content-Type"].startswith(
                "application/json"
            ) else {}
        finally:
            connection.close()


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "hindsight.jobs.command_line", "serve", "--port", "0", *options]
    command += ["--lake", str(folder / "lake")]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, preexec_fn=heard, **pipes) as process:
        try:
            assert process.stdout and process.stderr
            said = process.stdout.readline()
            yield Server(int(said.split("/ names")[0].rpartition(":")[2]))
        finally:
            process.send_signal(signal.SIGINT)
            assert (process.wait(timeout=60), process.stderr.read()) == (0, "")


@pytest.fixture(scope="module")
def server(asked_lake) -> Iterator[Server]:
    with served(asked_lake) as found:
        yield found


def test_each_question_answers_in_fields(server):
    status, named = server.ask("")
    assert status == 200 and named["questions"]["message"] == ["name", "by_key"]
    status, wrong = server.ask("wrong_now")
    assert [(one["incident_id"], one["sentence"]) for one in wrong["incidents"]] == [("abc", ORDERS)]
    assert server.ask("explain", incident_id="abc")[1]["row_of"]["table"] == "drift_incident"
    assert any("incident_id=abc" in line for line in server.ask("story", incident_id="abc")[1]["markdown"])
    assert server.ask("message", name="m1", by_key="false")[0] == 200
    assert server.ask("tables", table="send_attempt")[1]["table"] == "send_attempt"
    status, rows = server.ask("sql", query="SELECT range AS n FROM range(9)", most=2)
    assert (status, rows["rows"], rows["cut"]) == (200, [{"n": 0}, {"n": 1}], {"rows": "the first 2"})


@pytest.mark.parametrize(
    ("name", "words", "status", "said"),
    [
        ("nothing", {}, 404, "there are wrong_now"),
        ("what_if", {"premises": ""}, 404, "no such question"),
        ("message", {}, 400, "name"),
        ("message", {"name": "m1", "late": "1"}, 400, "late"),
        ("sql", {"query": "SELECT 1", "most": "many"}, 400, "most"),
        ("sql", {"query": "COPY (SELECT 1) TO 'out.csv'"}, 400, ""),
        ("sql", {"query": "SELECT * FROM read_text('/etc/hostname')"}, 400, ""),
        ("story", {"incident_id": "none"}, 400, "no such incident"),
        ("ladder", {"first": "2026-02-01", "last": "2026-01-01"}, 400, "is after"),
        ("ladder", {"first": "yesterday"}, 400, "yesterday"),
    ],
)
def test_what_has_no_answer_says_why(server, name, words, status, said):
    found, answer = server.ask(name, **words)
    assert found == status and said in answer["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8090"},
        {"Host": "127.0.0.1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_others_are_not_answered(server, headers):
    status, answer = server.ask("wrong_now", headers=headers)
    assert status == 403 and answer.keys() == {"error"}


def test_a_browser_that_was_given_the_address_is(server):
    assert server.ask("wrong_now", headers={"Sec-Fetch-Site": "none"})[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_only_get_is_known(server, method):
    assert server.ask("wrong_now", method=method)[0] == 501


def test_a_question_is_cut(asked_lake):
    with served(asked_lake, "--seconds", "1") as server:
        status, answer = server.ask("sql", query=ENDLESS)
        assert status == 400 and answer["error"].startswith("cut after 1 s")
        assert server.ask("tables")[0] == 200


@pytest.mark.parametrize("seconds", [0.2, 0])  # 0: over before DuckDB begins, which forgets an interrupt then
def test_of_a_question_that_was_cut_no_thread_is_left(asked_lake, tmp_path, monkeypatch, seconds):
    """It would be in DuckDB, which aborts a process that ends then."""
    interrupt = LocalAsker.interrupt

    def slowly(asker: LocalAsker) -> None:
        interrupt(asker)
        sleep(1)

    monkeypatch.setattr(LocalAsker, "interrupt", slowly)
    asked = Questions(str(asked_lake / "lake"), (), tmp_path, seconds=seconds, megabytes=500, settings=None)
    before = {*enumerate_threads()}
    with pytest.raises(CutError, match=f"cut after {seconds:g} s"):
        asked.sql(ENDLESS)
    assert {*enumerate_threads()} <= before


@pytest.mark.parametrize("error", [OSError, duckdb.InterruptException, BadQueryError])
def test_a_question_that_was_cut_says_so_wherever_it_was(asked_lake, tmp_path, monkeypatch, error):
    """Arrow's reader of what DuckDB answers has an error of its own."""

    interrupted = Event()

    def answer(asker: LocalAsker, query: str, limit: int) -> None:
        assert interrupted.wait(60)
        raise error("INTERRUPT Error: Interrupted!")

    monkeypatch.setattr(LocalAsker, "answer", answer)
    monkeypatch.setattr(LocalAsker, "interrupt", lambda asker: interrupted.set())
    asked = Questions(str(asked_lake / "lake"), (), tmp_path, seconds=0.1, megabytes=500, settings=None)
    with pytest.raises(CutError, match=r"cut after 0\.1 s"):
        asked.sql("SELECT 1")


def test_what_is_being_answered_at_the_end_is_cut(asked_lake, tmp_path):
    asked = Questions(str(asked_lake / "lake"), (), tmp_path, seconds=60, megabytes=500, settings=None)
    found = []

    def ask() -> None:
        with pytest.raises(CutError, match="the server ends"):
            asked.sql(ENDLESS)
        found.append("cut")

    asking = [Thread(target=ask) for _ in range(3)]
    for one in asking:
        one.start()
    while len(asked._at_work) < len(asking):
        sleep(0.01)
    asked.cut()
    for one in asking:
        one.join(30)
    assert found == ["cut"] * 3
    with pytest.raises(CutError, match="the server ends"):
        asked.sql("SELECT 1")


@pytest.mark.parametrize(("seconds", "why"), [(0.05, r"cut after 0\.75 s"), (60, "the server ends")])
def test_so_is_a_what_if_with_its_process(asked_lake, tmp_path, monkeypatch, seconds, why):
    began = tmp_path / "began"
    forever = f"import pathlib, time; pathlib.Path({str(began)!r}).touch(); time.sleep(1000)"
    monkeypatch.setattr(bounded_questions, "command_of", lambda _: [sys.executable, "-c", forever])
    asked = Questions(str(asked_lake / "lake"), (), tmp_path, seconds=seconds, megabytes=500, settings=None)

    def end_it() -> None:
        while not began.exists():
            sleep(0.01)
        asked.cut()

    ending = Thread(target=end_it, daemon=True)
    if seconds > 1:
        ending.start()
    with pytest.raises(CutError, match=why):
        asked.what_if("")
    assert not [command for command, _ in processes().values() if str(began) in command]


def test_ctrl_c_ends_a_server_that_is_answering(asked_lake):
    found: list[int] = []

    def ask(server: Server) -> None:
        with suppress(OSError, HTTPException):  # the server may be gone before it has said that it was cut
            while (status := server.ask("sql", query=ENDLESS)[0]) == 503:
                sleep(0.05)  # who looks whether all are at work had its room
            found.append(status)

    with served(asked_lake, "--seconds", "60") as server:
        asking = [Thread(target=ask, args=(server,)) for _ in range(_AT_ONCE)]
        for one in asking:
            one.start()
        while server.ask("tables")[0] != 503:  # until all of them are being answered
            sleep(0.05)
    for one in asking:
        one.join(30)
    assert {*found} <= {400} and not any(one.is_alive() for one in asking)


def test_few_are_answered_at_once():
    begun, end, found = Semaphore(0), Event(), []

    def waits() -> str:
        begun.release()
        return json.dumps({"ended": end.wait(60)})

    with _Server(("127.0.0.1", 0), partial(_Handler, {"waits": waits}, BoundedSemaphore(2))) as running:
        Thread(target=running.serve_forever).start()
        server = Server(running.server_port)
        asking = [Thread(target=lambda: found.append(server.ask("waits"))) for _ in range(2)]
        for one in asking:
            one.start()
            assert begun.acquire(timeout=60)
        assert server.ask("waits")[0] == 503
        end.set()
        for one in asking:
            one.join()
        assert server.ask("waits") == (200, {"ended": True})
        running.shutdown()
    assert found == [(200, {"ended": True})] * 2
