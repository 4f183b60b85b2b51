-- Producers, their last replay and how long they refused brokers.
WITH replay AS (
  SELECT cluster, producer_group, client_id, MAX_BY(client_version, latest) AS client_version,
    MAX_BY(verdict, latest) AS verdict, MAX_BY(reasons, latest) AS reasons, MAX_BY(certainty, latest) AS certainty,
    SUM(attempts) AS attempts
  FROM (
    SELECT *, (event_date, COALESCE(started_at, TIMESTAMP'1970-01-01 00:00:00')) AS latest
    FROM producer_replay WHERE {of_dates}
  ) GROUP BY cluster, producer_group, client_id
),
held AS (
  SELECT cluster, producer_group, client_id, COUNT_IF(NOT continues_previous) AS windows,
    COUNT(DISTINCT broker_name) AS brokers,
    SUM(unix_millis(window_end) - unix_millis(window_start)) / 1000 AS seconds
  FROM broker_availability_window WHERE {of_dates} GROUP BY cluster, producer_group, client_id
)
SELECT r.*, COALESCE(windows, 0) AS windows, COALESCE(brokers, 0) AS brokers, COALESCE(seconds, 0) AS seconds,
  COUNT(*) OVER () AS of_all
FROM replay AS r LEFT JOIN held AS h USING (cluster, producer_group, client_id)
ORDER BY seconds DESC, windows DESC, verdict DESC, cluster, producer_group, client_id LIMIT {producers}
