-- The last rounds of the groups that have a matrix.
WITH latest AS (
  SELECT cluster, collector, consumer_group, topic, round_at, verdict, SIZE(missing_inputs) AS missing,
    ROW_NUMBER() OVER (PARTITION BY cluster, collector, consumer_group, topic ORDER BY round_at DESC) AS back
  FROM group_round JOIN report_group USING (cluster, collector, consumer_group, topic)
  WHERE {of_dates}
)
SELECT cluster, collector, consumer_group, topic, round_at, verdict, missing FROM latest WHERE back <= {rounds}
ORDER BY cluster, collector, consumer_group, topic, round_at
