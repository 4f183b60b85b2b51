-- What the fleet's strips span: epoch milliseconds.
SELECT COALESCE(MIN(unix_millis(minute_at)), 0) AS begins, COALESCE(MAX(unix_millis(minute_at)) + 60000, 0) AS ends
FROM fleet_minute WHERE {of_dates}
