-- Who had each queue when its group was last read.
WITH latest AS (
  SELECT cluster, collector, consumer_group, topic, MAX(round_at) AS round_at
  FROM group_round WHERE {of_dates} AND informative
  GROUP BY cluster, collector, consumer_group, topic
)
SELECT cluster, consumer_group, topic, broker_name, queue_id, ARRAY_SORT(COLLECT_SET(client_id)) AS owners
FROM queue_ownership JOIN latest USING (cluster, collector, consumer_group, topic, round_at)
WHERE {of_dates} AND NOT dropped
GROUP BY cluster, consumer_group, topic, broker_name, queue_id
ORDER BY cluster, consumer_group, topic, broker_name, queue_id
LIMIT {rows}
