-- The checks of the latest runs that failed.
SELECT job, q.table, expectation, severity, observed, COUNT(*) OVER () AS of_all FROM quality_result AS q
JOIN (  -- each job's run that checked last, whatever the clocks said
  SELECT job, MAX_BY(run_id, (COALESCE(number, 0), checked_at, run_id)) AS run_id FROM quality_result GROUP BY job
) AS newest USING (job, run_id)
WHERE NOT success ORDER BY severity, job, q.table, expectation LIMIT {rows}
