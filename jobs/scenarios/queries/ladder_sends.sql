-- Sends of some dates, of the nearest source of each producer and date, with the rule of its newest replay of them: a row for each
-- update of its fault table; of an ASYNC send whose callback came the submit is one more, which says nothing of the broker.
WITH rule AS (
  SELECT cluster, producer_group, client_id, profile, latency_max_ms, not_available_ms, reasons,
    COALESCE(latency_fault_enabled, FALSE) AS latency_fault_enabled, detector_enabled
  FROM producer_replay WHERE event_date {dates}
  QUALIFY ROW_NUMBER() OVER (PARTITION BY cluster, producer_group, client_id ORDER BY event_date DESC, last_attempt_at DESC) = 1
),
sends AS (
  SELECT * FROM send_attempt WHERE event_date {dates} AND broker_name IS NOT NULL
  QUALIFY CASE source {distances} END = MIN(CASE source {distances} END)
    OVER (PARTITION BY cluster, event_date, producer_group, client_id)
),
updates AS (
  SELECT *, end_at AS told_at, TRUE AS is_final FROM sends
  UNION ALL BY NAME
  SELECT * REPLACE (NULL AS exception), submit_end_at AS told_at, FALSE AS is_final FROM sends
  WHERE mode = 'ASYNC' AND callback_end_at IS NOT NULL AND submit_end_at IS NOT NULL
)
SELECT u.cluster, u.producer_group, u.client_id, u.topic, u.broker_name, epoch_ms(u.begin_at) AS begin_ms,
  epoch_ms(u.told_at) AS end_ms, epoch_ms(u.told_at) - epoch_ms(u.begin_at) AS latency_ms, u.is_final,
  COALESCE(u.mode, 'SYNC') AS mode, u.exception, u.error,
  CASE WHEN u.mode = 'ONEWAY' THEN 'submit' WHEN u.mode IS DISTINCT FROM 'ASYNC' THEN 'result'
    WHEN u.callback_end_at IS NULL THEN 'submit' ELSE 'callback' END AS phase,
  u.outcome NOT IN ('SUBMITTED', 'UNKNOWN', 'EXCEPTION') AND u.mode IS DISTINCT FROM 'ONEWAY' AS answered,
  COALESCE(u.queue_selected_by, 'client') = 'client' OR (u.mode = 'ASYNC' AND u.is_final) AS updates,
  r.profile, r.latency_max_ms, r.not_available_ms, r.reasons, COALESCE(r.latency_fault_enabled, FALSE) AS latency_fault_enabled,
  COALESCE(r.detector_enabled, FALSE) AS detector_enabled
FROM updates AS u LEFT JOIN rule AS r USING (cluster, producer_group, client_id)
ORDER BY u.cluster, u.producer_group, u.client_id, told_at, u.begin_at
