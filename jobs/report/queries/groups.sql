-- Each group and topic, the worst first. A group's matrix is kept while the cells of it and of all before it are within
-- the bound.
WITH kinds AS (
  SELECT cluster, collector, consumer_group, ARRAY_SORT(COLLECT_SET(client_kind)) AS kinds
  FROM consumer_heartbeat WHERE {of_dates} AND client_kind <> 'unknown'
  GROUP BY cluster, collector, consumer_group
)
SELECT *, rank <= {groups} AND cells_so_far <= {cells} AND cells > 0 AS matrix FROM (
  SELECT *, ROW_NUMBER() OVER worst_first AS rank, SUM(cells) OVER worst_first AS cells_so_far
  FROM (
    SELECT cluster, collector, consumer_group, topic, COUNT(verdict) AS rounds,
      COUNT_IF(verdict = 'ok') AS ok, COUNT_IF(verdict = 'drift') AS drift,
      COUNT_IF(verdict = 'unknown') AS unknown, COUNT_IF(verdict IS NULL) AS unjudged,
      IF(COUNT(verdict) = 0, 0, LEAST(COUNT(*), {rounds}) * COALESCE(MAX(SIZE(queues)), 0)) AS cells,
      MAX_BY(message_model, round_at) AS message_model, MAX_BY(strategy, round_at) AS strategy,
      MAX_BY(strategy_source, round_at) AS strategy_source, MAX_BY(queue_kind, round_at) AS queue_kind,
      MAX_BY(scope_reason, round_at) AS scope_reason, MAX_BY(member_rules, round_at) AS member_rules,
      COUNT(*) OVER () AS of_all
    FROM group_round WHERE {of_dates}
    GROUP BY cluster, collector, consumer_group, topic
  ) LEFT JOIN kinds USING (cluster, collector, consumer_group)
  WINDOW worst_first AS (ORDER BY drift DESC, unknown DESC, rounds DESC, cluster, collector, consumer_group, topic)
) ORDER BY rank LIMIT {rows}
