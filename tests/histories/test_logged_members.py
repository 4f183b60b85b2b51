"""A member that came and went between two rounds, as only a broker's log tells, mutes what its coming may explain."""

from __future__ import annotations

import pytest

from hindsight.udfs.consumer.round_facts import MemberEvent
from hindsight.udfs.drift.group_history import GroupHistory
from tests.default_timing import default_timing
from tests.histories.test_incident_fixtures import B0, BEGIN_MS, world

QUIET_S = 600


def states(events):
    """States of the findings of a queue without owner, 600 s after anything else changed; ``events`` just before."""
    history = GroupHistory(("c", "", "g"), default_timing())
    for second in range(0, QUIET_S, 15):
        history.step(world(BEGIN_MS + second * 1000))
    at = BEGIN_MS + QUIET_S * 1000
    walked = history.step(world(at, {B0: None}, events=tuple(e._replace(at=at - 1000) for e in events)))
    return walked.disturbance, {(j.finding.code, j.judgement.state) for j in walked.judged}


def test_without_an_event_the_finding_is_on_its_way():
    disturbance, found = states([])
    assert disturbance.kind == "start"
    assert ("ORPHAN_QUEUE", "PENDING") in found


@pytest.mark.parametrize("kind", ["join", "leave"])
def test_after_an_event_it_is_muted_and_names_it(kind):
    disturbance, found = states([MemberEvent(kind, 0, "c9")])
    assert (disturbance.kind, disturbance.subject) == (kind, "c9")
    assert ("ORPHAN_QUEUE", "SUPPRESSED") in found
