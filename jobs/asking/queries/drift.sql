-- Open incidents; see open_drift.py.

-- judged: the latest round of each group that was judged on a date
SELECT cluster, consumer_group, MAX(round_at) AS latest FROM group_round
WHERE verdict IS NOT NULL AND event_date = DATE'{day}' GROUP BY cluster, consumer_group

-- seen: the latest round of each group that showed an incident
SELECT cluster, consumer_group, MAX(last_seen_at) AS latest FROM drift_incident GROUP BY cluster, consumer_group

-- effects_in_groups: queues of groups that incidents of servers explain
SELECT DISTINCT incident_id, cluster, consumer_group, topic, broker_name, queue_id FROM allocation_drift
WHERE event_date >= {since} AND consumer_group <> ''
  AND incident_id IN (SELECT incident_id FROM drift_incident WHERE consumer_group = '')

-- effects_in_producers: producers whose findings they explain
SELECT DISTINCT incident_id, producer_group, client_id FROM producer_finding_with_incident
WHERE event_date >= {since} AND incident_id IS NOT NULL
