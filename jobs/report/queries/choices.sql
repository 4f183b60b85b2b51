-- What is known of the choices of brokers.
SELECT verdict, COALESCE(reason, '') AS reason, COUNT(*) AS attempts FROM send_verdict
WHERE {of_dates} GROUP BY 1, 2 ORDER BY attempts DESC, verdict, reason LIMIT {rows}
