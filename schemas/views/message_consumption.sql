-- Who consumed which message, when, for how long, with which result, and how often had it come before?
-- Grain: (cluster, request_id, msg_id, source): one delivery of one message to a listener.
-- Example: SELECT * FROM message_consumption WHERE NOT success ORDER BY began_at;
CREATE OR REPLACE VIEW message_consumption (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of the trace message',
  consumer_group COMMENT 'Consumer group; null: only the end is recorded, and it does not say',
  consumer COMMENT 'Client id, as a consume recorder says; of a trace process and the part of the request id that names the process',
  client_host COMMENT 'Address of the client (4.8.0 only)',
  msg_id COMMENT 'Unique id of the message',
  message_key COMMENT 'Its business keys',
  request_id COMMENT 'Id of the delivery',
  retry_times COMMENT 'How often it had come before; null: only the end is recorded',
  began_at COMMENT 'When the listener was called, UTC; null: only the end is recorded',
  cost_ms COMMENT 'How long the listener took, ms; null: no end is recorded',
  result COMMENT 'SUCCESS, TIME_OUT, EXCEPTION, RETURNNULL, FAILED, or no_end: none is recorded',
  success COMMENT 'Whether it was consumed; null: no end is recorded',
  topic COMMENT 'Its topic; null: a trace does not say',
  stored_topic COMMENT 'Topic of the queue it came from, after a failure the retry topic; null: a trace does not say',
  broker_name COMMENT 'Broker of that queue; null as topic',
  queue_id COMMENT 'That queue; null as topic',
  queue_offset COMMENT 'Its offset there; null as topic',
  message_tag COMMENT 'Its tag; null: none, or a trace',
  stored_at COMMENT 'When it was stored there, by the clock of the broker, UTC; null as topic',
  source COMMENT 'trace_topic, or consumer_hook of a consume recorder'
) COMMENT 'Consumption as message traces and consume recorders tell it, one row a delivery'
AS SELECT
  cluster, MIN(event_date) AS event_date, MAX(client_group) AS consumer_group,
  COALESCE(
    MAX(client_id), CONCAT('process ', SUBSTR(request_id, 1, GREATEST(LENGTH(request_id) - 12, 0)))
  ) AS consumer,
  MAX(client_host) AS client_host, msg_id, MAX(message_key) AS message_key, request_id,
  MAX(retry_times) AS retry_times,
  MIN(CASE WHEN kind = 'sub_before' THEN traced_at END) AS began_at,
  MAX(CASE WHEN kind = 'sub_after' THEN cost_ms END) AS cost_ms,
  COALESCE(
    MAX(CASE WHEN kind = 'sub_after' THEN COALESCE(return_type, CASE WHEN success THEN 'SUCCESS' ELSE 'FAILED' END) END),
    'no_end'
  ) AS result,
  MAX(CASE WHEN kind = 'sub_after' THEN CAST(success AS INT) END) = 1 AS success,
  MAX(topic) AS topic, MAX(stored_topic) AS stored_topic, MAX(broker_name) AS broker_name, MAX(queue_id) AS queue_id,
  MAX(queue_offset) AS queue_offset, MAX(message_tag) AS message_tag, MAX(stored_at) AS stored_at, source
FROM message_trace
WHERE kind IN ('sub_before', 'sub_after')
GROUP BY cluster, msg_id, request_id, source;
