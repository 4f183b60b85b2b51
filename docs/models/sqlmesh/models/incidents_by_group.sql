MODEL (
  name hindsight.incidents_by_group,
  kind FULL,
  description "One row per group (or '': a broker or name server) and root cause",
  audits (not_null(columns := (consumer_group)))
);

SELECT
  cluster,
  consumer_group,
  root_cause,
  COUNT(*) AS incidents,
  COUNT(*) FILTER (WHERE state <> 'RESOLVED') AS still_open,
  MAX(opened_at) AS last_opened_at,
  ARG_MAX(sentence, opened_at) AS last_sentence
FROM hindsight.drift_incident
GROUP BY cluster, consumer_group, root_cause
