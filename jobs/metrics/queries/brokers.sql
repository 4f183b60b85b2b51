-- Brokers that producers treated as not available on each cluster's last replayed date: how many do at its last
-- record, and for how long they did on that date.
SELECT
  w.cluster, w.broker_name,
  COUNT_IF(w.window_start <= l.until AND (w.window_end IS NULL OR w.window_end > l.until)) AS producers,
  COALESCE(SUM(unix_millis(w.window_end) - unix_millis(w.window_start)), 0) / 1000 AS seconds
FROM broker_availability_window AS w
JOIN (
  SELECT cluster, MAX(event_date) AS event_date, MAX(last_attempt_at) AS until FROM producer_replay
  WHERE verdict IN ('replayed', 'off') GROUP BY cluster
) AS l
  ON w.cluster = l.cluster AND w.event_date = l.event_date
WHERE w.state = 'unavailable'
GROUP BY w.cluster, w.broker_name
