-- The longest windows of each broker.
SELECT cluster, broker_name, producer_group, client_id, state, window_start, window_end, end_reason, trigger_kind,
  trigger_latency_ms, certainty, of_all
FROM (
  SELECT *, COUNT(*) OVER () AS of_all, ROW_NUMBER() OVER (PARTITION BY cluster, broker_name ORDER BY
    unix_millis(window_end) - unix_millis(window_start) DESC, window_start, producer_group, client_id, state) AS nth
  FROM broker_availability_window WHERE {of_dates}
) ORDER BY nth, cluster, broker_name LIMIT {windows}
