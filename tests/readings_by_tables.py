"""``send_verdicts`` the long way: each combination of readings becomes a fault table of its own, which is asked."""

from __future__ import annotations

from itertools import product
from math import prod

from hindsight.udfs.fault_tolerance import FaultTable, RouteBroker
from hindsight.udfs.producer.send_verdicts import SAME_MILLISECOND, Judgement

MOST_READINGS = 1024


def judged_by_tables(choice, brokers, profile, *, enabled):
    """The verdict on the choice, arguments as of ``judge``."""
    admissible, certain = frozenset(), True
    admitting, removals = [], []
    every = [asked(combination, choice, profile, enabled) for combination in combinations(brokers)]
    for could, rule, reasons in every:
        admissible |= could.admissible
        if choice.broker_name in could.admissible:
            admitting.append((rule, reasons))
            keeps = could.removable and choice.broker_name in could.kept_picks
            removals.append(could.removable | {None} if keeps else could.removable)
        elif reasons <= {SAME_MILLISECOND}:
            certain = False
    if not admitting:
        return Judgement("impossible", every[0][1], None, admissible, frozenset(), None)
    rule, reasons = min(admitting, key=lambda each: len(each[1]))
    removable = frozenset().union(*removals) - {None}
    surely = next(iter(removable)) if all(each == removable for each in removals) and len(removable) == 1 else None
    if certain and reasons <= {SAME_MILLISECOND}:
        return Judgement("consistent", rule, None, admissible, removable, surely)
    return Judgement("possible", rule, " + ".join(sorted(reasons)) or SAME_MILLISECOND, admissible, removable, None)


def asked(combination, choice, profile, enabled):
    """What the client could do if this were so, the rule by which it does, and what has to be assumed."""
    items = {name: item.item for name, item, _ in combination if item.item is not None}
    listed = [name for name, _, route in combination if route.listed]
    entries = [
        RouteBroker(name, route.write_queue_nums, route.writable)
        for name, _, route in combination
        if route.write_queue_nums is not None
    ]
    table = FaultTable(profile, enabled=enabled, items=items)
    could = table.select(listed, entries, choice.now_ms, choice.last_broker_name)
    reasons = {told.reason for _, item, route in combination for told in (item, route)} - {None}
    return could, rule_of(table, frozenset(listed), choice, enabled), reasons


def rule_of(table, listed, choice, enabled):
    if not enabled:
        return "round_robin"
    preferred = table.preferred(listed, choice.now_ms, choice.last_broker_name)
    if preferred:
        return "available" if any(table.is_available(name, choice.now_ms) for name in preferred) else "reachable"
    picks = table.pick_one_at_least(choice.now_ms) if table.falls_back() else ()
    return "best_half" if choice.broker_name in picks else "round_robin"


def combinations(brokers):
    """Each broker with one of its readings; of too many doubts one at a time, and all at once."""
    options = [[(b.broker_name, *pair) for pair in product(b.items, b.routes)] for b in brokers]
    if prod(map(len, options)) <= MOST_READINGS:
        return list(product(*options))
    likeliest = [each[0] for each in options]
    single = [[*likeliest[:i], other, *likeliest[i + 1 :]] for i, each in enumerate(options) for other in each[1:]]
    return [likeliest, *single, [each[-1] for each in options]]
