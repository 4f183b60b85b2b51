-- The strips of these brokers: a cell stands for its worst minute.
WITH kept AS (
  SELECT cluster, broker_name,
    FLOOR(1e3 * SUM(COALESCE(isolating / NULLIF(active, 0), 0)) + 0.5e0) / 1e3 AS weight
  FROM fleet_minute WHERE {of_dates} GROUP BY cluster, broker_name
  ORDER BY weight DESC, cluster, broker_name LIMIT {brokers}
)
SELECT cluster, broker_name, bucket, COUNT_IF(active > 0) AS judged, COUNT_IF(isolating > 0) AS refused,
  MAX_BY(isolating, badness) AS isolating, MAX_BY(active, badness) AS active,
  MAX_BY(active_unknown, badness) AS active_unknown, MAX_BY(minute_at, badness) AS minute_at
FROM (
  SELECT *, CAST(FLOOR((unix_millis(minute_at) - {fleet_begin}) / {fleet_step}) AS BIGINT) AS bucket,
    (COALESCE(isolating / NULLIF(active, 0), -1), isolating, active_unknown, -unix_millis(minute_at)) AS badness
  FROM fleet_minute JOIN kept USING (cluster, broker_name) WHERE {of_dates}
) GROUP BY cluster, broker_name, bucket ORDER BY cluster, broker_name, bucket
