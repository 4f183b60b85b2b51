-- What each job published last.
SELECT job, MAX_BY(published_at, (COALESCE(number, 0), published_at)) AS published_at,
  MAX_BY(run_id, (COALESCE(number, 0), published_at)) AS run_id,
  MAX_BY(table_versions, (COALESCE(number, 0), published_at)) AS table_versions
FROM publication GROUP BY job ORDER BY job LIMIT {rows}
