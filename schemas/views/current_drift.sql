-- What is wrong now? The findings of each group's latest round in which it was read.
-- Grain: one row per finding of that round.
-- Example: SELECT consumer_group, code, sentence FROM current_drift WHERE severity IN ('CRITICAL', 'HIGH');
CREATE OR REPLACE VIEW current_drift (
  cluster COMMENT 'RocketMQ cluster',
  consumer_group COMMENT 'Consumer group',
  round_at COMMENT 'The group\'s latest round with a verdict, UTC',
  code COMMENT 'Drift code',
  severity COMMENT 'CRITICAL, HIGH, MEDIUM, LOW or INFO',
  trust COMMENT 'certain or possible',
  topic COMMENT 'Topic; null: about the whole group',
  broker_name COMMENT 'Broker of the queue; null: not about one queue',
  queue_id COMMENT 'Queue; null: not about one queue',
  client_id COMMENT 'Client; null: not about one client',
  lag_now COMMENT 'Messages not consumed at the last valid reading; null: no valid reading',
  sentence COMMENT 'The finding in one plain sentence'
) COMMENT 'Findings of each group\'s latest judged round'
AS SELECT
  d.cluster, d.consumer_group, d.round_at, d.code, d.severity, d.trust, d.topic, d.broker_name, d.queue_id,
  d.client_id, d.lag_now, d.sentence
FROM allocation_drift AS d
JOIN (
  SELECT cluster, collector, consumer_group, MAX(round_at) AS round_at
  FROM group_round WHERE verdict IS NOT NULL GROUP BY cluster, collector, consumer_group
) AS latest
  ON d.cluster = latest.cluster AND d.collector = latest.collector AND d.consumer_group = latest.consumer_group
  AND d.round_at = latest.round_at;
