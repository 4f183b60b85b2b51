-- Findings about producers and brokers, the worst and longest first.
SELECT cluster, code, severity, subject, f.from, f.to, certainty, sentence, COUNT(*) OVER () AS of_all
FROM producer_finding AS f WHERE {of_dates}
ORDER BY INSTR('CRITICAL HIGH MEDIUM LOW INFO', severity), unix_millis(f.to) - unix_millis(f.from) DESC NULLS FIRST,
  f.from, cluster, subject, code LIMIT {rows}
