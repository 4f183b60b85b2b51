-- Findings by group, topic and code, with the sentence of the last.
SELECT *, COUNT(*) OVER () AS of_all FROM (
  SELECT cluster, consumer_group, topic, code,
    MIN_BY(severity, INSTR('CRITICAL HIGH MEDIUM LOW INFO', severity)) AS severity,
    COUNT(DISTINCT round_at) AS rounds, MIN(round_at) AS first_at, MAX(round_at) AS last_at,
    MAX_BY(sentence, (round_at, -COALESCE(queue_id, 0), sentence)) AS sentence
  FROM allocation_drift WHERE {of_dates} GROUP BY cluster, consumer_group, topic, code
) ORDER BY INSTR('CRITICAL HIGH MEDIUM LOW INFO', severity), rounds DESC, cluster, consumer_group, topic, code
LIMIT {rows}
