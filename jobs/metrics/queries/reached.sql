-- The last date that the files of each cluster and format reach.
SELECT cluster, format, MAX(event_date) AS event_date
FROM (SELECT cluster, format, EXPLODE(event_dates) AS event_date FROM ingested_file)
GROUP BY cluster, format
