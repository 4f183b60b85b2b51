"""Small made-up fleets: what a rule of producer findings must find, just under its threshold, input unknown.

Each case is a cluster of its own, so fleets do not mix. ``ROWS`` holds what the rules are given, with the columns that
the constants name.
"""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

TODAY = date(2026, 1, 5)
MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
PROCESS = "cluster string, producer_group string, client_id string, started_at timestamp, life_at timestamp"
ATTEMPT = f"""{PROCESS}, event_date date, topic string, broker_name string, queue_id int, mode string, attempt int,
    queue_selected_by string, begin_at timestamp, latency_ms long, outcome string"""
WINDOW = f"""{PROCESS}, broker_name string, state string, event_date date, window_start timestamp, window_end timestamp,
    end_reason string, opened_at timestamp, trigger_kind string, trigger_latency_ms long, profile string,
    certainty string, last_attempt_at timestamp"""
REPLAY = f"""{PROCESS}, event_date date, verdict string, profile string, latency_fault_enabled boolean,
    certainty string, last_attempt_at timestamp"""
ROUTE = """cluster string, event_date date, topic string, broker_name string, perm int, write_queue_nums int,
    has_master boolean, order_topic_conf string"""
VERDICT = """cluster string, event_date date, producer_group string, client_id string, started_at timestamp,
    begin_at timestamp, topic string, thread string, msg_id string, attempt int, broker_name string,
    admissible array<string>, rule string, verdict string, reason string"""
# So small that every rule finds something in a few attempts.
EAGER = {
    "min_sends_per_minute": 1,
    "not_returning_s": 5,
    "not_returning_expected_sends": 1,
    "not_returning_max_percent": 60,
    "fault_off_slow_percentile": 90,
    "fault_off_slow_minutes": 1,
    "over_isolation_max_percent": 50,
}
RANDOM_CASES = 30
ROWS: dict[str, list] = {"attempts": [], "windows": [], "replay": [], "verdicts": [], "routes": []}


def at(clock: str, *, day: int = 0, ms: int = 0) -> datetime:
    hour, minute, second = (int(part) for part in clock.split(":"))
    return MIDNIGHT + timedelta(days=day, hours=hour, minutes=minute, seconds=second, milliseconds=ms)


class Producer:
    """One producer process of a case; its rows go into ROWS. The start is unknown, as it often is."""

    def __init__(
        self, case, client="p", *, profile="P43", verdict="replayed", switch=True, certainty="certain", days=1
    ):
        self.who = (case, "g", client, None, None)
        self.profile, self.certainty, self.days = profile, certainty, days
        for day in range(days):
            last = at("23:59:59", day=day)
            row = (TODAY + timedelta(days=day), verdict, profile, switch, certainty, last)
            ROWS["replay"].append((*self.who, *row))

    def last_seen(self, when):
        ROWS["replay"][-1] = (*ROWS["replay"][-1][:-1], when)
        return self

    def sends(
        self, broker, start, count, *, every_ms=100, latency=5, queue=3, topic="T", mode="SYNC", attempt=0, by=None
    ):
        outcome = "SUBMITTED" if mode == "ONEWAY" else "SEND_OK"
        for i in range(count):
            begin = start + timedelta(milliseconds=i * every_ms)
            row = (begin.date(), "T", broker, 3, mode, 0, by, begin, latency, outcome)
            ROWS["attempts"].append((*self.who, *row))
        return self

    def holds(self, broker, start, end, *, state="unavailable", reason="expired", opened=None, day=0, kind="latency"):
        row = (state, TODAY + timedelta(days=day), start, end, reason, opened or start, kind, 600)
        last_attempt_at = ROWS["replay"][day - self.days][-1]
        ROWS["windows"].append((*self.who, broker, *row, self.profile, self.certainty, last_attempt_at))
        return self


# -- LONG_ISOLATION ------------------------------------------------------------------------------------------------

Producer("long, before 5.1.4").holds("a", at("10:00:00"), at("10:01:00"))
Producer("long, before 5.1.4, just under").holds("a", at("10:00:00"), at("10:00:59", ms=999))
Producer("long, since 5.1.4", profile="P533").holds("a", at("10:00:00"), at("10:00:10"), kind="isolation")
Producer("long, since 5.1.4, just under", profile="P533").holds("a", at("10:00:00"), at("10:00:09", ms=999))
Producer("long, detector", profile="P533", certainty="possible").holds("a", at("10:00:00"), at("10:00:10"))
Producer("long, only before midnight", days=2).holds(
    "a", at("23:58:00"), at("00:00:00", day=1), reason="cut_at_midnight"
).holds("a", at("00:00:00", day=1), at("00:05:00", day=1), opened=at("23:58:00"), day=1)
Producer("long, only after midnight", days=2).holds(
    "a", at("23:59:30"), at("00:00:00", day=1), reason="cut_at_midnight"
).holds("a", at("00:00:00", day=1), at("00:00:30", day=1), opened=at("23:59:30"), day=1)
Producer("long, record ends before").last_seen(at("10:00:59")).holds("a", at("10:00:00"), at("10:10:00"), reason="open")
Producer("long, record ends after").last_seen(at("10:01:00")).holds("a", at("10:00:00"), at("10:10:00"), reason="open")
Producer("long, unreachable in 5.1.4", profile="P514").last_seen(at("10:02:00")).holds(
    "a", at("10:00:00"), None, state="unreachable", reason="open"
)
Producer("long, unreachable later", profile="P533").holds(
    "a", at("10:00:00"), at("11:00:00"), state="unreachable", reason="reachable_again"
)

# -- ALL_ISOLATED --------------------------------------------------------------------------------------------------


def pair(case, second_start, **options):
    """A producer that uses brokers a and b of topic T, and holds a from 10:00:00 to 10:00:30."""
    made = Producer(case, **options).sends("a", at("09:00:00"), 1).sends("b", at("09:00:00"), 1)
    return made.holds("a", at("10:00:00"), at("10:00:30")).holds("b", second_start, at("10:00:40"))


pair("all", at("10:00:20"))
pair("all, one after the other", at("10:00:30"))
pair("all, by the route", at("10:00:20"))
ROWS["routes"] += [("all, by the route", TODAY, "T", broker, 6, 4, True, None) for broker in ("a", "b")]
# Nobody sends to brokers that are not writable, have no queues to write to, or no master.
ROWS["routes"] += [("all, by the route", TODAY, "T", *rest, None) for rest in (("c", 4, 4, True), ("d", 6, 0, True))]
ROWS["routes"] += [("all, by the route", TODAY, "T", "e", 6, 4, False, None)]
pair("all, but for one in the route", at("10:00:20"))
ROWS["routes"] += [("all, but for one in the route", TODAY, "T", b, 2, 1, True, None) for b in ("a", "b", "c")]
# An orderTopicConf counts instead: it names brokers without permission or master, and leaves others out.
for ordered, conf in (("all, by the order", "a:4;b:4;c:0;"), ("all, but for one in the order", "a:4;b:4;c:1")):
    pair(ordered, at("10:00:20"))
    ROWS["routes"] += [(ordered, TODAY, "T", "z", 6, 4, True, conf), (ordered, TODAY, "T", "a", 4, 4, False, conf)]
pair("all, but for one that others use", at("10:00:20"))
Producer("all, but for one that others use", "q").sends("c", at("12:00:00"), 1)

# -- OVER_ISOLATION and FLEET_SLOW ---------------------------------------------------------------------------------


def fleet(case, *, isolating, active=10, sends=30, unknown=0, off=0, partial=0):
    """Producers that each send to b in minute 10:00; the first ``isolating`` of them hold a not available."""
    for i in range(active):
        certainty = "partial" if i >= active - partial else "certain"
        made = Producer(case, f"p{i}", certainty=certainty)
        made.sends("b", at("10:00:00"), 30 if i else sends, every_ms=1000)
        if i < isolating:
            made.holds("a", at("10:00:59", ms=999), at("10:01:20"))
    for i in range(unknown):
        Producer(case, f"u{i}", verdict="unknown").sends("b", at("10:00:00"), 30, every_ms=1000)
    for i in range(off):
        Producer(case, f"o{i}", verdict="off", switch=False).sends("b", at("10:00:00"), 30, every_ms=1000)


fleet("over", isolating=1)
fleet("over, 11 percent", isolating=1, active=9)
fleet("over, the one sends too little", isolating=1, sends=29)
fleet("over, one more is unknown", isolating=1, unknown=1)
fleet("over, others are off", isolating=1, off=5)
fleet("over, of another too little is known", isolating=1, partial=1)
fleet("slow", isolating=5)
fleet("slow, 40 percent", isolating=4)
fleet("slow, one more is unknown", isolating=5, unknown=1)
fleet("a fleet of one", isolating=1, active=1)
fleet("a fleet of one that sends too little beside", isolating=1, active=1, off=3, unknown=3)
fleet("a fleet of two", isolating=1, active=2)
fleet("slow, others are off", isolating=5, off=5)
fleet("slow, of two too little is known", isolating=10, partial=2)
fleet("nothing isolated", isolating=0)
Producer("switch not recorded", verdict="off", switch=None).sends("b", at("10:00:00"), 30, every_ms=1000)
Producer("three minutes", "p").sends("b", at("10:00:00"), 240, every_ms=1000).holds("a", at("10:00:30"), at("10:01:30"))
Producer("three minutes", "q").sends("b", at("10:00:00"), 240, every_ms=1000).holds("a", at("10:01:30"), at("10:03:00"))

# -- NOT_RETURNING -------------------------------------------------------------------------------------------------


def returning(
    case, *, sends=150, to_a=0, every_ms=400, others=True, profile="P43", last="10:01:00", by=None, again=None, pinned=0
):
    """Twelve queues on a, b and c; the producer's window on a ended at 10:00:00."""
    if others:
        other = Producer(case, "q")
        for broker in "abc":
            other.sends(broker, at("10:00:30"), 1)
    else:
        Producer(case, "q").sends("a", at("09:00:00"), 1).sends("c", at("09:00:00"), 1)
    made = Producer(case, profile=profile).last_seen(at(last))
    made.holds("a", at("09:59:30"), at("10:00:00"))
    if again:
        made.holds("a", again, at("11:00:00"))
    for i in range(sends):
        broker = "a" if i < to_a else "bc"[i % 2]
        made.sends(broker, at("10:00:00") + timedelta(milliseconds=i * every_ms), 1, by=by)
    made.sends("a", at("10:00:00"), pinned, every_ms=every_ms, by="user")


returning("not returning")
returning("not returning, 4 of 50", to_a=4)
returning("not returning, 5 of 50", to_a=5)
returning("not returning, 149 sends", sends=149)
returning("not returning, later", every_ms=1000, last="10:03:00")
returning("not returning, too late", every_ms=5000, last="10:30:00")
returning("not returning, record too short", last="10:00:59")
returning("not returning, held again", again=at("10:00:59"))
returning("not returning, nobody served", others=False)
returning("not returning, keeps its list", profile="P498")
returning("not returning, queues chosen by others", by="user")
returning("not returning, but for queues chosen by others", pinned=100)

# -- FAULT_OFF_SLOW ------------------------------------------------------------------------------------------------


def off(case, *, slow=2, minutes=5, latency=550, switch=False, verdict="off", mode="SYNC", gap=None):
    """100 attempts to a in each minute from 10:00 on, ``slow`` of which take ``latency`` ms."""
    made = Producer(case, verdict=verdict, switch=switch)
    for minute in range(minutes):
        start = at(f"10:{minute:02}:00")
        made.sends("a", start, 100 - slow, mode=mode)
        made.sends("a", start + timedelta(seconds=30), 0 if minute == gap else slow, latency=latency, mode=mode)


off("off")
off("off, one in a hundred", slow=1)
off("off, 549 ms", latency=549)
off("off, four minutes", minutes=4)
off("off, a good minute between", minutes=9, gap=4)
off("off, not recorded", switch=None)
off("off, switched on", switch=True, verdict="replayed")
off("off, release unknown", verdict="unknown")
off("off, ONEWAY", mode="ONEWAY")


# -- IMPOSSIBLE_CHOICE ---------------------------------------------------------------------------------------------


def verdict(client, begin, told):
    who = ("impossible", TODAY, "g", client, None)
    ROWS["verdicts"].append((*who, begin, "T", "t", begin.isoformat(), 0, "a", ["c", "b"], "available", told, None))


verdict("p", at("10:00:05"), "impossible")
verdict("p", at("10:00:01"), "impossible")
verdict("p", at("10:00:00"), "possible")
verdict("q", at("10:00:00"), "unknown")

# -- random windows ------------------------------------------------------------------------------------------------


def random_windows(seed):
    """Windows of three brokers, those of one broker apart or adjoining, in whole seconds after 10:00:00."""
    dice = random.Random(seed)
    for broker in "abc":
        cuts = sorted(dice.sample(range(40), dice.choice((2, 4, 6))))
        cuts += [cuts[-1], cuts[-1] + 5] if dice.random() < 0.3 else []
        yield from ((broker, start, end) for start, end in zip(cuts[::2], cuts[1::2], strict=True))


for seed in range(RANDOM_CASES):
    someone = Producer(f"random {seed}")
    for broker in "abc":
        someone.sends(broker, at("09:00:00"), 1)
    for broker, start, end in random_windows(seed):
        someone.holds(broker, at("10:00:00") + timedelta(seconds=start), at("10:00:00") + timedelta(seconds=end))
