-- Members of groups whose brokers assign the queues, as they were last seen; those that differ first.
SELECT *, COUNT(*) OVER () AS of_all FROM (
  SELECT cluster, consumer_group, topic, client_id, SUM(rounds) AS rounds,
    SUM(IF(agrees, rounds, 0)) AS agreed, SUM(IF(NOT agrees, rounds, 0)) AS differed,
    MAX_BY(handed_out, from_at) AS handed_out, MAX_BY(taken, from_at) AS taken, MAX_BY(reason, from_at) AS reason,
    MAX(until_at) AS last_at
  FROM assigned_member WHERE {of_dates} GROUP BY cluster, consumer_group, topic, client_id
) ORDER BY differed DESC, cluster, consumer_group, topic, client_id
LIMIT {rows}
