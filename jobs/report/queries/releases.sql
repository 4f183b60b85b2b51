-- Producers by their last release and verdict.
SELECT COALESCE(client_version, 'not recorded') AS client_version, verdict, COUNT(*) AS producers FROM (
  SELECT MAX_BY(client_version, latest) AS client_version, MAX_BY(verdict, latest) AS verdict
  FROM (
    SELECT *, (event_date, COALESCE(started_at, TIMESTAMP'1970-01-01 00:00:00')) AS latest
    FROM producer_replay WHERE {of_dates}
  ) GROUP BY cluster, producer_group, client_id
) GROUP BY 1, 2 ORDER BY 1, 2 LIMIT {rows}
