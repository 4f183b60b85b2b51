-- What happened about an incident, from shortly before (since) to shortly after (until); see incident_story.py.

-- servers: incidents of brokers and name servers of that time
SELECT * FROM drift_incident WHERE {same[cluster]} AND consumer_group = '' AND event_date >= {on[since]}
AND first_seen_at <= {at[until]} AND COALESCE(resolved_at, last_seen_at) >= {at[since]}
ORDER BY first_seen_at LIMIT {most}

-- membership_events: what brokers logged of the group
SELECT * FROM membership_event WHERE {same[cluster]} AND client_group = {text[consumer_group]}
AND event_date BETWEEN {on[since]} AND {on[until+1d]} AND logged_at BETWEEN {at[since]} AND {at[until]}
ORDER BY logged_at LIMIT {most}

-- changes: those of its members (membership_change), and rebalances (rebalance_event)
SELECT * FROM {table} WHERE {same[cluster consumer_group]}
AND event_date BETWEEN {on[since]} AND {on[until+1d]} AND changed_at BETWEEN {at[since]} AND {at[until]}
ORDER BY changed_at LIMIT {most}

-- first_findings: the first round of each finding of the incident
SELECT cluster, event_date, collector, consumer_group, code, kind, topic, broker_name, queue_id, client_id, round_at,
  judged_at, sentence FROM (
  SELECT *, ROW_NUMBER() OVER (
    PARTITION BY code, kind, topic, broker_name, queue_id, client_id ORDER BY judged_at) AS place
  FROM allocation_drift WHERE {same[cluster collector consumer_group root_cause cause_key]}
  AND finding_state <> 'SUPPRESSED'
  AND event_date BETWEEN {on[since]} AND {on[until+1d]} AND judged_at BETWEEN {at[since]} AND {at[until]}
) WHERE place = 1 ORDER BY judged_at, code, kind, topic, broker_name, queue_id, client_id LIMIT {most}

-- producers: findings about producers and the brokers that the incident is about
SELECT began_at, event_date, code, producer_group, client_id, broker_name, cluster, sentence
FROM producer_finding_with_incident WHERE {same[cluster]} AND broker_name IN ({named})
AND event_date BETWEEN {on[since]} AND {on[until+1d]} AND began_at BETWEEN {at[since]} AND {at[until]}
ORDER BY began_at LIMIT {most}

-- effects: what groups show of an incident of a server
SELECT consumer_group, code, COUNT(*) AS rounds, MIN(judged_at) AS first_at FROM allocation_drift
WHERE {same[cluster incident_id]}
AND event_date BETWEEN {on[since]} AND {on[until+1d]} AND judged_at BETWEEN {at[since]} AND {at[until]}
AND NOT ({same[consumer_group]}) GROUP BY consumer_group, code ORDER BY first_at LIMIT {most}

-- missing: what rounds of the group lack, in how many of them, and from when on
SELECT missing, COUNT(DISTINCT round_at) AS rounds, MIN(round_at) AS first_at FROM (
  SELECT round_at, EXPLODE(missing_inputs) AS missing FROM group_round
  WHERE {same[cluster collector consumer_group]}
  AND event_date BETWEEN {on[since]} AND {on[until+1d]} AND round_at BETWEEN {at[since]} AND {at[until]}
) GROUP BY missing ORDER BY first_at, missing LIMIT {most}
