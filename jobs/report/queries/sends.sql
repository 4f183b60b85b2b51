-- Attempts to each broker from bucket to bucket of time, of the brokers that failed most.
SELECT cluster, broker_name, CAST(FLOOR((unix_millis(begin_at) - {begin}) / {send_step}) AS BIGINT) AS bucket,
  COUNT(*) AS attempts, COUNT_IF(outcome = 'EXCEPTION') AS failed,
  CAST(PERCENTILE_DISC(0.99) WITHIN GROUP (ORDER BY latency_ms) AS BIGINT) AS p99
FROM send_attempt
JOIN (
  SELECT cluster, broker_name FROM send_attempt WHERE {of_dates} GROUP BY cluster, broker_name
  ORDER BY COUNT_IF(outcome = 'EXCEPTION') DESC, COUNT(*) DESC, cluster, broker_name LIMIT 40
) USING (cluster, broker_name)
WHERE {of_dates} GROUP BY cluster, broker_name, bucket ORDER BY cluster, broker_name, bucket
