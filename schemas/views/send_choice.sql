-- Which broker did each attempt go to, and could its client have chosen it? Every attempt, those beyond doubt included.
-- Grain: one row per attempt of send_attempt that was replayed; traces know no failures and have no verdicts.
-- Example: SELECT client_id, verdict, reason, COUNT(*) FROM send_choice GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW send_choice (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of begin_at',
  producer_group COMMENT 'Producer group',
  client_id COMMENT 'Producer client id',
  topic COMMENT 'Topic sent to',
  msg_id COMMENT 'Client\'s unique message id; attempts of one send share it',
  mode COMMENT 'SYNC, ASYNC or ONEWAY',
  attempt COMMENT '0 for the first attempt of a send; null for ASYNC',
  begin_at COMMENT 'When the attempt began, UTC',
  broker_name COMMENT 'Broker chosen',
  queue_id COMMENT 'Queue chosen',
  outcome COMMENT 'How the attempt ended',
  latency_ms COMMENT 'How long it took, ms',
  verdict COMMENT 'consistent, possible, impossible or unknown; of a queue that the application chose: consistent',
  rule COMMENT 'available, reachable, best_half, round_robin, retry; pinned: the application chose; null: never in doubt',
  reason COMMENT 'Of possible: what has to be assumed; of unknown: what is missing; of impossible (Go, C++): what was due',
  admissible COMMENT 'Brokers that the client could have chosen; null: not worked out, or not known'
) COMMENT 'Every attempt with the verdict on its choice of a broker'
AS SELECT
  a.cluster, a.event_date, a.producer_group, a.client_id, a.topic, a.msg_id, a.mode, a.attempt, a.begin_at,
  a.broker_name, a.queue_id, a.outcome, a.latency_ms,
  COALESCE(v.verdict, 'consistent') AS verdict,
  COALESCE(v.rule, IF(a.queue_selected_by <> 'client', 'pinned', NULL)) AS rule,
  v.reason, v.admissible
FROM send_attempt a
SEMI JOIN producer_replay r
  ON a.cluster = r.cluster AND a.event_date = r.event_date AND a.producer_group = r.producer_group
  AND a.client_id = r.client_id AND ARRAY_CONTAINS(r.sources, a.source) AND a.exceptions_observable
LEFT JOIN send_verdict v
  ON a.cluster = v.cluster AND a.event_date = v.event_date AND a.producer_group = v.producer_group
  AND a.client_id = v.client_id AND a.msg_id = v.msg_id AND a.mode = v.mode AND a.attempt IS NOT DISTINCT FROM v.attempt
  AND a.broker_name = v.broker_name AND a.queue_id = v.queue_id AND a.begin_at = v.begin_at;
