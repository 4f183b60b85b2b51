-- When each job published last.
SELECT job, MAX(published_at) AS published_at FROM publication GROUP BY job
