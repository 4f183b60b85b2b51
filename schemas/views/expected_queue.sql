-- Who should have owned each queue in each round, who did, and by whose own rule was it claimed?
-- Grain: (cluster, collector, consumer_group, topic, round_at, broker_name, queue_id).
-- Example: SELECT * FROM expected_queue WHERE consumer_group = 'g_mix' AND SIZE(observed) <> 1 ORDER BY round_at;
CREATE OR REPLACE VIEW expected_queue (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of the round',
  collector COMMENT 'Collector',
  consumer_group COMMENT 'Consumer group',
  topic COMMENT 'Topic',
  round_at COMMENT 'Round, UTC',
  broker_name COMMENT 'Broker that holds the queue',
  queue_id COMMENT 'Queue id',
  expected_owner COMMENT 'Owner by the group\'s rule; null: nobody, or everybody (BROADCASTING)',
  claimants COMMENT 'Members whose own rule takes it',
  observed COMMENT 'Clients whose running info showed it as theirs, those on their way out left aside',
  verdict COMMENT 'Verdict of the round and topic'
) COMMENT 'Expected allocation spread over rounds and queues, beside what was observed'
AS SELECT
  g.cluster, g.event_date, g.collector, g.consumer_group, g.topic, g.round_at, e.q.broker_name, e.q.queue_id,
  e.q.owner AS expected_owner, e.q.claimants,
  COALESCE(o.observed, REGEXP_EXTRACT_ALL('', '.', 0)) AS observed,  -- nobody: an empty list
  g.verdict
FROM group_round AS g
JOIN (
  SELECT cluster, event_date, consumer_group, topic, strategy, strategy_parameters, profile, queue_list_hash,
    member_list_hash, claims_hash, EXPLODE(allocation) AS q
  FROM expected_allocation
) AS e
  ON g.cluster = e.cluster AND g.event_date = e.event_date AND g.consumer_group = e.consumer_group
  AND g.topic = e.topic AND g.strategy = e.strategy AND g.strategy_parameters = e.strategy_parameters
  AND g.profile IS NOT DISTINCT FROM e.profile AND g.queue_list_hash = e.queue_list_hash
  AND g.member_list_hash = e.member_list_hash AND g.claims_hash = e.claims_hash
LEFT JOIN (
  SELECT cluster, collector, consumer_group, topic, round_at, broker_name, queue_id,
    ARRAY_SORT(COLLECT_SET(client_id)) AS observed
  FROM queue_ownership WHERE NOT dropped
  GROUP BY cluster, collector, consumer_group, topic, round_at, broker_name, queue_id
) AS o
  ON g.cluster = o.cluster AND g.collector = o.collector AND g.consumer_group = o.consumer_group
  AND g.topic = o.topic AND g.round_at = o.round_at AND e.q.broker_name = o.broker_name AND e.q.queue_id = o.queue_id;
