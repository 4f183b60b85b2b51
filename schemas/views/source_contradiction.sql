-- Where do two sources tell of one thing differently? Rows are never merged: the nearer source is computed with.
-- Grain: one row per fact of a farther source that a nearer one denies.
-- Example: SELECT kind, source, denied_by, COUNT(*) FROM source_contradiction GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW source_contradiction (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of the fact',
  kind COMMENT 'broker_differs: a send was answered by another broker; queues_differ: one client, other queues',
  client_group COMMENT 'Producer or consumer group',
  client_id COMMENT 'Client id, as the source that is denied names it',
  at COMMENT 'When the attempt began or the running info was read, UTC',
  source COMMENT 'Landing format of the fact',
  denied_by COMMENT 'Landing format that tells otherwise',
  sentence COMMENT 'The contradiction in words'
) COMMENT 'Facts of one source that another source denies'
AS WITH seen AS (
  SELECT cluster, event_date, msg_id, source, COLLECT_SET(broker_name) AS brokers
  FROM send_attempt
  WHERE exceptions_observable AND mode = 'SYNC' AND outcome <> 'EXCEPTION'
  GROUP BY cluster, event_date, msg_id, source
), held AS (
  SELECT cluster, event_date, consumer_group, client_id, source, captured_at,
    ARRAY_SORT(COLLECT_SET(topic || '@' || broker_name || ':' || queue_id)) AS queues
  FROM queue_ownership WHERE NOT dropped
  GROUP BY cluster, event_date, consumer_group, client_id, source, captured_at
)
SELECT a.cluster, a.event_date, 'broker_differs' AS kind, a.producer_group AS client_group, a.client_id,
  a.begin_at AS at, a.source, s.source AS denied_by,
  'message ' || a.msg_id || ' was answered by ' || a.broker_name || ', the other source says '
    || ARRAY_JOIN(ARRAY_SORT(s.brokers), ' and ') AS sentence
FROM send_attempt a
JOIN seen s ON a.cluster = s.cluster AND a.event_date = s.event_date AND a.msg_id = s.msg_id AND a.source <> s.source
WHERE a.broker_name IS NOT NULL AND a.outcome <> 'EXCEPTION' AND NOT ARRAY_CONTAINS(s.brokers, a.broker_name)
  AND (NOT a.exceptions_observable OR a.source = 'canonical_sends')
UNION ALL
SELECT f.cluster, f.event_date, 'queues_differ' AS kind, f.consumer_group AS client_group, f.client_id,
  f.captured_at AS at, f.source, n.source AS denied_by,
  'read within 5 s of each other: ' || ARRAY_JOIN(f.queues, ' ') || ', the other source says '
    || ARRAY_JOIN(n.queues, ' ') AS sentence
FROM held f
JOIN held n ON f.cluster = n.cluster AND f.event_date = n.event_date AND f.consumer_group = n.consumer_group
  AND f.client_id = n.client_id AND f.source > n.source AND f.queues <> n.queues
  AND ABS(UNIX_MILLIS(f.captured_at) - UNIX_MILLIS(n.captured_at)) <= 5000;
