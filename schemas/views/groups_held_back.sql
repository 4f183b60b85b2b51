-- Which groups may not consume at a broker, or only in part, by the broker's own settings, and what was found of them?
-- Grain: (cluster, consumer_group, broker_name): as last read.
-- Example: SELECT * FROM groups_held_back WHERE reason = 'CONSUME_DISABLED';
CREATE OR REPLACE VIEW groups_held_back (
  cluster COMMENT 'RocketMQ cluster',
  consumer_group COMMENT 'Consumer group',
  broker_name COMMENT 'Broker',
  reason COMMENT 'CONSUME_DISABLED: it cannot consume there; NOT_NOTIFIED: members find changes at their 20 s timer; NO_RETRIES: a failed message becomes a dead letter at once',
  retry_max_times COMMENT 'Deliveries before the dead letter queue',
  last_read_at COMMENT 'When the setting was last read, UTC',
  findings COMMENT 'Findings of the group at that broker, or of no single broker, that this may be the cause of'
) COMMENT 'Groups that a broker holds back by its settings'
AS SELECT
  s.cluster, s.consumer_group, s.broker_name, s.reason, s.retry_max_times, s.last_read_at,
  COUNT(d.code) AS findings
FROM (
  SELECT
    cluster, consumer_group, broker_name,
    CASE WHEN NOT MAX_BY(consume_enable, captured_at) THEN 'CONSUME_DISABLED'
      WHEN NOT MAX_BY(notify_consumer_ids_changed, captured_at) THEN 'NOT_NOTIFIED'
      WHEN MAX_BY(retry_max_times, captured_at) = 0 THEN 'NO_RETRIES' END AS reason,
    MAX_BY(retry_max_times, captured_at) AS retry_max_times, MAX(captured_at) AS last_read_at
  FROM subscription_group GROUP BY cluster, consumer_group, broker_name
) AS s
LEFT JOIN allocation_drift AS d
  ON d.cluster = s.cluster AND d.consumer_group = s.consumer_group
  AND COALESCE(d.broker_name, s.broker_name) = s.broker_name
WHERE s.reason IS NOT NULL
GROUP BY s.cluster, s.consumer_group, s.broker_name, s.reason, s.retry_max_times, s.last_read_at;
