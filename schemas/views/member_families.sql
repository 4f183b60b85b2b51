-- Of which client family is each member of a group, and by which strategy does it share?
-- Grain: (cluster, event_date, collector, consumer_group, client_id, profile, strategy, strategy_source).
-- Example: SELECT * FROM member_families WHERE profile NOT LIKE 'P%' ORDER BY consumer_group, client_id;
CREATE OR REPLACE VIEW member_families (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  collector COMMENT 'Which collector took the captures',
  consumer_group COMMENT 'Consumer group',
  client_id COMMENT 'Member',
  profile COMMENT 'Its family: Java (P...), Go (G...), C++ (C...), gRPC (R); several as G1|G2; null: not known',
  strategy COMMENT 'Strategy that it was seen to use, or that is all it knows; null: not known',
  strategy_source COMMENT 'client_log, running_info, settings or release; null: not known',
  rounds COMMENT 'Rounds of the date in which it was so'
) COMMENT 'Members of consumer groups with their client families and strategies'
AS SELECT
  cluster, event_date, collector, consumer_group, rule.client_id, rule.profile, rule.strategy,
  rule.source AS strategy_source, COUNT(DISTINCT round_at) AS rounds
FROM (
  SELECT cluster, event_date, collector, consumer_group, round_at, EXPLODE(member_rules) AS rule FROM group_round
)
GROUP BY cluster, event_date, collector, consumer_group, rule.client_id, rule.profile, rule.strategy, rule.source;
