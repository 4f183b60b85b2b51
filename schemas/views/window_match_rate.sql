-- Does the replay say what the client said? Replayed windows whose opening stands in a log of the client.
-- Only producers that some line tells of: of the others no log was taken in. Releases 5.1.4 and later write such lines.
-- Grain: one row per producer process, date and state.
-- Example: SELECT client_id, state, windows, confirmed, share FROM window_match_rate ORDER BY share;
CREATE OR REPLACE VIEW window_match_rate (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  producer_group COMMENT 'Producer group',
  client_id COMMENT 'Producer client id',
  started_at COMMENT 'When the producer process started, UTC; null: no start was recorded',
  state COMMENT 'unavailable or unreachable',
  windows COMMENT 'Replayed windows that opened on this date',
  confirmed COMMENT 'Of these, windows whose opening a log line shows',
  share COMMENT 'confirmed of windows, 0 to 1',
  within_ms COMMENT 'How far the instants of log and replay lie apart at most, ms'
) COMMENT 'Share of the replayed windows that logs of their clients confirm'
AS SELECT w.cluster, w.event_date, w.producer_group, w.client_id, w.started_at, w.state, COUNT(*) AS windows,
  COUNT(c.window_start) AS confirmed, FLOOR(1e4 * COUNT(c.window_start) / COUNT(*) + 0.5e0) / 1e4 AS share,
  MAX(ABS(c.offset_ms)) AS within_ms
FROM broker_availability_window w
SEMI JOIN window_confirmation told ON w.cluster = told.cluster AND w.event_date = told.event_date
  AND w.producer_group = told.producer_group AND w.client_id = told.client_id AND w.started_at IS NOT DISTINCT FROM told.started_at
LEFT JOIN (
  SELECT cluster, event_date, producer_group, client_id, started_at, broker_name, window_start,
    IF(kind = 'broker_isolated', 'unavailable', 'unreachable') AS state, MIN_BY(offset_ms, ABS(offset_ms)) AS offset_ms
  FROM window_confirmation WHERE shows = 'opened'
  GROUP BY ALL
) c ON w.cluster = c.cluster AND w.event_date = c.event_date AND w.producer_group = c.producer_group
  AND w.client_id = c.client_id AND w.started_at IS NOT DISTINCT FROM c.started_at AND w.broker_name = c.broker_name
  AND w.window_start = c.window_start AND w.state = c.state
WHERE NOT w.continues_previous
GROUP BY w.cluster, w.event_date, w.producer_group, w.client_id, w.started_at, w.state;
