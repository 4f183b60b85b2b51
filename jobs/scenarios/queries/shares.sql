-- Who would hold which queue: what each group would be expected to share, {of} beside what is published, for each
-- stretch of rounds in which both stay as they are. Of a group that nothing can be expected of, the reason.
WITH pairs AS (
  SELECT p.cluster, p.event_date, p.collector, p.consumer_group, p.topic, MIN(p.round_at) AS from_at,
    MAX(p.round_at) AS to_at, COUNT(*) AS rounds, ANY_VALUE(p.members) AS were, ANY_VALUE(s.members) AS would_be,
    p.strategy, s.strategy AS would_strategy, ANY_VALUE(s.scope_reason) AS scope_reason,
    ANY_VALUE(array_to_string(s.missing_inputs, '; ')) AS missing,
    (p.strategy, p.strategy_parameters, p.profile, p.queue_list_hash, p.member_list_hash, p.claims_hash) AS was_key,
    (s.strategy, s.strategy_parameters, s.profile, s.queue_list_hash, s.member_list_hash, s.claims_hash) AS would_key
  FROM group_round AS p
  JOIN {of}group_round AS s USING (cluster, event_date, collector, consumer_group, topic, round_at)
  GROUP BY p.cluster, p.event_date, p.collector, p.consumer_group, p.topic, p.strategy, s.strategy, was_key, would_key
  HAVING was_key IS DISTINCT FROM would_key
),
expected AS (
  SELECT 'was' AS side, *, (strategy, strategy_parameters, profile, queue_list_hash, member_list_hash, claims_hash) AS key
  FROM expected_allocation
  UNION ALL BY NAME
  SELECT 'would' AS side, *, (strategy, strategy_parameters, profile, queue_list_hash, member_list_hash, claims_hash) AS key
  FROM {of}expected_allocation
),
both_sides AS (
  SELECT p.*, w.allocation AS was, s.allocation AS would, s.refusal,
    row_number() OVER (ORDER BY p.cluster, p.event_date, p.collector, p.consumer_group, p.topic, p.from_at) AS pair
  FROM pairs AS p
  LEFT JOIN expected AS w ON w.side = 'was' AND w.cluster = p.cluster AND w.event_date = p.event_date
    AND w.consumer_group = p.consumer_group AND w.topic = p.topic AND w.key IS NOT DISTINCT FROM p.was_key
  LEFT JOIN expected AS s ON s.side = 'would' AND s.cluster = p.cluster AND s.event_date = p.event_date
    AND s.consumer_group = p.consumer_group AND s.topic = p.topic AND s.key IS NOT DISTINCT FROM p.would_key
),
was_queues AS (SELECT pair, unnest(was, recursive := true) FROM both_sides),
would_queues AS (SELECT pair, unnest(would, recursive := true) FROM both_sides),
queues AS (
  SELECT pair, broker_name, queue_id, w.claimants AS was, s.claimants AS would
  FROM was_queues AS w FULL JOIN would_queues AS s USING (pair, broker_name, queue_id)
),
moves AS (
  SELECT pair, COUNT(was) AS queues, COUNT(would) AS would_queues, COUNT(*) FILTER (WHERE was <> would) AS moved,
    list((broker_name || ':' || queue_id, array_to_string(was, '+'), array_to_string(would, '+'))
      ORDER BY broker_name, queue_id) FILTER (WHERE was IS DISTINCT FROM would) AS moves
  FROM queues GROUP BY pair
),
members AS (
  SELECT pair, 'was' AS side, unnest(list_distinct(were)) AS client_id FROM both_sides
  UNION ALL SELECT pair, 'would', unnest(list_distinct(would_be)) FROM both_sides
),
held AS (
  SELECT pair, 'was' AS side, unnest(was) AS client_id FROM queues UNION ALL SELECT pair, 'would', unnest(would) FROM queues
),
counted AS (
  SELECT m.pair, m.side, m.client_id, COUNT(h.client_id) AS queues FROM members AS m
  LEFT JOIN held AS h ON h.pair = m.pair AND h.side = m.side AND h.client_id = m.client_id GROUP BY ALL
),
evenness AS (
  SELECT pair, MIN(queues) FILTER (WHERE side = 'was') AS was_fewest, MAX(queues) FILTER (WHERE side = 'was') AS was_most,
    MIN(queues) FILTER (WHERE side = 'would') AS fewest, MAX(queues) FILTER (WHERE side = 'would') AS most
  FROM counted GROUP BY pair
)
SELECT cluster, event_date, collector, consumer_group, topic, from_at, to_at, rounds, strategy, would_strategy,
  len(were) AS members, len(would_be) AS would_members, queues, would_queues, moved,
  IF(was IS NULL, NULL, was_fewest || ' to ' || was_most) AS queues_each,
  IF(would IS NULL, NULL, fewest || ' to ' || most) AS would_each,
  COALESCE(scope_reason, refusal, IF(would IS NULL, NULLIF(missing, ''), NULL),
    IF(was IS NULL, 'nothing was expected as recorded', NULL)) AS unknown_because,
  'open loop' AS certainty, moves
FROM both_sides LEFT JOIN moves USING (pair) LEFT JOIN evenness USING (pair)
ORDER BY pair
