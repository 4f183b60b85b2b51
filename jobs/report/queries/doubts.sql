-- Rows that were stored with a doubt, by table and doubt.
SELECT *, COUNT(*) OVER () AS of_all FROM (
  SELECT cluster, table_name, source, doubt, SUM(doubted) AS doubted, MAX(files) AS files,
    MIN_BY(example_file, event_date) AS example_file, MIN_BY(example_line, event_date) AS example_line
  FROM doubted_rows WHERE {of_dates} GROUP BY cluster, table_name, source, doubt
) ORDER BY doubted DESC, cluster, table_name, source, doubt LIMIT {rows}
