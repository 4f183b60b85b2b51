"""The MCP server, asked by a client of its SDK: each tool, hostile texts, queries that must not run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from tests.pipeline.asked_lake import ORDERS
from tests.pipeline.test_served_questions import ENDLESS

mcp = pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
anyio = pytest.importorskip("anyio")


def asked(lake, *calls: tuple[str, dict], options: tuple[str, ...] = ()):
    """What the server answers to each call: fields, or the text of an error."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    words = ["-m", "hindsight.jobs.command_line", "mcp", "--lake", str(lake / "lake"), *options]

    async def ask():
        found = []
        server = StdioServerParameters(command=sys.executable, args=words)
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            found.append(sorted(tool.name for tool in (await session.list_tools()).tools))
            for name, arguments in calls:
                answer = await session.call_tool(name, arguments)
                text = answer.content[0].text
                found.append(f"error: {text}" if answer.is_error else json.loads(text))
        return found

    return anyio.run(ask)


def test_each_tool_answers_in_fields_with_the_keys_of_rows(asked_lake):
    names, wrong, explained, story, message, tables, sql = asked(
        asked_lake,
        ("wrong_now", {}),
        ("explain", {"incident_id": "abc"}),
        ("story", {"incident_id": "abc"}),
        ("message", {"name": "m1"}),
        ("tables", {"table": "send_attempt"}),
        ("sql", {"query": "SELECT incident_id, sentence FROM drift_incident"}),
    )
    questions = ["explain", "ladder", "message", "sql", "story", "tables", "upgrade", "what_if", "wrong_now"]
    assert names == questions
    assert [one["incident_id"] for one in wrong["incidents"]] == ["abc"]
    assert {one["code"] for one in wrong["configuration"]} >= {"CONSUME_OFF", "STRATEGIES_DIFFER"}
    assert explained["row_of"]["table"] == "drift_incident"
    assert any("incident_id=abc" in line for line in story["markdown"])
    assert message["messages"][0]["place"]["offset"] == 3
    assert "queue_offset" in tables["columns"]
    assert sql["rows"] == [{"incident_id": "abc", "sentence": ORDERS}] and sql["versions"]["drift_incident"] >= 0
    assert wrong["incidents"][0]["sentence"] == ORDERS  # as data, in its field


def test_what_would_write_read_a_file_or_never_end_is_refused_or_cut(asked_lake):
    secret = asked_lake / "secret.csv"
    refused = [
        f"SELECT * FROM read_csv('{secret}')",
        f"SELECT * FROM '{secret}'",
        f"SELECT * FROM read_text('{secret}')",
        f"SELECT * FROM glob('{asked_lake}/*')",
        f"ATTACH '{asked_lake}/own.db'",
        f"COPY (SELECT 1) TO '{asked_lake}/out.csv'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "SELECT 1; DROP TABLE drift_incident",
        "CREATE TABLE t AS SELECT 1",
        "SELECT * FROM secret_frame",
    ]
    _, *answers, rows = asked(
        asked_lake,
        *(("sql", {"query": query}) for query in refused),
        ("sql", {"query": "SELECT range AS n FROM range(100000)", "most": 50}),
        options=("--seconds", "300"),
    )
    for query, answer in zip(refused, answers, strict=True):
        assert isinstance(answer, str) and answer.startswith("error: "), query
        assert "secret\n" not in answer
    endless = ("sql", {"query": "SELECT COUNT(*) FROM range(1000000000000) a, range(1000000) b"})
    _, cut = asked(asked_lake, endless, options=("--seconds", "1"))
    assert cut.startswith("error: ") and "cut after 1 s" in cut
    assert len(rows["rows"]) == 50 and rows["cut"] == {"rows": "the first 50"}
    assert sorted(p.name for p in asked_lake.iterdir()) == ["lake", "secret.csv"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_answering", [False, True])
def test_a_signal_ends_it_though_nobody_ends_its_stdin(asked_lake, tmp_path, monkeypatch, number, is_answering):
    """And nothing of it stays, as with every command."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    words = [sys.executable, "-m", "hindsight.jobs.command_line", "mcp", "--lake", str(asked_lake / "lake")]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, preexec_fn=heard, **pipes) as process:
        assert process.stdin and process.stdout and process.stderr

        def send(**message: object) -> None:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()

        who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        send(id=1, method="initialize", params=who)
        assert json.loads(process.stdout.readline())["id"] == 1
        send(method="notifications/initialized")
        if is_answering:
            send(id=2, method="tools/call", params={"name": "sql", "arguments": {"query": ENDLESS}})
            time.sleep(1)
        process.send_signal(number)
        try:
            assert (process.wait(15), process.stderr.read()) == (0, "")
        finally:
            process.kill()
    assert not [*tmp_path.iterdir()]
