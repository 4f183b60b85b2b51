-- Brokers by how long producers refused them.
SELECT *, COUNT(*) OVER () AS of_all FROM (
  SELECT cluster, broker_name, COUNT_IF(NOT continues_previous) AS windows,
    COUNT(DISTINCT (producer_group, client_id)) AS producers,
    SUM(unix_millis(window_end) - unix_millis(window_start)) / 1000 AS seconds,
    MAX(unix_millis(window_end) - unix_millis(window_start)) / 1000 AS longest
  FROM broker_availability_window WHERE {of_dates} GROUP BY cluster, broker_name
) ORDER BY seconds DESC, cluster, broker_name LIMIT {brokers}
