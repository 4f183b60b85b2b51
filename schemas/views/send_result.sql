-- What did the caller of each send get? Every send, those that one attempt tells of included.
-- Grain: one row per send of the producers that were replayed.
-- Example: SELECT event_date, producer_group, result, COUNT(*) FROM send_result GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW send_result (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of begin_at',
  producer_group COMMENT 'Producer group',
  client_id COMMENT 'Producer client id',
  topic COMMENT 'Topic sent to',
  msg_id COMMENT 'Client\'s unique message id',
  mode COMMENT 'SYNC, ASYNC or ONEWAY; null: a trace does not say',
  begin_at COMMENT 'When the first recorded attempt began, UTC',
  end_at COMMENT 'When the last one ended, UTC',
  attempts COMMENT 'How many attempts are recorded',
  result COMMENT 'ok, not_ok, exception, timeout or unknown (of ONEWAY always, unless it threw)',
  result_text COMMENT 'The SendStatus, or the message of the exception; null: not known',
  retry_verdict COMMENT 'Whether its retries follow from the rules; right where one attempt was answered SEND_OK',
  stored_twice COMMENT 'no, possible or unknown'
) COMMENT 'Every send with its result'
AS SELECT
  c.cluster, c.event_date, c.producer_group, c.client_id, c.topic, c.msg_id, c.mode, c.begin_at, c.end_at,
  CAST(SIZE(c.attempts) AS BIGINT) AS attempts, c.result, c.result_text, c.retry_verdict, c.stored_twice
FROM send_call c
UNION ALL
SELECT
  a.cluster, a.event_date, a.producer_group, a.client_id, a.topic, a.msg_id, a.mode, a.begin_at, a.end_at,
  CAST(1 AS BIGINT) AS attempts,
  CASE WHEN a.outcome = 'SEND_OK' THEN 'ok' ELSE 'unknown' END AS result,
  CASE WHEN a.outcome = 'SEND_OK' THEN a.outcome END AS result_text,
  'right' AS retry_verdict, 'no' AS stored_twice
FROM send_attempt a
SEMI JOIN producer_replay r
  ON a.cluster = r.cluster AND a.event_date = r.event_date AND a.producer_group = r.producer_group
  AND a.client_id = r.client_id AND ARRAY_CONTAINS(r.sources, a.source)
ANTI JOIN send_call c
  ON a.cluster = c.cluster AND a.producer_group = c.producer_group AND a.client_id = c.client_id
  AND a.msg_id = c.msg_id AND a.mode IS NOT DISTINCT FROM c.mode AND a.begin_at BETWEEN c.begin_at AND c.end_at
WHERE a.outcome IN ('SEND_OK', 'SUBMITTED', 'UNKNOWN') AND COALESCE(a.attempt, 0) = 0;
