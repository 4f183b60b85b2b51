"""What the pipeline costs beside its peers, measured in one run on the same data: ``make bench``.

A module holds its benchmarks in ``BENCHMARKS`` (see ``bench.contest.Benchmark``) and is listed in
``bench.__main__.MODULES``. Each says how its data are made, who takes part, and which ratios are aimed at. To add one:

1. write ``prepare(data, rows)``, which writes seeded Parquet in the canonical contract under ``data`` (for the
   readers of landing files: lines of real captures, repeated);
2. write each contestant as a function ``(data) -> run``. It may start what it needs (a session); ``run()`` is what is
   measured, and returns ``answer()``, which is not: a mapping of names to numbers or texts, equal for all contestants;
3. name them in ``BENCHMARKS``, with the floor that the others are compared with, and add the module to ``MODULES``.

Where bytes count more than rows a benchmark says ``megabytes_of(data)``: its table then shows MB per second of CPU.
Each contestant is a process of its own and waits while another one runs: rounds are interleaved, the best one counts.
Modules of contestants that run in the peers' environment import neither pyspark nor the project's packages.
"""
