-- Stretches in which a producer would avoid a broker otherwise: {of} beside what is published. A window that only one
-- of both has has no start on the other side.
WITH was AS (SELECT * FROM broker_availability_window SEMI JOIN what_if_date USING (cluster, event_date)),
would AS (SELECT * FROM {of}broker_availability_window)
SELECT COALESCE(was.cluster, would.cluster) AS cluster, COALESCE(was.event_date, would.event_date) AS event_date,
  COALESCE(was.producer_group, would.producer_group) AS producer_group,
  COALESCE(was.client_id, would.client_id) AS client_id, COALESCE(was.broker_name, would.broker_name) AS broker_name,
  COALESCE(was.state, would.state) AS state, was.window_start AS was_from, was.window_end AS was_to,
  would.window_start AS would_from, would.window_end AS would_to, 'open loop' AS certainty
FROM was FULL JOIN would
  ON was.cluster = would.cluster AND was.event_date = would.event_date AND was.producer_group = would.producer_group
  AND was.client_id = would.client_id AND was.started_at IS NOT DISTINCT FROM would.started_at
  AND was.broker_name = would.broker_name AND was.state = would.state AND was.window_start = would.window_start
WHERE was.window_end IS DISTINCT FROM would.window_end OR was.cluster IS NULL OR would.cluster IS NULL
ORDER BY ALL
