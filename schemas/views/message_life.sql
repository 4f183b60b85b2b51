-- Where was each message stored, and which groups are recorded to have consumed it, how often, how late?
-- Grain: one row per message and group that was given it, or one without a group where none is recorded; verdicts with
-- their causes are those of `hindsight message`. A batch is one row, with the id of its first message.
-- Example: SELECT * FROM message_life WHERE succeeded > 1 ORDER BY sent_at;
CREATE OR REPLACE VIEW message_life (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of sent_at',
  producer_group COMMENT 'Producer group',
  client_id COMMENT 'Producer client id',
  topic COMMENT 'Topic sent to',
  msg_id COMMENT 'Client\'s unique message id',
  message_key COMMENT 'Business key; null: none, or not recorded',
  sent_at COMMENT 'When the first attempt began, UTC',
  attempts COMMENT 'How many attempts are recorded',
  outcome COMMENT 'How the last one ended',
  broker_name COMMENT 'Broker of the last one',
  queue_id COMMENT 'Its queue',
  queue_offset COMMENT 'Offset that the answer told; null: not recorded',
  queue_offset_of COMMENT 'Whose offset: topic; half, delay, timer: of a queue of RocketMQ\'s own',
  consumer_group COMMENT 'Group that was given it; null: none is recorded',
  deliveries COMMENT 'How often the group was given it',
  succeeded COMMENT 'How many of these succeeded',
  first_given_at COMMENT 'When it was given it first, UTC',
  waited_ms COMMENT 'From the begin of the send to there, ms',
  last_result COMMENT 'How the last delivery ended'
) COMMENT 'Messages with their place and their consumption'
AS SELECT
  s.cluster, s.event_date, s.producer_group, s.client_id, s.topic, s.msg_id, s.message_key, s.sent_at, s.attempts,
  s.outcome, s.broker_name, s.queue_id, s.queue_offset, s.queue_offset_of, c.consumer_group,
  COALESCE(c.deliveries, 0) AS deliveries, COALESCE(c.succeeded, 0) AS succeeded, c.first_given_at,
  UNIX_MILLIS(c.first_given_at) - UNIX_MILLIS(s.sent_at) AS waited_ms, c.last_result
FROM (
  SELECT
    cluster, MIN(event_date) AS event_date, producer_group, client_id, topic, msg_id, MAX(message_key) AS message_key,
    MIN(begin_at) AS sent_at, COUNT(*) AS attempts, MAX_BY(outcome, end_at) AS outcome,
    MAX_BY(broker_name, end_at) AS broker_name, MAX_BY(queue_id, end_at) AS queue_id,
    MAX(queue_offset) AS queue_offset, MAX(queue_offset_of) AS queue_offset_of
  FROM send_attempt
  GROUP BY cluster, producer_group, client_id, topic, msg_id
) s
LEFT JOIN (
  SELECT
    cluster, msg_id, consumer_group, COUNT(*) AS deliveries, COUNT_IF(success) AS succeeded,
    MIN(began_at) AS first_given_at, MAX_BY(result, began_at) AS last_result
  FROM message_consumption WHERE consumer_group IS NOT NULL
  GROUP BY cluster, msg_id, consumer_group
) c ON s.cluster = c.cluster AND s.msg_id = c.msg_id;
