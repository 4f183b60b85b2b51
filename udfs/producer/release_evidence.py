"""A sample of attempts and the candidates of its processes in; what told against each candidate, out.

The date's own fold replays the sample under each candidate, for all processes that have it at once. Then four things
are counted of each process (``release_counts``), by which a candidate is ruled out:

- ``choices``: stretches in which it held a broker, and those in which the broker was chosen all the same;
- ``retries``: retries, and those to a broker that its rule does not take;
- ``turns``: laps of a thread in which a broker had to come, and those in which it did not (``release_turns``);
- ``response_codes``: broker errors after which its loop goes on, or ends, and those after which the send did not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from hindsight.udfs.producer.attempt_updates import least_slow_ms
from hindsight.udfs.producer.choice_fold import ChoiceJudge
from hindsight.udfs.producer.doubtful_choices import not_available
from hindsight.udfs.producer.fault_fold import new_items
from hindsight.udfs.producer.producer_fold import END, first_state, fold
from hindsight.udfs.producer.release_candidates import Candidate, is_whole
from hindsight.udfs.producer.release_counted import Counted, Evidence
from hindsight.udfs.producer.release_looked import STRIKES_MS, Looked
from hindsight.udfs.producer.replayed_day import Day, day_of


def evidence_of(looked: Looked, candidates: Mapping[int, Sequence[Candidate]]) -> dict[tuple[int, Candidate], Evidence]:
    """What told against each candidate of each process (by place) with attempts in the sample."""
    asked = defaultdict(list)
    for process, own in candidates.items():
        for candidate in own:
            if process in looked.of_process and is_whole(candidate):
                asked[candidate].append(process)
    found = {}
    for candidate, processes in asked.items():
        day = _under(looked, candidate, processes)
        judge = ChoiceJudge(day, looked.routes, tolerance_ms=looked.tolerance_ms)
        state = first_state(day, new_items(np.zeros(0, np.int64)))
        tolerance_ms = looked.tolerance_ms
        part, _ = fold(day, judge, state, looked.sample.table, END, tolerance_ms=tolerance_ms, slow_ms=STRIKES_MS)
        held = not_available(part.held, part.down, day)
        for place, process in enumerate(processes):
            found[process, candidate] = Counted(looked, part, held, place, process, candidate).evidence()
    return found


def slow_ms_of(candidates: Sequence[Candidate]) -> int:
    """The least latency for which one of them holds a broker back."""
    return min((least_slow_ms(c.profile) for c in candidates if c.latency_fault_enabled), default=STRIKES_MS)


def _under(looked: Looked, candidate: Candidate, processes: Sequence[int]) -> Day:
    """The date with these processes alone, set up like the candidate."""
    day = looked.day
    own = [day.processes[process] for process in processes]
    place_of = {process: place for place, process in enumerate(processes)}
    places = {key: place_of[process] for key, process in day.places.items() if process in place_of}
    return day_of(
        looked.facts,
        [process._replace(rules=candidate.rules(process.rules.settings)) for process in own],
        places,
        cluster=day.cluster,
        midnight_ms=day.midnight_ms,
        cuts=day.cuts,
        more_brokers=day.brokers,
    )
