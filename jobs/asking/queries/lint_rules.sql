-- Rules of hindsight lint. A rule: its code and severity, what goes wrong with it, the line to change, and its query,
-- which gives cluster, subject (what is set wrongly) and detail (what was found, as a sentence). {subject} and CLUSTER
-- stand for those that were found. First come the rows that several rules look at, by their names.
-- {last[t]}: a row of table t lies on its cluster's last date; {lately[t]}: or on the date before it.

-- groups: the newest settings of each group at each broker
SELECT cluster, consumer_group, broker_name, MAX_BY(consume_enable, captured_at) AS consume_enable,
  MAX_BY(notify_consumer_ids_changed, captured_at) AS notify_consumer_ids_changed,
  MAX_BY(retry_queue_nums, captured_at) AS retry_queue_nums, MAX_BY(retry_max_times, captured_at) AS retry_max_times
FROM subscription_group WHERE {lately[subscription_group]} GROUP BY cluster, consumer_group, broker_name

-- routes: the newest route of each topic
-- A read names all brokers of a topic; what an earlier one named may be gone. Topics by a broker's name are its own.
SELECT r.cluster, r.topic, r.broker_name, r.read_queue_nums, r.write_queue_nums, r.perm
FROM (SELECT * FROM topic_route WHERE {lately[topic_route]}) r JOIN (
  SELECT cluster, collector, topic, MAX(captured_at) AS captured_at FROM topic_route
  WHERE {lately[topic_route]} GROUP BY cluster, collector, topic
) l ON r.cluster = l.cluster AND r.collector = l.collector AND r.topic = l.topic AND r.captured_at = l.captured_at
WHERE SUBSTR(r.topic, 1, 7) <> '%RETRY%' AND SUBSTR(r.topic, 1, 5) <> '%DLQ%' AND r.topic <> r.broker_name

-- producers: how each producer sends; first_ms: the first latency that makes a broker unavailable
SELECT cluster, producer_group, client_id, client_version, profile, latency_fault_enabled,
  detector_enabled, CASE {rungs} END AS first_ms, recorded.send_timeout_ms AS send_timeout_ms,
  COALESCE(recorded.retry_times_sync, 2) AS retries
FROM producer_replay WHERE {last[producer_replay]}

-- CONSUME_OFF: CRITICAL
-- nobody in the group is given a message: brokers answer pulls with NO_PERMISSION
-- mqadmin updateSubGroup -c CLUSTER -g {subject} -s true
SELECT cluster, consumer_group AS subject,
  CONCAT('consumeEnable is false', ' at ', MIN(COALESCE(broker_name, 'its broker'))) AS detail
FROM ({groups}) WHERE consume_enable = false GROUP BY cluster, consumer_group

-- NO_RETRY_QUEUE: CRITICAL
-- a message that fails is thrown away: the broker takes it back and stores it nowhere
-- mqadmin updateSubGroup -c CLUSTER -g {subject} -q 1
SELECT cluster, consumer_group AS subject,
  CONCAT(CONCAT('retryQueueNums is ', MIN(retry_queue_nums)), ' at ', MIN(COALESCE(broker_name, 'its broker'))) AS detail
FROM ({groups}) WHERE retry_queue_nums <= 0 GROUP BY cluster, consumer_group

-- NO_RETRIES: HIGH
-- the first failure of a message is its last: it goes to the dead letter queue
-- mqadmin updateSubGroup -c CLUSTER -g {subject} -r 16
SELECT cluster, consumer_group AS subject,
  CONCAT(CONCAT('retryMaxTimes is ', MIN(retry_max_times)), ' at ', MIN(COALESCE(broker_name, 'its broker'))) AS detail
FROM ({groups}) WHERE retry_max_times <= 0 GROUP BY cluster, consumer_group

-- NOTIFY_OFF: MEDIUM
-- members hear of a change by their own timer alone: up to 20 s in which queues have no owner or two
-- mqadmin updateSubGroup -c CLUSTER -g {subject} -a true
SELECT cluster, consumer_group AS subject,
  CONCAT('notifyConsumerIdsChangedEnable is false', ' at ', MIN(COALESCE(broker_name, 'its broker'))) AS detail
FROM ({groups}) WHERE notify_consumer_ids_changed = false GROUP BY cluster, consumer_group

-- BROKERS_DIFFER: MEDIUM
-- what becomes of a message depends on the broker that holds it
-- mqadmin updateSubGroup -c CLUSTER -g {subject} ... (the same at all brokers)
SELECT cluster, consumer_group AS subject,
  'brokers hold different consumeEnable, retryMaxTimes or retryQueueNums of it' AS detail
FROM ({groups}) GROUP BY cluster, consumer_group
HAVING MIN(retry_max_times) <> MAX(retry_max_times) OR MIN(retry_queue_nums) <> MAX(retry_queue_nums)
OR MIN(CAST(consume_enable AS INT)) <> MAX(CAST(consume_enable AS INT))

-- FEWER_QUEUES_THAN_MEMBERS: LOW
-- members without a queue do nothing
-- mqadmin updateTopic -c CLUSTER -t TOPIC -r MEMBERS -w MEMBERS, or fewer members in {subject}
SELECT g.cluster, g.consumer_group AS subject, CONCAT('topic ', g.topic, ' has ',
  SIZE(g.queues), ' queues for ', SIZE(g.members), ' members') AS detail
FROM (
  SELECT * FROM group_round WHERE {last[group_round]}
) g JOIN (
  SELECT cluster, collector, consumer_group, topic, MAX(round_at) AS round_at FROM group_round
  WHERE {last[group_round]} GROUP BY cluster, collector, consumer_group, topic
) l ON g.cluster = l.cluster AND g.collector = l.collector AND g.consumer_group = l.consumer_group
  AND g.topic = l.topic AND g.round_at = l.round_at
WHERE SUBSTR(g.topic, 1, 7) <> '%RETRY%' AND g.message_model = 'CLUSTERING' AND g.scope_reason IS NULL
AND SIZE(g.queues) > 0 AND SIZE(g.queues) < SIZE(g.members)

-- MORE_WRITE_THAN_READ_QUEUES: HIGH
-- what producers write into the queues above readQueueNums is never read
-- mqadmin updateTopic -c CLUSTER -t {subject} -r WRITE_QUEUES
SELECT cluster, topic AS subject, CONCAT(MIN(broker_name), ' has ', MAX(write_queue_nums),
  ' write queues and ', MIN(read_queue_nums), ' read queues') AS detail
FROM ({routes}) WHERE write_queue_nums > read_queue_nums AND (perm = 6 OR perm = 7) GROUP BY cluster, topic

-- QUEUES_ON_ONE_BROKER: MEDIUM
-- if that broker stops, nothing can be sent to the topic
-- mqadmin updateTopic -c CLUSTER -t {subject} (a cluster, not one broker's address)
SELECT t.cluster, t.topic AS subject, CONCAT('all queues are at ', MIN(t.broker_name)) AS detail
FROM ({routes}) t JOIN (
  SELECT cluster, COUNT(DISTINCT broker_name) AS brokers FROM ({routes}) GROUP BY cluster
) c ON t.cluster = c.cluster
WHERE c.brokers > 1 AND t.write_queue_nums > 0 AND t.perm IN (2, 3, 6, 7)
GROUP BY t.cluster, t.topic HAVING COUNT(DISTINCT t.broker_name) = 1

-- CLIENT_ID_TWICE: HIGH
-- two processes take the same queues, and others have no owner
-- consumer.setInstanceName("a name of its own") in each process of {subject}
SELECT cluster, consumer_group AS subject, sentence AS detail FROM drift_incident
WHERE root_cause = 'DUPLICATE_CLIENT_ID' AND state <> 'RESOLVED'

-- SUBSCRIPTIONS_DIFFER: HIGH
-- brokers filter by whichever subscription came last: messages are lost to the others
-- the same consumer.subscribe(topic, tags) in every member of {subject}
SELECT cluster, consumer_group AS subject, sentence AS detail FROM drift_incident
WHERE root_cause = 'SUBSCRIPTION_INCONSISTENT' AND state <> 'RESOLVED'

-- STRATEGIES_DIFFER: HIGH
-- queues have two owners or none
-- the same consumer.setAllocateMessageQueueStrategy(...) in every member of {subject}
SELECT cluster, consumer_group AS subject, sentence AS detail FROM drift_incident
WHERE root_cause = 'MIXED_STRATEGY' AND state <> 'RESOLVED'

-- TIMEOUT_UNDER_THE_LADDER: MEDIUM
-- a send ends before it is slow enough to isolate its broker: the fault table learns of failures alone
-- producer.setSendMsgTimeout(3000) in {subject}, or a ladder that begins below the time-out
SELECT cluster, producer_group AS subject,
  CONCAT(CONCAT('sendMsgTimeout is ', MIN(send_timeout_ms), ' ms'), ' (', MIN(client_id), ')') AS detail
FROM ({producers}) WHERE latency_fault_enabled AND send_timeout_ms <= first_ms GROUP BY cluster, producer_group

-- RETRIES_DO_NOT_FIT: MEDIUM
-- one time-out covers all attempts of a send: the retries that are set are not made where sends are slow
-- producer.setSendMsgTimeout(...) in {subject} of more than its attempts take together
SELECT p.cluster, p.producer_group AS subject, CONCAT('an attempt takes ',
  CAST(MAX(a.mean_ms) AS BIGINT), ' ms on average: ', MAX(p.retries) + 1, ' do not fit into ',
  MIN(p.send_timeout_ms), ' ms') AS detail
FROM ({producers}) p JOIN (
  SELECT cluster, producer_group, client_id, AVG(latency_ms) AS mean_ms FROM send_attempt
  WHERE {last[send_attempt]} AND outcome = 'SEND_OK' AND mode = 'SYNC'
  GROUP BY cluster, producer_group, client_id
) a ON p.cluster = a.cluster AND p.producer_group = a.producer_group AND p.client_id = a.client_id
WHERE p.retries > 0 AND p.send_timeout_ms < (p.retries + 1) * a.mean_ms
GROUP BY p.cluster, p.producer_group

-- FAULT_SWITCH_WITHOUT_DETECTOR: HIGH
-- in 5.1.4 a broker that failed once is left out until a send to it succeeds, which none may try
-- producer.setStartDetectorEnable(true) in {subject}, or a client of 5.2.0 or later
SELECT cluster, producer_group AS subject,
  CONCAT('sendLatencyFaultEnable is on, startDetectorEnable is not', ' (', MIN(client_id), ')') AS detail
FROM ({producers}) WHERE latency_fault_enabled AND NOT detector_enabled AND profile = 'P514'
GROUP BY cluster, producer_group

-- RETRIES_GO_BACK: HIGH
-- with the fault switch on, clients through 4.7.1 retry at the broker that has just failed
-- a client of 4.8.0 or later in {subject}, or producer.setSendLatencyFaultEnable(false)
SELECT cluster, producer_group AS subject,
  CONCAT(CONCAT('client release ', MIN(client_version)), ' (', MIN(client_id), ')') AS detail
FROM ({producers}) WHERE latency_fault_enabled AND profile IN ('P40', 'P43') GROUP BY cluster, producer_group

-- COUNTER_STICKS: MEDIUM
-- in 4.8.0 to 4.9.3 a thread's counter of queues may stick or turn negative after 2^31 sends
-- a client of 4.9.4 or later in {subject}
SELECT cluster, producer_group AS subject,
  CONCAT(CONCAT('client release ', MIN(client_version)), ' (', MIN(client_id), ')') AS detail
FROM ({producers}) WHERE profile IN ('P48', 'P49a', 'P49b') GROUP BY cluster, producer_group

-- IDS_BY_PID: LOW
-- through 4.8.0 a client id is address and process id: containers with equal ones take the same queues
-- consumer.setInstanceName("a name of its own") in {subject}, or a client of 4.9.0 or later
SELECT cluster, consumer_group AS subject, CONCAT('member ', MIN(client_id)) AS detail
FROM consumer_heartbeat WHERE {last[consumer_heartbeat]}
AND language = 'JAVA' AND client_version <= 392
AND TRY_CAST(SPLIT_PART(client_id, '@', 2) AS BIGINT) IS NOT NULL GROUP BY cluster, consumer_group
