-- Topics of groups, on their cluster's last date, of which no round was judged in the last ten minutes that were read, or
-- whose collector (one shard of several) has told nothing in the last ten minutes that others of the cluster told.
WITH rounds AS (
  SELECT cluster, event_date, consumer_group, topic, collector, round_at, verdict, scope_reason, missing_inputs
  FROM group_round WHERE {of_dates}
)
SELECT r.cluster, r.consumer_group, r.topic, r.collector, r.scope_reason, r.missing_inputs,
  IF(unix_millis(d.last_at) - unix_millis(c.told_at) > 600000, c.told_at, NULL) AS silent_since
FROM rounds r
JOIN (
  SELECT cluster, consumer_group, topic, MAX(round_at) AS last_at,
    MAX(IF(verdict IN ('ok', 'drift'), round_at, NULL)) AS judged_at
  FROM rounds WHERE LEFT(topic, 7) <> '%RETRY%' GROUP BY cluster, consumer_group, topic
) l ON r.cluster = l.cluster AND r.consumer_group = l.consumer_group AND r.topic = l.topic AND r.round_at = l.last_at
JOIN (
  SELECT cluster, MAX(event_date) AS last_date, MAX(round_at) AS last_at FROM rounds GROUP BY cluster
) d ON r.cluster = d.cluster AND r.event_date = d.last_date
JOIN (
  SELECT cluster, collector, MAX(round_at) AS told_at FROM rounds GROUP BY cluster, collector
) c ON r.cluster = c.cluster AND r.collector = c.collector
WHERE l.judged_at IS NULL OR unix_millis(l.last_at) - unix_millis(l.judged_at) > 600000
  OR unix_millis(d.last_at) - unix_millis(c.told_at) > 600000
ORDER BY r.cluster, r.consumer_group, r.topic
