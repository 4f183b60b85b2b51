-- Incidents that are open, and those of the dates, the worst first.
SELECT *, COUNT(*) OVER () AS of_all FROM (
  SELECT cluster, consumer_group, incident_id, root_cause, cause_key, also, state, severity, trust, opened_at,
    last_seen_at, resolved_at, codes, rounds_true, rounds_informative, lag_now, messages_accrued, evidence, sentence
  FROM drift_incident WHERE (state <> 'RESOLVED' OR {of_dates}) AND event_date <= DATE'{last}'
) ORDER BY state = 'RESOLVED', INSTR('CRITICAL HIGH MEDIUM LOW INFO', severity), opened_at, cluster, consumer_group,
  incident_id
LIMIT {rows}
