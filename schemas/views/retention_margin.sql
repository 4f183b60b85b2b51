-- How far is each queue of a group from the first message that its broker still has?
-- Grain: (cluster, event_date, collector, consumer_group, topic, broker_name, queue_id, round_at), where both were read.
-- Example: SELECT * FROM retention_margin WHERE margin_state IN ('lost', 'at_risk') ORDER BY margin;
CREATE OR REPLACE VIEW retention_margin (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  collector COMMENT 'Which collector took the captures',
  consumer_group COMMENT 'Consumer group',
  topic COMMENT 'Topic',
  broker_name COMMENT 'Broker that holds the queue',
  queue_id COMMENT 'Queue id',
  round_at COMMENT 'Round, UTC',
  captured_at COMMENT 'When the offsets were read, UTC',
  messages_behind COMMENT 'Messages not consumed',
  margin COMMENT 'Messages between the first that is still there and the next that the group will consume; negative: so many are lost',
  kept COMMENT 'Messages that the broker still has',
  deleted COMMENT 'Messages that it deleted since the date\'s first reading',
  margin_state COMMENT 'lost; at_risk: some wait, and fewer lie before them than were deleted on the date; safe; unknown: no offset is committed, or the first offset was read later'
) COMMENT 'How near a group is to messages that retention deletes'
AS SELECT
  cluster, event_date, collector, consumer_group, topic, broker_name, queue_id, round_at, captured_at,
  messages_behind, margin, kept, deleted,
  CASE
    WHEN consumer_offset <= 0 THEN 'unknown'
    WHEN margin < 0 AND ends_at <= captured_at THEN 'lost'
    WHEN margin < 0 THEN 'unknown'
    WHEN messages_behind > 0 AND margin < deleted THEN 'at_risk'
    ELSE 'safe'
  END AS margin_state
FROM (
  SELECT
    p.cluster, p.event_date, p.collector, p.consumer_group, p.topic, p.broker_name, p.queue_id, p.round_at,
    p.captured_at, p.consumer_offset, p.lag AS messages_behind, p.consumer_offset - e.min_offset AS margin,
    e.max_offset - e.min_offset AS kept, e.min_offset - e.first_min AS deleted, e.captured_at AS ends_at
  FROM queue_progress AS p
  JOIN (
    SELECT
      *,
      MIN(min_offset) OVER (PARTITION BY cluster, event_date, collector, topic, broker_name, queue_id) AS first_min
    FROM (
      SELECT
        cluster, event_date, collector, topic, broker_name, queue_id, round_at,
        MIN(captured_at) AS captured_at, MIN(min_offset) AS min_offset, MAX(max_offset) AS max_offset
      FROM topic_status
      GROUP BY cluster, event_date, collector, topic, broker_name, queue_id, round_at
    )
  ) AS e
    ON p.cluster = e.cluster AND p.event_date = e.event_date AND p.collector = e.collector AND p.topic = e.topic
    AND p.broker_name = e.broker_name AND p.queue_id = e.queue_id AND p.round_at = e.round_at
);
