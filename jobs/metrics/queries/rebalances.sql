-- How often each group rebalanced on each of these dates; groups that were judged have a number even if they did not.
SELECT cluster, event_date, consumer_group, SUM(rebalances) AS rebalances
FROM (
  SELECT cluster, event_date, consumer_group, 0 AS rebalances
  FROM group_round WHERE {of_dates} AND verdict IN ('ok', 'drift')
  UNION ALL
  SELECT cluster, event_date, consumer_group, rebalances FROM rebalances_by_group_and_day WHERE {of_dates}
)
GROUP BY cluster, event_date, consumer_group
