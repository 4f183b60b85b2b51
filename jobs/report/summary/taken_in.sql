-- How many files and lines were taken in.
SELECT COUNT(*) AS files, COALESCE(SUM(read), 0) AS lines FROM ingested_file
