-- Critical expectations that failed when each job's rows were last checked.
SELECT q.job, COUNT_IF(q.severity = 'critical' AND NOT q.success) AS failed
FROM quality_result AS q
JOIN (SELECT job, MAX(number) AS number FROM quality_result GROUP BY job) AS l
  ON q.job = l.job AND q.number = l.number
GROUP BY q.job
