-- The newest record of each cluster and format, of records on these dates.
-- Every question that a collector asks has a row in snapshot_capture; what others exported may be of any of its tables.
SELECT cluster, source AS format, MAX(newest_at) AS newest_at
FROM (
  SELECT cluster, source, MAX(begin_at) AS newest_at FROM send_attempt WHERE {of_dates} GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(COALESCE(traced_at, born_at)) FROM message_trace WHERE {of_dates} GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(told_at) FROM consumer_recording WHERE {of_dates} GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(captured_at) FROM snapshot_capture WHERE {of_dates} GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(captured_at) FROM consumer_heartbeat
  WHERE {of_dates} AND source = 'canonical_snapshots' GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(captured_at) FROM queue_ownership
  WHERE {of_dates} AND source = 'canonical_snapshots' GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(captured_at) FROM queue_progress
  WHERE {of_dates} AND source = 'canonical_snapshots' GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(captured_at) FROM topic_route
  WHERE {of_dates} AND source = 'canonical_snapshots' GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(captured_at) FROM pop_assignment
  WHERE {of_dates} AND source = 'canonical_snapshots' GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(captured_at) FROM message_request_mode
  WHERE {of_dates} AND source = 'canonical_snapshots' GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(captured_at) FROM topic_status
  WHERE {of_dates} AND source = 'canonical_snapshots' GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(logged_at) FROM rebalance_result WHERE {of_dates} GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(logged_at) FROM client_event WHERE {of_dates} GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(logged_at) FROM membership_event WHERE {of_dates} GROUP BY cluster, source
  UNION ALL
  SELECT cluster, source, MAX(received_at) FROM client_heartbeat WHERE {of_dates} GROUP BY cluster, source
)
GROUP BY cluster, source
