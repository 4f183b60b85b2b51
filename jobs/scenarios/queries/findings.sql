-- Findings that would come or go: {of} beside what is published. Of consumers the rounds that show each code; of
-- producers the findings, but for those that judge recorded choices, which no premise changes.
WITH was AS (
  SELECT cluster, event_date, consumer_group AS subject, code, COUNT(DISTINCT round_at) AS times FROM allocation_drift
  SEMI JOIN what_if_date USING (cluster, event_date) GROUP BY ALL
  UNION ALL
  SELECT cluster, event_date, COALESCE(producer_group, broker_name), code, COUNT(*) FROM producer_finding
  SEMI JOIN what_if_date USING (cluster, event_date) GROUP BY ALL
),
would AS (
  SELECT cluster, event_date, consumer_group AS subject, code, COUNT(DISTINCT round_at) AS times
  FROM {of}allocation_drift GROUP BY ALL
  UNION ALL
  SELECT cluster, event_date, COALESCE(producer_group, broker_name), code, COUNT(*) FROM {of}producer_finding GROUP BY ALL
)
SELECT cluster, event_date, subject, code, COALESCE(was.times, 0) AS was, COALESCE(would.times, 0) AS would,
  'open loop' AS certainty
FROM was FULL JOIN would USING (cluster, event_date, subject, code)
WHERE was.times IS DISTINCT FROM would.times AND code NOT IN ('IMPOSSIBLE_CHOICE', 'RELEASE_DIFFERS', 'NOT_RETURNING')
ORDER BY ALL
