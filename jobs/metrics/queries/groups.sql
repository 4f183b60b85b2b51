-- What the last judged round of each consumer group says of it, by date: its worst topic counts.
SELECT cluster, event_date, verdict, COUNT(*) AS consumer_groups
FROM (
  SELECT
    cluster, event_date, consumer_group,
    CASE
      WHEN COUNT_IF(verdict = 'drift') > 0 THEN 'drift' WHEN COUNT_IF(verdict = 'unknown') > 0 THEN 'unknown' ELSE 'ok'
    END AS verdict
  FROM (
    SELECT
      cluster, event_date, consumer_group, verdict, round_at,
      MAX(round_at) OVER (PARTITION BY cluster, event_date, consumer_group) AS last_round_at
    FROM group_round WHERE {of_dates} AND verdict IS NOT NULL
  )
  WHERE round_at = last_round_at
  GROUP BY cluster, event_date, consumer_group
)
GROUP BY cluster, event_date, verdict
