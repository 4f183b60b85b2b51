-- How many messages came back to POP groups, because nobody acknowledged them while they were hidden?
-- Grain: (cluster, collector, consumer_group, topic, broker_name, hour).
-- Example: SELECT * FROM pop_repeats WHERE came_back > 0 ORDER BY came_back DESC;
CREATE OR REPLACE VIEW pop_repeats (
  cluster COMMENT 'RocketMQ cluster',
  collector COMMENT 'Which collector took the captures',
  consumer_group COMMENT 'Consumer group that pops',
  topic COMMENT 'Topic that it pops',
  broker_name COMMENT 'Broker',
  hour COMMENT 'Hour in which they came back, UTC',
  came_back COMMENT 'Messages that the broker put into the group\'s retry topic of POP, from reading to reading'
) COMMENT 'Messages that were popped and came back: consumed too slowly, or not at all, or refused by the consumer'
AS SELECT
  s.cluster, s.collector, p.consumer_group, p.topic, s.broker_name, s.hour,
  CAST(SUM(IF(s.came > 0, s.came, 0)) AS BIGINT) AS came_back
FROM (
  SELECT cluster, collector, topic, broker_name, DATE_TRUNC('HOUR', captured_at) AS hour,
    max_offset - COALESCE(LAG(max_offset) OVER (
      PARTITION BY cluster, collector, topic, broker_name, queue_id ORDER BY captured_at), max_offset) AS came
  FROM topic_status WHERE topic LIKE '%RETRY%'
) AS s
JOIN (SELECT DISTINCT cluster, consumer_group, topic FROM pop_assignment) AS p
  ON s.cluster = p.cluster AND (
    s.topic = '%RETRY%' || p.consumer_group || '_' || p.topic
    OR s.topic = '%RETRY%' || p.consumer_group || '+' || p.topic
  )
GROUP BY s.cluster, s.collector, p.consumer_group, p.topic, s.broker_name, s.hour;
