"""Findings of a group's rounds, in order, in; incidents out: one per cause, opened and closed with hysteresis.

A finding is followed by its subject from round to round::

    SUPPRESSED   a change of membership or route is too recent       -> PENDING
    PENDING      true, not yet in enough rounds or for long enough   -> OPEN
    OPEN         counted; with it, all findings of the same cause    -> CLEARING
    CLEARING     false, not yet in 3 rounds and for 60 s             -> OPEN, or closed

Rounds that could not have shown the finding (``Seen.told`` False) change nothing: no count, no reset. An incident is
open while one of its findings is, and resolved when the last one is closed. One that opens again within 20 rounds is
the same incident; with 4 or more such changes in 20 rounds it is FLAPPING.

What is followed over the rounds of a group: findings (``Track``) and what they make together (``Incident``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from hindsight.udfs.consumer.drift_timing import Opening, Timing
from hindsight.udfs.drift.disturbances import Disturbance, Grace
from hindsight.udfs.drift.finding import SEVERITIES, Finding, Subject, begun
from hindsight.udfs.drift.root_cause import UNEXPLAINED, Cause
from hindsight.udfs.values.kept_states import form_of

SUPPRESSED, PENDING, OPEN = "SUPPRESSED", "PENDING", "OPEN"
CLEARING, RESOLVED, FLAPPING = "CLEARING", "RESOLVED", "FLAPPING"
_MOST_MESSAGES = 2**63 - 1


class Seen(NamedTuple):
    """A finding of this round, with what the round's facts make of it."""

    subject: Subject
    finding: Finding
    causes: Sequence[Cause]
    grace: Grace | None
    counts: bool = True  # False: it neither adds to the counts nor resets them, as a loose round by itself
    opens: bool = True  # False: it belongs to an incident that another finding opened
    about: tuple[str, ...] = ()  # clients: what is about none of those of the round before is another finding
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
    about: list[str] = field(default_factory=list)  # see ``Seen``
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


def incident_of(values: Mapping[str, Any], evidence: Mapping[str, Sequence[str]]) -> Incident:
    """The incident written as JSON values, with its evidence, which stands beside them."""
    attached = map(form_of(Attached).read, values["attached"])
    made: Incident = form_of(Incident).read({**values, "attached": ()})
    made.attached = {one.subject: one for one in attached}
    made.evidence = list(evidence.get(made.incident_id, ()))
    return made


@dataclass
class Ledger:
    """The findings and incidents of one group; ``to_state`` and ``of_state`` carry them over a date's end."""

    group: tuple[str, str, str]  # cluster, collector, consumer group
    timing: Timing
    tracks: dict[Subject, Track] = field(default_factory=dict)
    incidents: dict[Cause, Incident] = field(default_factory=dict)
    openings: dict[Cause, tuple[str, int]] = field(default_factory=dict)  # date and number of its last opening
    finished: list[Incident] = field(default_factory=list)

    def advance(
        self,
        at: int,
        round_number: int,
        seen: Sequence[Seen],
        told: Callable[[Subject, int], bool],
        disturbance: Disturbance | None = None,
    ) -> list[Judgement]:
        """Take in one round; judgements come in the order of ``seen``.

        Args:
            at: instant of the round, epoch milliseconds.
            round_number: rounds in which the group was read so far, this one included.
            told: whether this round shows that a subject, last true at the instant given, is no longer so.
        """
        if not (seen or self.tracks or self.incidents):
            return []
        self._forget(round_number)
        tracks = [self._take(at, one) for one in seen]
        found = {one.subject for one in seen}
        for subject in [s for s in self.tracks if s not in found]:
            self._miss(at, subject, told)
        for one, track in zip(seen, tracks, strict=True):
            if track.incident is None and self._may_open(at, one, track):
                self._open(at, round_number, one, track, disturbance)
        for one, track in zip(seen, tracks, strict=True):
            self._attach(at, one, track)
        for _, incident in sorted(self.incidents.items()):
            self._settle(at, round_number, incident, told)
        return [
            Judgement(
                track.state, track, self.incidents[track.incident].incident_id if track.incident else one.effect_of
            )
            for one, track in zip(seen, tracks, strict=True)
        ]

    def followed(self, subject: Subject, about: Sequence[str]) -> Track | None:
        """The track of a finding about these clients; None: it is new, or no incident's and about others so far."""
        track = self.tracks.get(subject)
        is_other = track is not None and track.incident is None and track.about and not {*about} & {*track.about}
        return None if is_other else track

    def _take(self, at: int, one: Seen) -> Track:
        finding, track = one.finding, self.followed(one.subject, one.about)
        since = min(at, finding.since or finding.captured_at or at)
        code, severity, sentence, trust = finding.code, finding.severity, finding.sentence, finding.trust
        if track is None:
            track = Track(code, finding.kind, severity, trust, sentence, since, at, at, [])
            track.offset_at_first = one.broker_offset
            self.tracks[one.subject] = track
        track.code, track.kind, track.severity = code, finding.kind, severity
        track.trust, track.sentence = trust, sentence
        track.since = min(track.since, since) if track.is_true else since
        track.last_true_at = at
        track.causes, track.about = list(one.causes), list(one.about)
        in_grace = one.grace is not None and at < one.grace.until
        if one.counts:
            track.rounds_true += 1
            track.rounds_informative += 1
            track.rounds_past_grace += not in_grace
            track.false_rounds, track.false_since = 0, None
        if track.incident is None:
            track.state = SUPPRESSED if in_grace else PENDING
        track.lag_now = one.lag if one.lag is not None else track.lag_now
        if one.broker_offset is not None:
            track.offset_at_first = one.broker_offset if track.offset_at_first is None else track.offset_at_first
            track.accrued = one.broker_offset - track.offset_at_first
        return track

    def _miss(self, at: int, subject: Subject, told: Callable[[Subject, int], bool]) -> None:
        track = self.tracks[subject]
        if not told(subject, track.last_true_at):
            return
        if track.incident is None:
            del self.tracks[subject]
            return
        track.rounds_true = 0
        track.rounds_informative += 1
        track.false_rounds += 1
        track.false_since = at if track.false_since is None else track.false_since
        if track.false_rounds >= self.timing.close_rounds and at - track.false_since >= self.timing.close_s * 1000:
            incident = self.incidents[track.incident]
            incident.attached[subject] = incident.attached[subject]._replace(is_open=False)
            del self.tracks[subject]

    def _may_open(self, at: int, one: Seen, track: Track) -> bool:
        opening = self.timing.opens.get(track.code, Opening())
        if track.state == SUPPRESSED or not one.counts or not one.opens or one.effect_of:
            return False
        # A rolling deploy shows both subscriptions all along: only rounds after its grace count.
        past_grace_only = one.subject.family == "SUBSCRIPTION_INCONSISTENT"
        rounds = track.rounds_past_grace if past_grace_only else track.rounds_true
        age_s = 0 if one.at_once else opening.age_s
        # What a record shows of the time before the finding counts too.
        return rounds >= opening.rounds and at - min(track.first_seen_at, track.since) >= age_s * 1000

    def _open(self, at: int, round_number: int, one: Seen, track: Track, disturbance: Disturbance | None) -> None:
        cause = track.causes[0]
        incident = self.incidents.get(cause)
        if incident is not None and incident.state != RESOLVED:
            return
        if incident is not None:
            incident.state, incident.resolved_at, incident.reopened = OPEN, None, incident.reopened + 1
            incident.changes.append(round_number)
            return
        day = datetime.fromtimestamp(at / 1000, UTC).date().isoformat()
        last_day, count = self.openings.get(cause, (day, 0))
        order = count + 1 if last_day == day else 1
        self.openings[cause] = (day, order)
        self.incidents[cause] = Incident(
            incident_id=incident_id(self.group, cause, day, order),
            cause=cause,
            first_seen_at=track.first_seen_at,
            opened_at=at,
            last_seen_at=at,
            severity=track.severity,
            trust=track.trust,
            ordered=one.ordered,
            changes=[round_number],
            evidence=list(one.finding.evidence),
            disturbance=disturbance,
        )

    def _attach(self, at: int, one: Seen, track: Track) -> None:
        """Let the finding belong to the open incident of its cause; once it does, it stays."""
        if track.incident is None:
            if one.effect_of and track.state == PENDING:
                track.state = OPEN
            incident = self.incidents.get(track.causes[0])
            if incident is None or incident.state == RESOLVED or track.state == SUPPRESSED:
                return
            track.incident = incident.cause
            track.lag_at_open = one.lag
        incident = self.incidents[track.incident]
        track.state = OPEN
        first = incident.attached.get(one.subject)
        # What was certain once is not taken back by a round that saw less.
        code, trust = (first.code, first.trust) if first and first.trust == "certain" else (track.code, track.trust)
        since = first.first_seen_at if first else track.first_seen_at
        incident.attached[one.subject] = Attached(
            one.subject, code, track.kind, track.severity, trust, since, last_seen_at=at, is_open=True
        )
        incident.first_seen_at = min(incident.first_seen_at, track.first_seen_at)
        incident.ordered = incident.ordered or one.ordered
        others = {cause.name for cause in track.causes} - {incident.cause.name, UNEXPLAINED}
        incident.also = sorted({*incident.also, *others})

    def _settle(self, at: int, round_number: int, incident: Incident, told: Callable[[Subject, int], bool]) -> None:
        own = {s: t for s, t in self.tracks.items() if t.incident == incident.cause}
        holding = {s: t for s, t in own.items() if t.is_true}
        if incident.state == RESOLVED:
            return
        true_now = [t for t in holding.values() if t.last_true_at == at]
        if true_now or any(told(s, t.last_true_at) for s, t in own.items()):
            incident.rounds_informative += 1
        if true_now:
            incident.rounds_true += 1
            incident.last_seen_at = at
            self._describe(incident, holding)
        if not own:
            incident.state, incident.resolved_at = RESOLVED, at
            incident.changes.append(round_number)
            return
        recent = [change for change in incident.changes if change > round_number - self.timing.flapping_rounds]
        flaps = len(recent) >= self.timing.flapping_changes
        incident.state = FLAPPING if flaps else OPEN if holding else CLEARING

    def _describe(self, incident: Incident, holding: Mapping[Subject, Track]) -> None:
        """The worst severity so far, the trust of the surest finding, and the sentence of the one that says most."""
        tracks = list(holding.items())
        incident.severity = min((incident.severity, *(t.severity for _, t in tracks)), key=SEVERITIES.index)
        incident.trust = "certain" if any(t.trust == "certain" for _, t in tracks) else "possible"
        ranked = [t for _, t in sorted(tracks, key=lambda entry: _rank(*entry))]
        # Muted or not, the cause itself is what the incident is about.
        causing = [t for t in self.tracks.values() if t.code == incident.cause.name and t.causes[0] == incident.cause]
        own = sorted(t.sentence for t in causing if t.is_true)
        rest = [t.sentence for t in ranked if t.code != incident.cause.name]
        names = (self.group[2], *(s.client_id or "" for s in self.tracks))
        incident.cause_sentence = _joined(own[:3], names) or incident.cause_sentence
        incident.worst_sentence = _joined(rest[:1], names)
        incident.lag_now = _total([t.lag_now for _, t in tracks])
        incident.lag_at_open = _total([t.lag_at_open for _, t in tracks])
        incident.accrued = _total([t.accrued for _, t in tracks])

    def _forget(self, round_number: int) -> None:
        """Finish incidents that have been resolved so long that a new opening is another incident."""
        for cause, incident in sorted(self.incidents.items()):
            if incident.state == RESOLVED and round_number - incident.changes[-1] > self.timing.flapping_rounds:
                self.finished.append(self.incidents.pop(cause))

    def close_date(self, day: str) -> None:
        """Let go of what only openings of this date needed; ``day`` is its ISO date."""
        self.openings = {cause: opening for cause, opening in self.openings.items() if opening[0] > day}

    def to_state(self) -> dict[str, Any]:
        """The ledger as JSON values, in an order that equal ledgers share.

        Finished incidents are not in it, and evidence, which names files, stands beside it (``evidence``).
        """
        return {
            "tracks": [[list(s), vars(t)] for s, t in sorted(self.tracks.items(), key=_by_text)],
            "incidents": [_incident_state(i) for _, i in sorted(self.incidents.items())],
            "openings": [[*cause, *opening] for cause, opening in sorted(self.openings.items())],
        }

    def evidence(self) -> dict[str, list[str]]:
        """Each incident's evidence, by its id."""
        return {i.incident_id: i.evidence for _, i in sorted(self.incidents.items())}

    def finished_state(self) -> list[dict[str, Any]]:
        """The incidents that were finished since the date began, evidence and all, as JSON values."""
        return [{**_incident_state(i), "evidence": i.evidence} for i in self.finished]

    def take_finished(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Go on with what ``finished_state`` gave."""
        self.finished = [incident_of(values, {values["incident_id"]: values["evidence"]}) for values in state]

    @classmethod
    def of_state(
        cls,
        group: tuple[str, str, str],
        timing: Timing,
        state: Mapping[str, Any],
        evidence: Mapping[str, Sequence[str]],
    ) -> Ledger:
        """The ledger that ``to_state`` and ``evidence`` wrote."""
        return cls(
            group,
            timing,
            tracks={Subject(*s): form_of(Track).read(t) for s, t in state["tracks"]},
            incidents={i.cause: i for i in (incident_of(values, evidence) for values in state["incidents"])},
            openings={Cause(name, key): (day, order) for name, key, day, order in state["openings"]},
        )


def _incident_state(incident: Incident) -> dict[str, Any]:
    return {
        **{name: value for name, value in vars(incident).items() if name != "evidence"},
        "attached": [list(a) for _, a in sorted(incident.attached.items(), key=_by_text)],
    }


def _rank(subject: Subject, track: Track) -> tuple[Any, ...]:
    """Sort key: the worst finding first, of equal ones the longest."""
    return SEVERITIES.index(track.severity), track.first_seen_at, subject_text(subject)


def _total(of_tracks: Sequence[int | None]) -> int | None:
    """The sum, or None of nothing; held to what a column of longs takes: sums of offsets made up may lie beyond."""
    messages = [count for count in of_tracks if count is not None]
    return min(max(sum(messages), -_MOST_MESSAGES), _MOST_MESSAGES) if messages else None


def _joined(sentences: Sequence[str], names: Sequence[str]) -> str:
    return " ".join(dict.fromkeys(begun(sentence, names) for sentence in sentences))


def _by_text(entry: tuple[Subject, Any]) -> str:
    return subject_text(entry[0])
