"""More than one output in a file: each is read under its own question, or refused; none under another's."""

from __future__ import annotations

import random
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.formats.mqadmin_lines import as_shown, moves_over_screen, parse_mqadmin
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.lines.parsed_line import LandedFile
from tests.random_examples import examples
from tests.readers.line_checks import check_bytes
from tests.readers.mqadmin_printer import (
    MEMBERS,
    RELEASES,
    all_groups,
    broker_stats,
    connection,
    producers,
    progress,
    route_json,
    route_list,
    running_info,
    status,
    topic_status,
)

AT = 1795168800000  # 2026-11-20T10:00:00Z
SHANGHAI = ZoneInfo("Asia/Shanghai")
NEW, OLD = RELEASES[-2], RELEASES[2]
FILE = LandedFile("day.txt", None, AT)


def parse(text, file=FILE, zone=SHANGHAI):
    return check_bytes(partial(parse_mqadmin, zone=zone, file=file), text.encode(), FORMATS["mqadmin"].tables)


def rows(parsed, table):
    return [record.row for line in parsed for record in line.records if record.table == table]


def refused(parsed):
    return {line.refusal.code for line in parsed if line.refusal}


def asked(parsed):
    return [
        (row["kind"], row["subject"], row["captured_at"], row["answered"]) for row in rows(parsed, "snapshot_capture")
    ]


def queues(topic):
    return [(topic, "broker-a", n, 10, 9, None, None) for n in range(2)]


def test_a_terminal_is_read_prompt_by_prompt():
    text = (
        "Last login: Fri Nov 20 09:00:00 2026 from 10.0.0.9\n"
        "[root@mq bin]# sh mqadmin consumerProgress -n 10.1.0.1:9876 -g g_a\n"
        "RocketMQLog:WARN No appenders could be found for logger\n"
        + progress(NEW, queues("T_a"))
        + "[root@mq bin]# sh mqadmin consumerProgress -n 10.1.0.1:9876 -g g_b\n"
        + progress(NEW, queues("T_b"))
        + "[root@mq bin]# ls\nREADME runserver.sh\n[root@mq bin]# sh mqadmin topicRoute -n 10.1.0.1:9876 -t T_a\n"
        + route_json(NEW)
        + "[root@mq bin]# sh mqadmin topicRoute -t T_b -l\n"
        + route_list(NEW)
        + "[root@mq bin]# exit\n"
    )
    parsed = parse(text)
    assert refused(parsed) == set()
    assert {(r["consumer_group"], r["topic"]) for r in rows(parsed, "queue_progress")} == {
        ("g_a", "T_a"),
        ("g_b", "T_b"),
    }
    assert {(r["topic"], r["name_server"]) for r in rows(parsed, "topic_route")} == {
        ("T_a", "10.1.0.1:9876"),
        ("T_b", None),
    }


def test_a_loop_without_prompts_is_read_where_the_output_names_the_group():
    named = [("%RETRY%g_b", "broker-a", 0, 0, 0, None, None), *queues("T_b")]
    parsed = parse(
        progress(NEW, queues("T_a")) + progress(NEW, named), LandedFile("x.txt", "consumerProgress -g g_a", AT)
    )
    assert {(r["consumer_group"], r["topic"]) for r in rows(parsed, "queue_progress")} == {
        ("g_b", "%RETRY%g_b"),
        ("g_b", "T_b"),
    }
    assert refused(parsed) == {"NO_SUBJECT"}


def test_a_shells_variable_names_nobody():
    loop = "$ for g in g_a g_b; do ./mqadmin consumerProgress -g $g; done\n"
    parsed = parse(loop + progress(NEW, queues("T_a")) + progress(NEW, queues("T_b")))
    assert rows(parsed, "queue_progress") == [] and refused(parsed) == {"NO_SUBJECT"}


def test_two_commands_of_a_line_are_their_outputs_in_order():
    line = "bash-4.2$ mqadmin topicRoute -t A; mqadmin topicRoute -t B 2>&1\n"
    parsed = parse(line + route_json(NEW) + route_json(NEW))
    assert [c[1] for c in asked(parsed)] == ["A", "B"]
    parsed = parse(line + route_json(NEW))
    assert rows(parsed, "topic_route") == [] and refused(parsed) == {"NO_SUBJECT"}


def test_one_file_a_day_is_the_same_question_at_each_date():
    day = "".join(f"Fri Nov 20 18:{m:02}:00 CST 2026\n{progress(NEW, queues('T'))}\n" for m in range(3))
    parsed = parse(day, LandedFile("day.txt", "consumerProgress -g g", AT))
    assert asked(parsed) == [("consumeStats", "g", AT + m * 60_000, True) for m in range(3)]
    assert len(rows(parsed, "queue_progress")) == 6 and refused(parsed) == set()
    # A loop over topics is through in seconds: these are others' routes.
    loop = "".join(f"2026-11-20 18:00:0{s}\n{route_json(NEW)}" for s in range(2))
    assert rows(parse(loop, LandedFile("r.txt", "topicRoute -t T", AT)), "topic_route") == []


def test_what_fails_at_one_date_of_a_day_failed_then():
    error = (
        "org.apache.rocketmq.tools.command.SubCommandException: ConsumerProgressSubCommand command failed\n"
        "\tat org.apache.rocketmq.tools.command.MQAdminStartup.main0(MQAdminStartup.java:170)\n"
        "Caused by: org.apache.rocketmq.remoting.exception.RemotingConnectException: connect to null failed\n"
    )
    day = f"=== 2026-11-20 18:00:00 ===\n{error}=== 2026-11-20 18:01:00 ===\n{progress(NEW, queues('T'))}"
    parsed = parse(day, LandedFile("day.txt", "consumerProgress -g g", AT))
    assert asked(parsed) == [("consumeStats", "g", AT, False), ("consumeStats", "g", AT + 60_000, True)]


def test_the_same_question_again_needs_an_instant():
    prompt = "$ mqadmin consumerProgress -g g\n"
    parsed = parse(f"{prompt}{progress(NEW, queues('T'))}{prompt}{progress(NEW, queues('T'))}")
    assert len(rows(parsed, "queue_progress")) == 2 and refused(parsed) == {"NO_CAPTURE_TIME"}


def test_letters_that_are_not_the_zones_own_tell_no_time():
    day = f"Fri Nov 20 18:00:00 CST 2026\n{progress(NEW, queues('T'))}"
    file = LandedFile("consumerProgress_g.txt")
    assert [c[2] for c in asked(parse(day, file))] == [AT]
    assert refused(parse(day, file, ZoneInfo("UTC"))) == {"NO_CAPTURE_TIME"}


def test_watch_tells_command_and_time():
    header = "Every 2.0s: sh mqadmin consumerConnection -g g          mq-1: Fri Nov 20 18:00:{}0 2026\n\n"
    parsed = parse("".join(header.format(n) + connection(NEW, MEMBERS[:n]) for n in (1, 2)), LandedFile("w.txt"))
    assert asked(parsed) == [("consumerConnection", "g", AT + n * 10_000, True) for n in (1, 2)]
    assert len(rows(parsed, "consumer_heartbeat")) == 3


def test_a_typescript_is_read_as_the_terminal_showed_it():
    prompt = "\x1b]0;root@mq:~/bin\x07\x1b[?2004h\x1b[01;32m[root@mq bin]\x1b[00m# "
    typed = "sh mqadmin consumerProgresx\b\x1b[Ks -g g_x\b\b\b\x1b[Kg_a\r\n\x1b[?2004l\r"
    text = 'Script started on 2026-11-20 18:00:00+08:00 [TERM="xterm" COLUMNS="200" LINES="50"]\n'
    text += prompt + typed + progress(NEW, queues("T")).replace("\n", "\r\n")
    text += prompt + 'exit\r\n\nScript done on 2026-11-20 18:00:09+08:00 [COMMAND_EXIT_CODE="0"]\n'
    parsed = parse(text, LandedFile("typescript.txt"))
    assert asked(parsed) == [("consumeStats", "g_a", AT, True)]
    assert len(rows(parsed, "queue_progress")) == 2 and refused(parsed) == set()


def test_what_was_drawn_over_a_screen_is_refused():
    screen = "$ mqadmin consumerProgress -g g\n\x1b[H\x1b[2J" + progress(NEW, queues("T")).replace(
        "\nT", "\n\x1b[5;1HT"
    )
    parsed = parse(screen)
    assert rows(parsed, "queue_progress") == [] and refused(parsed) == {"OUTPUT_CUT_SHORT"}


def test_what_another_program_filtered_is_refused():
    for then, is_read in (("| grep T", False), ("| tee a.txt", True), ("2>&1 | head -5", False), ("2>/dev/null", True)):
        parsed = parse(f"$ mqadmin consumerProgress -g g {then}\n{progress(NEW, queues('T'))}")
        assert bool(rows(parsed, "queue_progress")) == is_read, then
    assert asked(parse("$ mqadmin consumerProgress -g g > a.txt\n$ exit\n")) == []
    assert asked(parse("$ mqadmin consumerProgress -g g\n$ exit\n")) == [("consumeStats", "g", AT, False)]


def test_below_the_end_of_a_table_stands_no_row():
    parsed = parse(
        progress(NEW, queues("T")) + progress(NEW, queues("U")).split("\n", 1)[1],
        LandedFile("x", "consumerProgress -g g", AT),
    )
    assert {r["topic"] for r in rows(parsed, "queue_progress")} == {"T"}
    assert refused(parsed) == {"BAD_ROW"}


OUTPUTS = {
    "consumerProgress -g {}": lambda release, name: progress(release, queues(f"T_{name}")),
    "consumerConnection -g {}": lambda release, name: connection(
        release, [(f"{name}@7", "10.0.0.1:5", "JAVA", "V4_9_8")]
    ),
    "topicRoute -t {}": lambda release, name: route_json(release),
    "topicRoute -l -t {}": lambda release, name: route_list(release),
    "topicStatus -t {}": lambda release, name: topic_status(put_tps=release.inflight),
    "producerConnection -g {0} -t {0}": lambda release, name: producers(release),
    "brokerConsumeStats -b {}": lambda release, name: broker_stats(release, queues(f"T_{name}")),
    "consumerStatus -g {0} -i {0}@7": lambda release, name: running_info(name, [f"T_{name}"], [(f"T_{name}", "b", 0)]),
    "consumerStatus -g {}": lambda release, name: status(release),
    "consumerProgress": lambda release, name: all_groups(release),
}
TABLES = (
    "queue_progress",
    "consumer_heartbeat",
    "topic_route",
    "topic_status",
    "producer_connection",
    "queue_ownership",
)
PROMPTS = (
    "[root@mq bin]# sh mqadmin ",
    "$ ./mqadmin ",
    "+ sh bin/mqadmin ",
    "C:\\mq\\bin>mqadmin.cmd ",
    "rocketmq@mq-1:~/bin$ mqadmin ",
)


def alone(args, text):
    return parse(text, LandedFile("x.txt", args, AT))


def facts(parsed):
    return sorted(repr((table, row)) for table in (*TABLES, "snapshot_capture") for row in rows(parsed, table))


@examples(15, 60)
@given(st.data())
def test_of_outputs_below_prompts_none_is_lost_and_none_is_anothers(data):
    """Any outputs of any releases one below the other are what each is in a file of its own."""
    chosen = data.draw(
        st.lists(st.tuples(st.sampled_from(sorted(OUTPUTS)), st.sampled_from(RELEASES)), min_size=2, max_size=6)
    )
    prompt = data.draw(st.sampled_from(PROMPTS))
    text, expected = "", []
    for number, (layout, release) in enumerate(chosen):
        args = layout.format(f"g{number}")
        printed = OUTPUTS[layout](release, f"g{number}")
        text += f"{prompt}{args}\n{printed}"
        expected += facts(alone(args, printed))
    parsed = parse(text)
    assert refused(parsed) <= {"NO_CAPTURE_TIME"}  # of consumerProgress for all groups, asked twice
    assert facts(parsed) == sorted(dict.fromkeys(expected)) or refused(parsed)


@examples(15, 60)
@given(st.data())
def test_of_outputs_without_prompts_none_is_anothers(data):
    """What names itself is read; of all others no row stands, and each of their lines is refused or ignored."""
    chosen = data.draw(
        st.lists(st.tuples(st.sampled_from(sorted(OUTPUTS)), st.sampled_from(RELEASES)), min_size=2, max_size=6)
    )
    text = "".join(OUTPUTS[layout](release, f"g{number}") for number, (layout, release) in enumerate(chosen))
    asked_of = data.draw(st.sampled_from(sorted(OUTPUTS))).format("gx")
    parsed = parse(text, LandedFile("x.txt", asked_of, AT))
    for table in TABLES:
        for row in rows(parsed, table):
            group, topic = row.get("consumer_group"), row.get("topic") or ""
            # Only the one output of the file's own command may be the file's.
            kinds = [layout for layout, _ in chosen if layout.split()[0] == asked_of.split()[0]]
            assert group in (None, "g", topic.removeprefix("T_")) or (group == "gx" and len(kinds) == 1)
    told = [line for line in parsed if line.records or line.refusal]
    assert told != [] or all(layout in ("consumerProgress", "consumerStatus -g {}") for layout, _ in chosen)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[32mok\x1b[0m \x1b]0;title\x07x", "ok x"),
        ("abcd\b\b\x1b[Kx", "abx"),
        ("mqadmyn\x1b[2D\x1b[1P\x1b[1@i", "mqadmin"),
        ("old text\rnew", "new text"),
        ("a\x1b[3Cb\x00", "a   b"),
        ("x" * 60 + " \ry", "x" * 60 + "y"),
    ],
)
def test_a_line_is_what_the_terminal_showed(raw, shown):
    assert as_shown(raw) == shown
    assert not moves_over_screen(raw)


def test_time_is_linear_in_a_lines_length():
    rng = random.Random(5)
    text = "".join(
        rng.choice(["\x1b[K", "x" * 9, "\b", "\r", "ab", "\x1b[9999C", "\x1b]0;", "\x1b[1P", " \r"])
        for _ in range(100_000)
    )
    assert len(as_shown(text)) < 1 << 20
