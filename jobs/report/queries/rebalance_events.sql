-- Rebalances of single clients: the costliest of the dates, in order of time.
SELECT * FROM (
  SELECT *, COUNT(*) OVER () AS of_all FROM (
    SELECT cluster, consumer_group, client_id, changed_at, trigger_kind, told_by, certainty, took_ms / 1000 AS took_s,
      queues_gained, queues_lost, longest_unread_ms / 1000 AS longest_unread_s, exception_count, sentence
    FROM rebalance_event WHERE {of_dates}
  ) ORDER BY COALESCE(longest_unread_s, 0) DESC, exception_count DESC, changed_at, cluster, consumer_group, client_id,
    told_by
  LIMIT {rows}
) ORDER BY cluster, consumer_group, changed_at, client_id, told_by
