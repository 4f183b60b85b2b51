-- Which rows were stored though something about their lines is odd, and why? One example line per doubt.
-- Grain: (cluster, event_date, table_name, source, doubt).
-- Example: SELECT * FROM doubted_rows ORDER BY doubted DESC;
CREATE OR REPLACE VIEW doubted_rows (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of the rows',
  table_name COMMENT 'Table that has them',
  source COMMENT 'Landing format they come of',
  doubt COMMENT 'What is odd: see docs/formats.md, e.g. NEGATIVE_LATENCY',
  doubted COMMENT 'Rows with that doubt',
  files COMMENT 'Files they are in',
  example_file COMMENT 'File of the first of them',
  example_line COMMENT 'Its line number'
) COMMENT 'Rows that were stored with a doubt, by table and doubt'
AS SELECT
  cluster, event_date, table_name, source, doubt, COUNT(*) AS doubted, COUNT(DISTINCT source_file) AS files,
  MIN(source_file) AS example_file, MIN_BY(source_line, (source_file, source_line)) AS example_line
FROM (SELECT *, EXPLODE(doubts) AS doubt FROM (
  SELECT cluster, event_date, 'send_attempt' AS table_name, source, doubts, source_file, source_line
  FROM send_attempt WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'producer_instance' AS table_name, source, doubts, source_file, source_line
  FROM producer_instance WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'message_trace' AS table_name, source, doubts, source_file, source_line
  FROM message_trace WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'consumer_recording' AS table_name, source, doubts, source_file, source_line
  FROM consumer_recording WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'snapshot_capture' AS table_name, source, doubts, source_file, source_line
  FROM snapshot_capture WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'consumer_heartbeat' AS table_name, source, doubts, source_file, source_line
  FROM consumer_heartbeat WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'queue_ownership' AS table_name, source, doubts, source_file, source_line
  FROM queue_ownership WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'pop_assignment' AS table_name, source, doubts, source_file, source_line
  FROM pop_assignment WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'queue_progress' AS table_name, source, doubts, source_file, source_line
  FROM queue_progress WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'topic_route' AS table_name, source, doubts, source_file, source_line
  FROM topic_route WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'producer_connection' AS table_name, source, doubts, source_file, source_line
  FROM producer_connection WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'topic_status' AS table_name, source, doubts, source_file, source_line
  FROM topic_status WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'broker_status' AS table_name, source, doubts, source_file, source_line
  FROM broker_status WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'message_request_mode' AS table_name, source, doubts, source_file, source_line
  FROM message_request_mode WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'schedule_progress' AS table_name, source, doubts, source_file, source_line
  FROM schedule_progress WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'topic_config' AS table_name, source, doubts, source_file, source_line
  FROM topic_config WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'subscription_group' AS table_name, source, doubts, source_file, source_line
  FROM subscription_group WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'rebalance_result' AS table_name, source, doubts, source_file, source_line
  FROM rebalance_result WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'client_event' AS table_name, source, doubts, source_file, source_line
  FROM client_event WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'client_heartbeat' AS table_name, source, doubts, source_file, source_line
  FROM client_heartbeat WHERE doubts IS NOT NULL
  UNION ALL
  SELECT cluster, event_date, 'membership_event' AS table_name, source, doubts, source_file, source_line
  FROM membership_event WHERE doubts IS NOT NULL
)) GROUP BY cluster, event_date, table_name, source, doubt;
