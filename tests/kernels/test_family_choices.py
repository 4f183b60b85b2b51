"""Choices of Go and C++ producers: those of real and simulated ones are explained, one out of its turn is found."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.producer.family_choices import producer_families
from tests.folded import comparable, cut_at, folded, rows_of
from tests.kernels.family_vectors import profile_of, vector_files
from tests.kernels.family_vectors import rows_of as rows_of_file
from tests.random_producers import START_MS
from tests.turn_producers import NO_FAILURES, RELEASES, Producer, rows_of_lines

SEEDS = range(5)


def verdicts(producers, *, lines=None, routes=None, starts=None):
    """Rows of send_verdict in order of begin, by client."""
    every = [line for producer in producers for line in producer.lines] if lines is None else lines
    starts = [producer.start() for producer in producers] if starts is None else starts
    routes = [row for producer in producers for row in producer.routes()] if routes is None else routes
    made = folded(rows_of(rows_of_lines(every), rows_of_lines(starts), routes))
    assert not made["broker_availability_window"].num_rows and not made["fault_item_state"].num_rows
    found = {}
    for row in sorted(made["send_verdict"].to_pylist(), key=lambda row: (row["begin_at"], row["msg_id"])):
        found.setdefault(row["client_id"], []).append(row)
    return found


def told(rows):
    return {(row["verdict"], row["reason"]) for row in rows}


@pytest.fixture(scope="module")
def alone():
    """Of each release some producers with one thread, SYNC and ONEWAY."""
    return [
        Producer(release, seed, mode=mode)
        for release in RELEASES
        for seed in SEEDS
        for mode in ("SYNC", "ONEWAY")
        if mode == "SYNC" or RELEASES[release].startswith("G")
    ]


def test_every_attempt_of_a_producer_with_one_thread_is_in_its_turn(alone):
    found = verdicts(alone)
    for producer in alone:
        rows = found[producer.client_id]
        assert len(rows) == len(producer.lines)
        assert {row["profile"] for row in rows} == {producer.family.id}
        # Attempts of one millisecond may have come in any order.
        assert told(rows) <= {("consistent", None), ("possible", "concurrent_sends")}, producer.client_id
        assert sum(row["verdict"] == "consistent" for row in rows) > 0.9 * len(rows)


def test_sends_that_overlap_may_have_chosen_in_another_order():
    busy = [Producer(release, seed, threads=4) for release in RELEASES for seed in SEEDS]
    found = verdicts(busy)
    reasons = {reason for rows in found.values() for verdict, reason in told(rows) if verdict == "possible"}
    assert "concurrent_sends" in reasons
    assert reasons <= {"concurrent_sends", "active_mode", "unseen_attempts"}
    assert {row["verdict"] for rows in found.values() for row in rows} == {"consistent", "possible"}


def test_active_sends_of_cpp_leave_out_queues_that_failed():
    active = [Producer(release, seed, active=True) for release in ("1.2.2", "2.2.0") for seed in range(12)]
    found = verdicts(active)
    every = [row for rows in found.values() for row in rows]
    assert {row["verdict"] for row in every} == {"consistent", "possible"}
    assert sum(row["reason"] == "active_mode" for row in every) > 50
    assert sum(row["reason"] == "unseen_attempts" for row in every) < 0.02 * len(every)


def misled(producer, dice):
    """Its lines with one attempt, not the first and not near the end, at another queue; None: it has hardly any."""
    place = dice.randrange(3, len(producer.lines) - 4)
    line = producer.lines[place]
    others = [q for q in producer.queues if (q.broker_name, q.queue_id) != (line["broker"], line["queueId"])]
    near = [q for q in others if q.broker_name == line["broker"]] or others
    queue = dice.choice(dice.choice((others, near)))
    moved = line | {"broker": queue.broker_name, "queueId": queue.queue_id}
    return [*producer.lines[:place], moved, *producer.lines[place + 1 :]], moved


@pytest.mark.parametrize("release", RELEASES)
def test_one_attempt_out_of_its_turn_is_found_and_no_other_is_blamed(release):
    # Of two queues a wrong one looks like an attempt that is missing.
    fit = [p for n in range(40) if len((p := Producer(release, n, answers=NO_FAILURES)).queues) > 2][:20]
    dice = random.Random(release)
    altered = {producer.client_id: misled(producer, dice) for producer in fit}
    found = verdicts(fit, lines=[line for lines, _ in altered.values() for line in lines])
    for producer in fit:
        impossible = [row for row in found[producer.client_id] if row["verdict"] == "impossible"]
        _, moved = altered[producer.client_id]
        assert [(row["msg_id"], row["broker_name"], row["queue_id"]) for row in impossible] == [
            (moved["msgId"], moved["broker"], moved["queueId"])
        ], producer.client_id
        assert impossible[0]["rule"] == "round_robin" and "was next" in impossible[0]["reason"]


@pytest.mark.parametrize("release", ["1.2.2", "2.2.0"])
def test_a_cpp_retry_that_does_not_follow_its_own_send_is_found(release):
    producer = next(p for n in range(99) if len((p := Producer(release, n)).route) > 2)
    place = next(n for n, line in enumerate(producer.lines) if line["times"] == 1)
    line = producer.lines[place]
    broker = producer.lines[place - 1]["broker"]
    lines = [*producer.lines[:place], line | {"broker": broker, "queueId": producer.lines[place - 1]["queueId"]}]
    rows = verdicts([producer], lines=lines)[producer.client_id]
    assert [row["msg_id"] for row in rows if row["verdict"] == "impossible"] == [line["msgId"]]


@pytest.mark.parametrize("release", RELEASES)
def test_attempts_that_are_not_recorded_contradict_nothing(release):
    """An unseen attempt only moves those behind it."""
    dice = random.Random(release)
    lossy = [p for n in range(30) if len((p := Producer(release, n)).queues) > 2]
    lines = [line for producer in lossy for line in producer.lines if dice.random() > 0.15]
    found = [row for rows in verdicts(lossy, lines=lines).values() for row in rows]
    assert {row["verdict"] for row in found} <= {"consistent", "possible", "unknown"}
    assert any(row["reason"] == "unseen_attempts" for row in found)


def test_without_routes_nothing_is_said(alone):
    for rows in verdicts(alone[::5], routes=[]).values():
        assert told(rows) == {("unknown", "no route of the topic is recorded at that time")}


def test_while_a_route_may_be_either_of_two_nothing_is_said():
    producer = Producer("2.0.0", 1)
    routes = producer.routes()
    late = [row | {"write_queue_nums": 9} for row in routes if row["captured_at"] > routes[0]["captured_at"]]
    first = [row for row in routes if row["captured_at"] == routes[0]["captured_at"]]
    captured = min(row["captured_at"] for row in late)
    base = START_MS + 60_000
    lines = [line | {"beginMs": base + n * 900, "endMs": base + n * 900 + 5} for n, line in enumerate(producer.lines)]
    rows = verdicts([producer], lines=lines, routes=[*first, *late])[producer.client_id]
    near = [row for row in rows if 0 <= (row["begin_at"] - captured).total_seconds() <= 31]
    assert near and {row["verdict"] for row in near[:-1]} == {"unknown"}
    assert "the route changed" in near[0]["reason"]


def test_the_order_of_four_brokers_has_to_be_recorded():
    producers = [p for n in range(200) if len((p := Producer("2.1.2", n)).route) == 4][:3]
    routes = [row for producer in producers for row in producer.routes(told_order=False)]
    for rows in verdicts(producers, routes=routes).values():
        assert told(rows) == {("unknown", "the order of the client's list of queues is not known")}


def test_that_of_three_shows_by_itself():
    producers = [p for n in range(200) if len((p := Producer("2.1.2", n, answers=NO_FAILURES)).route) == 3][:3]
    routes = [row for producer in producers for row in producer.routes(told_order=False)]
    for rows in verdicts(producers, routes=routes).values():
        assert "impossible" not in {row["verdict"] for row in rows}
        assert sum(row["verdict"] == "consistent" for row in rows) > 0.9 * len(rows)


def test_brokers_may_have_been_turned_round_by_another_producer_of_the_process():
    producer = next(p for n in range(200) if len((p := Producer("2.1.2", n, answers=NO_FAILURES)).route) == 4)
    last = len(producer.route) - 1
    routes = [row | {"place_in_answer": last - row["place_in_answer"]} for row in producer.routes()]
    rows = verdicts([producer], routes=routes)[producer.client_id]
    assert sum(row["verdict"] == "consistent" for row in rows) > 0.9 * len(rows)


def test_name_servers_may_tell_the_same_brokers_in_different_orders():
    producer = next(p for n in range(200) if len((p := Producer("2.1.2", n, answers=NO_FAILURES)).route) == 4)
    other = {0: 2, 1: 0, 2: 3, 3: 1}
    routes = producer.routes()
    routes += [
        row
        | {
            "name_server": "m",
            "place_in_answer": other[row["place_in_answer"]],
            "captured_at": row["captured_at"] + timedelta(milliseconds=7),
        }
        for row in routes
    ]
    rows = verdicts([producer], routes=routes)[producer.client_id]
    assert sum(row["verdict"] == "consistent" for row in rows) > 0.9 * len(rows)


@pytest.mark.parametrize(
    ("stated", "families"),
    [
        ("GO 2.1.2", ["G6"]),
        ("GO v2.1.2", ["G6"]),
        ("GO 2.1.1", ["G4"]),
        ("GO v2.1.1", ["G4", "G5", "G6", "G7"]),
        ("GO v2.0.0", ["G2"]),
        ("GO G7", ["G7"]),
        ("CPP 2.2.0", ["C1"]),
        ("CPP 1.2.4", ["C0"]),
        ("GO", []),
        ("GO 5.1.4", []),
        ("CPP V4_6_0", []),
        (None, []),
    ],
)
def test_a_producers_family_is_what_its_start_says(stated, families):
    assert list(producer_families(stated)) == families


def test_families_that_records_do_not_tell_apart_are_all_asked():
    """Where they disagree, and some leave a broker out after a failure, nothing is said."""
    producers = [p for n in range(60) if len((p := Producer("2.1.3-0.20251226070945", n)).route) > 1][:15]
    starts = [producer.start(version="v2.1.1") for producer in producers]
    rows = [row for own in verdicts(producers, starts=starts).values() for row in own]
    assert {"consistent", "unknown"} <= {row["verdict"] for row in rows}
    assert any("G4, G5, G6, G7" in (row["reason"] or "") for row in rows if row["verdict"] == "unknown")
    assert {row["profile"] for row in rows if row["verdict"] == "consistent"} == {"G4|G5|G6|G7"}


@pytest.mark.parametrize("said", [{"version": None}, {"version": "5.1.4"}])
def test_a_release_that_is_not_known_is_not_judged(said):
    producer = Producer("2.1.2", 1)
    rows = verdicts([producer], starts=[producer.start(**said)])[producer.client_id]
    assert told(rows) == {("unknown", "the release is not recorded")}


@pytest.mark.parametrize(("release", "reason"), [("2.0.0-rc1", "key of the message"), ("2.0.0-alpha2", "list")])
def test_releases_that_do_not_go_round_are_not_judged(release, reason):
    producer = Producer("2.0.0", 1)
    rows = verdicts([producer], starts=[producer.start(version=release)])[producer.client_id]
    assert {row["verdict"] for row in rows} == {"unknown"} and all(reason in row["reason"] for row in rows)


def retried(release, **before):
    """What is said of a retry, in its turn, after an attempt that ended in this way."""
    producer = next(
        p for n in range(99) if len((p := Producer(release, n, answers=NO_FAILURES)).queues) > 3 and len(p.route) == 1
    )
    first, second = producer.lines[3:5]
    first = {name: value for name, value in first.items() if name != "status"} | before
    if producer.family.language == "CPP":
        queue = producer.queues[
            (producer.queues.index(next(q for q in producer.queues if q.queue_id == first["queueId"])) + 2)
            % len(producer.queues)
        ]
        second = second | {"broker": queue.broker_name, "queueId": queue.queue_id}
    second = second | {"times": 1, "lastBrokerName": first["broker"], "msgId": first["msgId"]}
    second |= {"thread": first["thread"]}
    rows = verdicts([producer], lines=[*producer.lines[:3], first, second])[producer.client_id]
    return rows[-1]["verdict"], rows[-1]["rule"], rows[-1]["reason"]


CODE = {"exception": "MQBrokerErr"}


@pytest.mark.parametrize(
    ("release", "before", "allowed"),
    [
        ("2.1.2.rc1", {"status": "FLUSH_DISK_TIMEOUT"}, False),
        ("2.1.2.rc1", CODE | {"error": "CODE: 17  DESC: no topic"}, False),
        ("2.1.2", CODE | {"error": "CODE: 17  DESC: no topic"}, True),
        ("2.1.2", CODE | {"error": "CODE: 2  DESC: busy"}, False),
        ("2.1.2", {"exception": "timeout", "error": "i/o"}, True),
        ("2.1.2", {"status": "SEND_OK"}, False),
        ("2.2.0", {"status": "FLUSH_DISK_TIMEOUT"}, True),
        ("2.2.0", CODE | {"error": "CODE: 2  DESC: busy"}, True),
        ("2.2.0", {"status": "SEND_OK"}, False),
    ],
)
def test_what_is_tried_again_is_the_releases_own_matter(release, before, allowed):
    verdict, rule, reason = retried(release, **before)
    assert (verdict == "consistent") == allowed, reason
    assert allowed or ((verdict, rule) == ("impossible", "retry") and reason.startswith("a retry after"))


@pytest.mark.parametrize(("retries", "verdict"), [(0, "impossible"), (3, "consistent"), (None, "consistent")])
def test_a_start_says_how_often_a_send_is_tried_again(retries, verdict):
    producer = next(p for n in range(99) if (p := Producer("2.0.0", n)).lines[1]["times"] == 1)
    said = {} if retries is None else {"retryTimesWhenSendFailed": retries}
    rows = verdicts([producer], lines=producer.lines[:2], starts=[producer.start(**said)])[producer.client_id]
    assert rows[1]["verdict"] == verdict
    assert verdict == "consistent" or rows[1]["reason"] == "attempt 2 of at most 1"


def test_a_queue_that_the_application_chose_is_not_judged_and_does_not_count():
    producer = Producer("2.1.2", 2, answers=NO_FAILURES)
    chosen = producer.lines[4] | {"queueSelectedBy": "application", "msgId": "own", "broker": "elsewhere"}
    lines = [*producer.lines[:4], chosen, *producer.lines[4:]]
    rows = verdicts([producer], lines=lines)[producer.client_id]
    assert len(rows) == len(producer.lines) and {row["verdict"] for row in rows} <= {"consistent", "possible"}


def of_vectors(kind):
    for path in vector_files(kind):
        for number, row in enumerate(rows_of_file(path)):
            yield path.name, number, row


def recorded(name, number, row):
    """The real producer's sends as lines, its release's family and its route."""
    client_id, profile = f"{name} {number}", profile_of(row)
    lines, now = [], START_MS + 60_000
    for send, each in enumerate(row["sends"]):
        last = None
        for times, attempt in enumerate(each["attempts"]):
            answer = attempt["answer"]
            said = {0: "SEND_OK", 10: "FLUSH_DISK_TIMEOUT", 12: "FLUSH_SLAVE_TIMEOUT", 11: "SLAVE_NOT_AVAILABLE"}
            outcome = (
                {"status": said[answer]} if answer in said else {"exception": "e", "error": f"CODE: {answer} DESC: x"}
            )
            outcome = {"exception": "e", "error": "closed"} if answer == "close" else outcome
            lines.append(
                {
                    "type": "attempt", "group": "g", "clientId": client_id, "topic": client_id, "mode": row["mode"],
                    "broker": attempt["broker"], "queueId": attempt["queueId"], "thread": "main", "times": times,
                    "lastBrokerName": last, "msgId": f"{send:04}", "beginMs": now, "endMs": now + 2, **outcome,
                }
            )  # fmt: skip
            last, now = attempt["broker"], now + 4
    start = {
        "type": "start", "group": "g", "clientId": client_id, "ts": START_MS, "version": profile,
        "language": CLIENT_FAMILIES[profile].language, "retryTimesWhenSendFailed": row["retries"],
    }  # fmt: skip
    made = Producer("2.1.2", 0)
    made.topic, made.route, made.lines = client_id, row["queueDatas"], lines
    return client_id, lines, start, made.routes()


@pytest.mark.parametrize("kind", ["send_go", "send_cpp"])
def test_sends_of_real_producers_are_in_their_turn(kind):
    every = [(recorded(*found), found[2]) for found in of_vectors(kind)]
    assert every
    found = verdicts(
        [],
        lines=[line for (_, lines, _, _), _ in every for line in lines],
        starts=[start for (_, _, start, _), _ in every],
        routes=[row for (_, _, _, routes), _ in every for row in routes],
    )
    for (client_id, lines, _, _), row in every:
        own = found.get(client_id, [])
        assert len(own) == len(lines)
        allowed = {("consistent", None)} | ({("possible", "active_mode")} if row.get("active") else set())
        assert told(own) <= allowed, client_id


def test_parts_of_a_date_give_what_the_date_gives(alone):
    some = alone[::7]
    given = rows_of(
        rows_of_lines([line for producer in some for line in producer.lines]),
        rows_of_lines([producer.start() for producer in some]),
        [row for producer in some for row in producer.routes()],
    )
    dice = random.Random(7)
    cuts = {START_MS % 86_400_000 + 60_000 + dice.randrange(60_000) for _ in range(30)}
    whole, parts = folded(given), folded(given, cut=cut_at(cuts))
    assert comparable(parts["send_verdict"]) == comparable(whole["send_verdict"])


def test_a_finding_says_whose_turn_it_was():
    producer = next(p for n in range(99) if len((p := Producer("2.1.2", n, answers=NO_FAILURES)).queues) > 2)
    lines, moved = misled(producer, random.Random(3))
    made = folded(rows_of(rows_of_lines(lines), rows_of_lines([producer.start()]), producer.routes()))
    (finding,) = made["producer_finding"].to_pylist()
    assert (finding["code"], finding["broker_name"]) == ("IMPOSSIBLE_CHOICE", moved["broker"])
    assert "was next" in finding["sentence"] and moved["msgId"] in finding["evidence"][0]
