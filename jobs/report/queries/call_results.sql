-- Sends that failed or were retried: what their callers got, and whether the release asks for those retries.
SELECT mode, result, retry_verdict, stored_twice, COUNT(*) AS sends, MAX(cost_ms) AS longest
FROM send_call WHERE {of_dates} GROUP BY mode, result, retry_verdict, stored_twice
ORDER BY sends DESC, mode NULLS FIRST, result, retry_verdict, stored_twice LIMIT {rows}
