-- "No route info of this topic": who got no route of which topic, and did the name servers have one in that minute?
-- Grain: (cluster, event_date, minute, topic, log_folder, client_id, said_by).
-- Example: SELECT minute, topic, log_folder, times, name_servers_say FROM route_missing ORDER BY minute;
CREATE OR REPLACE VIEW route_missing (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of the minute',
  minute COMMENT 'Minute in which it was said, UTC',
  topic COMMENT 'Topic without a route',
  log_folder COMMENT 'Folder of the client log; null: a send record says it',
  client_id COMMENT 'Client, where the line names it',
  said_by COMMENT 'route_missing (a client\'s log: the name server has no such topic) or send (its send failed for it)',
  times COMMENT 'How often in the minute',
  reads COMMENT 'Recorded reads of the topic\'s route from two minutes before to two minutes after',
  brokers_before COMMENT 'Writable brokers in the reads up to then, the most; null: no read',
  brokers_after COMMENT 'Writable brokers in the reads after it, the most; null: no read',
  name_servers COMMENT 'How many name servers were asked in these reads',
  name_servers_say COMMENT 'no_route; route_later (only reads after it show one: a new topic); route (each read up to then shows one: ask which name server the client has); differ (some do); not_recorded'
) COMMENT 'Clients that got no route of a topic, beside what name servers answered in that minute'
AS WITH missing AS (
  SELECT cluster, event_date, DATE_TRUNC('minute', logged_at) AS minute, topic, log_folder, client_id,
    'route_missing' AS said_by, COUNT(*) AS times, MIN(logged_at) AS first_at, MAX(logged_at) AS last_at
  FROM client_event WHERE kind = 'route_missing'
  GROUP BY cluster, event_date, DATE_TRUNC('minute', logged_at), topic, log_folder, client_id
  UNION ALL
  SELECT cluster, event_date, DATE_TRUNC('minute', begin_at) AS minute, topic, CAST(NULL AS STRING) AS log_folder,
    client_id, 'send' AS said_by, COUNT(*) AS times, MIN(begin_at) AS first_at, MAX(begin_at) AS last_at
  FROM send_attempt WHERE error IS NOT NULL AND error LIKE 'No route info of this topic%'
  GROUP BY cluster, event_date, DATE_TRUNC('minute', begin_at), topic, client_id
),
answers AS (
  SELECT c.cluster, c.collector, c.name_server, c.topic, c.captured_at,
    COUNT_IF(r.has_master AND (r.perm & 2) > 0 AND r.write_queue_nums > 0) AS brokers
  FROM snapshot_capture AS c
  LEFT JOIN topic_route AS r
    ON c.cluster = r.cluster AND c.collector = r.collector AND c.name_server IS NOT DISTINCT FROM r.name_server
    AND c.topic = r.topic AND c.captured_at = r.captured_at
  WHERE c.kind = 'topicRoute' AND (c.answered OR c.error_code = 17)
  GROUP BY c.cluster, c.collector, c.name_server, c.topic, c.captured_at
)
SELECT m.cluster, m.event_date, m.minute, m.topic, m.log_folder, m.client_id, m.said_by, m.times,
  COUNT(a.captured_at) AS reads,
  MAX(CASE WHEN a.captured_at <= m.last_at THEN a.brokers END) AS brokers_before,
  MAX(CASE WHEN a.captured_at > m.last_at THEN a.brokers END) AS brokers_after,
  COUNT(DISTINCT a.name_server) AS name_servers,
  CASE
    WHEN COUNT(a.captured_at) = 0 THEN 'not_recorded'
    WHEN MAX(a.brokers) = 0 THEN 'no_route'
    WHEN COALESCE(MAX(CASE WHEN a.captured_at <= m.last_at THEN a.brokers END), 0) = 0 THEN 'route_later'
    WHEN MIN(CASE WHEN a.captured_at <= m.last_at THEN a.brokers END) > 0 THEN 'route'
    ELSE 'differ'
  END AS name_servers_say
FROM missing AS m
LEFT JOIN answers AS a
  ON m.cluster = a.cluster AND m.topic = a.topic
  AND a.captured_at BETWEEN m.first_at - INTERVAL 2 MINUTE AND m.last_at + INTERVAL 2 MINUTE
GROUP BY m.cluster, m.event_date, m.minute, m.topic, m.log_folder, m.client_id, m.said_by, m.times, m.last_at;
