-- Rebalances by group, day and trigger, those first in which queues stood unread longest.
SELECT *, COUNT(*) OVER () AS of_all FROM (
  SELECT cluster, consumer_group, CAST(event_date AS STRING) AS day, trigger_kind, rebalances, client_rebalances, failed,
    queues_moved, longest_took_s, unread_s, longest_unread_s, lock_failures, exceptions
  FROM rebalances_by_group_and_day WHERE {of_dates}
) ORDER BY COALESCE(unread_s, 0) DESC, rebalances DESC, cluster, consumer_group, day, trigger_kind
LIMIT {rows}
