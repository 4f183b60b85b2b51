-- How far behind in time each group and topic was at worst.
SELECT *, COUNT(*) OVER () AS of_all FROM (
  SELECT cluster, consumer_group, topic, COUNT(DISTINCT CONCAT(broker_name, ':', queue_id)) AS queues,
    CAST(FLOOR(MAX(seconds_at_least)) AS BIGINT) AS at_least, CAST(CEIL(MAX(seconds_at_most)) AS BIGINT) AS at_most,
    CAST(MAX(messages_behind) AS BIGINT) AS messages
  FROM consume_delay WHERE {of_dates} AND certainty <> 'unknown'
  GROUP BY cluster, consumer_group, topic
) ORDER BY at_least DESC, messages DESC, cluster, consumer_group, topic LIMIT {groups}
