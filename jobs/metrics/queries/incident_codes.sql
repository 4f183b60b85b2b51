-- Open incidents of each group by each of their codes.
SELECT cluster, consumer_group, code, severity, COUNT(*) AS incidents
FROM (SELECT cluster, consumer_group, severity, EXPLODE(codes) AS code FROM open_incidents)
GROUP BY cluster, consumer_group, code, severity
