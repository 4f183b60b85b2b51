"""Patterns as logback and log4j2 have them: a line is written by its pattern and read back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from time import process_time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hindsight.udfs.lines.bounded_lines import Line, read_lines
from hindsight.udfs.lines.parsed_line import ClientLogLayout, RefusedLineError
from hindsight.udfs.logs.client_log_lines import parse_client_log
from hindsight.udfs.logs.log_layouts import check_layout, layout_of
from hindsight.udfs.logs.log_patterns import PatternError, declared_layout
from hindsight.udfs.logs.log_stamps import DayCount, date_in_name

MESSAGE = "doRebalance, g, add a new mq, MessageQueue [topic=T, brokerName=b, queueId=3]"
SHANGHAI = ZoneInfo("Asia/Shanghai")

# A conversion, and how a logger writes it.
DATES = {
    "%d{yyyy-MM-dd HH:mm:ss.SSS}": lambda t: f"{t:%Y-%m-%d %H:%M:%S}.{t.microsecond // 1000:03}",
    "%d": lambda t: f"{t:%Y-%m-%d %H:%M:%S},{t.microsecond // 1000:03}",
    "%date{ISO8601}": lambda t: f"{t:%Y-%m-%dT%H:%M:%S},{t.microsecond // 1000:03}",
    "%d{DATE}": lambda t: f"{t:%d %b %Y %H:%M:%S},{t.microsecond // 1000:03}",
    "%d{yyyyMMdd HHmmss.SSSSSS}": lambda t: f"{t:%Y%m%d %H%M%S.%f}",
    "%d{COMPACT}": lambda t: f"{t:%Y%m%d%H%M%S}{t.microsecond // 1000:03}",
    "%d{dd/MM/yy h:mm:ss,SSS a}": lambda t: (
        f"{t:%d/%m/%y} {int(f'{t:%I}')}:{t:%M:%S},{t.microsecond // 1000:03} {t:%p}"
    ),
    "%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX}": lambda t: f"{t:%Y-%m-%dT%H:%M:%S}.{t.microsecond // 1000:03}+08:00",
    '%d{"yyyy-MM-dd HH:mm:ss,SSS", Asia/Shanghai}': lambda t: f"{t:%Y-%m-%d %H:%M:%S},{t.microsecond // 1000:03}",
    "%d{yyyy-MM-dd HH:mm:ss.SSS}{GMT+8}": lambda t: f"{t:%Y-%m-%d %H:%M:%S}.{t.microsecond // 1000:03}",
}
names = st.text("abcdefgXYZ0123456789.$_", min_size=1, max_size=50)
threads = st.text("abcXYZ019-_#: ", min_size=1, max_size=30).map(str.strip).filter(bool)
LEVELS = st.sampled_from(["INFO", "WARN", "ERROR", "DEBUG"])


def padded(width):
    return lambda text: text.rjust(width) if width > 0 else text.ljust(-width)


FIELDS = {
    "[%t]": (threads, lambda v: f"[{v}]"),
    "[%15.15thread]": (threads, lambda v: f"[{v[-15:]:>15}]"),
    "%c{1}": (names, str),
    "%-40.40logger{39}": (names, lambda v: f"{v[:40]:<40}"),
    "[%X{traceId}]": (names, lambda v: f"[{v}]"),
    "%pid": (st.integers(1, 10**6), str),
    "(%F:%L)": (st.integers(1, 999), lambda v: f"(Foo.java:{v})"),
    "%clr(---){faint}": (st.just(""), lambda v: "---"),
    "%replace(%c){'a','b'}": (names, lambda v: v.replace("a", "b")),
}
LEVEL_FORMS = {"%p": padded(1), "%-5level": padded(-5), "%5p": padded(5), "%clr(${LEVEL:-%5p}){x}": padded(5)}
SEPARATORS = st.sampled_from([" ", " | ", "|", " - "])


@given(data=st.data())
def test_a_line_that_a_pattern_wrote_is_read_back(data):
    at = data.draw(st.datetimes(datetime(2015, 1, 1), datetime(2035, 1, 1), timezones=st.just(SHANGHAI)))
    at = at.replace(microsecond=at.microsecond // 1000 * 1000)
    assume(at.astimezone(UTC).astimezone(SHANGHAI) == at)
    date_form = data.draw(st.sampled_from(sorted(DATES)))
    level_form, level = data.draw(st.sampled_from(sorted(LEVEL_FORMS))), data.draw(LEVELS)
    fields = data.draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=4, unique=True))
    values = [data.draw(FIELDS[field][0]) for field in fields]
    separator = data.draw(SEPARATORS)
    assume(not any(separator.strip() and separator.strip() in str(value) for value in values))
    assume(
        separator.strip() or not any(" " in FIELDS[f][1](v).strip("[ ]") for f, v in zip(fields, values, strict=True))
    )
    tail_form = data.draw(st.sampled_from(["%n", "%n%wEx", " [%c]%n", " (%t)%n"]))
    pattern = separator.join([date_form, level_form, *fields]) + " - %m" + tail_form
    written = [DATES[date_form](at), LEVEL_FORMS[level_form](level)]
    written += [FIELDS[field][1](value) for field, value in zip(fields, values, strict=True)]
    tail = {" [%c]%n": " [a.b.C]", " (%t)%n": " (main)"}.get(tail_form, "")
    line = separator.join(written) + f" - {MESSAGE}{tail}"

    layout = ClientLogLayout(pattern=pattern, zone="Asia/Shanghai")
    check_layout(layout)
    (one,) = parse_client_log([Line(1, 0, len(line), line, None)], zone=UTC, layout=layout)
    assert one.refusal is None, (pattern, line, one.refusal)
    row = one.records[0].row
    assert row["logged_at"] == at.timestamp() * 1000, (pattern, line)
    assert (row["level"], row["text"]) == (level, MESSAGE)


def test_the_pattern_tells_the_thread_and_the_process():
    layout = ClientLogLayout(pattern="%d %p %pid [%t] %c - %m%n")
    line = f"2026-11-20 10:00:26,213 INFO 77 [a b - c] x.Y - {MESSAGE}"
    (one,) = parse_client_log([Line(1, 0, 9, line, None)], zone=UTC, layout=layout)
    assert (one.records[0].row["pid"], one.records[0].row["thread"]) == (77, "a b - c")


def test_the_padding_of_a_field_goes_on_where_the_next_is_not_padded():
    layout = declared_layout("%d{ISO8601} %-40.40logger{39} %c{1} %pid - %m%n")
    line = f"2026-11-20 10:00:26,213 {'a.b':<40} C 77 - {MESSAGE}"
    assert layout.head(line, line.index("doReb"))[3] == 77


def test_spring_boot_s_own_pattern_can_be_pasted():
    pattern = (
        "%clr(%d{${LOG_DATEFORMAT_PATTERN:-yyyy-MM-dd HH:mm:ss.SSS}}){faint} %clr(${LOG_LEVEL_PATTERN:-%5p}) "
        "%clr(${PID:- }){magenta} %clr(---){faint} %clr([%15.15t]){faint} %clr(%-40.40logger{39}){cyan} "
        "%clr(:){faint} %m%n${LOG_EXCEPTION_CONVERSION_WORD:-%wEx}"
    )
    line = f"2026-11-20 10:00:26.213  INFO 15752 --- [ebalanceService] RocketmqClient{' ' * 26} : {MESSAGE}"
    stamp, level, thread, _ = declared_layout(pattern).head(line, line.index("doReb"))
    assert (stamp.millis, level, thread) == (213, "INFO", "ebalanceService")


def test_a_level_that_is_not_written_is_empty():
    line = f"2026-11-20 10:00:26,213 x.Y - {MESSAGE}"
    layout = ClientLogLayout(pattern="%d %c - %m%n")
    (one,) = parse_client_log([Line(1, 0, 9, line, None)], zone=UTC, layout=layout)
    assert one.records[0].row["level"] == ""


def test_a_line_of_another_layout_is_read_as_without_a_pattern():
    layout = ClientLogLayout(pattern="%d{HH:mm:ss} %m%n", date_from_file_name=True, zone="Asia/Shanghai")
    line = f"2026-11-20 10:00:26,213 INFO RocketmqClient - {MESSAGE}"
    (one,) = parse_client_log([Line(1, 0, 9, line, None)], zone=UTC, layout=layout)
    assert one.records[0].row["logged_at"] == datetime(2026, 11, 20, 10, 0, 26, 213000, SHANGHAI).timestamp() * 1000


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("%d %p %c%n", "needs one %m"),
        ("%d %m %m%n", "needs one %m"),
        ("%p %m%n", "needs one %d"),
        ("%m %d%n", "needs one %d"),
        ("%d{yyyy-MM-dd} %m", "needs hour"),
        ("%d{H5Hms} %m", "stands twice"),
        ("%d{MM-dd HH:mm:ss} %m", "needs year"),
        ("%d{yyyy-MM-dd HH:mm:ss z} %m", "letter 'z'"),
        ("%d{yyyy-MM-dd HH:mm:ss}{Mars/Base} %m", "no time zone"),
        ("%d{HH:mm:ss} %m", "date_from_file_name"),
        ("%d %m%c", "must begin with a text"),
        ("%d [%t %clr(%m", "not closed"),
        ("%d ${LEVEL} %m", "what stands for"),
        ("%d " + "x" * 5000 + "%m", "longer than"),
    ],
)
def test_a_pattern_by_which_nothing_could_be_read_is_refused(pattern, why):
    with pytest.raises(PatternError if why != "date_from_file_name" else ValueError, match=why):
        check_layout(ClientLogLayout(pattern=pattern))


@given(st.text(st.sampled_from("%dmtpc{}()[]- -5.yMHs:'\"\\$,|n"), max_size=30))
def test_any_pattern_is_taken_or_refused(pattern):
    for text in (pattern, f"%d {pattern} %m%n", f"%d{{{pattern}}} %m"):
        try:
            check_layout(ClientLogLayout(pattern=text))
        except ValueError:
            continue
        line = f"2026-11-20 10:00:26,213 [main] INFO x - {MESSAGE}"
        (parsed,) = parse_client_log([Line(1, 0, 9, line, None)], zone=UTC, layout=ClientLogLayout(pattern=text))
        assert parsed.line.text == line and (parsed.records or parsed.refusal)


@pytest.mark.parametrize(
    "pattern", ["%d [%t] %p %c - [%M] %X{a} %m <%c>%n", "%t%c%X %d{HH:mm:ss,SSS} %t %c %m [%t] %c%n"]
)
def test_time_is_linear_in_the_length_of_a_line(pattern):
    layout = declared_layout(pattern)
    began = process_time()
    for piece in (" ", "[", "]", " - ", "2026-11-20 10:00:26,213 [", "10:00:26,213 ", " [", "a"):
        text = "2026-11-20 10:00:26,213 [" + piece * (200_000 // len(piece))
        layout.head(text, len(text))
        layout.time_of(text)
        layout.message_end(text, 0)
    assert process_time() - began < 2.0


# Dates from names


def test_the_date_in_a_name():
    assert date_in_name("2020-01-01/sys-info.2026-11-20.log") == date(2026, 11, 20)
    assert date_in_name("a/rocketmq_client_20261120-0.log") == date(2026, 11, 20)
    assert date_in_name("app.log.2026-11-20.gz") == date(2026, 11, 20)
    assert [date_in_name(n) for n in ("app.log", "a-2026-13-40.log", "a-2026-11-20-2026-11-21.log")] == [None] * 3


@given(st.lists(st.integers(1, 11 * 3_600_000), min_size=1, max_size=40), st.integers(0, 86_399_999))
def test_midnights_are_counted_where_no_pause_is_as_long_as_half_a_day(steps, begin):
    days, at = DayCount(date(2026, 11, 20)), begin
    for step in [0, *steps]:
        at += step
        days.see(at % 86_400_000)
        expected = date(2026, 11, 20) + timedelta(days=at // 86_400_000)
        assert days.date_of(at % 86_400_000) == (expected.year, expected.month, expected.day)


def test_a_thread_that_writes_late_after_midnight_is_of_the_day_before():
    days = DayCount(date(2026, 12, 31))
    seen = []
    for day_ms in (86_399_990, 5, 86_399_995, 10):
        days.see(day_ms)
        seen.append(days.date_of(day_ms))
    assert seen == [(2026, 12, 31), (2027, 1, 1), (2026, 12, 31), (2027, 1, 1)]


def test_a_time_that_goes_back_by_hours_leaves_the_date_unknown():
    days = DayCount(date(2026, 11, 20))
    for hour in (12, 8):
        days.see(hour * 3_600_000)
    with pytest.raises(RefusedLineError, match="BAD_TIMESTAMP"):
        days.date_of(8 * 3_600_000)
    days = DayCount(date(2026, 10, 25))  # the end of summer time
    for hour in (3, 2):
        days.see(hour * 3_600_000)
    assert days.date_of(2 * 3_600_000) == (2026, 10, 25)


@pytest.mark.parametrize("pattern", [None, "%d{HH:mm:ss.SSS} [%t] %-5p %c - %m%n"])
def test_a_log_that_passes_midnight_is_dated_by_all_its_lines(pattern):
    lines = [
        "23:59:59.900 [t] INFO  c.E - hello",
        f"00:00:00.100 [t] INFO  c.E - {MESSAGE}",
        "\tat a.B(C.java:12:30:11)",
    ]
    lines += ["09:00:00.000 [t] INFO  c.E - hello", f"21:00:00.000 [t] INFO  c.E - {MESSAGE}"]
    given_lines = [Line(i, 0, 9, text, None) for i, text in enumerate(lines, 1)]
    layout = ClientLogLayout(pattern=pattern, date_from_file_name=True)
    parsed = list(parse_client_log(given_lines, zone=UTC, file="app.2026-11-20.log", layout=layout))
    stamps = [record.row["logged_at"] for one in parsed for record in one.records]
    assert stamps == [datetime(2026, 11, 21, h, 0, 0, us, UTC).timestamp() * 1000 for h, us in ((0, 100000), (21, 0))]
    (refused,) = parse_client_log([given_lines[1]], zone=UTC, file="app.log", layout=layout)
    assert refused.refusal.code == "BAD_TIMESTAMP"


# Which entry holds, and encodings


def test_the_first_entry_that_matches_holds():
    layouts = (ClientLogLayout(cluster="b*"), ClientLogLayout(file="sys-*"), ClientLogLayout(cluster="a", file="x/*"))
    assert layout_of(layouts, "a", "x/sys-info.log") == layouts[1]
    assert layout_of(layouts, "a", "x/app.log") == layouts[2]
    assert layout_of(layouts, "b1", "sys-info.log") == layouts[0]
    assert layout_of(layouts, "a", "app.log") is None


@pytest.mark.parametrize(
    "name",
    ["utf-8", "gbk", "gb18030", "GB2312", "big5", "euc_jp", "shift_jis", "latin-1", "cp1252", "utf-16", "utf-16-le"],
)
def test_encodings_that_hold_ascii_are_taken(name):
    check_layout(ClientLogLayout(encoding=name))
    chunk = f"{MESSAGE}\r\n{MESSAGE}\n".encode(name)
    lines = read_lines([chunk], gzipped=False, max_line_bytes=1000, encoding=name)
    assert [(line.text, line.refusal) for line in lines] == [(MESSAGE, None)] * 2


@pytest.mark.parametrize(
    "name",
    ["utf-7", "cp037", "hz", "base64", "rot13", "unicode_escape", "none", "", "a\0"],
)
def test_encodings_whose_lines_cannot_be_cut_are_refused(name):
    with pytest.raises(ValueError, match=r"encoding|line's end"):
        check_layout(ClientLogLayout(encoding=name))


def test_offsets_in_the_pattern_win_over_the_zone():
    layout = ClientLogLayout(pattern="%d{yyyy-MM-dd HH:mm:ssZ} %m%n", zone="Asia/Shanghai")
    line = f"2026-11-20 10:00:26-0330 {MESSAGE}"
    (one,) = parse_client_log([Line(1, 0, 9, line, None)], zone=UTC, layout=layout)
    west = timezone(-timedelta(hours=3, minutes=30))
    assert one.records[0].row["logged_at"] == datetime(2026, 11, 20, 10, 0, 26, 0, west).timestamp() * 1000
