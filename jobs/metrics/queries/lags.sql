-- How far behind in time each group was in its last round of each of these dates, between two bounds: its slowest queue
-- counts.
-- A queue whose bound is not known may be slower than the others: then the group has no upper one.
SELECT
  cluster, event_date, consumer_group, MAX(seconds_at_least) AS at_least,
  IF(COUNT(seconds_at_most) < COUNT(*), NULL, MAX(seconds_at_most)) AS at_most
FROM (
  SELECT
    cluster, event_date, consumer_group, seconds_at_least, seconds_at_most, round_at,
    MAX(round_at) OVER (PARTITION BY cluster, event_date, consumer_group) AS last_round_at
  FROM consume_delay WHERE {of_dates}
)
WHERE round_at = last_round_at
GROUP BY cluster, event_date, consumer_group
