-- Open incidents of each group, or server (under no group), by each of their codes.
SELECT cluster, consumer_group, server, code, severity, COUNT(*) AS incidents
FROM (
  SELECT
    cluster, consumer_group, CASE WHEN consumer_group = '' THEN cause_key END AS server, severity, EXPLODE(codes) AS code
  FROM open_incidents
)
GROUP BY cluster, consumer_group, server, code, severity
