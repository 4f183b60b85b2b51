-- The longest isolations.
SELECT * FROM broker_isolation WHERE state = 'unavailable' ORDER BY seconds DESC, window_start, client_id, broker_name
LIMIT {most}
