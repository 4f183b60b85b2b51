-- One row per broker and date: for how long producers held it not available, all of them together.
SELECT
    cluster,
    event_date,
    broker_name,
    count(DISTINCT client_id) AS producers,
    sum(epoch_ms(window_end) - epoch_ms(window_start)) / 1000 AS seconds,
    count(*) FILTER (WHERE window_end IS NULL) AS without_end
FROM {{ source('hindsight', 'broker_availability_window') }}
GROUP BY cluster, event_date, broker_name
