-- What producers would have avoided, and the sends that their choices would have moved: {of} beside what is published.
-- Open loop: no send that moves changes what is sent, and how long it takes, after it.
WITH avoided AS (
  SELECT 'was' AS side, * FROM broker_availability_window SEMI JOIN what_if_date USING (cluster, event_date)
  WHERE state = 'unavailable'
  UNION ALL BY NAME SELECT 'would' AS side, * FROM {of}broker_availability_window WHERE state = 'unavailable'
),
lengths AS (
  SELECT cluster, event_date, producer_group, client_id, broker_name,
    COALESCE(SUM(epoch_ms(window_end) - epoch_ms(window_start)) FILTER (WHERE side = 'was'), 0) / 1000 AS avoided_s,
    COALESCE(SUM(epoch_ms(window_end) - epoch_ms(window_start)) FILTER (WHERE side = 'would'), 0) / 1000 AS would_avoid_s
  FROM avoided GROUP BY ALL
),
moved AS (
  SELECT s.cluster, s.event_date, s.producer_group, s.client_id, s.broker_name,
    COUNT(*) FILTER (WHERE s.verdict = 'impossible') AS would_move, COUNT(*) FILTER (WHERE s.verdict = 'possible') AS may_move
  FROM {of}send_verdict AS s
  LEFT JOIN send_verdict AS p ON p.cluster = s.cluster AND p.event_date = s.event_date
    AND p.producer_group = s.producer_group AND p.client_id = s.client_id AND p.msg_id = s.msg_id AND p.mode = s.mode
    AND p.attempt IS NOT DISTINCT FROM s.attempt AND p.broker_name = s.broker_name AND p.queue_id = s.queue_id
    AND p.begin_at = s.begin_at
  WHERE s.verdict IN ('impossible', 'possible') AND s.verdict IS DISTINCT FROM p.verdict
  GROUP BY ALL
),
sends AS (SELECT cluster, event_date, producer_group, client_id, topic, broker_name, begin_at, msg_id FROM send_attempt),
used AS (SELECT DISTINCT cluster, producer_group, client_id, topic, broker_name FROM sends),
freed AS (  -- sends that had one broker less to choose from than they would have
  SELECT w.cluster, w.event_date, w.producer_group, w.client_id, w.broker_name, COUNT(*) AS could_come
  FROM avoided AS w
  JOIN sends AS a ON a.cluster = w.cluster AND a.event_date = w.event_date AND a.producer_group = w.producer_group
    AND a.client_id = w.client_id AND a.begin_at >= w.window_start AND a.begin_at < w.window_end
  JOIN used AS u ON u.cluster = a.cluster AND u.producer_group = a.producer_group AND u.client_id = a.client_id
    AND u.topic = a.topic AND u.broker_name = w.broker_name
  WHERE w.side = 'was' AND a.broker_name <> w.broker_name AND NOT EXISTS (
    SELECT 1 FROM avoided AS v
    WHERE v.side = 'would' AND v.cluster = w.cluster AND v.event_date = w.event_date AND v.producer_group = w.producer_group
      AND v.client_id = w.client_id AND v.broker_name = w.broker_name
      AND a.begin_at >= v.window_start AND a.begin_at < v.window_end)
  GROUP BY ALL
)
SELECT cluster, event_date, producer_group, client_id, broker_name, COALESCE(avoided_s, 0) AS avoided_s,
  COALESCE(would_avoid_s, 0) AS would_avoid_s, COALESCE(would_move, 0) AS would_move, COALESCE(may_move, 0) AS may_move,
  COALESCE(could_come, 0) AS could_come, 'open loop' AS certainty
FROM lengths FULL JOIN moved USING (cluster, event_date, producer_group, client_id, broker_name)
FULL JOIN freed USING (cluster, event_date, producer_group, client_id, broker_name)
WHERE avoided_s IS DISTINCT FROM would_avoid_s OR would_move > 0 OR may_move > 0 OR could_come > 0
ORDER BY ALL
