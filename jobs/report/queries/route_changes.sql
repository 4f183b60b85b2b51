-- Changes of routes, the latest first; those that several name servers show, each once.
SELECT *, COUNT(*) OVER () AS of_all FROM (
  SELECT cluster, topic, broker_name, what, MIN(unchanged_until) AS unchanged_until, MIN(changed_at) AS changed_at,
    perm_before, perm, write_queue_nums_before, write_queue_nums, COUNT(DISTINCT name_server) AS name_servers
  FROM route_change WHERE {of_dates}
  GROUP BY cluster, topic, broker_name, what, perm_before, perm, write_queue_nums_before, write_queue_nums,
    DATE_TRUNC('minute', changed_at)
) ORDER BY changed_at DESC, cluster, topic, broker_name, what LIMIT {rows}
