-- How many delayed messages wait at each broker, level by level, and does the broker deliver them?
-- Grain: (cluster, collector, broker_name, delay_level, captured_at).
-- Example: SELECT broker_name, delay_level, MAX(waiting) FROM scheduled_backlog GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW scheduled_backlog (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  collector COMMENT 'Which collector took the captures',
  broker_name COMMENT 'Broker that holds them',
  delay_level COMMENT 'Delay level, from 1; by default 1s, 5s, 10s, 30s, 1m, 2m to 10m, 20m, 30m, 1h, 2h',
  captured_at COMMENT 'When it was read, UTC',
  waiting COMMENT 'Messages of the level that are not delivered yet; those whose time has not come are among them',
  came COMMENT 'Messages that came since the reading before; null: there is none on the date',
  delivered COMMENT 'Messages that were delivered since then; null: there is none on the date',
  stands_since COMMENT 'Since which reading of the date nothing was delivered though messages waited, UTC; null: it moves, or nothing waits'
) COMMENT 'Delayed messages that wait, by broker and delay level'
AS WITH readings AS (
  SELECT cluster, event_date, collector, broker_name, delay_level, captured_at, delay_offset, max_offset,
    LAG(delay_offset) OVER (
      PARTITION BY cluster, event_date, collector, broker_name, delay_level ORDER BY captured_at) AS delay_before,
    LAG(max_offset) OVER (
      PARTITION BY cluster, event_date, collector, broker_name, delay_level ORDER BY captured_at) AS max_before,
    MIN(captured_at) OVER (
      PARTITION BY cluster, event_date, collector, broker_name, delay_level, delay_offset) AS stands
  FROM schedule_progress
)
SELECT cluster, event_date, collector, broker_name, delay_level, captured_at, max_offset - delay_offset AS waiting,
  max_offset - max_before AS came, delay_offset - delay_before AS delivered,
  CASE WHEN max_offset > delay_offset AND delay_before = delay_offset THEN stands END AS stands_since
FROM readings;
