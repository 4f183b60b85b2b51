-- The checks of each table in the latest runs, and how many held.
SELECT job, q.table, COUNT(*) AS checks, COUNT_IF(success) AS held, MAX(checked_at) AS checked_at
FROM quality_result AS q
JOIN (  -- each job's run that checked last, whatever the clocks said
  SELECT job, MAX_BY(run_id, (COALESCE(number, 0), checked_at, run_id)) AS run_id FROM quality_result GROUP BY job
) AS newest USING (job, run_id)
GROUP BY job, q.table ORDER BY COUNT_IF(success) = COUNT(*), job, q.table LIMIT {rows}
