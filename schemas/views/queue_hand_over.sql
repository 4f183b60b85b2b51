-- Where did a client begin to read each queue that it took, why there, and what was skipped or read again?
-- Grain: (cluster, collector, consumer_group, client_id, changed_at, told_by, topic, broker_name, queue_id): a queue that
-- was taken. A log names where its client began: Java through 4.9.8 and in ordered groups, C++, Go. Else a client begins at the stored
-- offset (RebalancePushImpl#computePullFromWhere): what the owner before stored, if it gave the queue up first; else
-- between two readings of the group's offset, unless somebody stored a smaller one between them. Without a stored offset
-- it begins at 0, at the end, or at an instant, as its consumeFromWhere says; a reading of 0 may be of none (consumeStats).
-- Example: SELECT * FROM queue_hand_over WHERE skipped_at_least > 0 OR again_at_least > 0 ORDER BY changed_at;
CREATE OR REPLACE VIEW queue_hand_over (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of changed_at',
  collector COMMENT 'Whose rounds showed it; empty: a log tells it',
  consumer_group COMMENT 'Consumer group',
  topic COMMENT 'Topic',
  broker_name COMMENT 'Broker that holds the queue',
  queue_id COMMENT 'Queue id',
  client_id COMMENT 'Who took it',
  changed_at COMMENT 'By when it had it, UTC',
  told_by COMMENT 'client_log, or running_info: what rounds show',
  from_client_id COMMENT 'Who had it before; null: nobody is known to have had it',
  released_at COMMENT 'When that one gave it up, UTC; null: not before it was taken',
  stored_offset COMMENT 'What that one stored as it gave it up, as its log says; null: no log does',
  read_before COMMENT 'The group\'s offset as it was last read before, within 10 minutes; 0: it may have had none; null: not read',
  read_after COMMENT 'The group\'s offset as it was first read after, within 10 minutes; null: not read',
  began_at_least COMMENT 'Where the client began to read it, at least; null: not known',
  began_at_most COMMENT 'The same, at most; null: not known',
  known_by COMMENT 'How that is known: log (its own names it), stored (stored_offset, given up before), readings (read_before, read_after); null: it is not',
  began_by COMMENT 'Why there: stored (an offset was stored), first (0: none was stored, or 0), last or timestamp (none was stored, and its consumeFromWhere says so), or unknown',
  unknown_for COMMENT 'Of unknown: no_reading, zero_or_none (a reading of 0 may be of no offset), went_back (between two readings), no_rule (consumeFromWhere was not read, or differs); else null',
  skipped_at_least COMMENT 'Offsets behind what the owner before stored, or behind 0 if none was stored, that were passed over, at least; null: not known',
  skipped_at_most COMMENT 'The same, at most; null: not known',
  again_at_least COMMENT 'Offsets before what the owner before stored that were read again, at least; null: not known',
  again_at_most COMMENT 'The same, at most; null: not known',
  evidence COMMENT 'Lines or rounds of the rebalance'
) COMMENT 'Queues that clients took: where they began to read, why there, what was skipped or read again'
AS WITH taken AS (
  SELECT
    cluster, event_date, collector, consumer_group, client_id, changed_at, told_by, evidence, EXPLODE(hand_overs) AS hand,
    -- From its first result on, or since the round before; clocks may differ by a second.
    UNIX_MILLIS(COALESCE(changed_after, changed_at)) - CASE WHEN changed_after IS NULL THEN 3000 * results ELSE 0 END - 1000
      AS since_ms,
    UNIX_MILLIS(changed_at) + 5000 AS until_ms
  FROM rebalance_event
  WHERE outcome = 'applied'
),
hand AS (
  SELECT
    cluster, event_date, collector, consumer_group, client_id, changed_at, told_by, evidence, since_ms, until_ms,
    hand.topic AS topic, hand.broker_name AS broker_name, hand.queue_id AS queue_id,
    hand.from_client_id AS from_client_id, hand.released_at AS released_at, hand.stored_offset AS stored_offset,
    COALESCE(hand.sent_on_to, hand.began_offset) AS named, hand.began_offset AS asked_for
  FROM taken
),
reading AS (
  -- Of each side of the hand-over the nearest reading.
  SELECT
    cluster, collector, consumer_group, topic, broker_name, queue_id, client_id, changed_at, told_by,
    MAX(CASE WHEN side = -1 THEN at_ms END) AS before_ms,
    MAX(CASE WHEN side = -1 THEN consumer_offset END) AS read_before,
    MAX(CASE WHEN side = 1 THEN consumer_offset END) AS read_after,
    MAX(CASE WHEN side = 1 THEN broker_offset END) AS end_after
  FROM (
    SELECT
      cluster, collector, consumer_group, topic, broker_name, queue_id, client_id, changed_at, told_by, side,
      MAX(-side * at_ms) * -side AS at_ms,
      MAX_BY(consumer_offset, (-side * at_ms, side * consumer_offset, broker_offset)) AS consumer_offset,
      MAX_BY(broker_offset, (-side * at_ms, side * consumer_offset, broker_offset)) AS broker_offset
    FROM (
      SELECT
        h.cluster, h.collector, h.consumer_group, h.topic, h.broker_name, h.queue_id, h.client_id, h.changed_at,
        h.told_by, p.at_ms, p.consumer_offset, p.broker_offset,
        CASE WHEN p.at_ms <= h.since_ms THEN -1 WHEN p.at_ms > h.until_ms THEN 1 END AS side
      FROM hand AS h
      JOIN (
        SELECT
          cluster, consumer_group, topic, broker_name, queue_id, consumer_offset, broker_offset,
          UNIX_MILLIS(captured_at) AS at_ms
        FROM queue_progress
      ) AS p
        ON p.cluster = h.cluster AND p.consumer_group = h.consumer_group AND p.topic = h.topic
        AND p.broker_name = h.broker_name AND p.queue_id = h.queue_id
        AND p.at_ms BETWEEN h.since_ms - 600000 AND h.until_ms + 600000
    )
    WHERE side IS NOT NULL
    GROUP BY cluster, collector, consumer_group, topic, broker_name, queue_id, client_id, changed_at, told_by, side
  )
  GROUP BY cluster, collector, consumer_group, topic, broker_name, queue_id, client_id, changed_at, told_by
),
rule AS (
  SELECT
    cluster, event_date, consumer_group,
    CASE WHEN COUNT(DISTINCT consume_from_where) = 1 THEN MAX(consume_from_where) END AS consume_from_where
  FROM consumer_heartbeat
  GROUP BY cluster, event_date, consumer_group
),
known AS (
  SELECT
    h.*, r.read_before, r.read_after,
    CASE
      WHEN h.named IS NOT NULL THEN 'log'
      WHEN h.stored_offset IS NOT NULL AND h.released_at IS NOT NULL
        AND NOT COALESCE(r.before_ms > UNIX_MILLIS(h.released_at) + 5000 AND r.read_before <> h.stored_offset, FALSE)
        THEN 'stored'
      WHEN r.read_before IS NOT NULL AND r.read_after IS NOT NULL AND r.read_before <= r.read_after THEN 'readings'
    END AS known_by,
    CASE WHEN r.read_after > 0 THEN r.read_after ELSE r.end_after END AS most,
    COALESCE(h.stored_offset IS NOT NULL AND h.released_at IS NOT NULL OR r.read_before > 0, FALSE) AS had_offset,
    COALESCE(r.read_before = -1 OR (r.read_before = 0 AND h.from_client_id IS NULL), FALSE) AS had_none,
    SUBSTR(h.topic, 1, 7) = '%RETRY%' AS is_retry,
    CASE
      WHEN w.consume_from_where IN ('CONSUME_FROM_FIRST_OFFSET', 'CONSUME_FROM_TIMESTAMP') THEN w.consume_from_where
      WHEN w.consume_from_where IS NOT NULL THEN 'CONSUME_FROM_LAST_OFFSET'
    END AS consume_from_where
  FROM hand AS h
  LEFT JOIN reading AS r
    ON r.cluster = h.cluster AND r.collector = h.collector AND r.consumer_group = h.consumer_group AND r.topic = h.topic
    AND r.broker_name = h.broker_name AND r.queue_id = h.queue_id AND r.client_id = h.client_id
    AND r.changed_at = h.changed_at AND r.told_by = h.told_by
  LEFT JOIN rule AS w
    ON w.cluster = h.cluster AND w.event_date = h.event_date AND w.consumer_group = h.consumer_group
),
why AS (
  SELECT
    *,
    CASE known_by WHEN 'log' THEN named WHEN 'stored' THEN stored_offset WHEN 'readings' THEN GREATEST(read_before, 0) END
      AS began_at_least,
    CASE known_by WHEN 'log' THEN named WHEN 'stored' THEN stored_offset WHEN 'readings' THEN most END AS began_at_most,
    CASE
      WHEN had_offset THEN 'stored'
      WHEN asked_for = 0 THEN 'first'
      -- Without an offset it would have been 0.
      WHEN asked_for > 0 AND (consume_from_where = 'CONSUME_FROM_FIRST_OFFSET'
        OR (is_retry AND consume_from_where = 'CONSUME_FROM_LAST_OFFSET')) THEN 'stored'
      WHEN asked_for > 0 AND had_none AND (is_retry OR consume_from_where = 'CONSUME_FROM_LAST_OFFSET') THEN 'last'
      WHEN asked_for > 0 AND had_none AND consume_from_where = 'CONSUME_FROM_TIMESTAMP' THEN 'timestamp'
      ELSE 'unknown'
    END AS began_by
  FROM known
)
SELECT
  cluster, event_date, collector, consumer_group, topic, broker_name, queue_id, client_id, changed_at, told_by,
  from_client_id, released_at, stored_offset, read_before, read_after, began_at_least, began_at_most, known_by, began_by,
  CASE
    WHEN began_by <> 'unknown' THEN NULL
    WHEN read_before IS NULL THEN 'no_reading'
    WHEN asked_for > 0 AND had_none THEN 'no_rule'
    ELSE 'zero_or_none'
  END AS unknown_for,
  CASE
    WHEN began_by IN ('last', 'timestamp') THEN began_at_least
    WHEN released_at IS NOT NULL AND began_at_least > stored_offset THEN began_at_least - stored_offset
    WHEN released_at IS NOT NULL AND began_at_least <= stored_offset THEN 0
  END AS skipped_at_least,
  CASE
    WHEN began_by IN ('last', 'timestamp') THEN began_at_most
    WHEN released_at IS NOT NULL AND began_at_most > stored_offset THEN began_at_most - stored_offset
    WHEN released_at IS NOT NULL AND began_at_most <= stored_offset THEN 0
  END AS skipped_at_most,
  CASE WHEN began_at_most < stored_offset THEN stored_offset - began_at_most WHEN began_at_most >= stored_offset THEN 0 END
    AS again_at_least,
  CASE WHEN began_at_least < stored_offset THEN stored_offset - began_at_least WHEN began_at_least >= stored_offset THEN 0 END
    AS again_at_most,
  evidence
FROM why;
