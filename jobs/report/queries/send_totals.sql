-- Attempts to each broker in all.
SELECT *, COUNT(*) OVER () AS of_all FROM (
  SELECT cluster, broker_name, COUNT(*) AS attempts, COUNT_IF(outcome = 'EXCEPTION') AS failed,
    COUNT_IF(outcome IN ('FLUSH_DISK_TIMEOUT', 'FLUSH_SLAVE_TIMEOUT', 'SLAVE_NOT_AVAILABLE')) AS not_ok,
    CAST(PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY latency_ms) AS BIGINT) AS p50,
    CAST(PERCENTILE_DISC(0.99) WITHIN GROUP (ORDER BY latency_ms) AS BIGINT) AS p99
  FROM send_attempt WHERE {of_dates} GROUP BY cluster, broker_name
) ORDER BY failed DESC, attempts DESC, cluster, broker_name LIMIT {brokers}
