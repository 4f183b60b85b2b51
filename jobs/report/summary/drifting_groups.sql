-- A row a group and code: in how many rounds, how bad, and its sentence of the last round that has one.
WITH codes AS (
  SELECT cluster, consumer_group, code, COUNT(DISTINCT round_at) AS rounds,
    MIN(INSTR('CRITICAL HIGH MEDIUM LOW', severity)) AS rank,
    MAX_BY(sentence, (round_at, -COALESCE(queue_id, 0), sentence)) AS sentence
  FROM allocation_drift WHERE severity <> 'INFO' GROUP BY cluster, consumer_group, code
),
kept AS (
  SELECT cluster, consumer_group, MIN(rank) AS worst, SUM(rounds) AS in_all FROM codes GROUP BY cluster, consumer_group
  ORDER BY worst, in_all DESC, consumer_group, cluster LIMIT {most}
)
SELECT cluster, consumer_group, code, rounds, rank, sentence FROM codes JOIN kept USING (cluster, consumer_group)
ORDER BY worst, in_all DESC, consumer_group, cluster, rank, sentence
