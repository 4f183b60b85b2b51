-- Open incidents.
SELECT cluster, severity, COUNT(*) AS incidents FROM open_incidents GROUP BY cluster, severity
