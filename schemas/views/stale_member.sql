-- Which members does a broker still list although they send no heartbeats any more? Needs heartbeats in the landing.
-- Grain: one row per round, group and stale member.
-- Example: SELECT consumer_group, client_id, MAX(age_ms) FROM stale_member GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW stale_member (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of the round',
  collector COMMENT 'Which collector took the round',
  consumer_group COMMENT 'Consumer group',
  round_at COMMENT 'Round, UTC',
  client_id COMMENT 'Listed member',
  last_heartbeat_at COMMENT 'When a broker last received a heartbeat of it, UTC; null: none near the round',
  age_ms COMMENT 'Age of that heartbeat, ms'
) COMMENT 'Listed members without a heartbeat for longer than a broker waits'
AS SELECT DISTINCT cluster, event_date, collector, consumer_group, round_at, m.client_id, m.last_heartbeat_at, m.age_ms
FROM (
  SELECT cluster, event_date, collector, consumer_group, round_at, EXPLODE(member_heartbeats) AS m FROM group_round
)
WHERE m.stale;
