-- One row per group (or '': a broker or name server) and root cause: how many incidents, the last of them, how many are open.
SELECT
    cluster,
    consumer_group,
    root_cause,
    count(*) AS incidents,
    count(*) FILTER (WHERE state <> 'RESOLVED') AS still_open,
    max(opened_at) AS last_opened_at,
    arg_max(sentence, opened_at) AS last_sentence
FROM {{ source('hindsight', 'drift_incident') }}
GROUP BY cluster, consumer_group, root_cause
