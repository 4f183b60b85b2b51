-- How much of what a producer sent do its traces show? They have no failed attempts, and may be lost on their way.
-- Grain: one row per producer and date that a nearer source and traces both tell of.
-- Example: SELECT client_id, attempts, traced, share FROM trace_coverage ORDER BY share;
CREATE OR REPLACE VIEW trace_coverage (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  producer_group COMMENT 'Producer group',
  client_id COMMENT 'Producer client id',
  source COMMENT 'Landing format of the nearer source',
  attempts COMMENT 'Attempts that it recorded',
  answered COMMENT 'Of these, attempts that did not end in an exception',
  traced COMMENT 'Of these, attempts of which a trace tells',
  share COMMENT 'traced of attempts, 0 to 1'
) COMMENT 'Share of the recorded attempts of which traces tell'
AS SELECT a.cluster, a.event_date, a.producer_group, a.client_id, a.source, COUNT(*) AS attempts,
  COUNT_IF(a.outcome <> 'EXCEPTION') AS answered, COUNT(t.msg_id) AS traced,
  FLOOR(1e4 * COUNT(t.msg_id) / COUNT(*) + 0.5e0) / 1e4 AS share
FROM send_attempt a
LEFT JOIN (
  SELECT DISTINCT cluster, event_date, msg_id, broker_name FROM send_attempt WHERE NOT exceptions_observable
) t ON a.cluster = t.cluster AND a.event_date = t.event_date AND a.msg_id = t.msg_id AND a.broker_name = t.broker_name
  AND a.outcome <> 'EXCEPTION'
WHERE a.exceptions_observable
GROUP BY a.cluster, a.event_date, a.producer_group, a.client_id, a.source
HAVING COUNT(t.msg_id) > 0;
