-- The first refused lines of each reason.
SELECT cluster, format, source_file, line_number, reason_code, detail, LEFT(raw_text, 300) AS raw_text, of_all
FROM (
  SELECT *, COUNT(*) OVER () AS of_all, ROW_NUMBER() OVER (
    PARTITION BY cluster, format, reason_code ORDER BY source_file, line_number) AS nth FROM quarantine
) WHERE nth <= 5 ORDER BY cluster, format, reason_code, nth LIMIT {rows}
