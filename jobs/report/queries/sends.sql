-- Attempts to each broker from bucket to bucket of time, of the brokers that failed most; attempts alike are counted once.
WITH alike AS (
  SELECT cluster, broker_name, CAST(FLOOR((unix_millis(begin_at) - {begin}) / {send_step}) AS BIGINT) AS bucket,
    latency_ms, COUNT(*) AS attempts, COUNT_IF(outcome = 'EXCEPTION') AS failed
  FROM send_attempt WHERE {of_dates} GROUP BY cluster, broker_name, bucket, latency_ms
),
kept AS (
  SELECT cluster, broker_name FROM alike GROUP BY cluster, broker_name
  ORDER BY SUM(failed) DESC, SUM(attempts) DESC, cluster, broker_name LIMIT 40
)
SELECT cluster, broker_name, bucket, CAST(SUM(attempts) AS BIGINT) AS attempts, CAST(SUM(failed) AS BIGINT) AS failed,
  MIN(latency_ms) FILTER (WHERE 100 * upto >= 99 * of_all) AS p99
FROM (
  SELECT *, SUM(attempts) OVER (PARTITION BY cluster, broker_name, bucket ORDER BY latency_ms) AS upto,
    SUM(attempts) OVER (PARTITION BY cluster, broker_name, bucket) AS of_all
  FROM alike JOIN kept USING (cluster, broker_name)
) GROUP BY cluster, broker_name, bucket ORDER BY cluster, broker_name, bucket
