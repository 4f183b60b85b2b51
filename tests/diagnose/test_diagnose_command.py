"""``hindsight diagnose``: what it takes, what it prints for a person and for a machine, and how it ends."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.commands import command
from tests.conftest import CAPTURES, GOLDEN
from tests.diagnose.made_logs import A, beats, got, log
from tests.diagnose.told_by_logs import unpacked
from tests.without_spark import check_without_spark

ROOT = Path(__file__).parent.parent.parent
SCOPE = CAPTURES / "scope"
FROZEN = SCOPE / "client_log/cluster=scope/frozen.log.gz"
BROKER = SCOPE / "broker_log/cluster=scope/broker-a.log.gz"
PRODUCERS = CAPTURES / "producers/client_logs/5.3.3/rocketmq_client.log.gz"
PAGE = (ROOT / "docs/diagnose.md").read_text(encoding="utf-8")


def diagnose(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    return command("diagnose", *arguments, given=stdin)


def as_json(*arguments: object, stdin: bytes = b"") -> dict[str, list[dict]]:
    """What it tells a machine, by kind."""
    done = diagnose(*arguments, "--json", stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    told: dict[str, list[dict]] = {}
    for line in map(json.loads, done.stdout.splitlines()):
        told.setdefault(line.pop("kind"), []).append(line)
    return told


def test_neither_spark_nor_java_has_part_in_it(tmp_path):
    absent = tmp_path / "absent.log"
    for arguments, ends in (([FROZEN, BROKER], 0), ([FROZEN, "--json"], 0), ([absent], 64), ([], 64), ([tmp_path], 64)):
        check_without_spark("diagnose", *arguments, ends=ends)


def test_a_log_is_the_same_plain_packed_and_from_stdin(tmp_path):
    raw = unpacked(FROZEN)
    (tmp_path / "plain.log").write_bytes(raw)
    (tmp_path / "rotated.log.7").write_bytes(FROZEN.read_bytes())  # packed, though its name does not say so
    with zipfile.ZipFile(tmp_path / "log.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("whatever it is called", raw)
    stripped = [{k: v for k, v in one.items() if k != "log"} for one in as_json(FROZEN)["ownership"]]
    assert len(stripped) > 10
    for path in sorted(tmp_path.iterdir()):
        assert [{k: v for k, v in one.items() if k != "log"} for one in as_json(path)["ownership"]] == stripped
    told = as_json("-", stdin=raw)
    assert [{k: v for k, v in one.items() if k != "log"} for one in told["ownership"]] == stripped
    assert told["log"][0]["path"] == "stdin"


def test_keys_that_client_ids_carry_are_not_told(tmp_path):
    client = "10.0.0.1@theAccessKey|theSecretKey|g|77"
    (tmp_path / "c.log").write_text(
        "2026-01-05 10:15:00,125 INFO RocketmqClient - rebalanced result changed. "
        f"allocateMessageQueueStrategyName=AVG, group=g, topic=T, clientId={client}, mqAllSize=1, cidAllSize=1, "
        "rebalanceResultSize=1, rebalanceResultSet=[MessageQueue [topic=T, brokerName=b, queueId=0]]\n"
    )
    for arguments in ((), ("--json",)):
        told = diagnose(tmp_path / "c.log", *arguments).stdout
        assert "10.0.0.1@***|***|g|77" in told and "SecretKey" not in told and "AccessKey" not in told


def test_the_order_of_the_arguments_changes_nothing():
    assert as_json(FROZEN, BROKER) == as_json(BROKER, FROZEN, BROKER)


def test_a_folder_stands_for_the_logs_in_it_and_what_is_none_is_named(tmp_path):
    (tmp_path / "app").mkdir()
    for name in ("app/a.log", "app/b.log.gz", "notes.md", "a.log.bak"):
        (tmp_path / name).write_bytes(FROZEN.read_bytes())
    told = as_json(tmp_path)
    assert [Path(one["path"]).name for one in told["log"]] == ["a.log", "b.log.gz"]
    assert sorted(Path(one["path"]).name for one in told["left_alone"]) == ["a.log.bak", "notes.md"]
    assert "notes.md: not read: its name is no log's." in " ".join(diagnose(tmp_path).stdout.split())


def test_a_log_that_is_damaged_is_taken_as_far_as_it_goes(tmp_path):
    (tmp_path / "half.log.gz").write_bytes(FROZEN.read_bytes()[:5000])
    (log,) = as_json(tmp_path / "half.log.gz")["log"]
    assert log["reasons"] == {"TRUNCATED_GZIP": 1} and 100 < log["lines"] < 667
    assert "1 refused, TRUNCATED_GZIP" in diagnose(tmp_path / "half.log.gz").stdout


def test_which_kind_a_log_is_may_be_said_where_its_lines_leave_it_open(tmp_path):
    mixed = tmp_path / "all.log"
    mixed.write_bytes(unpacked(FROZEN) + unpacked(BROKER))
    told = as_json(mixed)
    assert told["log"][0]["log_kind"] == "both"
    assert {one["code"] for one in told["cannot_tell"]} == {"KIND_UNCLEAR"}
    assert "--client-log or --broker-log says which" in diagnose(mixed).stdout
    assert {one["log_kind"] for one in as_json("--client-log", mixed)["log"]} == {"client_log"}
    broker = as_json("--broker-log", mixed, mixed)
    assert [one["log_kind"] for one in broker["log"]] == ["broker_log"]
    assert {one["reason"] for one in broker["ownership"]} == {"NO_CLIENT_LOG"}


def test_zones_and_layouts_are_those_of_the_settings_or_of_the_option(tmp_path):
    case = GOLDEN / "field_cases/c29/client_log"
    own = tmp_path / "own.toml"
    own.write_text('[ingest]\nclient_log_zone = "Asia/Shanghai"\n')
    in_utc, by_settings, by_option = (
        as_json(case, *options)["log"][0] for options in ((), ("--settings", own), ("--zone", "Asia/Shanghai"))
    )
    assert in_utc["first_at"] == "2026-11-20T10:00:20.311Z" and in_utc["zone_assumed"]
    assert by_settings["first_at"] == by_option["first_at"] == "2026-11-20T02:00:20.311Z"
    own.write_text('[[ingest.client_log_layout]]\nfile = "sys-info*"\ndate_from_file_name = true\n')
    assert as_json(GOLDEN / "field_cases/c03/client_log", "--settings", own)["log"][0]["refused"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--zone", "Middle/Earth", FROZEN], "there is no such zone"),
        (["/no/such.log"], "'/no/such.log' cannot be read: No such file or directory"),
        ([], "name at least one log"),
        (["--silence", "0", FROZEN], "'--silence'"),
        (["--settings", ROOT / "README.md", FROZEN], "README.md"),
    ],
)
def test_wrong_usage_ends_with_64_and_says_what_is_wrong(arguments, said):
    done = diagnose(*arguments)
    assert done.returncode == 64 and done.stdout == ""
    assert said in done.stderr and "Traceback" not in done.stderr


def test_a_person_is_told_what_matters_first():
    said = diagnose(SCOPE / "client_log", SCOPE / "broker_log").stdout
    assert said.startswith("What 13 logs of 24,938 lines show, 2026-11-25 01:13:23 to 01:23:18 (UTC)\n\nIn short\n")
    short = said.partition("\n\nLogs\n")[0]
    assert "silent from 01:19:53.5 to 01:21:22.9, 89.4 s: 127.0.0.1@5.3.3_p3, 127.0.0.1@5.3.3_s3." in short
    assert "silent after 01:17:10.3, without a stop: 127.0.0.1@4.9.8_k1" in short
    assert "two clients owned one queue at once: g_view" in short
    assert "      01:17:13.0 to 01:22:00.0  broker-a:0-2; not known after\n" in said
    assert (
        "    01:17:12.9  took 0.0 s  a member's connection broke or expired (4 -> 3 members); left: 127.0.0.1@4.9.8_k1;"
        in said
    )
    assert "allotted broker-a:0-3; unknown: it pulls, and may leave queues out" in said
    assert "What these logs cannot show\n" in said and "\x1b" not in said
    assert max(map(len, said.splitlines())) <= 120


def test_sends_and_isolations_are_told_by_broker():
    told = as_json(PRODUCERS)
    failed = {(one["broker_name"], one["exception"]): one["count"] for one in told["send_failed"]}
    assert failed["broker-a", "RemotingConnectException"] == 61 and sum(failed.values()) == 129
    assert {one["broker_name"] for one in told["isolation"]} == {"broker-a", "broker-b", "broker-c"}
    assert all(one["since_at"] < one["until_at"] for one in told["isolation"] if one["state"] == "isolated")
    said = diagnose(PRODUCERS).stdout
    assert "  127 sends had 129 failed attempts; " in said and "Brokers that producers treated as unavailable\n" in said
    old = as_json(CAPTURES / "producers/client_logs/4.7.1/rocketmq_client.log.gz")
    assert [one["code"] for one in old["cannot_tell"]].count("NO_ISOLATION_LINES") == 1


def test_groups_can_be_chosen():
    told = as_json(FROZEN, "--group", "g_pu*")
    assert {one["consumer_group"] for one in told["ownership"]} == {"g_push"}
    assert {one["consumer_group"] for one in told["rebalance"]} == {"g_push"}


def test_what_stands_in_the_lines_cannot_command_a_terminal(tmp_path):
    line = b"2026-01-05 10:00:00,000 INFO RocketmqClient - the client factory [\x1b]0;owned\x07] start OK\r\n"
    result = (FROZEN, unpacked(FROZEN).replace(b"ScopeOrders", b"Scope\x1b[31mOrders"))[1]
    (tmp_path / "a.log").write_bytes(line + result)
    assert "\x1b" not in diagnose(tmp_path / "a.log").stdout


def test_the_page_lists_every_kind_of_line_and_every_field(tmp_path):
    for name, pid in (("one.log", 7), ("other.log", 8)):  # one id in two processes
        (tmp_path / name).write_bytes(log(*beats(0, 20), *got(pid, A, 0), pid=pid))
    by_kind: dict[str, set[str]] = {}
    for arguments in (
        [SCOPE / "client_log", SCOPE / "broker_log"],
        [CAPTURES / "consumers/client_logs"],
        [CAPTURES / "producers/client_logs"],
        [GOLDEN / "field_cases"],
        [tmp_path],
    ):
        for kind, lines in as_json(*arguments).items():
            by_kind.setdefault(kind, set()).update(*(line.keys() for line in lines))
    listed = {
        row[1]: set(re.findall(r"`(\w+)`", row[2]))
        for row in re.finditer(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    }
    for kind, fields in by_kind.items():
        assert fields <= listed[kind], kind
    assert by_kind.keys() == {kind for kind in listed if kind.islower()}
