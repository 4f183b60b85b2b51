-- The cells of these matrices: who should have owned a queue, who did, and the worst that is said of it.
WITH latest AS (
  SELECT cluster, collector, consumer_group, topic, round_at, verdict, SIZE(missing_inputs) AS missing,
    ROW_NUMBER() OVER (PARTITION BY cluster, collector, consumer_group, topic ORDER BY round_at DESC) AS back
  FROM group_round JOIN report_group USING (cluster, collector, consumer_group, topic)
  WHERE {of_dates}
),
worst AS (
  SELECT cluster, collector, consumer_group, topic, round_at, broker_name, queue_id,
    MIN_BY(code, (INSTR('CRITICAL HIGH MEDIUM LOW INFO', severity), code, finding_state)) AS code,
    MIN_BY(finding_state, (INSTR('CRITICAL HIGH MEDIUM LOW INFO', severity), code, finding_state)) AS finding_state
  FROM allocation_drift WHERE {of_dates} AND queue_id IS NOT NULL
  GROUP BY cluster, collector, consumer_group, topic, round_at, broker_name, queue_id
)
SELECT e.cluster, e.collector, e.consumer_group, e.topic, e.round_at, e.broker_name, e.queue_id, e.expected_owner,
  e.observed, w.code, w.finding_state
FROM expected_queue AS e
JOIN latest AS l USING (cluster, collector, consumer_group, topic, round_at)
LEFT JOIN worst AS w USING (cluster, collector, consumer_group, topic, round_at, broker_name, queue_id)
WHERE e.{of_dates} AND l.back <= {rounds}
ORDER BY e.cluster, e.collector, e.consumer_group, e.topic, e.broker_name, e.queue_id, e.round_at
LIMIT {cells}
