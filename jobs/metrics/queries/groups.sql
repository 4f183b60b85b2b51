-- What the last judged round of each consumer group says of it, by date: its worst topic counts. Of a group whose
-- collector has told nothing in the last ten minutes that others of the cluster told, nothing is known.
SELECT cluster, event_date, verdict, COUNT(*) AS consumer_groups
FROM (
  SELECT
    cluster, event_date, consumer_group,
    CASE
      WHEN unix_millis(MAX(newest_at)) - unix_millis(MAX(told_at)) > 600000 THEN 'unknown'
      WHEN COUNT_IF(verdict = 'drift') > 0 THEN 'drift' WHEN COUNT_IF(verdict = 'unknown') > 0 THEN 'unknown' ELSE 'ok'
    END AS verdict
  FROM (
    SELECT
      cluster, event_date, consumer_group, verdict, round_at,
      MAX(IF(verdict IS NULL, NULL, round_at)) OVER (PARTITION BY cluster, event_date, consumer_group) AS last_round_at,
      MAX(round_at) OVER (PARTITION BY cluster, event_date, collector) AS told_at,
      MAX(round_at) OVER (PARTITION BY cluster, event_date) AS newest_at
    FROM group_round WHERE {of_dates}
  )
  WHERE round_at = last_round_at AND verdict IS NOT NULL
  GROUP BY cluster, event_date, consumer_group
)
GROUP BY cluster, event_date, verdict
