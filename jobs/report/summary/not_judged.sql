-- Topics of groups, on their cluster's last date, of which no round was judged in the last ten minutes that were read.
SELECT r.cluster, r.consumer_group, r.topic, r.scope_reason, r.missing_inputs
FROM group_round r
JOIN (
  SELECT cluster, consumer_group, topic, MAX(round_at) AS last_at,
    MAX(IF(verdict IN ('ok', 'drift'), round_at, NULL)) AS judged_at
  FROM group_round
  WHERE LEFT(topic, 7) <> '%RETRY%'
  GROUP BY cluster, consumer_group, topic
) l ON r.cluster = l.cluster AND r.consumer_group = l.consumer_group AND r.topic = l.topic AND r.round_at = l.last_at
JOIN (SELECT cluster, MAX(event_date) AS last_date FROM group_round GROUP BY cluster) d
  ON r.cluster = d.cluster AND r.event_date = d.last_date
WHERE l.judged_at IS NULL OR unix_millis(l.last_at) - unix_millis(l.judged_at) > 600000
ORDER BY r.cluster, r.consumer_group, r.topic
