-- What brokers answered instead of SEND_OK, and what became of those sends.
SELECT *, COUNT(*) OVER () AS of_all FROM (
  SELECT cluster, broker_name, failed_with, response_code, SUM(attempts) AS attempts, SUM(gone_on) AS gone_on,
    SUM(saved) AS saved, SUM(lost) AS lost, COUNT(*) AS minutes
  FROM failed_attempts WHERE {of_dates} GROUP BY cluster, broker_name, failed_with, response_code
) ORDER BY attempts DESC, cluster, broker_name NULLS FIRST, failed_with, response_code NULLS FIRST LIMIT {brokers}
