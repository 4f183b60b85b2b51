-- How many producers of each cluster could be replayed.
SELECT cluster, COUNT(DISTINCT (producer_group, client_id)) AS producers FROM producer_replay
WHERE {of_dates} AND verdict = 'replayed' GROUP BY cluster ORDER BY cluster LIMIT {rows}
