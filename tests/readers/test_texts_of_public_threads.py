"""What people pasted into public threads, cut small, names and addresses replaced: the right answer of each.

tests/golden/field_cases/README.md lists the threads.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from hindsight.udfs.formats.mqadmin_lines import parse_mqadmin
from hindsight.udfs.landing.landing_formats import FORMATS
from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.lines.parsed_line import LandedFile
from tests.readers.line_checks import check_bytes

AT = 1795168800000
SHANGHAI = ZoneInfo("Asia/Shanghai")


def printed(text, file=None):
    file = file or LandedFile("paste.txt", None, AT)
    return check_bytes(partial(parse_mqadmin, zone=SHANGHAI, file=file), text.encode(), FORMATS["mqadmin"].tables)


def logged(text, format_name="client_log"):
    parse = partial(PARSERS[format_name], zone=SHANGHAI, file=LandedFile("app/a.log"))
    return check_bytes(parse, text.encode(), FORMATS[format_name].tables)


def rows(parsed, table):
    return [record.row for line in parsed for record in line.records if record.table == table]


NO_RETRY_TOPIC = """org.apache.rocketmq.tools.command.SubCommandException: {name}SubCommand command failed
\tat org.apache.rocketmq.tools.command.MQAdminStartup.main0(MQAdminStartup.java:164)
Caused by: org.apache.rocketmq.client.exception.MQClientException: CODE: 17  DESC: No topic route info in name \
server for the topic: %RETRY%{group}
See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.
"""


def test_a_command_with_its_exception_is_a_read_that_failed_at_that_name_server():
    """apache/rocketmq#7830."""
    error = NO_RETRY_TOPIC.format(name="ConsumerProgress", group="g_fifo")
    parsed = printed(f"./bin/mqadmin consumerProgress -n 10.1.0.1:9876 -g g_fifo -s true\n{error}")
    (row,) = rows(parsed, "snapshot_capture")
    assert (row["kind"], row["subject"], row["name_server"]) == ("consumeStats", "g_fifo", "10.1.0.1:9876")
    assert (row["answered"], row["error_code"]) == (False, 17)
    assert [line.refusal for line in parsed if line.refusal] == []


def test_another_commands_table_above_a_failure_is_nobodys():
    """apache/rocketmq#8455: a list of topics, then the failure."""
    text = "> sh bin/mqadmin topicList -n 127.0.0.1:9876 -c\n"
    text += "#Cluster Name         #Topic                 #Consumer Group\nDefaultCluster        TestTopic     g_test\n"
    text += "> sh bin/mqadmin consumerConnection -n 127.0.0.1:9876 -g g_test\n"
    parsed = printed(text + NO_RETRY_TOPIC.format(name="ConsumerConnection", group="g_test"))
    (row,) = rows(parsed, "snapshot_capture")
    assert (row["kind"], row["consumer_group"], row["error_code"]) == ("consumerConnection", "g_test", 17)
    assert [line.refusal for line in parsed if line.refusal] == []


def test_a_rate_is_read_with_all_of_its_digits_and_one_of_two_name_servers_is_none():
    """apache/rocketmq#586: 4.x printed the rate as it is."""
    table = "#Topic  #Broker Name  #QID  #Broker Offset  #Consumer Offset  #Diff  #LastTime\n"
    table += "T  broker-a  0  9  9  0  2018-12-07 10:00:00\n\nConsume TPS: 0.7166666666666666\nDiff Total: 0\n"
    parsed = printed(f'$ sh mqadmin consumerProgress -g g -n "10.1.0.1:9876;10.1.0.2:9876"\n{table}')
    (row,) = rows(parsed, "queue_progress")
    assert row["consume_tps"] == pytest.approx(0.7166666)
    assert rows(parsed, "snapshot_capture")[0]["name_server"] is None


def test_a_command_without_mqadmin_before_it_is_one():
    """apache/rocketmq pull request 71: a session by telnet, which lists commands first."""
    text = """****************************************************
Welcome . CMD for example
1. consumerProgress -g g_hello
2. topicStatus -t T_hello
****************************************************
topicStatus -t T_hello
#Broker Name                      #QID  #Min Offset           #Max Offset             #Last Updated
broker-a                          0     0                     20                      2017-03-03 16:19:36,904
broker-a                          1     0                     19                      2017-03-03 16:19:36,916
"""
    parsed = printed(text)
    assert [(r["topic"], r["queue_id"], r["max_offset"]) for r in rows(parsed, "topic_status")] == [
        ("T_hello", 0, 20),
        ("T_hello", 1, 19),
    ]
    assert len(rows(parsed, "snapshot_capture")) == 1


def test_commands_are_known_in_any_case():
    """alibaba/rocketmq#448: mqadmin compares names without regard to case."""
    table = "#Broker Name  #QID  #Min Offset  #Max Offset  #Last Updated\nbroker-a  0  0  20\n"
    (row,) = rows(printed(f"$ sh ./mqadmin topicstatus -t T -n 10.1.0.1:9876\n{table}"), "topic_status")
    assert (row["topic"], row["max_offset"]) == ("T", 20)
    asked = printed(table, LandedFile("x.txt", "TOPICSTATUS -t T", AT))
    assert len(rows(asked, "topic_status")) == 1
    assert (
        rows(printed("$ sh ./mqadmin topicstatus -h\nusage: mqadmin topicStatus [-h] -t <arg>\n"), "snapshot_capture")
        == []
    )


def test_a_failed_read_of_a_route_in_storms_layout_is_an_event():
    """alibaba/rocketmq#294."""
    text = """2016-07-07 17:50:59.546 RocketmqClient [WARN] updateTopicRouteInfoFromNameServer Exception
com.alibaba.rocketmq.client.exception.MQClientException: CODE: 17  DESC: No topic route info in name \
server for the topic: T
\tat com.alibaba.rocketmq.client.impl.MQClientAPIImpl.getTopicRouteInfoFromNameServer(MQClientAPIImpl.java:1315)
"""
    parsed = logged(text)
    (row,) = rows(parsed, "client_event")
    assert (row["kind"], row["response_code"]) == ("route_read_failed", 17)
    assert row["logged_at"] == datetime(2016, 7, 7, 9, 50, 59, 546000, UTC).timestamp() * 1000


def test_years_of_two_digits_are_refused_and_not_ignored():
    """alibaba/rocketmq#48: which of three numbers is the year, nothing says."""
    text = "17-04-15 14:44:06,371 WARN RocketmqClient(635) - updateTopicRouteInfoFromNameServer Exception\n"
    assert [line.refusal.code for line in logged(text) if line.refusal] == ["UNKNOWN_LOG_LAYOUT"]
