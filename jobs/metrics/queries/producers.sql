-- What could be said of the producer processes of each cluster's last date.
SELECT p.cluster, p.verdict, COUNT(*) AS producers
FROM producer_replay AS p
JOIN (SELECT cluster, MAX(event_date) AS event_date FROM producer_replay GROUP BY cluster) AS l
  ON p.cluster = l.cluster AND p.event_date = l.event_date
GROUP BY p.cluster, p.verdict
