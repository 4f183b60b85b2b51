-- Files from which nothing was stored, those taken in last first.
WITH without_rows AS (SELECT * FROM ingested_file WHERE stored = 0 AND duplicate = 0)
SELECT file, read, ignored, quarantined, (SELECT COUNT(*) FROM without_rows) AS files FROM without_rows
ORDER BY ingested_at DESC, file LIMIT {most}
