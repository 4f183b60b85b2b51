-- Refused lines by reason.
SELECT *, COUNT(*) OVER () AS of_all FROM quarantine_by_reason
ORDER BY lines DESC, cluster, format, reason_code LIMIT {rows}
