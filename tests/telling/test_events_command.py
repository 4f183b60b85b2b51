"""hindsight events on a real lake, and sinks on the loopback interface that take, refuse, wait and forget."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.telling import delivery
from hindsight.jobs.telling.delivery import Cursors, deliver
from hindsight.jobs.telling.incident_noting import SinceError, number_before
from hindsight.jobs.telling.sinks import Sink, SinkError, sink_of
from hindsight.udfs.telling.incident_news import Clock, news, told_by
from tests.commands import command
from tests.pipeline.local_runs import run_here
from tests.pipeline.sample_files import SAMPLES
from tests.telling.test_incident_news import CLOCK, START, incident

SECRET = "SEC-hush-31415"
ALL = ("--since", "0", "--with-backfill")


@pytest.fixture
def quick(tmp_path):
    path = tmp_path / "quick.toml"
    path.write_text("[events]\nattempts = 2\nretry_s = 0.01\ntimeout_s = 3\n")
    return path


def begun(*arguments, **environment):
    command = [sys.executable, "-m", "hindsight.jobs.command_line", "events", "--engine", "local", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


def run(*arguments, code=0, **environment):
    done = command("events", "--engine", "local", *arguments, env={**os.environ, **environment})
    assert done.returncode == code, done.stderr
    assert SECRET not in done.stdout + done.stderr
    return done.stdout, done.stderr


def test_a_lake_is_told_once_and_again_by_number_and_instant(lake, settings):
    first, _ = run("--lake", lake, "--json", "--with-backfill")
    events = [json.loads(line) for line in first.splitlines()]
    assert [one["number"] for one in events] == list(range(1, len(events) + 1))
    assert {"opened", "resolved"} == {one["what"] for one in events}
    run_here(settings, SAMPLES, lake)
    assert run("--lake", lake, "--json", "--with-backfill")[0] == first
    behind, _ = run("--lake", lake, "--json", "--with-backfill", "--since", "10")
    assert behind.splitlines() == first.splitlines()[10:]
    since, _ = run("--lake", lake, "--json", "--with-backfill", "--since", "2026-11-21T09:32:00")
    assert [json.loads(line) for line in since.splitlines()] == [
        one for one in events if one["at"] >= "2026-11-21T09:32:00"
    ]
    assert "of history (backfill)" in run("--lake", lake)[0]


def test_the_old_name_of_the_option_sends_and_says_so(lake, quick):
    words = ("--lake", lake, "--settings", quick, "--to", "webhook:http://127.0.0.1:1/hook", "--with-backfill")
    said = run(*words, code=3)[1].splitlines()
    assert said[0] == (
        "hindsight: --to is called --sink now, as --to is a date elsewhere; the next release does not know it."
    )
    assert "did not take an event" in said[-1]


def test_two_at_once_note_each_event_once(lake):
    both = [begun("--lake", lake, "--json", "--with-backfill") for _ in range(2)]
    outs = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outs[0] == outs[1] and len(outs[0].splitlines()) > 10


def test_two_at_once_send_each_event_once(lake, server):
    events = len(run("--lake", lake, "--json", "--with-backfill")[0].splitlines())
    to = ("--lake", lake, "--sink", f"webhook:{server.url}/hook", "--with-backfill", "--wait", "60", "--read-only")
    both = [begun(*to) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    for process in both:
        process.communicate()
    keys = [headers["Idempotency-Key"] for _, headers, _ in server.taken]
    assert len(keys) == len(set(keys)) == events


def test_a_sink_that_refuses_is_told_and_the_next_run_goes_on_there(lake, server, quick):
    server.answers += [(200, ""), (503, "busy"), (200, ""), (403, f"no entry with {SECRET}")]
    to = ("--lake", lake, "--sink", f"webhook:{server.url}/hook", "--settings", quick, "--with-backfill")
    err = run(*to, "--since", "0", code=3, HINDSIGHT_SINK_TOKEN=SECRET)[1]
    assert "refuses: status 403" in err and "***" in err
    assert server.taken[0][1]["Authorization"] == f"Bearer {SECRET}"
    run(*to, HINDSIGHT_SINK_TOKEN=SECRET)
    numbers = [body["number"] for _, _, body in server.taken]
    assert numbers[:5] == [1, 2, 2, 3, 3] and numbers[5:] == list(range(4, numbers[-1] + 1))
    assert SECRET not in "".join(path.read_text() for path in lake.glob("_*/*.json"))


@pytest.mark.parametrize("cut", ["chunk", "reset"])
def test_an_answer_s_status_stands_though_its_text_is_cut(lake, server, quick, cut):
    server.answers += [(200, "take", cut), (503, "bus", cut), (200, ""), (403, "no ent", cut)]
    to = ("--lake", lake, "--sink", f"webhook:{server.url}/hook", "--settings", quick, *ALL)
    err = run(*to, code=3)[1]
    assert "refuses: status 403" in err and "Traceback" not in err and "Exception in thread" not in err
    assert [body["number"] for _, _, body in server.taken] == [1, 2, 2, 3]


def test_what_cannot_be_meant_is_refused_before_anything_is_noted(lake, tmp_path):
    for options, why in (
        (("--since", "soon"), "give an instant"),
        (("--cursor", "own"), "--since last"),
        (("--json", "--sink", "webhook:http://127.0.0.1:1"), "are for reading"),
        (("--sink", "pager"), "the settings name no sink"),
    ):
        assert why in run("--lake", lake, *options, code=64)[1]
    assert not (lake / "incident_event").exists()


def test_a_folder_in_which_nothing_was_judged_is_not_without_events(tmp_path):
    assert "nothing is known of incidents" in run("--lake", tmp_path, code=64)[1]
    assert "nothing is known of incidents" in run("--lake", tmp_path, "--read-only", code=64)[1]


def test_what_is_history_is_not_sent_and_a_cursor_of_another_stream_is_refused(lake, server):
    to = ("--lake", lake, "--sink", f"webhook:{server.url}/hook")
    out, _ = run(*to)
    assert "0 request(s) taken, up to no. 15; 15 of history" in out and not server.taken
    shutil.rmtree(lake / "incident_event")
    assert "stands at no. 15, and the stream has 0" in run(*to, "--read-only", code=64)[1]


def test_a_dead_sink_loses_nothing_and_the_next_run_begins_where_this_one_should_have(lake, server, quick):
    gone = server.url
    server.shutdown()
    server.server_close()
    err = run(
        "--lake", lake, "--sink", f"webhook:{gone}", "--settings", quick, "--since", "5", "--with-backfill", code=3
    )[1]
    assert err.splitlines()[-1].count("did not take an event in 2 attempts") == 1
    assert Cursors(LocalLake(str(lake), retention_days=7)).at(sink_of(f"webhook:{gone}", (), None).name) == 5
    assert len(run("--lake", lake, "--json", *ALL)[0].splitlines()) > 10


def test_slack_and_dingtalk_have_their_forms_and_dingtalk_is_signed(lake, server, tmp_path):
    (tmp_path / "secret").write_text(SECRET)
    own = tmp_path / "own.toml"
    own.write_text(
        f'[events]\nretry_s = 0.01\n[[events.sink]]\nname = "ding"\nform = "dingtalk"\nurl_env = "DING"\n'
        f'token_file = "{tmp_path}/secret"\nseverity = "CRITICAL"\n'
    )
    run("--lake", lake, "--sink", "slack:env:SLACK", *ALL, "--severity", "high", SLACK=f"{server.url}/services/T0")
    assert all(path == "/services/T0" and set(body) == {"text"} for path, _, body in server.taken)
    server.taken.clear()
    server.answers.append((200, '{"errcode": 130101, "errmsg": "send too fast"}'))
    run("--lake", lake, "--settings", own, "--sink", "ding", *ALL, DING=f"{server.url}/robot?access_token=t")
    assert server.taken[0][2] == server.taken[1][2]  # sent again: the robot was busy
    path, _, body = server.taken[1]
    asked = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
    digest = hmac.new(SECRET.encode(), f"{asked['timestamp']}\n{SECRET}".encode(), hashlib.sha256).digest()
    assert asked["sign"] == base64.b64encode(digest).decode() and asked["access_token"] == "t"
    assert body["msgtype"] == "text" and "CRITICAL" in body["text"]["content"]


def test_an_address_that_is_a_secret_does_not_stand_on_the_command_line(lake):
    assert "is a secret" in run("--lake", lake, "--sink", "slack:https://hooks.example/services/T0", code=64)[1]


# -- without a lake of rows: a stream of one incident --------------------------------------------------------------


def sink(server, form):
    url = f"{server.url}/api/v2/alerts" if form == "alertmanager" else server.url
    return Sink("own", form, url, None, "INFO")


def stream(*history):
    noted = []
    for now in history:
        noted += news(told_by(noted), now, Clock(CLOCK.now, CLOCK.backfill_after))
    return noted


def test_from_an_instant_all_is_sent_although_late_records_told_of_earlier_ones_behind_it():
    events = stream([incident(20)], [incident(1, 2), incident(20)], [incident(1, 2), incident(20, 25)])
    hours = [(event.at - START) / timedelta(hours=1) for event in events]
    assert hours == [20, 1, 2, 25]
    assert [number_before(START + timedelta(hours=hour), events) for hour in (1, 20, 21, 26)] == [0, 0, 3, 4]
    with pytest.raises(SinceError):
        number_before(5, events)


def test_a_crash_between_sending_and_remembering_sends_that_event_again_with_its_id(
    server, settings, tmp_path, monkeypatch
):
    events = stream([incident(20)], [incident(20, severity="CRITICAL")], [incident(20, 25, "CRITICAL")])
    cursors = Cursors(LocalLake(str(tmp_path), retention_days=7))
    move = Cursors.move

    def crash(self, name, number):
        if number == 2:
            raise KeyboardInterrupt
        move(self, name, number)

    monkeypatch.setattr(delivery.Cursors, "move", crash)
    with pytest.raises(KeyboardInterrupt):
        deliver(sink(server, "webhook"), events, 0, cursors, settings.events)
    monkeypatch.undo()
    assert cursors.at("own") == 1
    deliver(sink(server, "webhook"), events, cursors.at("own"), cursors, settings.events)
    assert [body["number"] for _, _, body in server.taken] == [1, 2, 2, 3]
    assert [headers["Idempotency-Key"] for _, headers, _ in server.taken] == [
        events[place].event_id for place in (0, 1, 1, 2)
    ]


def test_alertmanager_is_sent_what_is_open_and_the_end_of_what_was(server, settings, tmp_path):
    events = stream([incident(20)], [incident(20, severity="CRITICAL")], [incident(20, 25, "CRITICAL")])
    cursors = Cursors(LocalLake(str(tmp_path), retention_days=7))
    for until in (1, 2, 3):
        deliver(sink(server, "alertmanager"), events[:until], cursors.at("own") or 0, cursors, settings.events)
    assert {path for path, _, _ in server.taken} == {"/api/v2/alerts"}
    first, second, third = (body for _, _, body in server.taken)
    now = datetime.now(UTC).isoformat()
    assert [(one["labels"]["severity"], one["endsAt"] > now) for one in first] == [("high", True)]
    assert [(one["labels"]["severity"], one["endsAt"] > now) for one in second] == [("high", False), ("critical", True)]
    assert [one["endsAt"] for one in third] == ["2026-01-06T01:00:00.000Z"]
    assert third[0]["labels"] == second[1]["labels"] and third[0]["startsAt"] == second[1]["startsAt"]


def test_a_redirect_is_not_followed(server, settings, tmp_path):
    server.answers.append((307, ""))
    cursors = Cursors(LocalLake(str(tmp_path), retention_days=7))
    with pytest.raises(SinkError, match="status 307"):
        deliver(sink(server, "webhook"), stream([incident(20)]), 0, cursors, settings.events)
    assert cursors.at("own") == 0
