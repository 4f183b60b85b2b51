-- What do incidents come of, and how many does nothing explain? The share of UNEXPLAINED is a measure of this pipeline.
-- Grain: (cluster, root_cause).
-- Example: SELECT root_cause, incidents, share FROM incidents_by_cause ORDER BY incidents DESC;
CREATE OR REPLACE VIEW incidents_by_cause (
  cluster COMMENT 'RocketMQ cluster',
  root_cause COMMENT 'What they come of; UNEXPLAINED: nothing that is known',
  incidents COMMENT 'Incidents, those by design excepted',
  open_incidents COMMENT 'Of these, not resolved',
  share COMMENT 'Share of the cluster\'s incidents, 0 to 1',
  consumer_groups COMMENT 'Consumer groups that have one'
) COMMENT 'Incidents per cluster and root cause'
AS SELECT
  cluster, root_cause,
  COUNT(*) AS incidents,
  COUNT_IF(state <> 'RESOLVED') AS open_incidents,
  COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY cluster) AS share,
  COUNT(DISTINCT consumer_group) AS consumer_groups
FROM drift_incident WHERE root_cause <> 'BY_DESIGN' GROUP BY cluster, root_cause;
