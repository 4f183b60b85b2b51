-- Topics of which clients got no route; topics of retries, which come into being with their group, are left aside.
SELECT *, COUNT(*) OVER () AS of_all FROM (
  SELECT cluster, topic, name_servers_say, SUM(times) AS times, COUNT(DISTINCT minute) AS minutes,
    MIN(minute) AS first_minute, MAX(minute) AS last_minute
  FROM route_missing WHERE {of_dates} AND SUBSTR(topic, 1, 7) <> '%RETRY%'
  GROUP BY cluster, topic, name_servers_say
) ORDER BY times DESC, cluster, topic, name_servers_say LIMIT {rows}
