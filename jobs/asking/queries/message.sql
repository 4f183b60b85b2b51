-- The life of a message; see message_life.py. What stands in braces is filled as in sections of explanations.

-- dates: those on which a message may be recorded
SELECT DISTINCT event_date FROM send_attempt
UNION SELECT DISTINCT event_date FROM message_trace
UNION SELECT DISTINCT event_date FROM client_event WHERE kind = 'send_returned' ORDER BY event_date

-- ids: messages that a table has, by whichever condition
SELECT DISTINCT cluster, msg_id FROM {table} WHERE {where} ORDER BY ALL LIMIT {most}

-- sent: of a message or a batch of this id
SELECT DISTINCT cluster, msg_id, batch_msg_ids FROM send_attempt
WHERE (msg_id = {text[msg_id]} OR ARRAY_CONTAINS(batch_msg_ids, {text[msg_id]})) AND {near} LIMIT {most}

-- printed_ids: of a message or a batch of this id, in logs of applications
SELECT DISTINCT cluster, msg_id FROM client_event WHERE kind = 'send_returned'
AND (msg_id = {text[msg_id]} OR ARRAY_CONTAINS(batch_msg_ids, {text[msg_id]})) AND {near} ORDER BY ALL LIMIT {most}

-- attempts: to send it, alone or in a batch
SELECT * FROM send_attempt WHERE {same[cluster]} AND {near}
AND (msg_id = {text[msg_id]} OR ARRAY_CONTAINS(batch_msg_ids, {text[msg_id]})) ORDER BY begin_at, attempt LIMIT {most}

-- deliveries: of it, or of its batches
SELECT * FROM message_consumption WHERE {same[cluster]} AND msg_id IN ({named}) {until} ORDER BY began_at LIMIT {most}

-- ends: of its transaction
SELECT traced_at, transaction_state, from_transaction_check FROM message_trace
WHERE {same[cluster msg_id]} AND kind = 'end_transaction' {until} ORDER BY traced_at LIMIT {most}

-- printed: what applications printed of it into their logs
SELECT * FROM client_event WHERE kind = 'send_returned' AND {same[cluster]}
AND (msg_id = {text[msg_id]} OR ARRAY_CONTAINS(batch_msg_ids, {text[msg_id]})) AND {near} ORDER BY logged_at LIMIT {most}

-- groups: recorded to consume its topic about that time
SELECT consumer_group FROM queue_progress WHERE {same[cluster topic]} AND {dated}
UNION SELECT consumer_group FROM queue_ownership WHERE {same[cluster topic]} AND {dated}
UNION SELECT consumer_group FROM (
  SELECT consumer_group, EXPLODE(subscriptions) AS one FROM consumer_recording WHERE {same[cluster]} AND {dated}
) WHERE one.topic = {text[topic]}

-- recordings: the signs of a group's consume recorders; those of mere life from shortly before it was stored
SELECT kind, client_id, told_at, shut_down, message_model, consume_orderly, max_reconsume_times, subscriptions
FROM consumer_recording WHERE {same[cluster consumer_group]} AND event_date <= {until}
AND (kind <> 'alive' OR told_at >= {begin}) ORDER BY client_id, told_at, kind DESC

-- overtaken: messages behind it in its queue that were delivered before it was
SELECT COUNT(*) AS n FROM message_trace WHERE {same[cluster client_group stored_topic broker_name queue_id]} AND {dated}
AND queue_offset > {offset} AND traced_at < {began}

-- choice: the verdict of one of its attempts
SELECT verdict, rule, reason FROM send_verdict WHERE {same[cluster event_date producer_group client_id]}
AND {same[msg_id begin_at broker_name]} LIMIT 1

-- held: the brokers that were not available to its producer then
SELECT broker_name, state, window_start, window_end, trigger_kind, trigger_latency_ms, certainty
FROM broker_availability_window WHERE {same[cluster event_date producer_group client_id]}
AND window_start <= {at[begin_at]} AND (window_end > {at[begin_at]} OR window_end IS NULL)
ORDER BY broker_name LIMIT {most}
