-- Sections of explanations of producers' rows. A section: its name and title, the words below it, and its query.
-- What stands in braces is of the row that is explained; explanation.section fills it in.

-- rules_in_force: The rules in force (producer_replay)
-- A start record wins over the settings, and these over the release's own.
SELECT client_version, profile, latency_fault_enabled, detector_enabled, latency_max_ms, not_available_ms, verdict,
  reasons, certainty
FROM producer_replay WHERE {same[cluster event_date producer_group client_id started_at]}

-- candidates: What it may have been (producer_release)
-- A setup is ruled out when more of its chances went against it than misread lines explain.
SELECT families, ladder, latency_fault_enabled AS switch, detector_enabled AS detector, state, ruled_out_by,
  against, chances, log_likelihood, msg_id, begin_at, broker_name, reason
FROM producer_release WHERE {same[cluster event_date producer_group client_id started_at]}
ORDER BY state, families, ladder, switch, detector LIMIT {most}

-- before_the_first_against: Attempts to the broker up to the first choice that went against it (send_attempt)
-- The last slow or failed one before it opened the window in which this setup avoids the broker.
SELECT begin_at, end_at, latency_ms, topic, thread, msg_id, attempt, last_broker_name, outcome, exception
FROM {replayed} WHERE {same[cluster producer_group client_id broker_name]}
AND begin_at BETWEEN {at[begin_at-30s]} AND {at[begin_at]}
ORDER BY begin_at DESC, msg_id, attempt LIMIT 20

-- senders_of_minute: Producers that sent in the minute (send_attempt)
-- Active are those with min_sends_per_minute first attempts or more, to any broker.
SELECT producer_group, client_id, COUNT_IF(COALESCE(attempt, 0) = 0) AS sends,
  COUNT_IF({same[broker_name]}) AS attempts_to_the_broker
FROM {replayed} WHERE {same[cluster event_date]} AND begin_at >= {at[from]} AND begin_at < {at[until]}
GROUP BY producer_group, client_id ORDER BY sends DESC, producer_group, client_id LIMIT {most}

-- windows: Its windows in that time (broker_availability_window)
-- explain broker_availability_window redoes one from its attempts. One that midnight cuts is continued.
SELECT broker_name, state, window_start, window_end, end_reason, continues_previous, trigger_kind,
  trigger_latency_ms, not_available_ms, certainty
FROM broker_availability_window
WHERE {same[cluster producer_group client_id started_at]}{and_same[broker_name]}
AND event_date BETWEEN {on[from]} AND {on[last]} AND {overlapping} ORDER BY window_start, broker_name LIMIT {most}

-- windows_of_all: Who treated the broker as not available in that time (broker_availability_window)
-- certain windows alone count in isolating_at_least.
SELECT producer_group, client_id, window_start, window_end, trigger_kind, certainty
FROM broker_availability_window WHERE {same[cluster event_date broker_name]}
AND {overlapping} ORDER BY window_start, producer_group, client_id LIMIT {most}

-- minutes: The fleet in those minutes (fleet_minute)
-- isolating of active is compared with the shares in [producer_findings].
SELECT minute_at, active, isolating, isolating_at_least, isolating_at_most, active_unknown, attempts
FROM fleet_minute WHERE {same[cluster event_date broker_name]}
AND minute_at >= {at[from]} AND minute_at < {at[until]} ORDER BY minute_at LIMIT {most}

-- answers_of_broker: What the broker answered in those minutes (failed_attempts)
-- gone_on: their sends went on to another attempt; lost: the caller got an exception.
SELECT minute, failed_with, response_code, attempts, gone_on, saved, lost FROM failed_attempts
WHERE {same[cluster event_date broker_name]} AND minute >= {at[from]} AND minute < {at[until]}
ORDER BY minute, failed_with, response_code LIMIT {most}

-- shares: First attempts of the producer by broker in that time (send_attempt)
-- A broker's share of the topic's queues is what it should get of them.
SELECT topic, broker_name, COUNT(*) AS sends, COUNT(DISTINCT queue_id) AS queues_seen,
  MIN(begin_at) AS first_at, MAX(begin_at) AS last_at
FROM {replayed} WHERE {same[cluster event_date producer_group client_id]}{and_same[topic]}
AND COALESCE(attempt, 0) = 0 AND COALESCE(queue_selected_by, 'client') = 'client'
AND begin_at >= {at[from]} AND begin_at < {at[until]}
GROUP BY topic, broker_name ORDER BY topic, sends DESC, broker_name LIMIT {most}

-- latencies: Latencies of its attempts to the broker, minute by minute (send_attempt)
-- p99 of each minute is compared with fault_off_slow_ms. ONEWAY and submits are left aside.
SELECT DATE_TRUNC('minute', begin_at) AS minute, COUNT(*) AS attempts,
  CAST(PERCENTILE_DISC(0.99) WITHIN GROUP (ORDER BY latency_ms) AS BIGINT) AS p99_ms
FROM {replayed} WHERE {same[cluster event_date producer_group client_id broker_name]}
AND outcome <> 'SUBMITTED' AND begin_at >= {at[from]} AND begin_at < {at[until]}
GROUP BY DATE_TRUNC('minute', begin_at) ORDER BY minute LIMIT {most}

-- impossible_choices: Choices that its release could not have made (send_verdict)
-- explain send_verdict shows the fault items at one of them.
SELECT begin_at, topic, msg_id, attempt, broker_name, admissible, rule, reason
FROM send_verdict WHERE {same[cluster event_date producer_group client_id started_at]}
AND verdict = 'impossible' ORDER BY begin_at, msg_id, attempt LIMIT {most}

-- starts: Start records of the producer (producer_instance)
-- A start record wins over the settings, and these over the release's own.
SELECT started_at, client_version, latency_fault_enabled, source_file || ':' || source_line AS line
FROM producer_instance WHERE {same[cluster producer_group client_id]} ORDER BY started_at DESC LIMIT {most}

-- attempts_by_source: Its attempts on the date, by source (send_attempt)
-- The replay goes by the sources that the row names; certainty is partial where exceptions are not observable.
SELECT source, mode, COUNT(*) AS attempts, COUNT_IF(exception IS NOT NULL) AS failed,
  MIN(exceptions_observable) AS exceptions_observable, MIN(begin_at) AS first_at, MAX(begin_at) AS last_at
FROM send_attempt WHERE {same[cluster producer_group client_id event_date]}
GROUP BY source, mode ORDER BY source, mode LIMIT {most}

-- last_attempts: The last attempts to the broker (send_attempt)
-- last_update_at is the end of the last one that counted; current_latency_ms its latency.
SELECT begin_at, end_at, latency_ms, mode, outcome, exception, queue_selected_by,
  source_file || ':' || source_line AS line
FROM send_attempt WHERE {same[cluster producer_group client_id broker_name]}
AND event_date BETWEEN {on[until-1d]} AND {on[until]}
AND begin_at <= {at[until]} ORDER BY end_at DESC LIMIT 10

-- windows_of_date: Its windows of the date (broker_availability_window)
-- An item whose start_at lies after the date's end is handed to the next date.
SELECT state, window_start, window_end, end_reason, trigger_kind, trigger_latency_ms, certainty
FROM broker_availability_window WHERE {same[cluster event_date producer_group client_id started_at broker_name]}
ORDER BY window_start LIMIT {most}

-- line: The line (client_event)
SELECT logged_at, log_folder, thread, kind, broker_name, duration_ms, source_file || ':' || source_line AS line
FROM client_event WHERE {same[cluster event_date line_digest occurrence]} LIMIT {most}

-- windows_near_line: Windows of the broker that begin or end within 5 s of it (broker_availability_window)
-- The nearest within [confirmation] within_ms of a producer whose thread wrote the line is taken.
SELECT producer_group, client_id, state, window_start, window_end, end_reason, not_available_ms
FROM broker_availability_window WHERE {same[cluster event_date broker_name]}
AND (window_start BETWEEN {at[logged_at-5s]} AND {at[logged_at+5s]} OR window_end BETWEEN {at[logged_at-5s]} AND
  {at[logged_at+5s]}) ORDER BY window_start, client_id LIMIT {most}

-- held_at_choice: What the producer treated as not available when the attempt began (broker_availability_window)
-- A broker is left out of the choice from window_start on, up to window_end.
SELECT broker_name, state, window_start, window_end, trigger_kind, trigger_latency_ms, certainty
FROM broker_availability_window WHERE {same[cluster event_date producer_group client_id]}
AND window_start <= {at[begin_at]} + INTERVAL 1 SECOND
AND (window_end > {at[begin_at]} - INTERVAL 1 SECOND OR window_end IS NULL)
ORDER BY broker_name, window_start LIMIT {most}

-- brokers_in_use: Brokers that it used for the topic within 30 s
-- A broker used before and after was in the client's list; so was the one that was chosen.
SELECT broker_name, COUNT_IF(begin_at < {at[begin_at]}) AS before, COUNT_IF(begin_at > {at[begin_at]}) AS after
FROM send_attempt WHERE {same[cluster event_date producer_group client_id]} AND {same[topic]}
AND begin_at BETWEEN {at[begin_at]} - INTERVAL 30 SECONDS AND {at[begin_at]} + INTERVAL 30 SECONDS
GROUP BY broker_name ORDER BY broker_name LIMIT {most}

-- routes_near_choice: Recorded routes of the topic around that time (topic_route)
SELECT captured_at, broker_name, write_queue_nums, perm, has_master, order_topic_conf
FROM topic_route WHERE {same[cluster event_date topic]}
AND captured_at BETWEEN {at[begin_at]} - INTERVAL 300 SECONDS AND {at[begin_at]} + INTERVAL 60 SECONDS
ORDER BY captured_at DESC, broker_name LIMIT {most}

-- attempts_of_send: The send's attempts
-- lastBrokerName is the broker of the attempt before.
SELECT attempt, begin_at, end_at, broker_name, queue_id, last_broker_name, outcome, queue_selected_by,
  source_file || ':' || source_line AS line
FROM send_attempt WHERE {same[cluster event_date producer_group client_id]} AND {same[msg_id]}
ORDER BY begin_at LIMIT {most}

-- stored_items: What the process held at the end of each recorded date before
SELECT * FROM fault_item_state WHERE {same[cluster producer_group client_id started_at]}
AND event_date < {on[begin_at]} AND forgotten_at IS NULL ORDER BY event_date LIMIT {read}

-- attempts_before: Its attempts of the date before a choice
SELECT * FROM {replayed} WHERE {same[cluster event_date producer_group client_id]}
AND begin_at >= {at[since]} AND begin_at < {at[begin_at]}
AND broker_name IS NOT NULL ORDER BY begin_at DESC LIMIT {read}

-- forgotten: Brokers that the fallback had the client forget before
SELECT broker_name, window_end FROM broker_availability_window
WHERE {same[cluster event_date producer_group client_id started_at]}
AND end_reason = 'removed' AND window_end < {at[begin_at]} ORDER BY window_end LIMIT {read}

-- attempts_of_window: Attempts to the broker that end in a window
SELECT * FROM {replayed} WHERE {same[cluster producer_group client_id broker_name]}
AND event_date BETWEEN {on[window_start-1d]} AND {on[until]} AND end_at >= {at[window_start]}
AND LEAST(end_at, COALESCE(submit_end_at, end_at)) <= {at[until]} ORDER BY end_at LIMIT 600

-- ending: How it ended
-- {ending}
SELECT 'start' AS what, started_at AS at, source_file || ':' || source_line AS line
FROM producer_instance WHERE {same[cluster producer_group client_id]}
UNION ALL
SELECT 'last attempt', MAX(end_at), MAX_BY(source_file || ':' || source_line, end_at)
FROM send_attempt WHERE {same[cluster event_date producer_group client_id]}

-- sending: How the producer sends (producer_replay.recorded)
-- {rules} Null: not recorded; DefaultMQProducer's own default counts: 2 retries, 3000 ms, false.
SELECT recorded.retry_times_sync, recorded.retry_times_async, recorded.retry_another_broker, recorded.send_timeout_ms
FROM producer_replay WHERE {same[cluster event_date producer_group client_id started_at]}

-- attempts_of_call: Its attempts (send_attempt)
-- gone_ms: what was gone of the time-out as the attempt ended, counted from the first one's begin.
SELECT attempt, begin_at, end_at, latency_ms, UNIX_MILLIS(end_at) - UNIX_MILLIS({at[begin_at]}) AS gone_ms,
  broker_name, queue_id, outcome, exception, error, response_code, queue_selected_by,
  CONCAT(source_file, ':', source_line) AS line
FROM send_attempt WHERE {same[cluster producer_group client_id msg_id mode]}
AND event_date BETWEEN {on[begin_at]} AND {on[end_at+1d]} AND begin_at BETWEEN {at[begin_at]} AND {at[end_at]}
ORDER BY begin_at, attempt LIMIT {most}

-- held_meanwhile: Brokers that the producer treated as not available meanwhile (broker_availability_window)
-- A retry goes to another broker if one is available (see send_verdict for its choice).
SELECT broker_name, state, window_start, window_end, trigger_kind, certainty
FROM broker_availability_window WHERE {same[cluster event_date producer_group client_id]}
AND window_start <= {at[end_at]} AND (window_end > {at[begin_at]} OR window_end IS NULL)
ORDER BY window_start, broker_name LIMIT {most}
