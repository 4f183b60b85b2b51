-- Which findings of producers come of a broker that was down? Each finding with the incident of the broker whose effect it is.
-- An effect: isolations of that broker that began from two minutes before it was first seen to be down (minutes of the fleet
-- are whole, and sweeps come later) until a minute after it was last, and those of every broker of a topic at once, it among
-- them.
-- Grain: (cluster, event_date, code, producer_group, client_id, started_at, topic, broker_name, kind, from).
-- Example: SELECT code, subject, incident_id FROM producer_finding_with_incident WHERE broker_name = 'broker-a';
CREATE OR REPLACE VIEW producer_finding_with_incident (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of the finding',
  code COMMENT 'FLEET_SLOW, LONG_ISOLATION, ...',
  severity COMMENT 'CRITICAL, HIGH, MEDIUM, LOW or INFO',
  subject COMMENT 'What it is about, as text',
  producer_group COMMENT 'Producer group; null: about the fleet',
  client_id COMMENT 'Producer client id; null: about the fleet',
  topic COMMENT 'Topic; null: not about one topic',
  broker_name COMMENT 'Broker; null: about every broker of the topic',
  began_at COMMENT 'When it began, UTC',
  ended_at COMMENT 'When it ended, UTC; null: it lasts over its date, or its end is unknown',
  certainty COMMENT 'certain, possible, partial or inferred',
  sentence COMMENT 'The finding in one plain sentence',
  incident_id COMMENT 'Incident of the broker (drift_incident) whose effect it is; null: of none',
  root_cause COMMENT 'Root cause of that incident; null: of none'
) COMMENT 'Findings of producers with the incidents of brokers that explain them'
AS SELECT
  cluster, event_date, code, severity, subject, producer_group, client_id, topic, broker_name, began_at, ended_at,
  certainty, sentence, incident_id, root_cause
FROM (
  SELECT
    f.cluster, f.event_date, f.code, f.severity, f.subject, f.producer_group, f.client_id, f.topic, f.broker_name,
    f.from AS began_at, f.to AS ended_at, f.certainty, f.sentence, i.incident_id, i.root_cause,
    ROW_NUMBER() OVER (
      PARTITION BY f.cluster, f.event_date, f.code, f.producer_group, f.client_id, f.started_at, f.topic, f.broker_name,
        f.kind, f.from
      ORDER BY i.first_seen_at, i.incident_id
    ) AS place
  FROM producer_finding AS f
  LEFT JOIN drift_incident AS i
    ON f.cluster = i.cluster AND i.consumer_group = '' AND i.root_cause = 'BROKER_NOT_ANSWERING'
    AND (
      (f.broker_name = i.cause_key AND f.code IN ('FLEET_SLOW', 'LONG_ISOLATION', 'OVER_ISOLATION'))
      OR (f.code = 'ALL_ISOLATED' AND ARRAY_CONTAINS(f.broker_names, i.cause_key))
    )
    AND f.from BETWEEN i.first_seen_at - INTERVAL 2 MINUTES AND i.last_seen_at + INTERVAL 1 MINUTE
)
WHERE place = 1;
