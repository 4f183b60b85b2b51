-- How many messages came back to be consumed again, and how many were given up?
-- Grain: (cluster, event_date, collector, consumer_group, kind, topic, broker_name).
-- Example: SELECT * FROM failed_consumption WHERE came > 0 ORDER BY came DESC;
CREATE OR REPLACE VIEW failed_consumption (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  collector COMMENT 'Which collector took the captures',
  consumer_group COMMENT 'Consumer group',
  kind COMMENT 'retry: to be consumed again; dead_letter: given up after the last retry',
  topic COMMENT 'Retry topic or dead letter queue',
  broker_name COMMENT 'Broker that holds it',
  first_read_at COMMENT 'First reading of the date, UTC',
  last_read_at COMMENT 'Last reading of the date, UTC',
  came COMMENT 'Messages that came between the two',
  waiting COMMENT 'retry: messages not consumed at the last reading; null: nobody consumes a dead letter queue',
  messages COMMENT 'Messages that ever came, at the last reading'
) COMMENT 'Growth of retry topics and dead letter queues by day'
AS SELECT
  cluster, event_date, collector, consumer_group, 'retry' AS kind, topic, broker_name,
  MIN(first_read_at) AS first_read_at, MAX(last_read_at) AS last_read_at, CAST(SUM(came) AS BIGINT) AS came,
  CAST(SUM(waiting) AS BIGINT) AS waiting, CAST(SUM(messages) AS BIGINT) AS messages
FROM (
  SELECT
    cluster, event_date, collector, consumer_group, topic, broker_name, queue_id, MIN(captured_at) AS first_read_at,
    MAX(captured_at) AS last_read_at, MAX(broker_offset) - MIN(broker_offset) AS came,
    MAX_BY(lag, captured_at) AS waiting, MAX_BY(broker_offset, captured_at) AS messages
  FROM queue_progress WHERE SUBSTR(topic, 1, 7) = '%RETRY%'
  GROUP BY cluster, event_date, collector, consumer_group, topic, broker_name, queue_id
)
GROUP BY cluster, event_date, collector, consumer_group, topic, broker_name
UNION ALL
SELECT
  cluster, event_date, collector, SUBSTR(topic, 6) AS consumer_group, 'dead_letter' AS kind, topic, broker_name,
  MIN(first_read_at) AS first_read_at, MAX(last_read_at) AS last_read_at, CAST(SUM(came) AS BIGINT) AS came,
  CAST(NULL AS BIGINT) AS waiting, CAST(SUM(messages) AS BIGINT) AS messages
FROM (
  SELECT
    cluster, event_date, collector, topic, broker_name, queue_id, MIN(captured_at) AS first_read_at,
    MAX(captured_at) AS last_read_at, MAX(max_offset) - MIN(max_offset) AS came,
    MAX_BY(max_offset, captured_at) AS messages
  FROM topic_status WHERE SUBSTR(topic, 1, 5) = '%DLQ%'
  GROUP BY cluster, event_date, collector, topic, broker_name, queue_id
)
GROUP BY cluster, event_date, collector, topic, broker_name;
