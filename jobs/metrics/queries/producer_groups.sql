-- How many brokers a process of each producer group treats as not available at its cluster's last record; groups of
-- which a process of the last date was replayed.
SELECT p.cluster, p.producer_group, COUNT(DISTINCT w.broker_name) AS brokers
FROM producer_replay AS p
JOIN (
  SELECT cluster, MAX(event_date) AS event_date, MAX(last_attempt_at) AS until FROM producer_replay
  WHERE verdict IN ('replayed', 'off') GROUP BY cluster
) AS l
  ON p.cluster = l.cluster AND p.event_date = l.event_date
LEFT JOIN broker_availability_window AS w
  ON w.cluster = p.cluster AND w.event_date = p.event_date AND w.producer_group = p.producer_group
  AND w.client_id = p.client_id AND w.state = 'unavailable'
  AND w.window_start <= l.until AND (w.window_end IS NULL OR w.window_end > l.until)
WHERE p.verdict IN ('replayed', 'off')
GROUP BY p.cluster, p.producer_group
