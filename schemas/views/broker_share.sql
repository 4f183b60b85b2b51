-- How fair is each broker's share of a producer's sends, inside the windows in which it was held unavailable and outside?
-- Grain: (cluster, event_date, producer_group, client_id, broker_name) of the brokers that it sent to.
-- Example: SELECT * FROM broker_share WHERE producer_group = 'pg_laton' ORDER BY client_id, broker_name;
CREATE OR REPLACE VIEW broker_share (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  producer_group COMMENT 'Producer group',
  client_id COMMENT 'Producer client id',
  broker_name COMMENT 'Broker',
  sends_inside COMMENT 'Attempts of the producer, to any broker, that began while it held this broker unavailable',
  to_it_inside COMMENT 'Of these, to this broker',
  share_inside COMMENT 'to_it_inside / sends_inside, 0 to 1; null: it was never held unavailable while the producer sent',
  sends_outside COMMENT 'Attempts of the producer, to any broker, that began at other times',
  to_it_outside COMMENT 'Of these, to this broker',
  share_outside COMMENT 'to_it_outside / sends_outside, 0 to 1; null: it did not send at other times',
  even_share COMMENT '1 / brokers that the producer sent to on this date: what a broker would get of an even spread'
) COMMENT 'Each broker\'s share of a producer\'s attempts inside and outside its availability windows'
AS WITH sent AS (
  SELECT cluster, event_date, producer_group, client_id, broker_name, COUNT(*) AS attempts,
    CAST(SUM(COUNT(*)) OVER (PARTITION BY cluster, event_date, producer_group, client_id) AS BIGINT) AS attempts_to_all,
    1 / COUNT(*) OVER (PARTITION BY cluster, event_date, producer_group, client_id) AS even_share
  FROM send_attempt GROUP BY cluster, event_date, producer_group, client_id, broker_name
),
inside AS (
  SELECT w.cluster, w.event_date, w.producer_group, w.client_id, w.broker_name,
    COUNT(*) AS attempts_to_all, COUNT_IF(a.broker_name = w.broker_name) AS attempts
  FROM broker_availability_window AS w
  JOIN send_attempt AS a
    ON a.cluster = w.cluster AND a.event_date = w.event_date AND a.producer_group = w.producer_group
    AND a.client_id = w.client_id AND a.begin_at >= w.window_start AND a.begin_at < w.window_end
  WHERE w.state = 'unavailable'
  GROUP BY w.cluster, w.event_date, w.producer_group, w.client_id, w.broker_name
)
SELECT s.cluster, s.event_date, s.producer_group, s.client_id, s.broker_name,
  COALESCE(i.attempts_to_all, 0) AS sends_inside,
  COALESCE(i.attempts, 0) AS to_it_inside,
  i.attempts / i.attempts_to_all AS share_inside,
  s.attempts_to_all - COALESCE(i.attempts_to_all, 0) AS sends_outside,
  s.attempts - COALESCE(i.attempts, 0) AS to_it_outside,
  (s.attempts - COALESCE(i.attempts, 0)) / NULLIF(s.attempts_to_all - COALESCE(i.attempts_to_all, 0), 0)
    AS share_outside,
  s.even_share
FROM sent AS s
LEFT JOIN inside AS i
  ON s.cluster = i.cluster AND s.event_date = i.event_date AND s.producer_group = i.producer_group
  AND s.client_id = i.client_id AND s.broker_name = i.broker_name;
