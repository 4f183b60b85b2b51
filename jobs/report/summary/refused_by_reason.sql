-- The commonest reasons of refusal.
SELECT * FROM quarantine_by_reason ORDER BY lines DESC, reason_code, format, cluster LIMIT {most}
