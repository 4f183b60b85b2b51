"""Gauges of a lake: what the tables say, no figure where nothing is known, and no more names than allowed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hindsight.jobs.asking.open_drift import not_judged, told_of
from hindsight.jobs.engines.local_asker import LocalAsker
from hindsight.jobs.engines.local_lake import LocalLake
from hindsight.jobs.lake.cluster_dates import ClusterDate
from hindsight.jobs.metrics.gauges import METRICS
from hindsight.jobs.publishing.publication_record import begin_commits
from hindsight.schemas import (
    BROKER_AVAILABILITY_WINDOW,
    DRIFT_INCIDENT,
    GROUP_ROUND,
    INGESTED_FILE,
    PRODUCER_REPLAY,
    QUALITY_RESULT,
    QUEUE_PROGRESS,
    TABLES,
)
from hindsight.udfs.landing.landing_formats import FORMATS
from tests.lake_rows import LakeRows
from tests.metrics.read_gauges import told, values
from tests.pipeline.random_tables import one_row

AT = datetime(2026, 1, 5, 10, tzinfo=UTC)
OF_SERVERS = "hindsight_server_open_incidents"
DAY = {"cluster": "c", "event_date": AT.date()}


@pytest.fixture
def lake(tmp_path) -> LocalLake:
    return LocalLake(str(tmp_path / "lake"), retention_days=7)


# -- the samples: figures of the views that answer the same ------------------------------------------------------------


@pytest.fixture(scope="module")
def of_samples(sampled):
    return told(sampled)


@pytest.fixture(scope="module")
def rows(sampled) -> LakeRows:
    return LakeRows(sampled)


def test_every_gauge_has_a_series_of_the_samples(of_samples):
    assert [f"hindsight_{name}" for name in of_samples] == list(METRICS)
    assert all(of for name, of in of_samples.items() if f"hindsight_{name}" != OF_SERVERS)


def test_brokers_are_those_of_the_windows_at_the_last_record(of_samples, rows):
    # Every window of the samples that is open at their end, counted by hand in the table.
    last = {"oracle": datetime.min, "shop": datetime.min}
    for row in rows("producer_replay", "verdict IN ('replayed', 'off')"):
        last[row.cluster] = max(last[row.cluster], row.last_attempt_at)
    open_then = [
        row
        for row in rows("broker_availability_window", "state = 'unavailable'")
        if row.window_start <= last[row.cluster] < row.window_end
    ]
    by_broker = dict.fromkeys(of_samples["broker_unavailable_producers"], 0)
    for row in open_then:
        by_broker[row.cluster, row.broker_name] += 1
    assert by_broker == {("oracle", "broker-a"): 3, ("oracle", "broker-b"): 0, ("oracle", "broker-c"): 1}
    assert of_samples["broker_unavailable_producers"] == by_broker
    of_groups = of_samples["producer_group_unavailable_brokers"]
    for (_, group), brokers in of_groups.items():
        assert brokers == len({row.broker_name for row in open_then if row.producer_group == group}), group
    assert of_groups["oracle", "pg_oneway"] == 2


def test_seconds_not_available_are_those_of_the_view(of_samples, rows):
    seconds: dict[str, float] = {}
    for row in rows("producer_windows", "broker_name IS NOT NULL"):
        seconds[row.broker_name] = seconds.get(row.broker_name, 0) + row.unavailable_s
    told_of = {name: s for (_, name), s in of_samples["broker_unavailable_seconds"].items()}
    assert told_of == pytest.approx(seconds)


def test_incidents_are_the_open_ones_each_once_and_by_each_of_its_codes(of_samples, rows):
    still_open = rows("open_incidents")
    by_severity = of_samples["open_incidents"]
    assert by_severity["oracle", "HIGH"] == 0 and sum(by_severity.values()) == len(still_open)
    of_codes = of_samples["consumer_group_open_incidents"]
    assert sum(of_codes.values()) == sum(len(row.codes) for row in still_open)
    assert of_codes["oracle", "g_mix", "ORPHAN_QUEUE", "CRITICAL"] == 2


def test_the_delay_is_that_of_the_slowest_queue_in_the_last_round(of_samples, rows):
    delays = [row for row in rows("consume_delay") if row.consumer_group == "g_skew"]
    last = [row for row in delays if row.round_at == max(row.round_at for row in delays)]
    lags = of_samples["consumer_group_lag_seconds"]
    assert lags["oracle", "g_skew", "at_least"] == max(row.seconds_at_least for row in last) > 60
    assert lags["oracle", "g_skew", "at_most"] == max(row.seconds_at_most for row in last)


def test_rebalances_are_those_of_the_view_over_all_triggers(of_samples, rows):
    counts: dict[tuple[str, str], int] = {}
    for row in rows("rebalances_by_group_and_day"):
        of = row.cluster, row.consumer_group
        counts[of] = counts.get(of, 0) + row.rebalances
    assert of_samples["consumer_group_rebalances"] == counts


def test_the_newest_record_is_told_of_each_format_of_the_samples(of_samples, rows):
    newest = of_samples["newest_record_timestamp_seconds"]
    assert {of for _, of in newest} == {row.format for row in rows("ingested_file")}
    sent = max(row.begin_at for row in rows("send_attempt", "source = 'producer_hook' AND cluster = 'oracle'"))
    assert newest["oracle", "producer_hook"] == sent.replace(tzinfo=UTC).timestamp()


# -- what is bounded ---------------------------------------------------------------------------------------------------


def test_what_has_no_room_is_summed_up_and_counted(of_samples, sampled):
    few = told(sampled, most_series=2)
    for name, metric in METRICS.items():
        if name == OF_SERVERS:  # no server of the samples is in trouble
            continue
        series = few[name.removeprefix("hindsight_")]
        if metric.joined is not None:
            named = [labels for labels in series if labels[1] != "other"]
            assert len(named) <= 2, name
            whole = of_samples[name.removeprefix("hindsight_")]
            assert few["series_left_out"][(name,)] == len(whole) - len(named) > 0, name
            assert metric.joined(series.values()) == pytest.approx(metric.joined(whole.values())), name


def test_groups_with_the_worst_incidents_stand_by_name(lake):
    lake.append(INGESTED_FILE, one_row(INGESTED_FILE, cluster="c", event_dates=[]))
    for number, (group, severity) in enumerate([("low", "LOW")] * 3 + [("bad", "CRITICAL")]):
        of = {"consumer_group": group, "severity": severity, "state": "OPEN", "codes": ["ORPHAN_QUEUE"]}
        lake.append(DRIFT_INCIDENT, one_row(DRIFT_INCIDENT, **DAY, **of, incident_id=str(number)))
    assert told(lake.root, most_series=1)["consumer_group_open_incidents"] == {
        ("c", "bad", "ORPHAN_QUEUE", "CRITICAL"): 1,
        ("c", "other", "ORPHAN_QUEUE", "LOW"): 3,
    }


def test_incidents_of_servers_stand_by_the_server_and_under_no_group(lake):
    lake.append(INGESTED_FILE, one_row(INGESTED_FILE, cluster="c", event_dates=[]))
    of = {"consumer_group": "", "cause_key": "broker-b", "severity": "CRITICAL", "state": "OPEN"}
    lake.append(DRIFT_INCIDENT, one_row(DRIFT_INCIDENT, **DAY, **of, codes=["BROKER_NOT_ANSWERING"], incident_id="1"))
    found = told(lake.root)
    assert found["server_open_incidents"] == {("c", "broker-b", "BROKER_NOT_ANSWERING", "CRITICAL"): 1}
    assert not found["consumer_group_open_incidents"] and found["open_incidents"]["c", "CRITICAL"] == 1


# -- what is not known -------------------------------------------------------------------------------------------------


def test_a_lake_without_verdicts_has_no_zero(lake):
    lake.append(INGESTED_FILE, one_row(INGESTED_FILE, cluster="c", event_dates=[]))
    assert not any(of for name, of in told(lake.root).items() if name != "series_left_out")


@pytest.mark.parametrize(
    ("verdict", "groups", "rebalances"),
    [("ok", {("c", "ok"): 1}, {("c", "g"): 0}), ("unknown", {("c", "unknown"): 1}, {}), (None, {}, {})],
)
def test_groups_that_were_not_judged_have_no_number_of_rebalances(lake, verdict, groups, rebalances):
    lake.append(GROUP_ROUND, one_row(GROUP_ROUND, **DAY, consumer_group="g", round_at=AT, verdict=verdict))
    found = told(lake.root)
    assert (found["consumer_groups"], found["consumer_group_rebalances"]) == (groups, rebalances)
    assert bool(found["open_incidents"]) == (verdict is not None)
    assert bool(found["judged_until_timestamp_seconds"]) == (verdict == "ok")


def test_a_group_is_what_its_worst_topic_is_in_its_last_round(lake):
    rounds = [("t", 0, "drift"), ("t", 60, "ok"), ("u", 60, "unknown")]
    for topic, after, verdict in rounds:
        of = {"consumer_group": "g", "topic": topic, "round_at": AT + timedelta(seconds=after), "verdict": verdict}
        lake.append(GROUP_ROUND, one_row(GROUP_ROUND, **DAY, **of))
    assert told(lake.root)["consumer_groups"] == {("c", "unknown"): 1}


@pytest.mark.parametrize(("minutes", "groups"), [(10, {("c", "ok"): 2}), (11, {("c", "ok"): 1, ("c", "unknown"): 1})])
def test_of_groups_whose_collector_is_silent_while_others_tell_nothing_is_known(lake, minutes, groups):
    """One shard of two: after ten minutes in which the other told of its group."""
    for group, shard, after in (("g", "1-of-2", 0), ("h", "2-of-2", 0), ("h", "2-of-2", minutes)):
        at = {"collector": shard, "round_at": AT + timedelta(minutes=after)}
        lake.append(GROUP_ROUND, one_row(GROUP_ROUND, **DAY, **at, consumer_group=group, topic="t", verdict="ok"))
    assert told(lake.root)["consumer_groups"] == groups
    silent = [f"c  g  t: its collector 1-of-2 has told nothing since {AT:%Y-%m-%d %H:%M:%S} UTC"]
    assert list(told_of(not_judged(LocalAsker(lake)))) == (silent if ("c", "unknown") in groups else [])


@pytest.mark.parametrize(("minutes", "unknown"), [(10, []), (11, ["c  g  t: why"])])
def test_a_group_is_known_for_ten_minutes_after_it_was_judged_also_over_midnight(lake, minutes, unknown):
    judged_at = AT.replace(hour=0) - timedelta(minutes=5)
    for after, verdict in ((0, "ok"), (minutes, "unknown")):
        at = judged_at + timedelta(minutes=after)
        of = {
            "cluster": "c",
            "consumer_group": "g",
            "topic": "t",
            "collector": "",
            "verdict": verdict,
            "missing_inputs": ["why"],
        }
        lake.append(GROUP_ROUND, one_row(GROUP_ROUND, **of, round_at=at, event_date=at.date()))
    assert list(told_of(not_judged(LocalAsker(lake)))) == unknown


def test_a_group_with_a_queue_of_unknown_delay_has_no_upper_bound(lake):
    lake.append(GROUP_ROUND, one_row(GROUP_ROUND, **DAY, consumer_group="g", round_at=AT, verdict="ok"))
    read = {"consumer_group": "g", "topic": "t", "round_at": AT, "captured_at": AT, "broker_name": "b", "collector": ""}
    slow = {"queue_id": 0, "broker_offset": 9, "consumer_offset": 4, "lag": 5}
    lake.append(
        QUEUE_PROGRESS, one_row(QUEUE_PROGRESS, **DAY, **read, **slow, last_timestamp=AT - timedelta(seconds=30))
    )
    assert told(lake.root)["consumer_group_lag_seconds"] == {
        ("c", "g", "at_least"): 0,
        ("c", "g", "at_most"): 30,
    }
    unread = {"queue_id": 1, "broker_offset": 9, "consumer_offset": 0, "lag": 9}
    lake.append(QUEUE_PROGRESS, one_row(QUEUE_PROGRESS, **DAY, **read, **unread))
    assert told(lake.root)["consumer_group_lag_seconds"] == {("c", "g", "at_least"): 0}


def test_a_producer_that_could_not_be_replayed_moves_no_instant_and_no_broker(lake):
    known = {"producer_group": "g", "client_id": "i", "verdict": "replayed", "last_attempt_at": AT}
    lake.append(PRODUCER_REPLAY, one_row(PRODUCER_REPLAY, **DAY, **known))
    later = {"producer_group": "u", "client_id": "j", "verdict": "unknown", "last_attempt_at": AT + timedelta(hours=1)}
    lake.append(PRODUCER_REPLAY, one_row(PRODUCER_REPLAY, **DAY, **later))
    window = {"producer_group": "g", "client_id": "i", "broker_name": "b", "state": "unavailable"}
    times = {"window_start": AT - timedelta(seconds=10), "window_end": AT + timedelta(seconds=20)}
    lake.append(BROKER_AVAILABILITY_WINDOW, one_row(BROKER_AVAILABILITY_WINDOW, **DAY, **window, **times))
    found = told(lake.root)
    assert found["judged_until_timestamp_seconds"] == {("c", "producers"): AT.timestamp()}
    assert found["producers"] == {("c", "replayed"): 1, ("c", "unknown"): 1}
    assert found["broker_unavailable_producers"] == {("c", "b"): 1}
    assert found["broker_unavailable_seconds"] == {("c", "b"): 30}
    assert found["producer_group_unavailable_brokers"] == {("c", "g"): 1}


# -- records and runs --------------------------------------------------------------------------------------------------

SOURCES = [(name, table) for name, of in FORMATS.items() for table in of.tables[:1]]
EXPORTED = [("canonical_snapshots", table) for table in FORMATS["canonical_snapshots"].tables[1:]]


@pytest.mark.parametrize(("source", "name"), SOURCES + EXPORTED)
def test_the_newest_record_is_told_of_each_format_and_table(lake, source, name):
    table = TABLES[name]
    if name == "collection_round":  # a marker of a round, of which no question need follow
        table = TABLES["snapshot_capture"]
    at = {"event_date": AT.date(), "source": source, "cluster": "c"}
    for instant in (AT - timedelta(hours=1), AT):
        lake.append(table, one_row(table, **at, **{table.date_of: instant}))
    older = {"cluster": "c", "source": source, "event_date": AT.date() - timedelta(days=9)}
    lake.append(table, one_row(table, **older, **{table.date_of: AT - timedelta(days=9)}))
    lake.append(INGESTED_FILE, one_row(INGESTED_FILE, cluster="c", format=source, event_dates=[AT.date()]))
    assert told(lake.root)["newest_record_timestamp_seconds"] == {("c", source): AT.timestamp()}


def test_each_cluster_has_its_own_last_date(lake):
    table = TABLES["client_event"]
    for cluster, days in (("c", 0), ("d", 40)):
        at = AT - timedelta(days=days)
        lake.append(
            table, one_row(table, cluster=cluster, source="client_log", event_date=at.date(), **{table.date_of: at})
        )
        ledger = {"cluster": cluster, "format": "client_log", "event_dates": [at.date()]}
        lake.append(INGESTED_FILE, one_row(INGESTED_FILE, **ledger))
    assert told(lake.root)["newest_record_timestamp_seconds"] == {
        ("c", "client_log"): AT.timestamp(),
        ("d", "client_log"): (AT - timedelta(days=40)).timestamp(),
    }


def checked(lake: LocalLake, number: int, severity: str, success: bool) -> None:
    of = {"job": "rebuild_availability", "number": number, "severity": severity, "success": success}
    lake.append(QUALITY_RESULT, one_row(QUALITY_RESULT, **of))


def test_a_job_passed_if_its_newest_checks_did_and_its_commits_were_ended(lake):
    passed = lambda: told(lake.root)["checks_passed"]  # noqa: E731
    assert passed() == {}
    checked(lake, 1, "critical", False)
    assert passed() == {("rebuild_availability",): 0}
    checked(lake, 2, "critical", True)
    checked(lake, 2, "warning", False)
    assert passed() == {("rebuild_availability",): 1}
    begin_commits(lake, "rebuild_availability", [ClusterDate("c", AT.date())])
    assert passed() == {("rebuild_availability",): 0}


@pytest.mark.soak  # as what else is asked on both engines
def test_spark_says_the_same(sampled, spark, settings, of_samples):
    from hindsight.jobs.asking.asking import spark_asker
    from hindsight.jobs.metrics.gauges import gauges

    found = values(gauges(spark_asker(spark, str(sampled), settings), settings.metrics))
    assert found == {f"hindsight_{name}": of for name, of in of_samples.items()}
