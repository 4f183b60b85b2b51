"""Go and C++ producers that send by their own kernels: the lines that their programs write, their topics' routes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.formats.hook_lines import parse_hook_lines
from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.turns.turn_rules import publish_queues
from tests.random_producers import DAY, START_MS
from tests.recorded_rows import at
from tests.turns.cpp_publish import PublishTable
from tests.turns.go_selectors import RoundRobin

RELEASES = {"2.0.0": "G2", "2.1.1-rc2": "G3", "2.1.1": "G4", "2.1.2.rc1": "G5", "2.1.2": "G6"}
RELEASES |= {"2.1.3-0.20251226070945": "G7", "1.2.2": "C0", "2.2.0": "C1"}
STATUSES = {0: "SEND_OK", 10: "FLUSH_DISK_TIMEOUT", 12: "FLUSH_SLAVE_TIMEOUT", 11: "SLAVE_NOT_AVAILABLE"}
ANSWERS = (*[0] * 8, 10, 11, 12, 1, 14, 16, 17, 2, 204, None)
NO_FAILURES = (0,)
LINEAGE = {"source": "producer_hook", "source_file": "f", "source_line": 1}


def route_of(dice: random.Random) -> list[dict]:
    """A route as a name server tells it."""
    brokers = dice.sample(["broker-a", "b", "broker-c", "d"], dice.randint(1, 4))
    nums = dice.choice(([1], [4], [2, 3, 4]))
    return [{"brokerName": name, "writeQueueNums": dice.choice(nums), "perm": 6} for name in brokers]


class Producer:
    """One producer of one topic; ``lines``: of its attempts, in the order in which they were chosen."""

    def __init__(
        self, release: str, seed: int, *, threads: int = 1, active: bool = False, mode: str = "SYNC", answers=ANSWERS
    ) -> None:
        self.family, self.release = CLIENT_FAMILIES[RELEASES[release]], release
        self.client_id = f"{release} {seed} {threads} {active} {mode} {len(answers)}"
        self.topic = f"T {self.client_id}"
        self.dice = random.Random(self.client_id)
        self.route = route_of(self.dice)
        self.queues = publish_queues(self.route, topic=self.topic, profile=self.family.id)
        self.active, self.mode, self.answers = active, mode, answers
        self.lines = list(self._sent(threads, attempts=self.dice.randint(30, 80)))

    def _sent(self, threads: int, attempts: int) -> Iterator[dict]:
        is_cpp = self.family.language == "CPP"
        counter = PublishTable(self.queues) if is_cpp else RoundRobin(self.family.id)
        sends = [(self._cpp if is_cpp else self._go)(counter) for _ in range(threads)]
        free_at = [START_MS + 60_000 + self.dice.randrange(9) for _ in sends]
        last: list[tuple | None] = [None] * threads  # each thread's latest queue and its answer
        message, pause = [0] * threads, [0] * threads
        for _ in range(attempts):
            thread = free_at.index(min(free_at))
            now = free_at[thread]
            if is_cpp:
                counter.resume(now)
            self.now = now
            queue, number = sends[thread].send(last[thread][1] if last[thread] else None)
            answer = self.dice.choice(self.answers)
            took = self.dice.choice((0, 1, 7, 40)) + (3_000 if answer is None else 0)
            # C++ makes a message id for each attempt.
            message[thread] += number == 0 or is_cpp
            # The line may begin a little before its client chooses, though not before its thread was free.
            begin = now - (self.dice.randint(0, pause[thread]) if threads > 1 else 0)
            msg_id = f"{thread}-{message[thread]:04}"
            yield self._line(queue, number, last[thread], msg_id, thread, begin, now + took, answer)
            pause[thread] = self.dice.choice((0, 1, 5, 900))
            free_at[thread] = now + took + pause[thread]
            last[thread] = queue, answer

    def _go(self, selector: RoundRobin) -> Iterator[tuple]:
        retried = self.family.retried_codes
        while True:
            last_broker_name = ""
            for number in range(4):
                queue = self.queues[selector.select(self.topic, self.queues, last_broker_name)]
                answer = yield queue, number
                if answer is not None and answer not in retried:
                    break
                last_broker_name = queue.broker_name if self.mode in self.family.avoids_last else ""

    def _cpp(self, table: PublishTable) -> Iterator[tuple]:
        while True:
            index, last_broker_name = table.which, ""
            for number in range(5):
                queue, index = table.select(index + (number > 0), last_broker_name, active=self.active)
                last_broker_name = "" if queue is None else queue.broker_name
                if queue is None:
                    continue
                if (yield queue, number) == 0:
                    break
                if self.active:
                    table.fail(queue, self.now)

    def _line(self, queue, number, last, msg_id, thread, begin, end, answer) -> dict:
        line = {
            "type": "attempt", "group": "g", "clientId": self.client_id, "topic": self.topic, "mode": self.mode,
            "broker": queue.broker_name, "queueId": queue.queue_id, "times": number, "thread": f"t{thread}",
            "lastBrokerName": last[0].broker_name if number else None, "msgId": msg_id, "beginMs": begin,
            "endMs": end,
        }  # fmt: skip
        if answer in STATUSES:
            return line | ({"status": STATUSES[answer]} if self.mode == "SYNC" else {})
        return line | {"exception": "error", "error": "time out" if answer is None else f"CODE: {answer}  DESC: no"}

    def start(self, **more: object) -> dict:
        """The line of its start."""
        said = {"language": self.family.language, "version": self.release, "ts": START_MS}
        return {"type": "start", "group": "g", "clientId": self.client_id, **said, **more}

    def routes(self, *, told_order: bool = True) -> list[dict]:
        """Rows of topic_route, captured every minute of the record."""
        until = max([line["endMs"] for line in self.lines], default=START_MS)
        return [
            {
                "cluster": "c", "event_date": DAY, "collector": "x", "name_server": "n", "topic": self.topic,
                "broker_name": data["brokerName"], "captured_at": at(ms), "perm": data["perm"], "has_master": True,
                "read_queue_nums": 9, "write_queue_nums": data["writeQueueNums"], "is_static_topic": False,
                "place_in_answer": place if told_order else None, **LINEAGE,
            }
            for ms in range(START_MS, until + 60_000, 60_000)
            for place, data in enumerate(self.route)
        ]  # fmt: skip


def rows_of_lines(lines: list[dict]) -> list[dict]:
    """Rows as the reader of hook lines makes them."""
    found = []
    for line in lines:
        (parsed,) = parse_hook_lines(iter([Line(1, 0, 0, json.dumps(line), None)]))
        assert parsed.refusal is None, parsed.refusal
        row = {name: at(value) if name.endswith("_at") else value for name, value in parsed.records[0].row.items()}
        found.append({"cluster": "c", "event_date": DAY, **LINEAGE, **row})
    return found
