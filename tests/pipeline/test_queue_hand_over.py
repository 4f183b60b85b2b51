"""Where clients began to read what they took, by the view ``queue_hand_over``: logs and readings in, as they land."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from hindsight import Lake
from hindsight.jobs.command_line import app_of
from tests.conftest import GOLDEN
from tests.diagnose.told_by_logs import told as diagnosed
from tests.pipeline.test_rebalances_of_the_captures import ORACLE, lake_of

T = 1795252692000  # 2026-11-21
LAST, FIRST, TIMESTAMP = (f"CONSUME_FROM_{rule}" for rule in ("LAST_OFFSET", "FIRST_OFFSET", "TIMESTAMP"))
TAKEN, MOVED = T + 60_000, T + 200_000
SENT = (45, 580, 595)  # offsets of messages


def rows_of(lake: str, query: str) -> list[dict]:
    answer = Lake(lake).sql(query).arrow()
    return (answer.read_all() if hasattr(answer, "read_all") else answer).to_pylist()


def written(at: int, message: str) -> str:
    stamp = datetime.fromtimestamp(at / 1000, UTC)
    return f"{stamp:%Y-%m-%d %H:%M:%S},{stamp.microsecond // 1000:03d} INFO RocketmqClient - {message}\n"


class Story:
    """One group for each case, one queue each; ``one`` takes it at ``TAKEN``, and ``two`` at ``MOVED``."""

    def __init__(self) -> None:
        self.logs: dict[str, list[str]] = {}
        self.progress: list[dict] = []
        self.members: list[dict] = []

    def group(self, group: str, rule: str | None = LAST, topic: str = "T") -> Group:
        if rule:
            member = {"consumer_group": group, "client_id": "c1", "broker_name": "b", "captured_at": T}
            self.members.append(member | {"consume_from_where": rule})
        return Group(self, group, topic.replace("GROUP", group))


class Group:
    def __init__(self, story: Story, group: str, topic: str) -> None:
        self.story, self.name, self.topic = story, group, topic
        self.queue = f"MessageQueue [topic={topic}, brokerName=b, queueId=0]"

    def line(self, client: str, at: int, message: str) -> Group:
        self.story.logs.setdefault(f"{self.name}-{client}", []).append(written(at, message))
        return self

    def read(self, at: int, offset: int, end: int = 1_000) -> Group:
        queue = {"consumer_group": self.name, "topic": self.topic, "broker_name": "b", "queue_id": 0}
        self.story.progress.append(queue | {"captured_at": at, "consumer_offset": offset, "broker_offset": end})
        return self

    def holds(self, client: str, at: int, *, nothing: bool = False) -> Group:
        told = f"group={self.name}, topic={self.topic}, clientId={self.name}-{client}, mqAllSize=1, cidAllSize=1"
        queues = "" if nothing else self.queue
        size = f"rebalanceResultSize={int(not nothing)}, rebalanceResultSet=[{queues}]"
        return self.line(client, at, f"rebalanced result changed. allocateMessageQueueStrategyName=AVG, {told}, {size}")

    def takes(self, client: str, at: int, offset: int | None = None) -> Group:
        pull = f"PullRequest [consumerGroup={self.name}, messageQueue={self.queue}, nextOffset={offset}]"
        if offset is not None:
            self.line(client, at - 5, f"doRebalance, {self.name}, add a new pull request {pull}")
        return self.holds(client, at)

    def gives(self, client: str, at: int, offset: int) -> Group:
        told = f"Group: {self.name} ClientId: {self.name}-{client} updateConsumeOffsetToBroker {self.queue} {offset}"
        return self.line(client, at - 5, f"[persist] {told}").holds(client, at, nothing=True)


def told(story: Story) -> None:
    """The cases, by what their groups are called."""
    for name, rule in (("last", LAST), ("time", TIMESTAMP), ("first", FIRST), ("rule", None)):
        story.group(name, rule).read(T, 0).takes("one", TAKEN, 700)
    story.group("zero").read(T, 0).takes("one", TAKEN, 0)
    story.group("none").takes("one", TAKEN, 700)
    story.group("retry", LAST, "%RETRY%GROUP").read(T, 0).takes("one", TAKEN, 9)
    story.group("again", TIMESTAMP, "%RETRY%GROUP").read(T, 0).takes("one", TAKEN, 9)
    story.group("other").read(T, 0).takes("one", T + 20_000, 0).gives("one", T + 30_000, 40).takes("two", TAKEN, 70)
    moved = story.group("moved").read(T, 500).takes("one", TAKEN, 500).gives("one", MOVED - 30, 600)
    moved.takes("two", MOVED)
    reset = story.group("reset").read(T, 500).takes("one", TAKEN, 500).gives("one", MOVED - 60_000, 600)
    reset.read(MOVED - 20_000, 650).takes("two", MOVED).read(MOVED + 9_000, 660)
    early = story.group("early").read(T, 500).takes("one", TAKEN, 500).takes("two", MOVED - 30)
    early.gives("one", MOVED, 600).read(MOVED - 9_000, 570).read(MOVED + 9_000, 590).read(MOVED + 20_000, 640)
    story.group("bound").read(MOVED - 9_000, 570).takes("two", MOVED).read(MOVED + 9_000, 590)
    story.group("back").read(MOVED - 9_000, 570).takes("two", MOVED).read(MOVED + 9_000, 60)
    story.group("idle").read(MOVED - 9_000, 0).takes("two", MOVED).read(MOVED + 9_000, 0, 1_234)
    # Right beside it, a clock's difference may be why.
    story.group("near").read(MOVED - 500, 570).takes("two", MOVED).read(MOVED + 9_000, 590)


def sent(offset: int) -> dict:
    """A message that was stored at an offset of the queue, by its producer's recorder; its id is of the day."""
    place = {"topic": "T", "broker": "b", "queueId": 0, "queueOffset": offset, "status": "SEND_OK"}
    send = {"mode": "SYNC", "times": 0, "beginMs": T, "endMs": T + 5, "msgId": f"M{offset}"}
    return {"type": "attempt", "group": "pg", "clientId": "p@1"} | place | send


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> str:
    """The story, landed and derived."""
    folder, story = tmp_path_factory.mktemp("hand_overs"), Story()
    told(story)
    lake, landing = str(folder / "lake"), folder / "landing"
    for table, rows in (("queue_progress", story.progress), ("consumer_heartbeat", story.members)):
        place = landing / f"canonical_snapshots/cluster=c/{table}"
        place.mkdir(parents=True)
        (place / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    hook = landing / "producer_hook/cluster=c"
    hook.mkdir(parents=True)
    (hook / "s.jsonl").write_text("".join(json.dumps(sent(offset)) + "\n" for offset in SENT))
    for name, lines in story.logs.items():
        place = landing / f"client_log/cluster=c/{name}"
        place.mkdir(parents=True)
        (place / "rocketmq_client.log").write_text("".join(lines))
    for job in ("ingest-send-records", "ingest-consumer-snapshots", "flag-allocation-drift"):
        words = [job, "--landing", str(landing), "--lake", lake, "--engine", "local"]
        done = CliRunner().invoke(app_of(job), words)
        assert done.exit_code == 0, done.output
    assert not rows_of(lake, "SELECT * FROM quarantine")
    return lake


@pytest.fixture(scope="module")
def begun(lake) -> dict[tuple[str, str], dict]:
    """Rows of the view by group and client."""
    rows = rows_of(lake, "SELECT * FROM queue_hand_over")
    return {(row["consumer_group"], row["client_id"].rpartition("-")[2]): row for row in rows}


WHERE = ("known_by", "began_at_least", "began_at_most")
WHY = ("began_by", "unknown_for")
COST = ("skipped_at_least", "skipped_at_most", "again_at_least", "again_at_most")


@pytest.mark.parametrize(
    ("group", "why", "skipped"),
    [
        ("last", ("last", None), 700),
        ("time", ("timestamp", None), 700),
        ("first", ("stored", None), None),  # without an offset it would have begun at 0
        ("rule", ("unknown", "no_rule"), None),
        ("zero", ("first", None), None),  # so does a group that begins at the end where a broker answers 0
        ("none", ("unknown", "no_reading"), None),
        ("retry", ("stored", None), None),  # LAST is 0 there
        ("again", ("last", None), 9),  # TIMESTAMP is the end there
    ],
)
def test_why_a_client_began_there_follows_from_its_rule_and_what_was_stored(begun, group, why, skipped):
    row = begun[group, "one"]
    assert (tuple(row[name] for name in WHY), row["skipped_at_least"], row["skipped_at_most"]) == (
        why,
        skipped,
        skipped,
    )
    assert row["known_by"] == "log" and row["began_at_least"] == row["began_at_most"]


@pytest.mark.parametrize(
    ("group", "where", "cost"),
    [
        ("other", ("log", 70, 70), (30, 30, 0, 0)),
        ("moved", ("stored", 600, 600), (0, 0, 0, 0)),
        ("reset", ("readings", 650, 660), (50, 60, 0, 0)),  # somebody set another one meanwhile
        ("early", ("readings", 570, 590), (None, None, 10, 30)),
        ("bound", ("readings", 570, 590), (None,) * 4),
        ("idle", ("readings", 0, 1_234), (None,) * 4),
        ("back", (None, None, None), (None,) * 4),
        ("near", (None, None, None), (None,) * 4),
    ],
)
def test_where_a_client_began_is_exact_by_its_log_or_what_was_stored_else_between_two_readings(
    begun, group, where, cost
):
    row = begun[group, "two"]
    assert tuple(row[name] for name in WHERE) == where
    assert tuple(row[name] for name in COST) == cost


def test_a_reading_of_0_does_not_say_whether_an_offset_was_stored(begun):
    assert [begun["idle", "two"][name] for name in WHY] == ["unknown", "zero_or_none"]


@pytest.fixture(scope="module")
def lives(lake) -> dict[int, tuple[dict, str]]:
    """What is said of each message, to machines and to people."""

    def said(offset: int, *form: str) -> str:
        return CliRunner().invoke(app_of("message"), ["message", f"M{offset}", "--lake", lake, *form]).output

    return {offset: (json.loads(said(offset, "--json")), said(offset)) for offset in SENT}


@pytest.mark.parametrize(
    ("offset", "group", "line"),
    [
        (45, "last", "skipped: last-one began at 700, no offset was stored (client_log/cluster=c/last-one/"),
        (45, "other", "skipped: other-two began at 70, other-one had stored 40 (client_log/cluster=c/other-two/"),
        (580, "early", "perhaps read again: early-two began at 570 to 590, early-one stored 600 later (client_log/"),
        (595, "early", "read again: early-two began at 570 to 590, early-one stored 600 later (client_log/"),
        (45, "moved", ""),
    ],
)
def test_a_message_that_a_hand_over_skipped_or_brought_again_says_so(lives, offset, group, line):
    as_json, as_text = lives[offset]
    told = [each["told"] for each in as_json["groups"][group]["moved"]]
    assert [each[: len(line)] for each in told] == ([line] if line else [])
    (verdict,) = as_json["groups"][group]["verdicts"]
    assert verdict["verdict"] == "unknown"  # no recorder says whether it was given to anybody
    assert line in as_text


def test_diagnose_tells_of_logs_alone_what_the_view_tells_by_what_was_stored_and_named(begun):
    story = Story()
    told(story)
    for name, began in (("behind", 500), ("ahead", 700)):  # the one before gives up only then
        group = story.group(name).takes("one", TAKEN, 500).takes("two", MOVED - 30, began)
        group.gives("one", MOVED, 600)
    of_logs = diagnosed({f"{name}.log": "".join(lines).encode() for name, lines in story.logs.items()}).moved_begins
    found = {(one.consumer_group, one.client_id): (one.skipped, one.read_again) for one in of_logs}
    assert found.pop(("behind", "behind-two")) == (0, 100)
    assert found == {
        (group, row["client_id"]): (row["skipped_at_least"], row["again_at_least"])
        for (group, _), row in begun.items()
        if row["known_by"] == "log" and row["stored_offset"] is not None
    }
    assert found == {("other", "other-two"): (30, 0)}


def test_readings_of_a_real_cluster_hold_each_offset_that_a_log_names(tmp_path):
    lake_of(tmp_path, **ORACLE)
    named = rows_of(str(tmp_path / "lake"), "SELECT * FROM queue_hand_over WHERE known_by = 'log'")
    assert len(named) == 234
    before = [row for row in named if row["read_before"] is not None]
    after = [row for row in named if row["read_after"]]
    assert (len(before), len(after)) == (136, 120)
    assert all(row["read_before"] <= row["began_at_least"] for row in before)
    assert all(row["began_at_most"] <= row["read_after"] for row in after)
    assert {row["skipped_at_least"] for row in named} == {0, None}


@pytest.mark.parametrize("name", ["go_2.1.2", "cpp_2.2.0"])
def test_logs_of_go_and_cpp_name_where_their_members_began(tmp_path, name):
    lake_of(tmp_path, client_log=GOLDEN / "other_clients" / f"sample_client_log_{name}.log.gz")
    rows = rows_of(str(tmp_path / "lake"), "SELECT * FROM queue_hand_over")
    assert [(row["known_by"], row["began_by"], row["began_at_least"]) for row in rows] == [("log", "first", 0)] * 17
