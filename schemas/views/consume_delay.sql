-- How far behind is each queue of a group, in messages and in time?
-- Grain: one row per reading: (cluster, event_date, collector, consumer_group, topic, broker_name, queue_id, captured_at).
-- Example: SELECT * FROM consume_delay WHERE seconds_at_least > 60 ORDER BY seconds_at_least DESC;
CREATE OR REPLACE VIEW consume_delay (
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
  seconds_at_least COMMENT 'The first message not consumed has waited so long, at least: an earlier reading of the date shows it; null: not known',
  seconds_at_most COMMENT 'At most: it was stored after the last one consumed, and after a reading that lacks it; null: not known',
  certainty COMMENT 'nothing_waits; beyond_end: the group stands beyond the queue, which was made anew or lost messages; between: both bounds are known; at_least, at_most: one; unknown: none, or no offset is committed'
) COMMENT 'Delay of each queue at each reading, between two bounds'
AS SELECT
  cluster, event_date, collector, consumer_group, topic, broker_name, queue_id, round_at, captured_at,
  messages_behind, seconds_at_least, seconds_at_most,
  CASE
    WHEN messages_behind < 0 THEN 'beyond_end'
    WHEN messages_behind = 0 THEN 'nothing_waits'
    WHEN seconds_at_least IS NOT NULL AND seconds_at_most IS NOT NULL THEN 'between'
    WHEN seconds_at_least IS NOT NULL THEN 'at_least'
    WHEN seconds_at_most IS NOT NULL THEN 'at_most'
    ELSE 'unknown'
  END AS certainty
FROM (
  SELECT
    cluster, event_date, collector, consumer_group, topic, broker_name, queue_id, round_at, captured_at,
    messages_behind,
    CASE
      WHEN messages_behind = 0 THEN 0.0
      WHEN is_committed AND messages_behind > 0 THEN (unix_millis(captured_at) - unix_millis(stored_by)) / 1000
    END AS seconds_at_least,
    CASE
      WHEN messages_behind = 0 THEN 0.0
      WHEN is_committed AND messages_behind > 0
        THEN (unix_millis(captured_at) - unix_millis(GREATEST(not_before, last_timestamp))) / 1000
    END AS seconds_at_most
  FROM (
    -- A reading tells that all messages before the offset of the broker are stored by then, and no others.
    SELECT
      *,
      MIN(IF(tells = 1, captured_at, NULL)) OVER (
        PARTITION BY cluster, event_date, collector, consumer_group, topic, broker_name, queue_id, life
        ORDER BY at_offset DESC, tells ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ) AS stored_by,
      MAX(IF(tells = 1, captured_at, NULL)) OVER (
        PARTITION BY cluster, event_date, collector, consumer_group, topic, broker_name, queue_id, life
        ORDER BY at_offset DESC, tells ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
      ) AS not_before
    FROM (
      SELECT
        cluster, event_date, collector, consumer_group, topic, broker_name, queue_id, round_at, captured_at, life,
        lag AS messages_behind, last_timestamp, consumer_offset > 0 OR last_timestamp IS NOT NULL AS is_committed,
        tells, IF(tells = 1, broker_offset, consumer_offset) AS at_offset
      FROM (
        -- Where the offset of the broker goes back the queue begins another life: made anew, or another broker answers.
        SELECT
          *, EXPLODE(SEQUENCE(0, 1)) AS tells
        FROM (
          SELECT
            *,
            SUM(IF(broker_offset < offset_before, 1, 0)) OVER (
              PARTITION BY cluster, event_date, collector, consumer_group, topic, broker_name, queue_id
              ORDER BY captured_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS life
          FROM (
            SELECT
              cluster, event_date, collector, consumer_group, topic, broker_name, queue_id, round_at, captured_at,
              broker_offset, consumer_offset, lag, last_timestamp,
              LAG(broker_offset) OVER (
                PARTITION BY cluster, event_date, collector, consumer_group, topic, broker_name, queue_id
                ORDER BY captured_at
              ) AS offset_before
            FROM queue_progress
          )
        )
      )
    )
  )
  WHERE tells = 0
);
