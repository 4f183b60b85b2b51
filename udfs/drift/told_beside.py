"""What logs and brokers' settings tell of a group beside its captures in, what a round has of it out.

Lines of clients' logs add to findings why messages wait, and who set an offset. A subscription that flips at a broker,
by its log, is of two members that subscribe differently; a broker's setting may keep the group from consuming there.
What a line says counts for ``BESIDE_MS``: rounds look back no further.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindsight.udfs.consumer.round_facts import Flip
from hindsight.udfs.drift.finding import Finding, clock

BESIDE_MS = 600_000
FLIPS, SETTINGS = "SUBSCRIPTION_INCONSISTENT", "CONSUME_DISABLED"
CHANGED = "subscription_changed"
# Kinds of lines that tell why messages wait, and how it is said.
_WHY = {
    "flow_control": "pulls put off by flow control",
    "pull_suspended": "pulls suspended",
    "consumer_suspended": "consumption suspended",
    "consumer_resumed": "consumption resumed",
    "pull_failed": "pulls failed",
    "consume_failed": "the listener failed",
    "consume_not_locked": "a queue was not locked",
    "message_expired": "messages sent back, too long in the listener",
    "send_back_failed": "messages could not be sent back",
}
_CODES = {
    16: "no permission",
    24: "the broker does not know the subscription",
    25: "the subscription is not the newest",
}
_LATE = frozenset(
    {"QUEUE_LAGS_ALONE", "FALLS_BEHIND", "CONSUMES_NOTHING", "UNSERVED_QUEUE", "PULL_IDLE", "CONSUME_BLOCKED"}
) | {"LOCK_STARVED", "RETRIES_GROW", "DEAD_LETTERS", "MESSAGES_AT_RISK", "MESSAGES_LOST", "CONSUME_DISABLED"}
_SET: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "offset_reset": lambda one: (
        f"an operator's command reset the offsets of {one['topic']} ({one['detail']}), sent by {one['broker_address']}"
    ),
    "offset_illegal": lambda one: (
        f"the broker did not have {one['offset']}, but {one['min_offset']} to {one['max_offset']}: the client goes on "
        f"at {one['new_offset']}"
    ),
    "offset_fixed": lambda one: f"the client stored {one['new_offset']}",
    "offset_went_back": lambda one: f"a pull's answer went back from {one['offset']} to {one['new_offset']}",
}
_OFFSETS = frozenset({"OFFSET_REWOUND", "OFFSET_JUMPED", "OFFSET_BEYOND_END", "END_WENT_BACK", "MESSAGES_LOST"})
LOGGED_KINDS = (*_WHY, *_SET)
_MOST = 3  # kinds that a sentence names, and lines of each that are evidence


class Setting(NamedTuple):
    """Whether a broker lets the group consume, as it told at an instant, epoch ms; ``place``: the line."""

    at: int
    broker_name: str
    enabled: bool
    place: str


class Beside:
    """All of it of one group, as one collector sees it."""

    def __init__(self, lines: pa.Table | None = None, settings: Iterable[Setting] = ()) -> None:
        """``lines``: in order of time, with the columns that ``drift_cut`` gives, ``at`` in epoch ms."""
        self._lines = lines if lines is not None and lines.num_rows else None
        self._at = np.array([], np.int64) if self._lines is None else self._lines["at"].to_numpy()
        self._settings = sorted(settings)
        own = [] if self._lines is None else self._lines.filter(pc.equal(self._lines["kind"], CHANGED)).to_pylist()
        self._changes = [one for one in own if _tags(one["sub_string"]) != _tags(one["old_sub_string"])]

    def speaks(self, at: int) -> frozenset[str]:
        """The codes of which a round might find something that its captures do not show."""
        told = [FLIPS] if self._changes and self.flips(at) else []
        return frozenset([*told, SETTINGS] if self._settings and self.held_back(at) else told)

    def flips(self, at: int) -> tuple[Flip, ...]:
        """Subscriptions that went back and forth at a broker."""
        found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for one in self._changes:
            if at - BESIDE_MS <= one["at"] <= at:
                found.setdefault((one["topic"], one["broker_name"]), []).append(one)
        return tuple(
            Flip(topic, broker, expressions, len(lines), lines[0]["at"], tuple(map(_place, lines[-_MOST:])))
            for (topic, broker), lines in sorted(found.items())
            if len(lines) > len({one["sub_string"] for one in lines})
            and (expressions := tuple(sorted({one[n] for one in lines for n in ("sub_string", "old_sub_string")})))
        )

    def held_back(self, at: int) -> Mapping[str, str]:
        """The brokers that, as they told last, do not let the group consume, and the lines that say so."""
        last = {one.broker_name: one for one in self._settings if at - BESIDE_MS <= one.at <= at}
        return {name: one.place for name, one in last.items() if not one.enabled}

    def joined(self, finding: Finding, at: int) -> Finding:
        """A finding with what lines of clients' logs add to it: to its sentence, and to its evidence."""
        kinds = [*(_WHY if finding.code in _LATE else ()), *(_SET if finding.code in _OFFSETS else ())]
        if self._lines is None or not kinds:
            return finding
        since = min(at, finding.since or at) if finding.code in _OFFSETS else at
        first, last = np.searchsorted(self._at, [since - BESIDE_MS, at + 1]).tolist()
        lines = [one for one in self._lines.slice(first, last - first).to_pylist() if one["kind"] in kinds]
        lines = [one for one in lines if _is_of(one, finding)]
        if not lines:
            return finding
        said = [*_reasons(lines), *_settings_of_offsets(lines)][:_MOST]
        kept = [one for kind in kinds for one in [line for line in lines if line["kind"] == kind][-_MOST:]]
        sentence = f"{finding.sentence.rstrip('.')}. Its clients' logs: {'; '.join(said)}."
        return finding._replace(sentence=sentence, evidence=(*finding.evidence, *map(_place, kept)))


NOTHING_BESIDE = Beside()


def _is_of(line: Mapping[str, Any], finding: Finding) -> bool:
    """A line says nothing against its being of what a finding is about."""
    broker, number = finding.queue or (None, None)
    pairs = (line["topic"], finding.topic), (line["broker_name"], broker), (line["queue_id"], number)
    return all(own is None or of is None or own == of for own, of in pairs)


def _reasons(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why messages wait, the most frequent first."""
    counted: Counter[str] = Counter()
    last: dict[str, int] = {}
    for one in lines:
        if one["kind"] in _WHY:
            code, exception = one["response_code"], (one["exception"] or "").rpartition(".")[2]
            why = f"code {code}" + (f", {_CODES[code]}" if code in _CODES else "") if code is not None else exception
            why = why or one["detail"]
            told = _WHY[one["kind"]] + (f" ({why})" if why else "")
            counted[told] += 1
            last[told] = one["at"]
    return [f"{count} times {told}, the last at {clock(last[told])}" for told, count in counted.most_common()]


def _settings_of_offsets(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Who set an offset, the last first."""
    return [f"{_SET[one['kind']](one)}, at {clock(one['at'])}" for one in reversed(lines) if one["kind"] in _SET]


def _tags(expression: str) -> frozenset[str]:
    """The same for tags in any order; an SQL92 expression is one."""
    return frozenset(part.strip() for part in expression.split("||"))


def _place(line: Mapping[str, Any]) -> str:
    return f"{line['source_file']}:{line['source_line']}"
