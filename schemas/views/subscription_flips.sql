-- Which groups had a subscription that went back and forth at a broker: members that subscribe differently?
-- Grain: (cluster, event_date, broker_name, consumer_group, topic).
-- Example: SELECT * FROM subscription_flips ORDER BY changes DESC;
CREATE OR REPLACE VIEW subscription_flips (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  broker_name COMMENT 'Broker whose log tells',
  consumer_group COMMENT 'Consumer group',
  topic COMMENT 'Topic',
  code COMMENT 'SUBSCRIPTION_INCONSISTENT: what a round of captures would find',
  changes COMMENT 'Times that the expression became another one',
  expressions COMMENT 'Different expressions',
  one_of COMMENT 'One of them',
  another COMMENT 'Another of them',
  first_at COMMENT 'First change, UTC',
  last_at COMMENT 'Last change, UTC'
) COMMENT 'Subscriptions that flip at a broker, by its log'
AS SELECT
  cluster, event_date, broker_name, client_group AS consumer_group, topic, 'SUBSCRIPTION_INCONSISTENT' AS code,
  COUNT(*) AS changes, COUNT(DISTINCT sub_string) AS expressions, MIN(sub_string) AS one_of, MAX(sub_string) AS another,
  MIN(logged_at) AS first_at, MAX(logged_at) AS last_at
FROM membership_event
WHERE kind = 'subscription_changed' AND sub_string <> old_sub_string
GROUP BY cluster, event_date, broker_name, client_group, topic
HAVING COUNT(*) > COUNT(DISTINCT sub_string);
