-- First and last date of which anything is recorded.
SELECT MIN(event_date) AS first, MAX(event_date) AS last FROM (
  SELECT event_date FROM producer_replay UNION ALL SELECT event_date FROM group_round
)
