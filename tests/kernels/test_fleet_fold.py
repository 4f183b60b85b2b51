"""Minutes of the fleet against a count of each producer by itself."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.producer.fleet_fold import fleet_rows, share_of
from hindsight.udfs.producer.minute_counts import CERTAINTIES, MINUTES, HeldMinutes, MinuteCounts, Tally
from tests.random_examples import examples

BROKERS = ("broker-a", "broker-b")
NO_FACTS = pa.schema(
    [("topic", pa.string()), ("broker_name", pa.string()), ("attempts", pa.int64()), ("top_queue", pa.int64())]
).empty_table()
_DOUBTED = ("inferred", "partial", "possible")


@st.composite
def producers(draw):
    """Each with what is known of it, and by broker the word of its window in minute 0; None: it has none."""
    found = []
    for _ in range(draw(st.integers(1, 6))):
        verdict, switch = draw(st.sampled_from([("replayed", True), ("unknown", None), ("off", False), ("off", None)]))
        certainty = draw(st.sampled_from(CERTAINTIES))
        # A window is never surer than what is known of its producer; the fallback may have forgotten it.
        words = ("certain", "possible") if certainty == "certain" else (certainty,)
        windows = [draw(st.sampled_from([None, *words])) if verdict == "replayed" else None for _ in BROKERS]
        found.append((verdict, switch, certainty, windows))
    return found


def day_of(found):
    settings = (SimpleNamespace(latency_fault_enabled=switch) for _, switch, _, _ in found)
    return SimpleNamespace(
        brokers=BROKERS,
        processes=[
            SimpleNamespace(certainty=certainty, rules=SimpleNamespace(verdict=verdict, settings=own))
            for (verdict, _, certainty, _), own in zip(found, settings, strict=True)
        ],
    )


def share(found):
    held = [
        (process, broker, 0, CERTAINTIES.index(word))
        for process, (_, _, _, windows) in enumerate(found)
        for broker, word in enumerate(windows)
        if word is not None
    ]
    sends = np.arange(len(found)) * MINUTES
    return share_of(
        day_of(found),
        NO_FACTS,
        MinuteCounts(sends=Tally(sends, np.full(len(found), 30))),
        HeldMinutes(*np.array(held, np.int64).reshape(-1, 4).T),
        min_sends_per_minute=30,
    )


@examples(few=200, many=3_000)
@given(producers(), producers())
def test_counts_are_those_of_each_producer_by_itself(found, others):
    rows = fleet_rows("c", 0, [share(found), share(others)]).to_pylist()
    replayed = [(certainty, windows) for verdict, _, certainty, windows in found + others if verdict == "replayed"]
    unknown = sum(verdict == "unknown" or switch is None for verdict, switch, _, _ in found + others)
    for row in rows:
        words = [(certainty, windows[BROKERS.index(row["broker_name"])]) for certainty, windows in replayed]
        assert row["active"] == len(replayed) and row["active_unknown"] == unknown
        assert row["isolating"] == sum(word is not None for _, word in words)
        assert row["isolating_at_least"] == sum(word == "certain" for _, word in words)
        may = sum(word is not None or certainty in _DOUBTED for certainty, word in words)
        assert row["isolating_at_most"] == may + unknown
        # What the gate holds against it.
        assert row["isolating_at_least"] <= row["isolating"] <= row["isolating_at_most"]
        assert row["isolating_at_most"] <= row["active"] + row["active_unknown"]
