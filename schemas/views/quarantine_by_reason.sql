-- What was refused, why, and where does one look? One example line per reason.
-- Grain: (cluster, format, reason_code).
-- Example: SELECT * FROM quarantine_by_reason ORDER BY lines DESC;
CREATE OR REPLACE VIEW quarantine_by_reason (
  cluster COMMENT 'RocketMQ cluster',
  format COMMENT 'Landing format',
  reason_code COMMENT 'Why lines were refused',
  lines COMMENT 'Refused lines',
  files COMMENT 'Files they are in',
  example_file COMMENT 'File of the first of them',
  example_line COMMENT 'Its line number',
  example_detail COMMENT 'Why that one was refused'
) COMMENT 'Refused lines by format and reason'
AS SELECT
  cluster, format, reason_code, COUNT(*) AS lines, COUNT(DISTINCT source_file) AS files,
  MIN(source_file) AS example_file,
  MIN_BY(line_number, (source_file, line_number)) AS example_line,
  MIN_BY(detail, (source_file, line_number)) AS example_detail
FROM quarantine GROUP BY cluster, format, reason_code;
