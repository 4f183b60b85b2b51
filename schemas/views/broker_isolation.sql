-- Who isolates which broker? One row per producer process and availability window, joined over midnight.
-- Grain: (cluster, producer_group, client_id, started_at, broker_name, state, window_start).
-- Example: SELECT * FROM broker_isolation WHERE broker_name = 'broker-b'
--            AND window_start <= TIMESTAMP'2026-11-21 09:18:45' AND window_end > TIMESTAMP'2026-11-21 09:18:45';
CREATE OR REPLACE VIEW broker_isolation (
  cluster COMMENT 'RocketMQ cluster',
  broker_name COMMENT 'Broker that was NOT available (or not reachable) to the producer inside the window',
  producer_group COMMENT 'Producer group',
  client_id COMMENT 'Producer client id',
  started_at COMMENT 'When the producer process started, UTC; null: not recorded',
  state COMMENT 'unavailable: inside notAvailableDuration; unreachable: flag of 5.1.4 on',
  window_start COMMENT 'When the update that opened it was made, UTC, inclusive',
  window_end COMMENT 'First instant no longer held so, UTC, exclusive; null: not known',
  seconds COMMENT 'Length in seconds; null: not known',
  end_reason COMMENT 'Why it ended; open: the record ends inside it',
  trigger_kind COMMENT 'What opened it: latency or isolation',
  trigger_latency_ms COMMENT 'Latency of the opening update, ms',
  attempts COMMENT 'Updates that opened or extended it',
  profile COMMENT 'Release family whose rules were replayed',
  certainty COMMENT 'certain, possible or partial'
) COMMENT 'Availability windows, those that last over midnight joined into one'
AS SELECT
  cluster, broker_name, producer_group, client_id, started_at, state,
  MIN(window_start) AS window_start,
  IF(COUNT(window_end) < COUNT(*), NULL, MAX(window_end)) AS window_end,
  IF(COUNT(window_end) < COUNT(*), NULL, (unix_millis(MAX(window_end)) - unix_millis(MIN(window_start))) / 1000)
    AS seconds,
  MAX_BY(end_reason, window_start) AS end_reason,
  MIN_BY(trigger_kind, window_start) AS trigger_kind,
  MIN_BY(trigger_latency_ms, window_start) AS trigger_latency_ms,
  CAST(SUM(attempts) AS BIGINT) AS attempts,
  MIN_BY(profile, window_start) AS profile,
  -- partial and possible both say less than certain; of the three words the later in the alphabet is the weaker.
  MAX(certainty) AS certainty
FROM (
  SELECT *, SUM(IF(continues_previous, 0, 1)) OVER (
    PARTITION BY cluster, producer_group, client_id, started_at, broker_name, state ORDER BY window_start
  ) AS whole
  FROM broker_availability_window
)
GROUP BY cluster, broker_name, producer_group, client_id, started_at, state, whole;
