-- Which incident does a finding belong to? Each finding with the incident that took it in, if one did.
-- Grain: one row per round and finding.
-- Example: SELECT round_at, code, topic, broker_name, queue_id, incident_id FROM drift_with_incident WHERE state = 'OPEN';
CREATE OR REPLACE VIEW drift_with_incident (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of the round',
  collector COMMENT 'Which collector took the captures',
  consumer_group COMMENT 'Consumer group',
  round_at COMMENT 'Round, UTC',
  code COMMENT 'Drift code',
  severity COMMENT 'CRITICAL, HIGH, MEDIUM, LOW or INFO',
  trust COMMENT 'certain or possible',
  finding_state COMMENT 'SUPPRESSED (within grace), PENDING (not yet long enough) or OPEN',
  topic COMMENT 'Topic; null: about the whole group',
  broker_name COMMENT 'Broker of the queue; null: not about one queue',
  queue_id COMMENT 'Queue; null: not about one queue',
  client_id COMMENT 'Client; null: not about one client',
  kind COMMENT 'Variant of the code; null: none',
  since_at COMMENT 'From when the condition is known to hold, UTC',
  root_cause COMMENT 'What it comes of',
  cause_key COMMENT 'Which one: client, kind, topic, broker or name server; empty for the group',
  lag_now COMMENT 'Messages not consumed at the last valid reading; null: no valid reading',
  sentence COMMENT 'The finding in one plain sentence',
  incident_id COMMENT 'Incident that explains it, of the group or of a server; null: none opened',
  state COMMENT 'State of that incident as it was last: OPEN, CLEARING, RESOLVED or FLAPPING',
  opened_at COMMENT 'When that incident first opened, UTC',
  last_seen_at COMMENT 'Last read that showed one of its findings, UTC',
  resolved_at COMMENT 'When it was closed, UTC; null: it is not',
  rounds_true COMMENT 'Rounds since its opening that showed it',
  rounds_informative COMMENT 'Rounds since its opening that could have shown it'
) COMMENT 'Findings with the incidents that explain them'
AS SELECT
  d.cluster, d.event_date, d.collector, d.consumer_group, d.round_at, d.code, d.severity, d.trust, d.finding_state,
  d.topic, d.broker_name, d.queue_id, d.client_id, d.kind, d.since_at, d.root_cause, d.cause_key, d.lag_now, d.sentence,
  COALESCE(i.incident_id, s.incident_id) AS incident_id,
  COALESCE(i.state, s.state) AS state,
  COALESCE(i.opened_at, s.opened_at) AS opened_at,
  COALESCE(i.last_seen_at, s.last_seen_at) AS last_seen_at,
  COALESCE(i.resolved_at, s.resolved_at) AS resolved_at,
  COALESCE(i.rounds_true, s.rounds_true) AS rounds_true,
  COALESCE(i.rounds_informative, s.rounds_informative) AS rounds_informative
FROM allocation_drift AS d
LEFT JOIN drift_incident AS i
  ON d.cluster = i.cluster AND d.collector = i.collector AND d.consumer_group = i.consumer_group
  AND d.root_cause = i.root_cause AND d.cause_key = i.cause_key AND d.finding_state <> 'SUPPRESSED'
  AND d.judged_at BETWEEN i.first_seen_at AND i.last_seen_at
LEFT JOIN drift_incident AS s
  ON d.cluster = s.cluster AND d.collector = s.collector AND s.consumer_group = '' AND d.incident_id = s.incident_id;
