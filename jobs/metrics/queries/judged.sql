-- Until when each cluster's producers were replayed and its consumers judged.
SELECT cluster, 'producers' AS side, MAX(last_attempt_at) AS until FROM producer_replay
WHERE verdict IN ('replayed', 'off') GROUP BY cluster
UNION ALL
SELECT cluster, 'consumers' AS side, MAX(round_at) AS until FROM group_round
WHERE verdict IN ('ok', 'drift') GROUP BY cluster
