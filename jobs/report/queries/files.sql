-- What was read of each format.
SELECT cluster, format, COUNT(*) AS files, SUM(read) AS read, SUM(stored) AS stored, SUM(duplicate) AS duplicate,
  SUM(ignored) AS ignored, SUM(quarantined) AS quarantined, COUNT_IF(NOT complete) AS incomplete
FROM ingested_file GROUP BY cluster, format ORDER BY cluster, format LIMIT {rows}
