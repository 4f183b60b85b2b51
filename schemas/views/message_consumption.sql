-- Who consumed which message, when, for how long, with which result, and how often had it come before?
-- Grain: (cluster, request_id, msg_id): one delivery of one message to a listener.
-- Example: SELECT * FROM message_consumption WHERE NOT success ORDER BY began_at;
CREATE OR REPLACE VIEW message_consumption (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of the trace message',
  consumer_group COMMENT 'Consumer group; null: only the end is recorded, and it does not say',
  consumer COMMENT 'process and the part of the request id that names the consuming process',
  client_host COMMENT 'Address of the client (4.8.0 only)',
  msg_id COMMENT 'Unique id of the message',
  message_key COMMENT 'Its business keys',
  request_id COMMENT 'Id of the delivery',
  retry_times COMMENT 'How often it had come before; null: only the end is recorded',
  began_at COMMENT 'When the listener was called, UTC; null: only the end is recorded',
  cost_ms COMMENT 'How long the listener took, ms; null: no end is recorded',
  result COMMENT 'SUCCESS, TIME_OUT, EXCEPTION, RETURNNULL, FAILED, or no_end: none is recorded',
  success COMMENT 'Whether it was consumed; null: no end is recorded'
) COMMENT 'Consumption as message traces tell it, one row a delivery'
AS SELECT
  cluster, MIN(event_date) AS event_date, MAX(client_group) AS consumer_group,
  CONCAT('process ', SUBSTR(request_id, 1, GREATEST(LENGTH(request_id) - 12, 0))) AS consumer,
  MAX(client_host) AS client_host, msg_id, MAX(message_key) AS message_key, request_id,
  MAX(retry_times) AS retry_times,
  MIN(CASE WHEN kind = 'sub_before' THEN traced_at END) AS began_at,
  MAX(CASE WHEN kind = 'sub_after' THEN cost_ms END) AS cost_ms,
  COALESCE(
    MAX(CASE WHEN kind = 'sub_after' THEN COALESCE(return_type, CASE WHEN success THEN 'SUCCESS' ELSE 'FAILED' END) END),
    'no_end'
  ) AS result,
  MAX(CASE WHEN kind = 'sub_after' THEN CAST(success AS INT) END) = 1 AS success
FROM message_trace
WHERE kind IN ('sub_before', 'sub_after')
GROUP BY cluster, msg_id, request_id;
