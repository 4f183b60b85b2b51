-- Brokers by the share of the active producers that refused them, with the worst minute.
SELECT cluster, broker_name, COUNT_IF(active > 0) AS judged, COUNT_IF(isolating > 0) AS refused,
  COUNT_IF(isolating > 0 AND isolating * 2 >= active) AS by_half,
  MAX_BY(isolating, badness) AS isolating, MAX_BY(active, badness) AS active, MAX_BY(minute_at, badness) AS minute_at,
  FLOOR(1e3 * SUM(COALESCE(isolating / NULLIF(active, 0), 0)) + 0.5e0) / 1e3 AS weight, COUNT(*) OVER () AS of_all
FROM (
  SELECT *, IF(isolating > 0,
    (COALESCE(isolating / NULLIF(active, 0), -1), isolating, -unix_millis(minute_at)), NULL) AS badness
  FROM fleet_minute WHERE {of_dates}
) GROUP BY cluster, broker_name
ORDER BY weight DESC, cluster, broker_name LIMIT {brokers}
