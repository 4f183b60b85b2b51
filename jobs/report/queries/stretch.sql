-- What the drawings of producers span, and their last record: epoch milliseconds. A window may end after that.
SELECT MIN(begins) AS begins, MAX(ends) AS ends, MAX(recorded) AS recorded FROM (
  SELECT
    MIN(unix_millis(window_start)) AS begins, MAX(unix_millis(COALESCE(window_end, window_start))) AS ends,
    MAX(unix_millis(window_start)) AS recorded
  FROM broker_availability_window WHERE {of_dates}
  UNION ALL
  SELECT MIN(unix_millis(begin_at)), MAX(unix_millis(end_at)), MAX(unix_millis(end_at))
  FROM send_attempt WHERE {of_dates}
)
