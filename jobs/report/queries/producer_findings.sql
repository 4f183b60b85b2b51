-- Findings about producers and brokers, the worst and longest first.
SELECT
  cluster, code, severity, subject, began_at AS `from`, ended_at AS `to`, certainty, sentence, incident_id,
  COUNT(*) OVER () AS of_all
FROM producer_finding_with_incident WHERE {of_dates}
ORDER BY INSTR('CRITICAL HIGH MEDIUM LOW INFO', severity), unix_millis(ended_at) - unix_millis(began_at) DESC NULLS FIRST,
  began_at, cluster, subject, code LIMIT {rows}
