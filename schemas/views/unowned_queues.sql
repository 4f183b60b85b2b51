-- Which queues had no owner, for how long, and what backlog did they gather?
-- Grain: (cluster, collector, consumer_group, topic, broker_name, queue_id, since_at).
-- Example: SELECT * FROM unowned_queues WHERE seconds > 60 ORDER BY lag_last DESC;
CREATE OR REPLACE VIEW unowned_queues (
  cluster COMMENT 'RocketMQ cluster',
  collector COMMENT 'Which collector took the captures',
  consumer_group COMMENT 'Consumer group',
  topic COMMENT 'Topic',
  broker_name COMMENT 'Broker that holds the queue',
  queue_id COMMENT 'Queue id',
  since_at COMMENT 'From when it is known to have no owner, UTC',
  last_seen_at COMMENT 'Last round that shows it without owner, UTC',
  seconds COMMENT 'From the one to the other: it lasted at least so long',
  rounds COMMENT 'Rounds that show it',
  codes COMMENT 'ORPHAN_QUEUE: everybody answered; UNSERVED_QUEUE: a member did not, and the offset stood still',
  lag_first COMMENT 'Messages not consumed at the first reading; null: no valid reading',
  lag_last COMMENT 'The same at the last reading; null: no valid reading',
  expected_owner COMMENT 'Who should own it by the group\'s rule, in the last of the rounds; null: nobody'
) COMMENT 'Stretches in which a queue had no owner, with the backlog it gathered'
AS SELECT
  cluster, collector, consumer_group, topic, broker_name, queue_id, since_at, MAX(judged_at) AS last_seen_at,
  (unix_millis(MAX(judged_at)) - unix_millis(since_at)) / 1000 AS seconds,
  COUNT(DISTINCT round_at) AS rounds,
  ARRAY_SORT(COLLECT_SET(code)) AS codes,
  MIN_BY(lag_now, IF(lag_now IS NULL, NULL, round_at)) AS lag_first,
  MAX_BY(lag_now, IF(lag_now IS NULL, NULL, round_at)) AS lag_last,
  MAX_BY(TRY_ELEMENT_AT(expected_client_ids, 1), round_at) AS expected_owner
FROM allocation_drift
WHERE code IN ('ORPHAN_QUEUE', 'UNSERVED_QUEUE') AND queue_id IS NOT NULL AND COALESCE(kind, '') <> 'BROADCAST'
GROUP BY cluster, collector, consumer_group, topic, broker_name, queue_id, since_at;
