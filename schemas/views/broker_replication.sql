-- Who was a broker's master, when did that change, and did its replicas follow?
-- Grain: (cluster, collector, broker_name, captured_at). One row for each answer of a broker to request 907 (5.0 on).
-- Example: SELECT * FROM broker_replication WHERE missing > 0 OR behind_bytes > 1000000 ORDER BY captured_at;
CREATE OR REPLACE VIEW broker_replication (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  collector COMMENT 'Which collector took the captures',
  broker_name COMMENT 'Broker',
  captured_at COMMENT 'When it was read, UTC',
  is_master COMMENT 'The one that was asked takes messages; false: it follows another, there was no master',
  was_master COMMENT 'The same at the reading before; null: there is none on the date',
  in_sync_replicas COMMENT 'Replicas in sync; null: no master',
  missing COMMENT 'Replicas that the name servers\' routes name and that are not in sync; null: no master, or no route was read until that round',
  behind_bytes COMMENT 'What the replica that is furthest behind has not confirmed; null: none is connected',
  log_end COMMENT 'Where its commit log ends, in bytes'
) COMMENT 'Masters and how their replicas follow, by what brokers say'
AS WITH routed AS (
  SELECT s.cluster, s.collector, s.broker_name, s.captured_at, MAX_BY(SIZE(r.slaves), r.captured_at) AS routed_replicas
  FROM broker_status AS s
  JOIN topic_route AS r
    ON r.cluster = s.cluster AND r.collector = s.collector AND r.broker_name = s.broker_name
    AND r.event_date = s.event_date
    AND COALESCE(r.round_at, r.captured_at) <= COALESCE(s.round_at, s.captured_at)
  WHERE s.told_by = 'brokerHaStatus' AND r.slaves IS NOT NULL
  GROUP BY s.cluster, s.collector, s.broker_name, s.captured_at
),
behind AS (
  SELECT cluster, collector, broker_name, captured_at, MAX(replica.behind_bytes) AS behind_bytes
  FROM (SELECT cluster, collector, broker_name, captured_at, EXPLODE(replicas) AS replica FROM broker_status)
  GROUP BY cluster, collector, broker_name, captured_at
)
SELECT s.cluster, s.event_date, s.collector, s.broker_name, s.captured_at, s.is_master,
  LAG(s.is_master) OVER (PARTITION BY s.cluster, s.event_date, s.collector, s.broker_name ORDER BY s.captured_at)
    AS was_master,
  s.in_sync_replicas,
  CASE
    WHEN s.is_master AND r.routed_replicas > s.in_sync_replicas THEN r.routed_replicas - s.in_sync_replicas
    WHEN s.is_master AND r.routed_replicas IS NOT NULL THEN 0
  END AS missing,
  b.behind_bytes, s.log_end
FROM broker_status AS s
LEFT JOIN routed AS r
  ON r.cluster = s.cluster AND r.collector = s.collector AND r.broker_name = s.broker_name AND r.captured_at = s.captured_at
LEFT JOIN behind AS b
  ON b.cluster = s.cluster AND b.collector = s.collector AND b.broker_name = s.broker_name AND b.captured_at = s.captured_at
WHERE s.told_by = 'brokerHaStatus';
