-- How much of the day did each producer refuse each broker, and by which rules was it replayed?
-- Grain: (cluster, event_date, producer_group, client_id, started_at, broker_name).
-- Example: SELECT * FROM producer_windows WHERE producer_group = 'pg_laton' ORDER BY unavailable_s DESC;
CREATE OR REPLACE VIEW producer_windows (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  producer_group COMMENT 'Producer group',
  client_id COMMENT 'Producer client id',
  started_at COMMENT 'When the producer process started, UTC; null: not recorded',
  verdict COMMENT 'replayed; off: its switch is off; unknown: see reasons',
  reasons COMMENT 'What is missing or doubtful',
  client_version COMMENT 'Client release; null: unknown',
  broker_name COMMENT 'Broker; null: no window on this date',
  windows COMMENT 'Windows in which it was unavailable; 0 where verdict is replayed means none',
  unavailable_s COMMENT 'Their seconds on this date',
  longest_s COMMENT 'The longest of them, seconds on this date',
  attempts COMMENT 'Attempts of the producer that began on this date'
) COMMENT 'Per producer, broker and date: how long it held the broker unavailable'
AS SELECT
  r.cluster, r.event_date, r.producer_group, r.client_id, r.started_at, r.verdict, r.reasons, r.client_version,
  w.broker_name,
  IF(r.verdict = 'unknown', NULL, COUNT(w.window_start)) AS windows,
  IF(r.verdict = 'unknown', NULL, COALESCE(SUM(unix_millis(w.window_end) - unix_millis(w.window_start)), 0) / 1000)
    AS unavailable_s,
  MAX(unix_millis(w.window_end) - unix_millis(w.window_start)) / 1000 AS longest_s,
  MAX(r.attempts) AS attempts
FROM producer_replay AS r
LEFT JOIN broker_availability_window AS w
  ON r.cluster = w.cluster AND r.event_date = w.event_date AND r.producer_group = w.producer_group
  AND r.client_id = w.client_id AND r.started_at IS NOT DISTINCT FROM w.started_at AND w.state = 'unavailable'
GROUP BY r.cluster, r.event_date, r.producer_group, r.client_id, r.started_at, r.verdict, r.reasons,
  r.client_version, w.broker_name;
