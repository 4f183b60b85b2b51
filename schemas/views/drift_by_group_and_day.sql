-- How often did each group drift on each day, and with which codes? Unknown rounds are told apart from healthy ones.
-- Grain: (cluster, event_date, consumer_group, topic).
-- Example: SELECT * FROM drift_by_group_and_day WHERE drift_rounds > 0 ORDER BY drift_rounds DESC;
CREATE OR REPLACE VIEW drift_by_group_and_day (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  consumer_group COMMENT 'Consumer group',
  topic COMMENT 'Topic',
  rounds COMMENT 'Rounds with a verdict',
  ok_rounds COMMENT 'Rounds judged ok',
  drift_rounds COMMENT 'Rounds with drift',
  unknown_rounds COMMENT 'Rounds in which an input was missing',
  unjudged_rounds COMMENT 'Rounds without a verdict: the group or the route was not asked for',
  codes COMMENT 'Drift codes seen, of the topic or of the whole group',
  findings COMMENT 'Findings about the topic, INFO excepted'
) COMMENT 'Verdicts and drift codes per group, topic and day'
AS SELECT
  g.cluster, g.event_date, g.consumer_group, g.topic,
  COUNT(g.verdict) AS rounds,
  COUNT_IF(g.verdict = 'ok') AS ok_rounds,
  COUNT_IF(g.verdict = 'drift') AS drift_rounds,
  COUNT_IF(g.verdict = 'unknown') AS unknown_rounds,
  COUNT_IF(g.verdict IS NULL) AS unjudged_rounds,
  ARRAY_SORT(COALESCE(MAX(d.codes), REGEXP_EXTRACT_ALL('', '.', 0))) AS codes,  -- none: an empty list
  CAST(SUM(g.findings) AS BIGINT) AS findings
FROM group_round AS g
LEFT JOIN (
  SELECT cluster, event_date, consumer_group, topic, ARRAY_SORT(COLLECT_SET(code)) AS codes
  FROM (
    SELECT cluster, event_date, consumer_group, topic, code FROM allocation_drift WHERE topic IS NOT NULL
    UNION ALL
    SELECT d.cluster, d.event_date, d.consumer_group, t.topic, d.code
    FROM allocation_drift AS d
    JOIN (SELECT DISTINCT cluster, event_date, consumer_group, topic FROM group_round WHERE verdict IS NOT NULL) AS t
      ON d.cluster = t.cluster AND d.event_date = t.event_date AND d.consumer_group = t.consumer_group
    WHERE d.topic IS NULL
  ) GROUP BY cluster, event_date, consumer_group, topic
) AS d
  ON g.cluster = d.cluster AND g.event_date = d.event_date AND g.consumer_group = d.consumer_group AND g.topic = d.topic
GROUP BY g.cluster, g.event_date, g.consumer_group, g.topic;
