"""Logs as operators have them: each public layout is told for what it is, and what its lines tell is told."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from hindsight.udfs.diagnosis.log_diagnosis import diagnosis_of
from hindsight.udfs.diagnosis.log_findings import BROKER_LOG, CLIENT_LOG, NEITHER
from hindsight.udfs.diagnosis.logged_ownership import NO_CLIENT_LOG, NOT_SAID_WHETHER_PUSH
from hindsight.udfs.lines.parsed_line import ClientLogLayout
from hindsight.udfs.logs.broker_log_lines import parse_broker_log
from hindsight.udfs.logs.client_log_lines import parse_client_log
from tests.conftest import GOLDEN
from tests.diagnose.told_by_logs import found

CASES = GOLDEN / "field_cases"
LOGS = sorted(path for path in CASES.glob("*/*_log/**/*") if path.is_file() and path.suffix not in (".zip", ".bak"))
OTHERS = {"c03": NEITHER}


def findings(case, **options):
    paths = [path for path in LOGS if path.relative_to(CASES).parts[0] == case]
    return [found(str(path.relative_to(CASES)), path.read_bytes(), **options) for path in paths]


def at(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Asia/Shanghai")).timestamp() * 1000)


def case_of(path):
    return path.relative_to(CASES).parts[0]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: str(path.relative_to(CASES)))
def test_whose_log_it_is_is_told_by_its_lines(path):
    folder = path.relative_to(CASES).parts[1]
    log = found(path.name, path.read_bytes())
    assert log.kind == OTHERS.get(case_of(path), {"client_log": CLIENT_LOG, "broker_log": BROKER_LOG}[folder])
    assert log.lines == len(log_lines(path))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: str(path.relative_to(CASES)))
def test_no_row_of_the_pipeline_s_reader_is_lost_and_each_refused_line_is_counted(path):
    log = found(path.name, path.read_bytes())
    parse = parse_broker_log if "broker_log" in path.parts else parse_client_log
    parsed = list(parse(log_lines(path), zone=UTC, file=path.name))
    assert log.refused == Counter(one.refusal.code for one in parsed if one.refusal)
    rows = [record.row for one in parsed for record in one.records]
    left_out = {"lock_acquired", "heartbeat_sent", "queue_dropped", "queue_kept", "failed_message", "queue_unlocked"}
    kinds = Counter(row.get("kind", "rebalance_result") for row in rows if row.get("kind") not in left_out)
    assert Counter(one.kind for one in (*log.events, *log.memberships, *log.others)) == kinds


def log_lines(path):
    from hindsight.udfs.lines.bounded_lines import read_lines

    return list(read_lines([path.read_bytes()], gzipped=path.suffix == ".gz", max_line_bytes=1 << 20))


def test_c02_what_failed_is_told_with_broker_and_exception():
    (one,) = diagnosis_of(findings("c02")).troubles
    assert {subject: tally.count for subject, tally in one.sends.items()} == {
        ("broker-b", None, "RemotingTimeoutException", False): 1
    }
    assert [subject[:2] for subject in one.not_listed] == [("g_order", "10.1.2.3@15752#261547777682927")]
    assert list(one.locks) == [("g_order", "order_event", "broker-a", 1)]


def test_c03_a_date_from_the_file_s_name_makes_it_a_client_s_log():
    layout = ClientLogLayout(zone="Asia/Shanghai", date_from_file_name=True)
    (log,) = findings("c03", layout=layout)
    assert (log.kind, log.refused.total(), len(log.events)) == (CLIENT_LOG, 0, 3)
    assert [one.at for one in log.events] == [at("2026-11-20 15:50:29.001") + more for more in range(3)]
    assert log.wrote()[0] == at("2026-11-20 15:50:28.835")  # an ordinary line


def test_c05_a_member_left_is_the_trigger_where_the_list_is_shorter():
    diagnosis = diagnosis_of(findings("c05"))
    assert [(one.triggers, one.members_before, one.members_after) for one in diagnosis.rebalances] == [
        (("member_gone",), 3, 2)
    ]
    assert {one.reason for one in diagnosis.ownership if one.queues} >= {NOT_SAID_WHETHER_PUSH}


def test_c24_under_the_wrapping_of_docker_and_kubernetes_both_kinds_are_read():
    diagnosis = diagnosis_of(findings("c24"))
    assert sorted(log.kind for log in diagnosis.logs) == [BROKER_LOG, CLIENT_LOG]
    assert [(one.consumer_group, one.client_id, one.log is None) for one in diagnosis.members] == [
        ("g_db", "10.1.1.61@1#5", True),
        ("g_order", "10.1.2.3@7", False),
    ]


def test_c27_a_member_behind_a_proxy_is_unknown_for_want_of_its_log():
    diagnosis = diagnosis_of(findings("c27"))
    (one,) = diagnosis.ownership
    assert (one.key.client_id, one.reason) == ("node7@19191@0@8abc12", NO_CLIENT_LOG)
    assert one.until is not None  # it unregistered


def test_c28_one_line_in_twelve_files_is_one_line():
    diagnosis = diagnosis_of(findings("c28"))
    assert len(diagnosis.logs) == 11
    assert len(diagnosis.troubles) == len(diagnosis.rebalances) == 1


@pytest.mark.parametrize("case", ["c12", "c13"])
def test_c12_c13_another_language_s_client_is_named_as_such(case):
    diagnosis = diagnosis_of(findings(case))
    assert diagnosis.cannot_tell[-1].code == "OTHER_CLIENT" and "Go, C++ or gRPC" in diagnosis.cannot_tell[-1].sentence
    assert {subject[0] for subject in diagnosis.other_clients} == {"CPP" if case == "c12" else "GO"}
    assert not (diagnosis.ownership or diagnosis.members)  # they own queues by other rules
