-- What needs somebody now? Incidents that are not resolved, the worst and oldest first.
-- Grain: one row per incident.
-- Example: SELECT consumer_group, root_cause, severity, opened_at, sentence FROM open_incidents WHERE severity <> 'INFO';
CREATE OR REPLACE VIEW open_incidents (
  cluster COMMENT 'RocketMQ cluster',
  consumer_group COMMENT 'Consumer group; empty: of a broker or name server',
  incident_id COMMENT 'Digest; the same on every run over the same input',
  root_cause COMMENT 'What it comes of; UNEXPLAINED: nothing that is known',
  cause_key COMMENT 'Which one: client, kind, topic, broker or name server; empty for the group',
  state COMMENT 'OPEN, CLEARING or FLAPPING',
  severity COMMENT 'The worst so far: CRITICAL, HIGH, MEDIUM, LOW or INFO',
  trust COMMENT 'certain or possible',
  opened_at COMMENT 'When it first opened, UTC',
  last_seen_at COMMENT 'Last read that showed one of its findings, UTC',
  codes COMMENT 'Drift codes of its findings',
  lag_now COMMENT 'Lag of its queues when it was last seen, messages; null: no reading',
  messages_accrued COMMENT 'Messages that its queues took since they were first seen; null: no two readings',
  sentence COMMENT 'The cause, the worst that came of it, and how much in all'
) COMMENT 'Incidents that are not resolved'
AS SELECT
  cluster, consumer_group, incident_id, root_cause, cause_key, state, severity, trust, opened_at, last_seen_at, codes,
  lag_now, messages_accrued, sentence
FROM drift_incident WHERE state <> 'RESOLVED'
ORDER BY INSTR('CRITICAL HIGH MEDIUM LOW INFO', severity), opened_at;
