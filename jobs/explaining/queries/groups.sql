-- Sections of explanations of consumer groups' rows; see producers.sql.

-- rounds_of_allocation: Rounds with these members, queues and rules (group_round)
-- Each client computes its share from the two lists alone, by its own strategy and release.
SELECT round_at, collector, members, queues, member_rules, verdict
FROM group_round WHERE {same[cluster event_date consumer_group topic]} AND
  {same[queue_list_hash member_list_hash claims_hash strategy strategy_parameters profile]}
ORDER BY round_at, collector LIMIT 5

-- asked_in_round: What was asked and answered (snapshot_capture)
-- missing_inputs names what is not among these answers.
SELECT kind, client_id, captured_at, answered, error, source_file || ':' || source_line AS line
FROM snapshot_capture WHERE {same[cluster event_date collector consumer_group round_at]}
ORDER BY kind, client_id, captured_at LIMIT {most}

-- queues_of_round: Expected and observed, queue by queue (expected_queue)
-- ok: every queue is with its expected owner and with nobody else.
SELECT broker_name, queue_id, expected_owner, claimants, observed
FROM expected_queue WHERE {same[cluster event_date collector consumer_group round_at]} AND {same[topic]}
ORDER BY broker_name, queue_id LIMIT {most}

-- found_in_round: What was found (allocation_drift)
SELECT code, finding_state, broker_name, queue_id, client_id, sentence
FROM allocation_drift WHERE {same[cluster event_date collector consumer_group round_at]}
AND (topic IS NULL OR {same[topic]}) ORDER BY code, broker_name, queue_id, client_id LIMIT {most}

-- rounds_by_rule: Rounds in which it had this rule (group_round)
-- member_rules names each member's strategy and where it is known from.
SELECT MIN(round_at) AS first_at, MAX(round_at) AS last_at, COUNT(*) AS rounds
FROM group_round WHERE {same[cluster event_date consumer_group]}
AND ARRAY_CONTAINS(members, {text[client_id]}) LIMIT {most}

-- logged_results: Results of its rebalances that were logged (rebalance_result)
-- A line names the strategy, the lists and the share.
SELECT * FROM rebalance_result WHERE {same[cluster consumer_group client_id]} AND event_date <= {on[known_since]}
ORDER BY event_date DESC LIMIT 5

-- incidents_of_date: Its incidents as they were at the end of the date (drift_incident)
SELECT incident_id, root_cause, cause_key, state, opened_at, last_seen_at, rounds_true
FROM drift_incident WHERE {same[cluster event_date collector consumer_group]}
ORDER BY opened_at, incident_id LIMIT {most}

-- last_questions: The last questions to its servers (snapshot_capture)
-- The state of brokers and name servers is of no group: who answered, and who did not.
SELECT captured_at, kind, subject, broker_name, name_server, answered, error
FROM snapshot_capture WHERE {same[cluster event_date collector]}
ORDER BY captured_at DESC, kind, subject, broker_name, name_server LIMIT {most}

-- last_rounds: The group's last rounds (group_round)
-- The state is what the walk over all rounds of the date left; the next date begins with it.
SELECT round_at, topic, verdict, informative, findings
FROM group_round WHERE {same[cluster event_date collector consumer_group]} ORDER BY round_at DESC, topic LIMIT 10

-- findings_of_incident: Its findings, each at its first and its last round (allocation_drift)
-- explain allocation_drift shows what one of them rests on. codes of the row are those that they had last.
SELECT code, kind, topic, broker_name, queue_id, client_id, COUNT(*) AS rounds,
  COUNT_IF(finding_state = 'OPEN') AS rounds_open,
  MIN(judged_at) AS first_at, MAX(judged_at) AS last_at, MIN_BY(sentence, judged_at) AS first_sentence
FROM allocation_drift WHERE {same[cluster collector consumer_group]} AND {same[root_cause cause_key]}
AND finding_state <> 'SUPPRESSED' AND event_date BETWEEN {on[first_seen_at]} AND {on[last_seen_at]}
AND judged_at BETWEEN {at[first_seen_at]} AND {at[last_seen_at]}
GROUP BY code, kind, topic, broker_name, queue_id, client_id
ORDER BY first_at, code, topic, broker_name, queue_id, client_id LIMIT {most}

-- effects_in_groups: Its effects in groups, each from its first to its last round (allocation_drift)
-- They open no incidents of their own. No row: no group shows any.
SELECT consumer_group, code, topic, broker_name, queue_id, client_id, COUNT(*) AS rounds,
  MIN(judged_at) AS first_at, MAX(judged_at) AS last_at, MIN_BY(sentence, judged_at) AS first_sentence
FROM allocation_drift WHERE {same[cluster collector incident_id]}
GROUP BY consumer_group, code, topic, broker_name, queue_id, client_id
ORDER BY first_at, consumer_group, code, topic, broker_name, queue_id, client_id LIMIT {most}

-- effects_in_producers: Its effects in producers (producer_finding_with_incident)
-- They are told with it, and not by themselves.
SELECT began_at, ended_at, code, producer_group, client_id, sentence
FROM producer_finding_with_incident WHERE {same[cluster incident_id]} ORDER BY began_at, code, client_id LIMIT {most}

-- rounds_of_incident: The group's rounds from ten minutes before to ten minutes after (group_round)
-- An informative round could have shown it. findings counts those of the topic, muted ones too.
SELECT round_at, topic, verdict, informative, findings, SIZE(members) AS members, missing_inputs
FROM group_round WHERE {same[cluster collector consumer_group]}
AND event_date BETWEEN {on[first_seen_at-600s]} AND {on[until+600s]}
AND round_at BETWEEN {at[first_seen_at-600s]} AND {at[until+600s]} AND verdict IS NOT NULL
ORDER BY round_at, topic LIMIT {most}

-- changes_before_incident: Changes of the member list in the hour before it opened (membership_change)
-- last_disturbance of the row names the last change of any kind.
SELECT changed_at, settled_at, topic, joined, m.left, moved, necessary, excess
FROM membership_change AS m WHERE {same[cluster collector consumer_group]}
AND event_date BETWEEN {on[opened_at-3600s]} AND {on[opened_at]}
AND changed_at BETWEEN {at[opened_at-3600s]} AND {at[opened_at]} ORDER BY changed_at, topic LIMIT {most}

-- rounds_of_change: The rounds around it (group_round)
-- Owners of the last settled round before it are compared with those of the round at settled_at.
SELECT round_at, verdict, members, strategy, missing_inputs
FROM group_round WHERE {same[cluster collector consumer_group topic]}
AND event_date BETWEEN {on[changed_at-1d]} AND {on[settled_at]}
AND round_at <= {at[settled_at+1s]} ORDER BY round_at DESC LIMIT 15

-- owners_of_change: Owners as it settled (expected_queue)
-- moved: observed before and now by different clients; necessary: the strategy gives the queue to another.
SELECT round_at, broker_name, queue_id, expected_owner, observed
FROM expected_queue WHERE {same[cluster collector consumer_group topic]} AND event_date = {on[settled_at]}
AND round_at = (SELECT MAX(round_at) FROM group_round WHERE {same[cluster collector consumer_group topic]}
  AND event_date = {on[settled_at]} AND round_at <= {at[settled_at]})
ORDER BY broker_name, queue_id LIMIT {most}

-- round: The round (group_round)
-- Members and queues in RocketMQ's order: each client computes its share from these two lists alone.
SELECT topic, members, queues, strategy, strategy_parameters, profile, strategy_source, member_rules,
  spread_ms, loose, missing_inputs, verdict
FROM group_round WHERE {same[cluster event_date collector consumer_group round_at]}{and_same[topic]}
ORDER BY topic LIMIT {most}

-- expected: Expected and observed, queue by queue (expected_queue)
-- expected_owner: by the group's rule; claimants: by each member's own; observed: who showed it as its own.
SELECT topic, broker_name, queue_id, expected_owner, claimants, observed
FROM expected_queue WHERE {same[cluster event_date collector consumer_group round_at]}{and_same[topic]}
ORDER BY topic, broker_name, queue_id LIMIT {most}

-- answers_of_members: What each member answered (snapshot_capture, queue_ownership)
-- Owners are of the running infos that were answered; a member that did not answer may own what nobody shows.
SELECT c.kind, c.client_id, c.captured_at, c.answered, c.error, o.queues,
  c.source_file || ':' || c.source_line AS line
FROM snapshot_capture AS c
LEFT JOIN (
  SELECT source_file, source_line, client_id, captured_at, ARRAY_SORT(COLLECT_LIST(broker_name || ':' || queue_id
    || IF(dropped, ' dropped', '') || IF(locked, ' locked', ''))) AS queues
  FROM queue_ownership
  WHERE {same[cluster event_date collector consumer_group round_at]}{and_same[topic]}{and_same[broker_name queue_id]}
  GROUP BY source_file, source_line, client_id, captured_at
) AS o USING (source_file, source_line, client_id, captured_at)
WHERE {same[cluster event_date collector consumer_group round_at]}
ORDER BY c.kind, c.client_id, c.captured_at LIMIT {most}

-- offsets: The queue's offsets so far (queue_progress)
-- A reading counts until the next one. An offset that went back is compared with those before.
SELECT captured_at, broker_offset, consumer_offset, lag, last_timestamp, consume_tps,
  source_file || ':' || source_line AS line
FROM queue_progress
WHERE {same[cluster event_date consumer_group]}{and_same[topic]}{and_same[broker_name queue_id]}
AND captured_at <= {at[judged_at]} ORDER BY captured_at DESC LIMIT 8

-- ends: The first offset that is still there, and the next (topic_status)
-- Messages before the first are deleted. No row: nobody asked.
SELECT captured_at, min_offset, max_offset, last_update_at, source_file || ':' || source_line AS line
FROM topic_status WHERE {same[cluster event_date collector]}{and_same[topic]}{and_same[broker_name queue_id]}
AND captured_at <= {at[judged_at]} ORDER BY captured_at DESC LIMIT 5

-- incident: The incident that took it in (drift_with_incident)
SELECT DISTINCT incident_id, state, root_cause, cause_key, opened_at, last_seen_at, resolved_at
FROM drift_with_incident WHERE {same[cluster event_date collector consumer_group round_at]} AND
  {same[code topic broker_name queue_id]} AND {same[client_id kind]} AND incident_id IS NOT NULL LIMIT {most}

-- first_round: The first round of the stretch (group_round)
-- Each broker computes a member's share from its own list of members and the topic's queues.
SELECT round_at, members, queues, strategy, member_rules, scope_reason, verdict
FROM group_round WHERE {same[cluster event_date collector consumer_group topic]}
AND round_at = {at[from_at]} LIMIT {most}

-- modes: How the brokers hand out the queues (message_request_mode)
-- The last word of each broker counts: what was set for topic and group, else the broker's own settings.
SELECT captured_at, broker_name, told_by, topic, consumer_group, mode, pop_share_queue_num,
  server_load_balancer, source_file || ':' || source_line AS line
FROM message_request_mode WHERE {same[cluster event_date collector]}
AND (topic IS NULL OR ({same[topic consumer_group]}))
AND captured_at <= {at[at]} + INTERVAL 60 SECONDS ORDER BY captured_at DESC, broker_name LIMIT {most}

-- handed_out: What is handed out to each member, and what it takes (assigned_member)
-- A client asks one broker of the topic: where brokers differ it may have been given what any hands out.
SELECT client_id, from_at, until_at, handed_out, taken, agrees, reason
FROM assigned_member WHERE {same[cluster event_date collector consumer_group topic]}
AND from_at <= {at[at]} AND until_at >= {at[at]} ORDER BY client_id LIMIT {most}

-- popped: What members pop (pop_assignment)
-- Queue -1 is every queue of the broker; wait_ack_count: popped and not yet acknowledged.
SELECT client_id, captured_at, broker_name, queue_id, dropped, wait_ack_count, last_pop_at,
  source_file || ':' || source_line AS line
FROM pop_assignment WHERE {same[cluster event_date collector consumer_group topic]}
AND round_at = {at[at]} ORDER BY client_id, broker_name, queue_id LIMIT {most}

-- results_near: Results of the group's clients (rebalance_result)
-- A client logs a result when its queues change, with the numbers of queues and members that it shared by. What
-- follows within 3 s is one rebalance. An ordered group's result names queues too whose lock was refused.
SELECT logged_at, client_id, topic, queue_count, member_count, SIZE(queues) AS queues, queues_text,
  CONCAT(source_file, ':', source_line) AS line
FROM rebalance_result WHERE {same[cluster consumer_group]}
AND event_date BETWEEN {on[changed_at-150s]} AND {on[changed_at+1s]}
AND logged_at BETWEEN {at[changed_at-150s]} AND {at[changed_at+1s]}
ORDER BY logged_at, source_file, source_line LIMIT {most}

-- events_near: Notifications, locks and exceptions (client_event)
-- A line that names no client is of the group's client in that log. Nobody else was told of an exception here.
SELECT logged_at, kind, client_id, topic, broker_name, queue_id, exception, error,
  CONCAT(source_file, ':', source_line) AS line
FROM client_event WHERE {same[cluster]}
AND event_date BETWEEN {on[changed_at-150s]} AND {on[changed_at+1s]}
AND logged_at BETWEEN {at[changed_at-150s]} AND {at[changed_at+1s]}
AND ({same[consumer_group]} AND kind IN ('members_changed', 'lock_failed',
  'lock_acquired', 'queue_pull_expired', 'queue_add_failed', 'member_list_failed')
  OR client_id = {text[client_id]} AND kind IN ('client_created', 'client_stopped'))
ORDER BY logged_at, source_file, source_line LIMIT {most}

-- members_near: Who came and went (membership_event)
-- Unregistered: member_left. A channel that closed or expired without that: member_died.
SELECT logged_at, broker_name, kind, client_id, address, last_update_at,
  CONCAT(source_file, ':', source_line) AS line
FROM membership_event WHERE {same[cluster]} AND client_group = {text[consumer_group]}
AND event_date BETWEEN {on[changed_at-150s]} AND {on[changed_at+1s]}
AND logged_at BETWEEN {at[changed_at-150s]} AND {at[changed_at+1s]}
AND kind LIKE 'consumer%' ORDER BY logged_at, broker_name, source_line LIMIT {most}

-- shown_round_by_round: What the client showed, round by round (queue_ownership)
-- Between the last round with the old queues and the first with the new ones lies the change.
SELECT collector, round_at, MIN(captured_at) AS captured_at,
  ARRAY_SORT(COLLECT_LIST(topic || '@' || broker_name || ':' || queue_id)) AS queues
FROM queue_ownership WHERE {same[cluster consumer_group]} AND {same[client_id]} AND NOT dropped
AND round_at BETWEEN {at[first-60s]} AND {at[changed_at+30s]}
GROUP BY collector, round_at ORDER BY round_at, collector LIMIT {most}

-- last_rebalances: The group's last rebalances of the date (rebalance_event)
-- The state says who holds which queue as the date ends; explain rebalance_event shows what each rests on.
SELECT changed_at, client_id, trigger_kind, told_by, certainty, queues_gained, queues_lost, queues_held, sentence
FROM rebalance_event WHERE {same[cluster event_date consumer_group]} ORDER BY changed_at DESC, client_id LIMIT 20
