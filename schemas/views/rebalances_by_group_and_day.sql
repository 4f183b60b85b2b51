-- How often did each group rebalance on each day, why, and what did it cost?
-- Grain: (cluster, event_date, consumer_group, trigger_kind). Changes within 5 s of each other are one rebalance; where
-- it is not known when the change was, what members do within 25 s of each other, the timer's 20 s and time to ask.
-- Example: SELECT * FROM rebalances_by_group_and_day ORDER BY unread_s DESC;
CREATE OR REPLACE VIEW rebalances_by_group_and_day (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date on which the clients had their new queues',
  consumer_group COMMENT 'Consumer group',
  trigger_kind COMMENT 'What set them off, as in rebalance_event',
  rebalances COMMENT 'How often members shared anew; what several did about one change is one',
  client_rebalances COMMENT 'Rebalances of single clients, those that failed excepted',
  failed COMMENT 'Rebalances of single clients that failed',
  clients COMMENT 'Clients that rebalanced',
  queues_moved COMMENT 'Queues that somebody took',
  longest_took_s COMMENT 'Longest time from a change to a client\'s new queues, s, at most; null: not known',
  unread_s COMMENT 'Time in which nobody had a queue, summed over queues, s, at most; null: of none is it known',
  unread_at_least_s COMMENT 'The same, at least',
  longest_unread_s COMMENT 'Longest time in which nobody had one queue, s, at most; null: of none is it known',
  held_twice_s COMMENT 'Longest time in which two had one queue, s',
  lock_failures COMMENT 'Locks that were refused before',
  exceptions COMMENT 'Exceptions that clients logged and went on after',
  exact_share COMMENT 'Share of the client rebalances whose begin and end are logged, 0 to 1'
) COMMENT 'Rebalances, their triggers and costs per group and day'
AS SELECT
  cluster, event_date, consumer_group, trigger_kind,
  COUNT_IF(outcome = 'applied' AND COALESCE(since_last_ms > apart_ms, TRUE)) AS rebalances,
  COUNT_IF(outcome = 'applied') AS client_rebalances,
  COUNT_IF(outcome = 'failed') AS failed,
  COUNT(DISTINCT client_id) AS clients,
  CAST(SUM(queues_gained) AS BIGINT) AS queues_moved,
  MAX(took_ms) / 1000 AS longest_took_s,
  CAST(SUM(unread_ms) AS DOUBLE) / 1000 AS unread_s,
  CAST(SUM(unread_at_least_ms) AS DOUBLE) / 1000 AS unread_at_least_s,
  MAX(longest_unread_ms) / 1000 AS longest_unread_s,
  MAX(held_twice_ms) / 1000 AS held_twice_s,
  CAST(SUM(lock_failures) AS BIGINT) AS lock_failures,
  CAST(SUM(exception_count) AS BIGINT) AS exceptions,
  COUNT_IF(certainty = 'exact' AND outcome = 'applied') / NULLIF(COUNT_IF(outcome = 'applied'), 0) AS exact_share
FROM (
  SELECT *, UNIX_MILLIS(was_at) - UNIX_MILLIS(LAG(was_at) OVER (
    PARTITION BY cluster, event_date, consumer_group, trigger_kind, outcome ORDER BY was_at)) AS since_last_ms
  FROM (
    SELECT *, COALESCE(trigger_at, changed_at) AS was_at, CASE WHEN trigger_at IS NULL THEN 25000 ELSE 5000 END AS apart_ms
    FROM rebalance_event
  ) AS told
) AS e
GROUP BY cluster, event_date, consumer_group, trigger_kind;
