-- Attempts to each broker: from bucket to bucket of time, of the brokers that failed most, and in all, where bucket is
-- null. Attempts alike are counted once.
WITH alike AS (
  SELECT cluster, broker_name, CAST(FLOOR((unix_millis(begin_at) - {begin}) / {send_step}) AS BIGINT) AS bucket,
    latency_ms, COUNT(*) AS attempts, COUNT_IF(outcome = 'EXCEPTION') AS failed,
    COUNT_IF(outcome IN ('FLUSH_DISK_TIMEOUT', 'FLUSH_SLAVE_TIMEOUT', 'SLAVE_NOT_AVAILABLE')) AS not_ok
  FROM send_attempt WHERE {of_dates} GROUP BY cluster, broker_name, bucket, latency_ms
),
in_all AS (
  SELECT cluster, broker_name, latency_ms, SUM(attempts) AS attempts, SUM(failed) AS failed, SUM(not_ok) AS not_ok
  FROM alike GROUP BY cluster, broker_name, latency_ms
),
drawn AS (
  SELECT cluster, broker_name FROM in_all GROUP BY cluster, broker_name
  ORDER BY SUM(failed) DESC, SUM(attempts) DESC, cluster, broker_name LIMIT 40
)
SELECT cluster, broker_name, bucket, CAST(SUM(attempts) AS BIGINT) AS attempts, CAST(SUM(failed) AS BIGINT) AS failed,
  CAST(SUM(not_ok) AS BIGINT) AS not_ok, MIN(latency_ms) FILTER (WHERE 2 * upto >= of_all) AS p50,
  MIN(latency_ms) FILTER (WHERE 100 * upto >= 99 * of_all) AS p99
FROM (
  SELECT *, SUM(attempts) OVER (PARTITION BY cluster, broker_name, bucket ORDER BY latency_ms) AS upto,
    SUM(attempts) OVER (PARTITION BY cluster, broker_name, bucket) AS of_all
  FROM (
    SELECT cluster, broker_name, bucket, latency_ms, attempts, failed, not_ok
    FROM alike JOIN drawn USING (cluster, broker_name)
    UNION ALL
    SELECT cluster, broker_name, NULL, latency_ms, attempts, failed, not_ok FROM in_all
  )
) GROUP BY cluster, broker_name, bucket ORDER BY cluster, broker_name, bucket
