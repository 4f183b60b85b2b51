-- Under which releases, ladders and switches may a producer have run, and what ruled the others out?
-- Grain: (cluster, event_date, producer_group, client_id, started_at).
-- Example: SELECT * FROM release_candidates WHERE ruled_out > 0 ORDER BY producer_group, client_id;
CREATE OR REPLACE VIEW release_candidates (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  producer_group COMMENT 'Producer group',
  client_id COMMENT 'Producer client id',
  started_at COMMENT 'When the process started, UTC; null: no start was recorded',
  remaining COMMENT 'Setups that remain, as families / ladder, the switch off as ladder none; in order of their names',
  likeliest COMMENT 'Of those that remain the likeliest, the first by name of several; null: nothing was looked at',
  ruled_out COMMENT 'How many setups are ruled out',
  attempts COMMENT 'Attempts that were looked at',
  contradicts_record COMMENT 'True: what the record or the settings say is ruled out',
  reason COMMENT 'Why nothing was looked at; null: something was'
) COMMENT 'What may be said of the release, ladder and switch of producers that did not record them'
AS SELECT
  cluster, event_date, producer_group, client_id, started_at,
  ARRAY_SORT(COLLECT_SET(CASE WHEN state = 'remains' THEN families || ' / ' || ladder END)) AS remaining,
  MIN(CASE WHEN state = 'remains' AND log_likelihood >= best THEN families || ' / ' || ladder END) AS likeliest,
  COUNT_IF(state = 'ruled_out') AS ruled_out,
  MAX(attempts) AS attempts,
  COUNT_IF(recorded AND state = 'ruled_out') > 0 AS contradicts_record,
  MAX(reason) AS reason
FROM (
  SELECT *, MAX(CASE WHEN state = 'remains' THEN log_likelihood END) OVER (
    PARTITION BY cluster, event_date, producer_group, client_id, started_at
  ) AS best FROM producer_release
)
GROUP BY cluster, event_date, producer_group, client_id, started_at;
