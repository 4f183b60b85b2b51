"""A row of send_call in, the inputs from which it follows out: rules, settings, attempts, windows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from hindsight.jobs.engines.asker import Asker, Record
from hindsight.jobs.explaining.explanation import MOST, Section, at_instant, on_date, queried, rules_in_force, same
from hindsight.udfs.release_profiles import PROFILES, FaultProfile


def explained_send(asker: Asker, call: Record) -> Iterator[Section]:
    """The inputs, in the order in which a person would redo the verdict and the result."""
    yield rules_in_force(asker, call)
    yield _settings(asker, call)
    yield _attempts(asker, call)
    yield _held(asker, call)


def _settings(asker: Asker, call: Record) -> Section:
    """How the producer sends, as it recorded itself."""
    profile = PROFILES.get(call["profile"] or "")
    return queried(
        asker,
        "How the producer sends (producer_replay.recorded)",
        f"{_rules_of(profile)} Null: not recorded; DefaultMQProducer's own default counts: 2 retries, 3000 ms, false.",
        f"""SELECT recorded.retry_times_sync, recorded.retry_times_async, recorded.retry_another_broker,
            recorded.send_timeout_ms FROM producer_replay
            WHERE {same(asker, call, "cluster", "event_date", "producer_group", "client_id", "started_at")}""",
    )


def _rules_of(profile: FaultProfile | None) -> str:
    if profile is None:
        return "The release is not known, so nothing is said of retries."
    codes = ", ".join(map(str, profile.retry_response_codes))
    more = " and those that the application adds" if profile.retry_codes_configurable else ""
    time = (
        "One time-out covers all attempts" if profile.attempts_share_timeout else "Each attempt has the whole time-out"
    )
    return (
        f"SYNC: at most 1 + retry_times_sync attempts. The next one follows a RemotingException or MQClientException, "
        f"a broker's error of code {codes}{more}, and another status than SEND_OK if retry_another_broker. {time}. "
        "ONEWAY, and a queue that the application chose: one attempt. ASYNC: the client retries where no hook sees it."
    )


def _attempts(asker: Asker, call: Record) -> Section:
    """The attempts, with their lines."""
    day, until = on_date(call["begin_at"]), on_date(call["end_at"] + timedelta(days=1))
    return queried(
        asker,
        "Its attempts (send_attempt)",
        "gone_ms: what was gone of the time-out as the attempt ended, counted from the first one's begin.",
        f"""SELECT attempt, begin_at, end_at, latency_ms,
            UNIX_MILLIS(end_at) - UNIX_MILLIS({at_instant(call["begin_at"])}) AS gone_ms, broker_name, queue_id,
            outcome, exception, error, response_code, queue_selected_by,
            CONCAT(source_file, ':', source_line) AS line FROM send_attempt
            WHERE {same(asker, call, "cluster", "producer_group", "client_id", "msg_id", "mode")}
            AND event_date BETWEEN {day} AND {until}
            AND begin_at BETWEEN {at_instant(call["begin_at"])} AND {at_instant(call["end_at"])}
            ORDER BY begin_at, attempt LIMIT {MOST}""",
    )


def _held(asker: Asker, call: Record) -> Section:
    """The brokers that were left out of the choice meanwhile."""
    return queried(
        asker,
        "Brokers that the producer treated as not available meanwhile (broker_availability_window)",
        "A retry goes to another broker if one is available (see send_verdict for its choice).",
        f"""SELECT broker_name, state, window_start, window_end, trigger_kind, certainty
            FROM broker_availability_window
            WHERE {same(asker, call, "cluster", "event_date", "producer_group", "client_id")}
            AND window_start <= {at_instant(call["end_at"])}
            AND (window_end > {at_instant(call["begin_at"])} OR window_end IS NULL)
            ORDER BY window_start, broker_name LIMIT {MOST}""",
    )
