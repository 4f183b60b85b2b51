-- The newest round of each topic of a group, by each collector.
SELECT * FROM group_round WHERE consumer_group = {group} {until}
QUALIFY round_at = MAX(round_at) OVER (PARTITION BY cluster, collector, topic)
  AND event_date = MAX(event_date) OVER (PARTITION BY cluster, collector)
ORDER BY round_at DESC, topic
