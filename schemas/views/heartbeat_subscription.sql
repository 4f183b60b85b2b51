-- What did each consumer subscribe, by its own heartbeats? A V2 heartbeat leaves out what it sent before under the same
-- fingerprint: here it has it again.
-- Grain: one row per consumer heartbeat of client_heartbeat.
-- Example: SELECT client_id, received_at, TO_JSON(subscriptions) FROM heartbeat_subscription ORDER BY ALL;
CREATE OR REPLACE VIEW heartbeat_subscription (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of received_at',
  received_at COMMENT 'When the broker received it, UTC',
  broker_name COMMENT 'Broker that received it',
  consumer_group COMMENT 'Consumer group',
  client_id COMMENT 'Client id',
  without_sub COMMENT 'The heartbeat left its subscriptions out',
  subscriptions COMMENT 'Its subscriptions; null: left out, and none was recorded before under the same fingerprint'
) COMMENT 'Consumer heartbeats with the subscriptions that V2 heartbeats leave out'
AS SELECT cluster, event_date, received_at, broker_name, client_group, client_id, without_sub,
  COALESCE(subscriptions, IF(last_fingerprint = fingerprint, last_sent, NULL)) AS subscriptions
FROM (
  SELECT *, MAX(subscriptions) OVER since_then AS last_sent,
    MAX(IF(subscriptions IS NULL, NULL, fingerprint)) OVER since_then AS last_fingerprint
  FROM (
    -- How many heartbeats before this one, it included, had subscriptions: the last of these begins a stretch.
    SELECT *, COUNT(subscriptions) OVER (
      PARTITION BY cluster, client_group, client_id ORDER BY received_at, subscriptions IS NULL, broker_name
    ) AS stretch
    FROM client_heartbeat WHERE role = 'consumer'
  )
  WINDOW since_then AS (PARTITION BY cluster, client_group, client_id, stretch)
);
