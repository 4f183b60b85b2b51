-- Which groups mix strategies or releases, and what did that cost them?
-- Grain: (cluster, event_date, collector, consumer_group, topic).
-- Example: SELECT * FROM mixed_groups WHERE SIZE(strategies) > 1 ORDER BY queues_twice + queues_without_owner DESC;
CREATE OR REPLACE VIEW mixed_groups (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  collector COMMENT 'Which collector took the captures',
  consumer_group COMMENT 'Consumer group',
  topic COMMENT 'Topic',
  strategies COMMENT 'Strategies by which its members decide',
  releases COMMENT 'Release families of its members',
  queues_twice COMMENT 'Queues that were owned twice in some round',
  queues_without_owner COMMENT 'Queues that had no owner in some round',
  worst_lag COMMENT 'Largest lag read of such a queue, messages; null: no such queue, or no valid reading'
) COMMENT 'Groups whose members differ in strategy or release, with the queues that drifted on that date'
AS SELECT
  g.cluster, g.event_date, g.collector, g.consumer_group, g.topic, g.strategies, g.releases,
  COALESCE(d.queues_twice, 0) AS queues_twice, COALESCE(d.queues_without_owner, 0) AS queues_without_owner, d.worst_lag
FROM (
  SELECT cluster, event_date, collector, consumer_group, topic,
    ARRAY_SORT(COLLECT_SET(rule.strategy)) AS strategies, ARRAY_SORT(COLLECT_SET(rule.profile)) AS releases
  FROM (
    SELECT cluster, event_date, collector, consumer_group, topic, EXPLODE(member_rules) AS rule
    FROM group_round WHERE verdict IS NOT NULL
  ) GROUP BY cluster, event_date, collector, consumer_group, topic
) AS g
LEFT JOIN (
  SELECT cluster, event_date, collector, consumer_group, topic,
    COUNT(DISTINCT IF(code = 'DOUBLE_OWNED', (broker_name, queue_id), NULL)) AS queues_twice,
    COUNT(DISTINCT IF(code IN ('ORPHAN_QUEUE', 'UNSERVED_QUEUE'), (broker_name, queue_id), NULL))
      AS queues_without_owner,
    MAX(lag_now) AS worst_lag
  FROM allocation_drift
  WHERE code IN ('DOUBLE_OWNED', 'ORPHAN_QUEUE', 'UNSERVED_QUEUE') AND queue_id IS NOT NULL
    AND COALESCE(kind, '') <> 'BROADCAST'
  GROUP BY cluster, event_date, collector, consumer_group, topic
) AS d
  ON g.cluster = d.cluster AND g.event_date = d.event_date AND g.collector = d.collector
  AND g.consumer_group = d.consumer_group AND g.topic = d.topic
WHERE SIZE(g.strategies) > 1 OR SIZE(g.releases) > 1;
