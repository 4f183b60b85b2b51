"""``hindsight message`` over a small lake: lines of both recorders and own rows in, the life of each message out."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from hindsight.jobs.asking.asking import asked
from hindsight.jobs.asking.message_life import messages
from hindsight.jobs.command_line import app_of

T = 1795252692000  # 2026-11-21
KEY = "7F000001000418B4AAC26B0F3A000001"
OTHER = "7F000001000418B4AAC26B0F3A000002"
NATIVE = "0100007F000032EA000081C0D7960100"  # of C++ 1.2: by Java's rules it would be of the 26th
BATCH, FIRST, SECOND = (f"7F000001000418B4AAC26B0F3A0000{n}" for n in ("0B", "08", "09"))
PRODUCER = {"group": "pg", "clientId": "10.0.0.1@7"}
CONSUMER = {"group": "cg", "clientId": "10.0.0.2@8"}


def attempt(msg_id: str, offset: int, **more) -> dict:
    place = {"topic": "T", "broker": "broker-a", "queueId": 0, "mode": "SYNC", "times": 0}
    times = {"beginMs": T, "endMs": T + 5, "status": "SEND_OK", "queueOffset": offset}
    return PRODUCER | place | times | {"type": "attempt", "msgId": msg_id} | more


def given(msg_id: str, offset: int, *, retry: int = 0, success: bool = True, tag: str | None = None) -> list[dict]:
    queue = {"topic": "T", "queueTopic": "%RETRY%cg" if retry else "T", "broker": "broker-a", "queueId": 0}
    own = CONSUMER | {"delivery": f"r-{msg_id}-{offset}-{retry}", "msgId": msg_id}
    at = T + 1_000 + 10_000 * retry
    begin = own | queue | {"type": "begin", "ts": at, "queueOffset": offset, "reconsumeTimes": retry, "storedMs": T + 4}
    end = own | {
        "type": "end",
        "ts": at + 9,
        "costMs": 9,
        "success": success,
        "result": "SUCCESS" if success else "FAILED",
    }
    return [begin | {"tag": tag}, end]


def progress(at: int, offset: int) -> dict:
    queue = {"consumer_group": "cg", "topic": "T", "broker_name": "broker-a", "queue_id": 0}
    return queue | {"captured_at": at, "broker_offset": 9, "consumer_offset": offset}


SENDS = [
    PRODUCER | {"type": "start", "ts": T - 100_000, "version": "5.3.3"},
    attempt(KEY, 3, key="ORDER-1 X", offsetMsgId="7F00000100002A9F00000000000001F4"),
    attempt(OTHER, 4, tag="b"),
    attempt(BATCH, 5, batchMsgIds=f"{FIRST},{SECOND}"),
    attempt("half", 7, queueOffsetOf="half"),
    attempt(NATIVE, 9, key="ORDER-9", tag="a"),
]
SIGNS = [
    CONSUMER | {"type": "start", "ts": T - 50_000, "maxReconsumeTimes": 1, "messageModel": "CLUSTERING"},
    *(CONSUMER | {"type": "alive", "ts": T + ms, "subscriptions": "T=a || b"} for ms in range(-20_000, 90_000, 30_000)),
]
PRINTED, LISTED = (
    "7F000001000418B4AAC26B0F3A000021",
    ("7F000001000418B4AAC26B0F3A000022", "7F000001000418B4AAC26B0F3A000023"),
)
LOG = "".join(
    f"2026-11-21 09:18:12.0{n}0 INFO 7 --- [main] c.x.Orders : sent SendResult [sendStatus=SEND_OK, msgId={ids}, "
    f"offsetMsgId={place}, messageQueue=MessageQueue [topic=T, brokerName=broker-a, queueId=0], "
    f"queueOffset={offset}{end}\n"
    for n, (ids, place, offset, end) in enumerate(
        [
            (PRINTED, "7F00000100002A9F0000000000000211", 5, "]"),
            (",".join(LISTED), "7F00000100002A9F0000000000000311", 6, ", recallHandle=null]"),
            (KEY, "7F00000100002A9F00000000000001F4", 3, "]"),
        ]
    )
)
CONSUMED = [
    *given(KEY, 3, success=False),
    *given(KEY, 0, retry=1, success=False),
    *given(BATCH, 5),
    *given(BATCH, 6),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("life")

    def land(place: str, lines: list[dict]) -> None:
        path = folder / "landing" / place
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    owner = {"consumer_group": "cg", "client_id": "10.0.0.2@8", "topic": "T", "broker_name": "broker-a", "queue_id": 0}
    land("producer_hook/cluster=c/s.jsonl", SENDS)
    land("consumer_hook/cluster=c/c.jsonl", SIGNS + CONSUMED)
    land("canonical_snapshots/cluster=c/queue_progress/p.jsonl", [progress(T - 9_000, 3), progress(T + 30_000, 8)])
    land(
        "canonical_snapshots/cluster=c/queue_ownership/o.jsonl",
        [owner | {"captured_at": T + s} for s in (-9_000, 30_000)],
    )
    logs = folder / "landing/client_log/cluster=c/orders"
    logs.mkdir(parents=True)
    (logs / "app.log").write_text(LOG)
    for job in ("ingest-send-records", "ingest-consumer-snapshots"):
        words = [job, "--landing", str(folder / "landing"), "--lake", str(folder / "lake"), "--engine", "local"]
        done = CliRunner().invoke(app_of(job), words)
        assert done.exit_code == 0, done.output
    return str(folder / "lake")


def lives(lake: str, name: str, *, by_key: bool = False):
    with asked(lake, None, "local", name="message", master=None) as asker:
        return messages(asker, name, by_key=by_key, late_s=60, days=3)


def outcomes(message) -> list[str]:
    return [each.verdict for each in message.groups["cg"].verdicts]


@pytest.mark.parametrize(
    ("name", "by_key"), [(KEY, False), ("7F00000100002A9F00000000000001F4", False), ("ORDER-1", True)]
)
def test_a_message_is_found_by_each_of_its_names(lake, name, by_key):
    (message,) = lives(lake, name, by_key=by_key)
    assert message.msg_id == KEY and message.place.offset == 3
    assert outcomes(message) == ["dead_letter"] and len(message.groups["cg"].life.deliveries) == 2


@pytest.mark.parametrize(("name", "by_key"), [(NATIVE, False), ("ORDER-9", True)])
def test_a_message_whose_id_tells_of_another_day_is_found_too(lake, name, by_key):
    (message,) = lives(lake, name, by_key=by_key)
    assert message.msg_id == NATIVE and [one["queue_offset"] for one in message.attempts] == [9]
    assert outcomes(message) == ["not_consumed_yet"]


def test_what_was_passed_and_given_to_nobody_is_lost(lake):
    (message,) = lives(lake, OTHER)
    assert outcomes(message) == ["lost"]


def test_messages_of_a_batch_are_told_apart_by_their_offsets(lake):
    for name, offset in ((FIRST, 5), (SECOND, 6)):
        (message,) = lives(lake, name)
        assert message.place.offset == offset and outcomes(message) == ["consumed_once"]
    assert [one.msg_id for one in lives(lake, BATCH)] == [FIRST, SECOND]


def test_a_half_message_has_no_place_in_its_topic(lake):
    (message,) = lives(lake, "half")
    assert message.place.offset is None and outcomes(message) == ["unknown"]
    assert message.verdict.verdict == "unknown" and "transaction" in message.verdict.cause


def test_the_command_tells_it_and_says_where_there_is_none(lake):
    found = CliRunner().invoke(app_of("message"), ["message", KEY, "--lake", lake])
    assert found.exit_code == 0 and "Group cg: dead_letter" in found.output and "offset: 3" in found.output
    as_json = CliRunner().invoke(app_of("message"), ["message", KEY, "--lake", lake, "--json"])
    assert json.loads(as_json.output)["groups"]["cg"]["verdicts"][0]["verdict"] == "dead_letter"
    assert CliRunner().invoke(app_of("message"), ["message", "none", "--lake", lake]).exit_code != 0


@pytest.mark.parametrize("name", [PRINTED, "7F00000100002A9F0000000000000211"])
def test_what_only_an_application_s_log_tells_of_a_send_is_shown_and_claims_no_place_in_the_topic(lake, name):
    (message,) = lives(lake, name)
    assert message.msg_id == PRINTED and message.verdict is None
    assert message.place == ("T", "broker-a", 0, None)  # of a transaction it would be another queue's
    assert outcomes(message) == ["unknown"]
    assert "printed 5" in message.groups["cg"].verdicts[0].cause
    told = CliRunner().invoke(app_of("message"), ["message", name, "--lake", lake]).output
    assert (
        "printed by its application: SEND_OK, T broker-a queue 0, offset 5 (client_log/cluster=c/orders/app.log:1)"
        in told
    )


def test_a_batch_that_was_printed_tells_each_of_its_messages_by_its_offset(lake):
    told = [
        CliRunner().invoke(app_of("message"), ["message", name, "--lake", lake, "--json"]).output for name in LISTED
    ]
    assert [json.loads(each)["printed"][0]["offset"] for each in told] == [6, 7]


def test_where_a_recorder_tells_more_what_was_printed_stands_beside_it(lake):
    (message,) = lives(lake, KEY)
    assert [row["offset"] for row in message.printed] == [3] and message.place.offset == 3
    assert outcomes(message) == ["dead_letter"]
