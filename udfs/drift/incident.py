"""What is followed over the rounds of a group: findings (``Track``) and what they make together (``Incident``)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hindsight.udfs.drift.disturbances import Disturbance, Grace
from hindsight.udfs.drift.finding import Finding, Subject
from hindsight.udfs.drift.root_cause import Cause

SUPPRESSED, PENDING, OPEN, CLEARING, RESOLVED, FLAPPING = (
    "SUPPRESSED",
    "PENDING",
    "OPEN",
    "CLEARING",
    "RESOLVED",
    "FLAPPING",
)


class Seen(NamedTuple):
    """A finding of this round, with what the round's facts make of it."""

    subject: Subject
    finding: Finding
    causes: Sequence[Cause]
    grace: Grace | None
    counts: bool = True  # False: the round is loose, it neither adds to the counts nor resets them
    opens: bool = True  # False: it belongs to an incident that another finding opened
    effect_of: str | None = None  # the incident of a server that explains it: it opens none
    at_once: bool = False  # what the age of its code waits for is known already
    lag: int | None = None
    broker_offset: int | None = None
    ordered: bool = False


@dataclass
class Track:
    """A finding over the rounds. Instants are epoch milliseconds."""

    code: str
    kind: str | None
    severity: str
    trust: str
    sentence: str
    since: int
    first_seen_at: int
    last_true_at: int
    causes: list[Cause]
    state: str = PENDING
    rounds_true: int = 0
    rounds_past_grace: int = 0
    rounds_informative: int = 0
    false_rounds: int = 0
    false_since: int | None = None
    incident: Cause | None = None
    lag_at_open: int | None = None
    lag_now: int | None = None
    offset_at_first: int | None = None
    accrued: int | None = None

    @property
    def is_true(self) -> bool:
        """The finding held in the last round that could show it."""
        return self.false_since is None


class Attached(NamedTuple):
    """What an incident keeps of a finding, also after it is closed."""

    subject: Subject
    code: str
    kind: str | None
    severity: str
    trust: str
    first_seen_at: int
    last_seen_at: int
    is_open: bool


@dataclass
class Incident:
    """One cause and everything it explains, from its first opening on."""

    incident_id: str
    cause: Cause
    first_seen_at: int
    opened_at: int
    last_seen_at: int
    severity: str
    trust: str
    ordered: bool
    state: str = OPEN
    resolved_at: int | None = None
    changes: list[int] = field(default_factory=list)  # number of the round of each opening and closing
    reopened: int = 0
    rounds_true: int = 0
    rounds_informative: int = 0
    also: list[str] = field(default_factory=list)
    attached: dict[Subject, Attached] = field(default_factory=dict)
    cause_sentence: str = ""  # what was last said of the cause itself
    worst_sentence: str = ""  # what is said of the worst that it explains
    evidence: list[str] = field(default_factory=list)
    disturbance: Disturbance | None = None
    lag_at_open: int | None = None
    lag_now: int | None = None
    accrued: int | None = None


class Judgement(NamedTuple):
    """What the rounds so far make of a finding of this round."""

    state: str
    track: Track
    incident_id: str | None  # that it belongs to, or is an effect of


def incident_id(group: tuple[str, str, str], cause: Cause, day: str, order: int) -> str:
    """Digest of cluster, collector, group, root cause, cause key, and date and order of the first opening."""
    text = "\n".join((*group, *cause, day, str(order)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def subject_text(subject: Subject) -> str:
    """A text by which subjects sort, None as nothing."""
    return "\t".join("" if part is None else str(part) for part in subject)


def track_of(values: Mapping[str, Any]) -> Track:
    """The track whose ``vars`` were written as JSON values."""
    incident = values["incident"]
    return Track(
        **{
            **values,
            "causes": [Cause(*cause) for cause in values["causes"]],
            "incident": Cause(*incident) if incident else None,
        }
    )


def incident_of(values: Mapping[str, Any], evidence: Mapping[str, Sequence[str]]) -> Incident:
    """The incident written as JSON values, with its evidence, which stands beside them."""
    attached = [Attached(Subject(*a[0]), *a[1:]) for a in values["attached"]]
    disturbance = values["disturbance"]
    return Incident(
        **{
            **values,
            "cause": Cause(*values["cause"]),
            "attached": {a.subject: a for a in attached},
            "disturbance": Disturbance(*disturbance) if disturbance else None,
            "evidence": list(evidence.get(values["incident_id"], ())),
        }
    )
