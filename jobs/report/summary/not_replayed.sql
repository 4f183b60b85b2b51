-- Producers that could not be replayed, with the reasons of the last date.
SELECT cluster, producer_group, client_id,
  MAX_BY(reasons, (event_date, COALESCE(started_at, TIMESTAMP'1970-01-01 00:00:00'))) AS reasons
FROM producer_replay WHERE verdict = 'unknown'
GROUP BY cluster, producer_group, client_id ORDER BY cluster, producer_group, client_id LIMIT {most}
