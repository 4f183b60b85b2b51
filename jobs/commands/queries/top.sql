-- The panels of hindsight top: a name, the panel's title, and its query, in DuckDB's SQL.
-- Of the whole view consume_delay is asked only what may be of the last minutes: its readings are compared within a
-- date. {since}: the date before the last one.

-- incidents: Incidents of groups
SELECT severity, consumer_group AS "group", root_cause, strftime(opened_at, '%m-%d %H:%M:%S') AS since, sentence,
  incident_id
FROM open_incidents WHERE consumer_group <> ''

-- servers: Servers
SELECT severity, cause_key AS server, root_cause, strftime(opened_at, '%m-%d %H:%M:%S') AS since, sentence, incident_id
FROM open_incidents WHERE consumer_group = ''

-- lags: Groups by lag
SELECT cluster, consumer_group AS "group", topic, CAST(MAX(messages_behind) AS BIGINT) AS messages,
  CAST(MAX(seconds_at_least) AS BIGINT) AS seconds, strftime(MAX(captured_at), '%m-%d %H:%M:%S') AS read
FROM consume_delay WHERE event_date >= {since} AND captured_at >= (
  SELECT MAX(captured_at) - INTERVAL 5 MINUTES FROM queue_progress WHERE event_date >= {since})
GROUP BY cluster, consumer_group, topic ORDER BY messages DESC NULLS LAST, cluster, consumer_group, topic

-- isolations: Isolations that last
SELECT broker_name AS broker, producer_group AS "group", client_id, strftime(window_start, '%m-%d %H:%M:%S') AS since,
  state, certainty
FROM broker_isolation WHERE end_reason = 'open' ORDER BY window_start DESC
