-- How many findings of each code, about how many producers and brokers.
SELECT severity, code, COUNT(*) AS findings,
  COUNT(DISTINCT IF(producer_group IS NULL OR client_id IS NULL, NULL, (producer_group, client_id))) AS producers,
  COUNT(DISTINCT IF(broker_name IS NULL, NULL, (cluster, broker_name))) AS brokers
FROM producer_finding WHERE {of_dates} GROUP BY severity, code
ORDER BY INSTR('CRITICAL HIGH MEDIUM LOW INFO', severity), findings DESC, code LIMIT {rows}
