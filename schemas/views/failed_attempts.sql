-- Which brokers failed sends in which minute, with which code, and what became of those sends?
-- Grain: (cluster, event_date, minute, broker_name, failed_with, response_code) of attempts that were not answered SEND_OK.
-- Example: SELECT minute, broker_name, failed_with, attempts, lost FROM failed_attempts ORDER BY minute, broker_name;
CREATE OR REPLACE VIEW failed_attempts (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date on which the attempts began',
  minute COMMENT 'Minute in which they began, UTC',
  broker_name COMMENT 'Broker they went to; null: not known',
  failed_with COMMENT 'Java class of the exception, or the SendStatus',
  response_code COMMENT 'Broker\'s response code; null when none is told',
  attempts COMMENT 'Attempts that failed so',
  gone_on COMMENT 'Of these, attempts after which their send went on to another one',
  saved COMMENT 'Of these, attempts of sends that were stored after all: the caller got SEND_OK',
  lost COMMENT 'Of these, attempts of sends of which the caller got an exception or a time-out',
  maybe_stored_twice COMMENT 'Of these, attempts of sends that may be stored more than once'
) COMMENT 'Failed attempts by minute, broker and code, with what became of their sends'
AS SELECT
  a.cluster, a.event_date, DATE_TRUNC('minute', a.begin_at) AS minute, a.broker_name,
  COALESCE(a.exception, a.outcome) AS failed_with, a.response_code,
  COUNT(*) AS attempts,
  COUNT_IF(a.end_at < c.end_at) AS gone_on,
  COUNT_IF(c.result = 'ok') AS saved,
  COUNT_IF(c.result IN ('exception', 'timeout')) AS lost,
  COUNT_IF(c.stored_twice = 'possible') AS maybe_stored_twice
FROM send_call c
JOIN send_attempt a
  ON a.cluster = c.cluster AND a.producer_group = c.producer_group AND a.client_id = c.client_id
  AND a.msg_id = c.msg_id AND a.mode IS NOT DISTINCT FROM c.mode AND a.begin_at BETWEEN c.begin_at AND c.end_at
WHERE a.outcome NOT IN ('SEND_OK', 'SUBMITTED', 'UNKNOWN')
GROUP BY a.cluster, a.event_date, DATE_TRUNC('minute', a.begin_at), a.broker_name, COALESCE(a.exception, a.outcome),
  a.response_code;
