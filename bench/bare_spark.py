"""``python -m bench.bare_spark FOLDER``: a Spark session that writes one Delta table, merges into it and reads it.

What a run on Spark costs before it does anything of its own.
"""

from __future__ import annotations

import sys

from delta.tables import DeltaTable

from bench.contest import ONE_MACHINE
from hindsight.conf.settings_file import load_settings
from hindsight.jobs.running.spark_session import spark_session


def main() -> None:
    """Do it once, in a folder that does not exist."""
    place = sys.argv[1]
    with spark_session(load_settings(None), app_name="bare", master=ONE_MACHINE) as spark:
        spark.range(1000).write.format("delta").save(place)
        table, more = DeltaTable.forPath(spark, place).alias("t"), spark.range(500, 1500).alias("m")
        table.merge(more, "t.id = m.id").whenNotMatchedInsertAll().execute()
        if (rows := spark.read.format("delta").load(place).count()) != 1500:
            raise SystemExit(f"{rows} rows, not 1500")


if __name__ == "__main__":
    main()
