-- What did the brokers hand out to each member that lets them assign, what did it take, and from when to when?
-- Grain: (cluster, collector, consumer_group, topic, client_id, from_at).
-- Example: SELECT * FROM assigned_member WHERE NOT agrees ORDER BY consumer_group, topic, client_id, from_at;
CREATE OR REPLACE VIEW assigned_member (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of the stretch',
  collector COMMENT 'Which collector took the captures',
  consumer_group COMMENT 'Consumer group whose brokers assign the queues',
  topic COMMENT 'Topic',
  client_id COMMENT 'Member',
  from_at COMMENT 'First round of the stretch, UTC',
  until_at COMMENT 'Its last round, UTC',
  rounds COMMENT 'Rounds of the stretch',
  handed_out COMMENT 'What a broker hands out, e.g. POP broker-a:all or PULL broker-a:0; null: not known, see reason',
  taken COMMENT 'What the member showed that it pulls and pops, written alike; null: it did not answer',
  agrees COMMENT 'It took just what a broker hands out, or handed out a round before; null: not known',
  reason COMMENT 'Why it is not known; null: it is, or the member did not answer'
) COMMENT 'Members of groups whose brokers assign the queues: what is handed out to each, and what it takes'
AS SELECT
  b.cluster, b.event_date, b.collector, b.consumer_group, b.topic, b.client_id, b.from_at, b.until_at, b.rounds,
  IF(b.handed_out IS NULL, NULL, COALESCE(h.queues, REGEXP_EXTRACT_ALL('', '.', 0))) AS handed_out,
  IF(b.taken IS NULL, NULL, COALESCE(t.queues, REGEXP_EXTRACT_ALL('', '.', 0))) AS taken,
  b.agrees, b.reason
FROM broker_assignment AS b
LEFT JOIN (
  SELECT cluster, collector, consumer_group, topic, client_id, from_at, ARRAY_SORT(COLLECT_LIST(
    q.mode || ' ' || q.broker_name || ':' || IF(q.queue_id < 0, 'all', CAST(q.queue_id AS STRING)))) AS queues
  FROM (
    SELECT cluster, collector, consumer_group, topic, client_id, from_at, EXPLODE(handed_out) AS q
    FROM broker_assignment
  ) AS e
  GROUP BY cluster, collector, consumer_group, topic, client_id, from_at
) AS h
  ON b.cluster = h.cluster AND b.collector = h.collector AND b.consumer_group = h.consumer_group
  AND b.topic = h.topic AND b.client_id = h.client_id AND b.from_at = h.from_at
LEFT JOIN (
  SELECT cluster, collector, consumer_group, topic, client_id, from_at, ARRAY_SORT(COLLECT_LIST(
    q.mode || ' ' || q.broker_name || ':' || IF(q.queue_id < 0, 'all', CAST(q.queue_id AS STRING)))) AS queues
  FROM (
    SELECT cluster, collector, consumer_group, topic, client_id, from_at, EXPLODE(taken) AS q
    FROM broker_assignment
  ) AS e
  GROUP BY cluster, collector, consumer_group, topic, client_id, from_at
) AS t
  ON b.cluster = t.cluster AND b.collector = t.collector AND b.consumer_group = t.consumer_group
  AND b.topic = t.topic AND b.client_id = t.client_id AND b.from_at = t.from_at;
