"""mqadmin as its releases print: the same facts read from every layout, through noise, and from failures."""

from __future__ import annotations

import re
from datetime import UTC
from functools import partial

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hindsight.udfs.formats.mqadmin_command import BROKER_MAYBE_CUT, TOPIC_MAYBE_CUT
from hindsight.udfs.formats.mqadmin_lines import parse_mqadmin, with_command
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.lines.parsed_line import ERROR_CHARS, LandedFile
from tests.readers import mqadmin_printer as printed
from tests.readers.line_checks import GOLDEN, check_bytes, lines_of
from tests.readers.mqadmin_printer import RELEASES, SUBSCRIBED

AT = 1795253591125
TABLES = FORMATS["mqadmin"].tables
CASES = GOLDEN / "field_cases"
# command line -> what it prints
OUTPUTS = {
    "consumerConnection -g g": printed.connection,
    "consumerProgress -g g": printed.progress,
    "brokerConsumeStats -b 10.1.0.11:10911": printed.broker_stats,
    "topicRoute -t T": printed.route_json,
    "topicRoute -t T -l": printed.route_list,
    "producerConnection -g pg -t T": printed.producers,
    "consumerStatus -g g": printed.status,
    "consumerProgress": printed.all_groups,
}
ASKED = {
    "consumerConnection -g g": ("consumerConnection", "g"),
    "consumerProgress -g g": ("consumeStats", "g"),
    "brokerConsumeStats -b 10.1.0.11:10911": ("brokerConsumeStats", "10.1.0.11:10911"),
    "topicRoute -t T": ("topicRoute", "T"),
    "topicStatus -t T": ("topicStatus", "T"),
    "producerConnection -g pg -t T": ("producerConnection", "pg@T"),
    "consumerStatus -g g -i c@1": ("consumerRunningInfo", "g|c@1"),
    "consumerStatus -g g": ("consumerConnection", "consumerStatus -g g"),
    "consumerProgress": ("consumerProgress", "*"),
}


def parse(text, args, name="x.txt"):
    file = LandedFile(f"t/{name}", args, AT)
    return check_bytes(partial(parse_mqadmin, zone=UTC, file=file), text.encode(), TABLES)


def records(parsed):
    return [record for line in parsed for record in line.records]


def rows(parsed, table):
    return [record.row for record in records(parsed) if record.table == table]


def refusals(parsed):
    return [line.refusal.code for line in parsed if line.refusal]


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: r.name)
class TestEveryRelease:
    def test_lists_members_and_subscriptions(self, release):
        parsed = parse(printed.connection(release), "consumerConnection -g g")
        (capture,) = rows(parsed, "snapshot_capture")
        assert [(s["topic"], s["sub_string"]) for s in capture["subscriptions"]] == SUBSCRIBED
        assert (capture["consumer_group"], capture["message_model"], refusals(parsed)) == ("g", "CLUSTERING", [])
        members = rows(parsed, "consumer_heartbeat")
        assert [(m["client_id"], m["address"], m["language"]) for m in members] == [m[:3] for m in printed.MEMBERS]
        assert [m["client_version"] for m in members] == [409, 317]

    def test_tells_offsets(self, release):
        parsed = parse(printed.progress(release), "consumerProgress -g g")
        found = rows(parsed, "queue_progress")
        told = [
            (r["topic"], r["broker_name"], r["queue_id"], r["broker_offset"], r["consumer_offset"], r["client_ip"])
            for r in found
        ]
        assert told == [(*queue[:5], queue[5] if release.client else None) for queue in printed.QUEUES]
        assert [r["last_timestamp"] is None for r in found] == [True, False, False]
        assert {r["doubts"] for r in found if r["doubts"] is None} == {None} and refusals(parsed) == []

    def test_tells_offsets_of_all_groups_at_a_broker(self, release):
        parsed = parse(printed.broker_stats(release), "brokerConsumeStats -b 10.1.0.11:10911 -t 5000 -l 1")
        told = [
            (r["topic"], r["broker_name"], r["queue_id"], r["broker_offset"], r["consumer_offset"])
            for r in rows(parsed, "queue_progress")
            if r["consumer_group"] == "g"
        ]
        assert told == [queue[:5] for queue in printed.QUEUES]
        (capture,) = rows(parsed, "snapshot_capture")
        assert (capture["kind"], capture["subject"]) == ("brokerConsumeStats", "10.1.0.11:10911")
        assert capture.get("consumer_group") is None

    def test_tells_a_route(self, release):
        outputs = [printed.route_json(release)] + ([printed.route_list(release)] if release.has_list else [])
        for output in outputs:
            parsed = parse(output, "topicRoute -t T")
            told = [
                (r["broker_name"], r["master_address"], r["read_queue_nums"], r["write_queue_nums"])
                for r in rows(parsed, "topic_route")
            ]
            assert told == printed.BROKERS
            assert refusals(parsed) == []

    def test_lists_producers(self, release):
        parsed = parse(printed.producers(release), "producerConnection -g pg -t T")
        told = [(r["producer_group"], r["topic"], r["client_id"]) for r in rows(parsed, "producer_connection")]
        assert told == [("pg", "T", member[0]) for member in printed.MEMBERS]
        (capture,) = rows(parsed, "snapshot_capture")
        assert (capture["kind"], capture["subject"], capture["answered"]) == ("producerConnection", "pg@T", True)

    def test_sums_of_all_groups_feed_nothing(self, release):
        parsed = parse(printed.all_groups(release), "consumerProgress")
        assert (records(parsed), refusals(parsed)) == ([], [])

    def test_a_list_of_files_says_that_they_were_asked_for(self, release):
        parsed = parse(printed.status(release), "consumerStatus -g g")
        ((table, row),) = records(parsed)
        assert (table, row["kind"], row["consumer_group"], row["answered"]) == (
            *("snapshot_capture", "consumerStatus", "g"),
            True,
        )
        assert refusals(parsed) == []

    def test_cuts_names_to_its_columns(self, release):
        """What fills its column is in doubt, what does not is whole."""
        long_topic, long_broker = "t" * 70, "b" * 40
        fills, fits = "f" * release.topic, "w" * (release.topic - 1)
        other = "o" * (96 - release.topic)  # as long as the column of other releases is wide
        names = (long_topic, "b"), (fills, "b"), (fits, long_broker), (other, "b")
        queues = [(t, b, 0, 1, 1, None, None) for t, b in names]
        for output, args in (
            (printed.progress, "consumerProgress -g g"),
            (printed.broker_stats, "brokerConsumeStats -b b"),
        ):
            parsed = parse(output(release, queues), args)
            assert [(r["topic"], r["broker_name"], r["doubts"]) for r in rows(parsed, "queue_progress")] == [
                (long_topic[: release.topic], "b", [TOPIC_MAYBE_CUT]),
                (fills, "b", [TOPIC_MAYBE_CUT]),
                (fits, long_broker[:32], [BROKER_MAYBE_CUT]),
                (other[: release.topic], "b", None if release.topic == 64 else [TOPIC_MAYBE_CUT]),
            ]

    def test_a_cut_name_that_stands_for_two_is_taken_for_neither(self, release):
        two = [("t" * 70 + x, "b", q, 9, 1, None, None) for x in "xy" for q in (0, 1)]
        more = [("t" * 70 + "x", "b", 7, 9, 1, None, None), ("T", "b", 0, 9, 1, None, None)]
        parsed = parse(printed.progress(release, two + more), "consumerProgress -g g")
        assert [r["topic"] for r in rows(parsed, "queue_progress")] == ["T"]
        assert refusals(parsed) == ["AMBIGUOUS_NAME"] * 5


def test_where_white_space_was_squeezed_all_is_read_and_a_name_of_either_width_is_in_doubt():
    def squeezed(text):
        return "\n".join(" ".join(line.split()) for line in text.splitlines())

    queues = [(chr(n + 50) * n, "b", 0, 1, 1, None, None) for n in (31, 32, 64, 70)]
    found = rows(parse(squeezed(printed.progress(RELEASES[5], queues)), "consumerProgress -g g"), "queue_progress")
    assert [bool(r["doubts"]) for r in found] == [False, True, True, True]
    for release in RELEASES:
        text = printed.connection(release)
        assert records(parse(squeezed(text), "consumerConnection -g g")) == records(
            parse(text, "consumerConnection -g g")
        )


NOISE = (
    "RocketMQLog:WARN No appenders could be found for logger (io.netty.util.internal.PlatformDependent0).",
    "RocketMQLog:WARN Please initialize the logger system properly.",
    "OpenJDK 64-Bit Server VM warning: ignoring option PermSize=128m; support was removed in 8.0",
    "OpenJDK 64-Bit Server VM warning: Using incremental CMS",
    "Java HotSpot(TM) 64-Bit Server VM warning: UseCMSCompactAtFullCollection is deprecated",
    "Picked up JAVA_TOOL_OPTIONS: -Xmx256m -Dfile.encoding=UTF-8",
    'SLF4J: Failed to load class "org.slf4j.impl.StaticLoggerBinder".',
    "SLF4J: Defaulting to no-operation (NOP) logger implementation",
    "log4j:WARN Please initialize the log4j system properly.",
    "WARNING: An illegal reflective access operation has occurred",
    "[0.013s][warning][gc] -XX:+PrintGC is deprecated. Will use -Xlog:gc instead.",
    "2026-11-20 10:00:00,123 WARN NettyClientPublicExecutor_1 - closeChannel: the channel[10.1.0.1:9876] is closed",
    "14:00:00.123 [main] DEBUG io.netty.util.internal.logging.InternalLoggerFactory - Using SLF4J",
    "java.lang.IllegalStateException: it was only a warning",
    "\tat org.apache.rocketmq.tools.command.MQAdminStartup.main(MQAdminStartup.java:90)",
    "Caused by: java.net.ConnectException: Connection refused",
    "\t... 4 more",
    "",
)
commands = st.sampled_from(sorted(OUTPUTS))
releases = st.sampled_from(RELEASES)
# Words of any kind, but no line that one of the layouts has: those that begin so are not drawn.
words = st.text(st.characters(codec="utf-8", exclude_characters="\n\r#{\x00"), max_size=60)


@given(args=commands, release=releases, head=st.lists(st.sampled_from(NOISE) | words, max_size=6))
def test_lines_before_an_output_change_nothing_of_it(args, release, head):
    text = OUTPUTS[args](release)
    assume(not any("@" in line and ":" in line for line in head))
    # Between its lines consumerStatus prints an exception for each member that it could not read.
    assume("Status" not in args or not any("Exception" in line for line in head))
    assert records(parse("\n".join([*head, text]), args)) == records(parse(text, args))


@pytest.mark.parametrize("args", ["consumerConnection -g g", "consumerProgress -g g", "topicRoute -t T -l"])
def test_above_a_header_stands_no_row(args):
    text = OUTPUTS[args](RELEASES[-1])
    assert refusals(parse(f"connecting to the cluster now\nDone, waiting for 5 answers of it\n{text}", args)) == []


@given(args=commands, release=releases, data=st.data())
def test_noise_between_the_lines_changes_nothing(args, release, data):
    text = OUTPUTS[args](release)
    lines = text.splitlines()
    for noise in data.draw(st.lists(st.sampled_from([n for n in NOISE if "Exception" not in n]), max_size=8)):
        lines.insert(data.draw(st.integers(0, len(lines))), noise)
    noisy = parse("\n".join(lines), args)
    assert records(noisy) == records(parse(text, args))
    assert refusals(noisy) == []


@given(args=commands, release=releases, data=st.data())
def test_words_between_the_lines_are_refused_at_most_and_change_nothing_else(args, release, data):
    text = OUTPUTS[args](release)
    lines = text.splitlines()
    for noise in data.draw(st.lists(st.from_regex(r"[a-z]{1,9}( [a-z]{1,9}){0,5}", fullmatch=True), max_size=5)):
        lines.insert(data.draw(st.integers(0, len(lines))), noise)
    assert records(parse("\n".join(lines), args)) == records(parse(text, args))


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: r.name)
@pytest.mark.parametrize("args", OUTPUTS)
def test_the_ends_of_lines_and_a_mark_at_the_start_change_nothing(args, release):
    text = OUTPUTS[args](release)
    plain = records(parse(text, args))
    assert records(parse("\ufeff" + text.replace("\n", "\r\n"), args)) == plain
    assert records(parse("\n\n" + text, args)) == plain


CODE_206 = "CODE: 206  DESC: the consumer group[g] not online BROKER: 10.1.0.11:10911"
CODE_17 = "CODE: 17  DESC: No topic route info in name server for the topic: %RETRY%g"
FAILURES = (
    (f"org.apache.rocketmq.client.exception.MQBrokerException: {CODE_206}", CODE_206, 206),
    (f"org.apache.rocketmq.client.exception.MQClientException: {CODE_17}", CODE_17, 17),
    ("org.apache.rocketmq.remoting.exception.RemotingConnectException: connect to <10.1.0.1:9876> failed", "<10", None),
    ("org.apache.rocketmq.remoting.exception.RemotingTimeoutException: wait response timeout, 5000(ms)", "5000", None),
    ("java.lang.NullPointerException", "NullPointerException", None),
    ("com.alibaba.rocketmq.client.exception.MQBrokerException: CODE: -1  DESC: x", "CODE: -1", -1),
    (f"org.apache.rocketmq.client.exception.MQClientException: {CODE_17}\nCaused by: java.lang.Error: y", CODE_17, 17),
)
STACK = "\tat org.apache.rocketmq.tools.command.MQAdminStartup.main0(MQAdminStartup.java:139)\n"
MORE = "For more information, please visit the url, https://rocketmq.apache.org/docs/bestPractice/06FAQ\n"


def wrapped(args, error):
    """As 4.1.0 and later print it."""
    name = args.split()[0]
    outer = (
        f"org.apache.rocketmq.tools.command.SubCommandException: {name[0].upper()}{name[1:]}SubCommand command failed"
    )
    return f"{outer}\n{STACK}Caused by: {error}\n{MORE}{STACK}\t... 4 more\n"


@pytest.mark.parametrize("args", ASKED)
@pytest.mark.parametrize(("error", "said", "code"), FAILURES)
@pytest.mark.parametrize("shape", ["wrapped", "bare"])
@pytest.mark.parametrize("name", ["x.txt", "x.stderr", "x.err.gz"])
def test_a_command_that_failed_is_one_read_that_failed(args, error, said, code, shape, name):
    of_member = args == "consumerStatus -g g" and shape == "bare" and name != "x.txt"
    kind, subject = ("consumerStatus", "g") if of_member else ASKED[args]
    text = wrapped(args, error) if shape == "wrapped" else f"{error}\n{STACK}"
    for output in (text, text.replace("\n", "\r\n"), "\n".join(NOISE[:6]) + "\n" + text):
        parsed = parse(output, args, name)
        ((table, row),) = records(parsed)
        assert (table, row["kind"], row["subject"], row["answered"]) == ("snapshot_capture", kind, subject, False)
        assert (row["error_code"], said in row["error"], row["captured_at"]) == (code, True, AT)
        assert (row.get("consumer_group") == "g") == ("-g g" in args)
        assert refusals(parsed) == []


@pytest.mark.parametrize("args", ASKED)
@pytest.mark.parametrize("text", ["", "\n", "\n".join(NOISE[:9]), "RocketMQLog:WARN x\r\n\r\n"])
def test_a_command_that_printed_nothing_is_a_read_that_failed(args, text):
    ((_, row),) = records(parse(text, args))
    assert (row["kind"], row["subject"]) == ASKED[args]
    assert (row["answered"], row["error"], row["error_code"]) == (False, "mqadmin printed nothing", None)
    assert records(parse(text, args, "x.stderr")) == []  # there it is what is hoped for


@pytest.mark.parametrize(
    ("name", "code"), [("consumerConnection_g.txt", "NO_CAPTURE_TIME"), (f"{AT}/c@1", "OUTPUT_CUT_SHORT")]
)
@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_file_of_which_nothing_is_known_leaves_a_trace_too(name, code, text):
    parsed = parse_named(text, name)
    assert (records(parsed), refusals(parsed)) == ([], [code])


def test_a_failure_among_json_of_a_logger_is_a_read_that_failed():
    logged = '{"level":"WARN","msg":"closeChannel"}\n'
    ((_, row),) = records(parse(logged + wrapped("topicRoute", FAILURES[1][0]), "topicRoute -t T"))
    assert (row["kind"], row["subject"], row["error_code"]) == ("topicRoute", "T", 17)
    text = printed.route_json(RELEASES[0])
    assert records(parse(logged + text, "topicRoute -t T")) == records(parse(text, "topicRoute -t T"))


@pytest.mark.parametrize("args", ASKED)
@pytest.mark.parametrize("text", ["bash: mqadmin: command not found", "usage: mqadmin x -g <arg>\n -h\n", "x" * 9000])
def test_what_is_no_output_of_the_command_is_a_read_that_failed(args, text):
    ((_, row),) = records(parse("\n" + text, args))
    assert (row["answered"], row["error"]) == (False, text.splitlines()[0][:ERROR_CHARS])


@pytest.mark.parametrize("put_tps", [False, True], ids=["4.0.0 on", "5.3.3 on"])
def test_the_ends_of_a_topics_queues_are_told(put_tps):
    parsed = parse(printed.topic_status(put_tps=put_tps), "topicStatus -t T")
    found = rows(parsed, "topic_status")
    told = [(r["topic"], r["broker_name"], r["queue_id"], r["min_offset"], r["max_offset"]) for r in found]
    assert told == [("T", broker[:32], *ends) for broker, *ends, _ in printed.STATUS]
    assert [r["doubts"] for r in found] == [None, None, [BROKER_MAYBE_CUT]]
    assert [r["last_update_at"] is None for r in found] == [False, True, False]
    assert found[0]["last_update_at"] % 1000 == 141 and refusals(parsed) == []
    assert refusals(parse(printed.topic_status([("b", -1, 0, 0, None)]), "topicStatus -t T")) == ["NEGATIVE_QUEUE_ID"]


def test_the_rate_of_a_group_is_told_in_either_decimal_mark_and_not_of_all_groups():
    text = printed.progress(RELEASES[0])
    for rate, told in (("61.82", 61.82), ("61,82", 61.82), ("NaN", None)):
        given = re.sub(r"Consume TPS: \S+", f"Consume TPS: {rate}", text)
        assert {r["consume_tps"] for r in rows(parse(given, "consumerProgress -g g"), "queue_progress")} == {told}
    of_all = rows(parse(printed.broker_stats(RELEASES[0]), "brokerConsumeStats -b b"), "queue_progress")
    assert {r["consume_tps"] for r in of_all} == {None}


@pytest.mark.parametrize("args", ["clusterList", "statsAll -t T", "allocateMQ -t T -i a"])
def test_other_commands_are_ignored_also_where_they_fail(args):
    for text in ("", "whatever\n", wrapped(args, FAILURES[0][0])):
        parsed = parse(text, args)
        assert (records(parsed), refusals(parsed)) == ([], [])


def test_of_a_command_that_nothing_names_its_failure_tells():
    text = wrapped("consumerConnection", FAILURES[0][0])
    ((_, row),) = records(parse_named(text, f"conn_{AT}.txt"))
    assert (row["kind"], row["consumer_group"], row["error_code"]) == ("consumerConnection", "g", 206)
    topic = FAILURES[1][0].replace("%RETRY%g", "T_x")
    ((_, row),) = records(parse_named(wrapped("topicRoute", topic), f"{AT}.txt"))
    assert (row["kind"], row["subject"], row["error_code"]) == ("topicRoute", "T_x", 17)
    assert set(refusals(parse_named(FAILURES[4][0], f"{AT}.txt"))) == {"NO_SUBJECT"}


def parse_named(text, name):
    return check_bytes(partial(parse_mqadmin, zone=UTC, file=LandedFile(name)), text.encode(), TABLES)


@pytest.mark.parametrize(
    ("name", "kind", "subject"),
    [
        (f"consumerConnection_g_{AT}.txt", "consumerConnection", "g"),
        (f"consumerProgress_g_{AT}.txt.gz", "consumeStats", "g"),
        (f"topicRoute_T_list_{AT}.txt", "topicRoute", "T"),
        (f"producerConnection_pg@T_{AT}.stderr", "producerConnection", "pg@T"),
        (f"{AT}/consumerProgress.txt", "consumerProgress", "*"),
    ],
)
def test_a_name_says_what_failed(name, kind, subject):
    ((_, row),) = records(parse_named(FAILURES[3][0], name))
    assert (row["kind"], row["subject"], row["captured_at"]) == (kind, subject, AT)


@pytest.mark.parametrize(
    "args",
    [
        "consumerConnection --consumerGroup g",
        "sh mqadmin consumerConnection -n a:1 -g 'g'",
        "consumerConnection -b b -g g",
    ],
)
def test_options_are_known_by_either_name(args):
    ((_, row),) = records(parse("", args))
    assert (row["kind"], row["subject"]) == ("consumerConnection", "g")


def test_an_error_output_is_told_of_by_the_file_beside_it():
    told = lines_of(GOLDEN / "captures/mqadmin/t140/commands.jsonl")
    file = with_command(LandedFile("t/consumerConnection_g_avg.stderr.gz"), told)
    assert (file.args, file.ran_at) == ("consumerConnection -g g_avg", 1795253591125)
    assert with_command(LandedFile("t/other.stderr"), told).args is None


def test_members_whose_running_info_could_not_be_read_are_told_beside_the_table():
    text = FAILURES[3][0] + "\n" + STACK + printed.status(RELEASES[-1])
    ((_, row),) = records(parse(text, "consumerStatus -g g"))
    assert (row["kind"], row["subject"], row["consumer_group"], row["answered"]) == ("consumerStatus", "g", "g", False)


def unread(parsed):
    """Why the answers, of which nothing else is stored, could not be read."""
    return [None if r.row["answered"] or r.table != "snapshot_capture" else r.row["error"] for r in records(parsed)]


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: r.name)
def test_an_output_that_ends_too_early_is_no_answer(release):
    """The last lines are missing, and with them members or brokers."""
    for output, args in ((printed.connection, "consumerConnection -g g"), (printed.route_list, "topicRoute -t T -l")):
        lines = output(release).splitlines()
        header = 1 if output is printed.route_list or not release.glued else 5
        for kept in range(header, len(lines) - 3 if output is printed.connection else len(lines) - 1):
            parsed = parse("\n".join(lines[:kept]), args)
            assert (set(refusals(parsed)), unread(parsed)) == (
                {"OUTPUT_CUT_SHORT"},
                ["answer not readable: OUTPUT_CUT_SHORT"],
            )


def test_a_running_info_may_be_printed_or_lie_in_a_file():
    folder = CASES / "c14/cluster=c14/run/1795168803000"
    for path in folder.iterdir():
        text = path.read_text()
        in_file = records(parse_named(text, f"1795168803000/{path.name}"))
        args = f"consumerStatus -g g_order -i {path.name}"
        shown = records(parse("\n".join(NOISE) + "\n" + text, args))
        assert [(t, r | {"captured_at": 0}) for t, r in shown] == [(t, r | {"captured_at": 0}) for t, r in in_file]
        assert {r["client_id"] for _, r in shown} == {path.name}
        cut = text.partition("#Consumer RT&TPS#")[0]
        assert set(refusals(parse(cut, args))) == {"OUTPUT_CUT_SHORT"}


def outputs_of(case):
    """Parsed lines by the name of each file of a case."""
    folder = CASES / case / f"cluster={case}" / "run"
    told = lines_of(folder / "commands.jsonl")
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "commands.jsonl"):
        file = LandedFile(f"run/{path.relative_to(folder)}")
        file = with_command(file, told) if path.parent == folder else file
        found[file.path] = check_bytes(partial(parse_mqadmin, zone=UTC, file=file), path.read_bytes(), TABLES)
    return found


def test_the_case_with_noise_reads_as_the_one_without():
    noisy, plain = outputs_of("c14"), outputs_of("c14ok")
    assert {name: records(parsed) for name, parsed in noisy.items()} == {n: records(p) for n, p in plain.items()}
    assert sum(len(rows(parsed, "consumer_heartbeat")) for parsed in plain.values()) == 8
    assert sum(len(rows(parsed, "queue_progress")) for parsed in plain.values()) == 32
    assert all(refusals(parsed) == [] for parsed in noisy.values())


def test_the_case_of_an_old_release_has_both_subscriptions():
    captures = [row for parsed in outputs_of("c15").values() for row in rows(parsed, "snapshot_capture")]
    told = [[(s["topic"], s["sub_string"]) for s in c["subscriptions"]] for c in captures if "consumer_group" in c]
    assert told == [[("pay_event", "TagA || TagB"), ("%RETRY%g_pay", "*")]] * 3


def test_the_case_of_an_offline_group_holds_six_failed_reads():
    captures = [row for parsed in outputs_of("c16").values() for row in rows(parsed, "snapshot_capture")]
    failed = [(c["kind"], c["subject"], c["error_code"]) for c in captures if not c["answered"]]
    assert failed == [("consumerConnection", "g_face", 206)] * 6
    assert len(captures) == 26
