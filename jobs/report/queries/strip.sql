-- How many producers refused each of these brokers, from bucket to bucket of time.
WITH kept AS (
  SELECT cluster, broker_name FROM broker_availability_window WHERE {of_dates}
  GROUP BY cluster, broker_name
  ORDER BY SUM(unix_millis(window_end) - unix_millis(window_start)) DESC, cluster, broker_name LIMIT {brokers}
)
SELECT cluster, broker_name, bucket, COUNT(DISTINCT (producer_group, client_id)) AS producers FROM (
  SELECT cluster, broker_name, producer_group, client_id, EXPLODE(SEQUENCE(
    CAST(FLOOR((unix_millis(window_start) - {begin}) / {step}) AS BIGINT),
    CAST(FLOOR(
      (GREATEST(unix_millis(COALESCE(window_end, window_start)) - 1, unix_millis(window_start)) - {begin}) / {step}
    ) AS BIGINT)
  )) AS bucket
  FROM broker_availability_window JOIN kept USING (cluster, broker_name) WHERE {of_dates}
) GROUP BY cluster, broker_name, bucket ORDER BY cluster, broker_name, bucket
