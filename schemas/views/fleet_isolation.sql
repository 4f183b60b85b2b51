-- One producer or the fleet? Per minute and broker: how many active producers held it NOT available, of how many.
-- Active: at least 30 sends in the minute (min_sends_per_minute). One row per minute in which a broker was isolated.
-- Grain: (cluster, minute_at, broker_name).
-- Example: SELECT * FROM fleet_isolation WHERE broker_name = 'broker-a' ORDER BY minute_at;
CREATE OR REPLACE VIEW fleet_isolation (
  cluster COMMENT 'RocketMQ cluster',
  event_date COMMENT 'UTC date',
  minute_at COMMENT 'First instant of the minute, UTC',
  broker_name COMMENT 'Broker that was NOT available to those who isolated it',
  isolating COMMENT 'Active producers that held it not available at some instant of the minute',
  active COMMENT 'Active producers that could be replayed, those with the switch off left aside',
  isolating_percent COMMENT 'isolating of active; null: nobody was active who could be judged',
  isolating_at_least COMMENT 'Those whose windows are certain',
  isolating_at_most COMMENT 'Those who did or may have: too little is known of them; with active_unknown',
  active_unknown COMMENT 'Active producers that could not be replayed or whose switch is not recorded',
  active_off COMMENT 'Active producers with the switch off: they isolate nothing',
  attempts COMMENT 'Attempts to the broker that began in this minute, of any producer'
) COMMENT 'Per minute and isolated broker: how many of the active producers held it not available'
AS SELECT
  cluster, event_date, minute_at, broker_name, isolating, active,
  FLOOR(1000 * isolating / NULLIF(active, 0) + 0.5e0) / 10 AS isolating_percent,
  isolating_at_least, isolating_at_most, active_unknown, active_off, attempts
FROM fleet_minute
WHERE isolating > 0;
