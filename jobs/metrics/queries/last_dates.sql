-- The last date of each cluster on which a consumer group was read.
SELECT cluster, MAX(event_date) AS event_date FROM group_round WHERE verdict IS NOT NULL GROUP BY cluster
