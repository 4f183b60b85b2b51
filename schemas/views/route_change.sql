-- When did the route of a topic change, in which way, and what did it say before? By the reads of name servers.
-- Grain: (cluster, collector, name_server, topic, changed_at, broker_name), a broker whose entry changed.
-- Example: SELECT changed_at, topic, broker_name, what, perm_before, perm FROM route_change ORDER BY changed_at;
CREATE OR REPLACE VIEW route_change (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date of changed_at',
  collector COMMENT 'Which collector read it',
  name_server COMMENT 'Name server that was asked; null: not told',
  topic COMMENT 'Topic',
  broker_name COMMENT 'Broker whose entry changed',
  unchanged_until COMMENT 'Last read that still showed the entry of before, UTC',
  changed_at COMMENT 'First read that shows the new one, UTC: it changed in between',
  what COMMENT 'broker_added, broker_gone, master_gone, master_back, master_moved, perm, queues, order or slaves',
  perm_before COMMENT 'Permission before: 4 read, 2 write; null: it was not there',
  perm COMMENT 'Permission now; null: it is not there',
  read_queue_nums_before COMMENT 'Queues for consumers before',
  read_queue_nums COMMENT 'Queues for consumers now',
  write_queue_nums_before COMMENT 'Queues for producers before',
  write_queue_nums COMMENT 'Queues for producers now',
  master_before COMMENT 'Address of the master before; null: none',
  master_address COMMENT 'Address of the master now; null: none',
  slaves_before COMMENT 'Broker ids and addresses of the slaves before; null: not told',
  slaves COMMENT 'Broker ids and addresses of the slaves now; null: not told'
) COMMENT 'Changes of routes between two reads of a name server'
AS WITH answers AS (
  SELECT cluster, event_date, collector, name_server, topic, captured_at,
    LAG(captured_at) OVER (PARTITION BY cluster, collector, name_server, topic ORDER BY captured_at) AS before_at
  FROM snapshot_capture
  WHERE kind = 'topicRoute' AND (answered OR error_code = 17)  -- 17: the name server has no route of the topic
),
entries AS (
  SELECT a.cluster, a.event_date, a.collector, a.name_server, a.topic, a.captured_at AS changed_at,
    a.before_at AS unchanged_until, r.broker_name, TRUE AS is_new, r.perm, r.read_queue_nums, r.write_queue_nums,
    r.has_master, r.master_address, r.order_topic_conf, r.slaves
  FROM answers AS a
  JOIN topic_route AS r
    ON a.cluster = r.cluster AND a.collector = r.collector AND a.name_server IS NOT DISTINCT FROM r.name_server
    AND a.topic = r.topic AND a.captured_at = r.captured_at
  WHERE a.before_at IS NOT NULL
  UNION ALL
  SELECT a.cluster, a.event_date, a.collector, a.name_server, a.topic, a.captured_at AS changed_at,
    a.before_at AS unchanged_until, r.broker_name, FALSE AS is_new, r.perm, r.read_queue_nums, r.write_queue_nums,
    r.has_master, r.master_address, r.order_topic_conf, r.slaves
  FROM answers AS a
  JOIN topic_route AS r
    ON a.cluster = r.cluster AND a.collector = r.collector AND a.name_server IS NOT DISTINCT FROM r.name_server
    AND a.topic = r.topic AND a.before_at = r.captured_at
),
pairs AS (
  SELECT cluster, event_date, collector, name_server, topic, broker_name, unchanged_until, changed_at,
    COUNT_IF(NOT is_new) AS was, COUNT_IF(is_new) AS becomes,
    MAX(CASE WHEN NOT is_new THEN perm END) AS perm_before, MAX(CASE WHEN is_new THEN perm END) AS perm,
    MAX(CASE WHEN NOT is_new THEN read_queue_nums END) AS read_queue_nums_before,
    MAX(CASE WHEN is_new THEN read_queue_nums END) AS read_queue_nums,
    MAX(CASE WHEN NOT is_new THEN write_queue_nums END) AS write_queue_nums_before,
    MAX(CASE WHEN is_new THEN write_queue_nums END) AS write_queue_nums,
    COUNT_IF(NOT is_new AND has_master) AS had_master, COUNT_IF(is_new AND has_master) AS has_master,
    MAX(CASE WHEN NOT is_new THEN master_address END) AS master_before,
    MAX(CASE WHEN is_new THEN master_address END) AS master_address,
    MAX(CASE WHEN NOT is_new THEN order_topic_conf END) AS order_before,
    MAX(CASE WHEN is_new THEN order_topic_conf END) AS order_now,
    MAX(CASE WHEN NOT is_new THEN slaves END) AS slaves_before, MAX(CASE WHEN is_new THEN slaves END) AS slaves
  FROM entries
  GROUP BY cluster, event_date, collector, name_server, topic, broker_name, unchanged_until, changed_at
)
SELECT cluster, event_date, collector, name_server, topic, broker_name, unchanged_until, changed_at,
  CASE
    WHEN was = 0 THEN 'broker_added' WHEN becomes = 0 THEN 'broker_gone'
    WHEN had_master > has_master THEN 'master_gone' WHEN had_master < has_master THEN 'master_back'
    WHEN master_before IS DISTINCT FROM master_address THEN 'master_moved'
    WHEN perm_before <> perm THEN 'perm'
    WHEN read_queue_nums_before <> read_queue_nums OR write_queue_nums_before <> write_queue_nums THEN 'queues'
    WHEN order_before IS DISTINCT FROM order_now THEN 'order'
    ELSE 'slaves'
  END AS what,
  perm_before, perm, read_queue_nums_before, read_queue_nums, write_queue_nums_before, write_queue_nums,
  master_before, master_address, slaves_before, slaves
FROM pairs
WHERE was = 0 OR becomes = 0 OR had_master <> has_master OR master_before IS DISTINCT FROM master_address
  OR perm_before <> perm OR read_queue_nums_before <> read_queue_nums OR write_queue_nums_before <> write_queue_nums
  OR order_before IS DISTINCT FROM order_now OR slaves_before <> slaves;
