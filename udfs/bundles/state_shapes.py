"""States that one date hands to the next, as JSON values, in; the same with each name put through a function, out.

A shape says what stands where. A state that has anything else is refused: a name might stay in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Put = Callable[[str, str], str]  # kind and name: what to put in its place


class UnknownStateError(ValueError):
    """Raised where a state holds what its shape does not tell of."""


@dataclass(frozen=True)
class Each:
    """A list of any length."""

    of: Any


@dataclass(frozen=True)
class By:
    """Values by names of a kind."""

    kind: str
    of: Any = None


@dataclass(frozen=True)
class Fields:
    """Values by the product's own words."""

    of: Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """What stands at each place of a list; behind these, numbers and words of truth alone, or what ``rest`` is."""

    of: Sequence[Any]


SENTENCE = "sentence"  # a text for people: it is left out
_NUMBER = None  # a shape: no text at all, however deep
_QUEUE = ("topic", "broker", _NUMBER)
_SUBJECT = Row(("word", "topic", "broker", _NUMBER, "client", "told"))
_CAUSE = Row(("word", "told"))
_DISTURBANCE = Row(("word", _NUMBER, "told", "topic"))
_LEDGER = Fields({"holders": Each(Row((*_QUEUE, By("client")))), "given": Each(Row((*_QUEUE, "client")))})
_OWNERS = By("topic", Each(Row((*_QUEUE, "client"))))
_MEMORY = Fields(
    {
        **dict.fromkeys(("rounds_read", "read_at", "last_at", "progress_at", "ordered", "peopled_at")),
        **dict.fromkeys(("empty_since", "lost_at")),
        "members": Each("client"),
        **dict.fromkeys(("starts", "silent", "unheard", "relived", "newcomers", "by_hand"), By("client")),
        "twice": Each(Row(("client", "broker", "address", _NUMBER))),
        "subscriptions": By("client", Each(Row(("topic", "word", "expression", Each("tag"))))),
        "routes": By("topic", Each(Row(("broker", _NUMBER)))),
        "disturbances": Each(_DISTURBANCE),
        "last_disturbance": _DISTURBANCE,
        **dict.fromkeys(("standing", "ownerless", "slow", "new_queues", "offsets"), Each(Row(_QUEUE))),
        "shown": Each(Row((*_QUEUE, "client", _NUMBER))),
        "held": Each(Row((*_QUEUE, "client", "client", _NUMBER))),
        "unlocked": Each(Row(("client", *_QUEUE, _NUMBER))),
        "missing": By("told"),
        "remade": By("topic"),
        "absence": Fields({"members": By("client"), "came_back": By("client")}),
    }
)
_TRACK = Fields(
    {
        **dict.fromkeys(("code", "severity", "trust", "state"), "word"),
        "kind": "told",
        "sentence": SENTENCE,
        "causes": Each(_CAUSE),
        "incident": _CAUSE,
        **dict.fromkeys(
            [
                "since",
                "first_seen_at",
                "last_true_at",
                "rounds_true",
                "rounds_past_grace",
                "rounds_informative",
                "false_rounds",
                "false_since",
                "lag_at_open",
                "lag_now",
                "offset_at_first",
                "accrued",
            ]
        ),
    }
)
_INCIDENT = Fields(
    {
        "incident_id": "incident",
        "cause": _CAUSE,
        **dict.fromkeys(("severity", "trust", "state"), "word"),
        "also": Each("word"),
        "attached": Each(Row((_SUBJECT, "word", "told", "word", "word"))),
        **dict.fromkeys(("cause_sentence", "worst_sentence"), SENTENCE),
        "disturbance": _DISTURBANCE,
        **dict.fromkeys(
            [
                "first_seen_at",
                "opened_at",
                "last_seen_at",
                "resolved_at",
                "ordered",
                "reopened",
                "changes",
                "rounds_true",
                "rounds_informative",
                "lag_at_open",
                "lag_now",
                "accrued",
            ]
        ),
    }
)
GROUP_STATE = Fields(
    {
        "memory": _MEMORY,
        "ledger": Fields(
            {
                "tracks": Each(Row((_SUBJECT, _TRACK))),
                "incidents": Each(_INCIDENT),
                "openings": Each(Row(("word", "told", "day", _NUMBER))),
            }
        ),
        "churn": Fields({"owners": _OWNERS, "expected": _OWNERS, "members": Each("client"), "changed_at": None}),
        "inference": Fields({"surviving": By("topic", Each("inferred")), "rounds": By("topic")}),
    }
)
_OF_ROUNDS = Fields(
    {
        "ledger": _LEDGER,
        **dict.fromkeys(("members", "answering"), Each("client")),
        **dict.fromkeys(("seen", "started"), By("client")),
        "routes": By("topic", "line"),
        "last_at": None,
    }
)
REBALANCE_STATE = Fields(
    {
        "logged": Fields(
            {
                "ledger": _LEDGER,
                "shared": Each(Row(("client", "topic"))),
                **dict.fromkeys(("last", "counted"), By("client")),
                "folders": By("log", Each("client")),
                "orders": None,
            }
        ),
        "rounds": By("collector", _OF_ROUNDS),
        "signs": Each(Row((_NUMBER, "word", "told"))),
        "created": By("client"),
        "addresses": By("address", "client"),
    }
)
SHAPES: Mapping[str, Fields] = {"group_drift_state": GROUP_STATE, "rebalance_state": REBALANCE_STATE}


def walked(text: str, shape: Fields, put: Put) -> str:
    """A state with each name put through ``put``. Raises: UnknownStateError."""
    state = _walked(json.loads(text), shape, put, "state")
    return json.dumps(state, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _walked(value: Any, shape: Any, put: Put, place: str) -> Any:
    if value is None:
        return None
    if isinstance(shape, str) and isinstance(value, str):
        return "" if shape == SENTENCE else value if shape == "day" else put(shape, value)
    if shape is None:
        return _without_text(value, place)
    if isinstance(value, list):
        if isinstance(shape, Each):
            return [_walked(one, shape.of, put, f"{place}[]") for one in value]
        if isinstance(shape, Row):
            shapes = (*shape.of, *(None for _ in value[len(shape.of) :]))
            return [
                _walked(one, of, put, f"{place}[{n}]") for n, (one, of) in enumerate(zip(value, shapes, strict=False))
            ]
    if isinstance(value, dict):
        if isinstance(shape, By):
            return {put(shape.kind, name): _walked(one, shape.of, put, f"{place}.*") for name, one in value.items()}
        if isinstance(shape, Fields) and value.keys() <= shape.of.keys():
            return {name: _walked(one, shape.of[name], put, f"{place}.{name}") for name, one in value.items()}
    raise UnknownStateError(
        f"a state that is handed on holds at {place} what this release does not know how to rename."
    )


def _without_text(value: Any, place: str) -> Any:
    """Numbers alone, however deep."""
    if isinstance(value, list):
        return [_without_text(one, place) for one in value]
    if isinstance(value, (str, dict)):
        raise UnknownStateError(f"a state that is handed on holds a text at {place}, where numbers were.")
    return value
