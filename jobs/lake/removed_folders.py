"""Removes a folder with all that is in it, on a local path or an object store."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from hindsight.jobs.lake.lake_place import file_system, for_hadoop, for_others, is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def remove_folder(spark: SparkSession | None, folder: str) -> None:
    """Remove a folder, if it is there; with Spark through its Hadoop client.

    Raises: NoLocalEngineError: without Spark, and on a store that only Spark reaches.
    """
    if is_local(folder):
        shutil.rmtree(for_others(folder), ignore_errors=True)
    elif spark is None:
        system, path = file_system(folder)
        found = system.get_file_info(path)
        if found.type.name != "NotFound":
            system.delete_dir(path)
    else:
        jvm: Any = spark._jvm
        place = jvm.org.apache.hadoop.fs.Path(for_hadoop(folder))
        place.getFileSystem(spark._jsc.hadoopConfiguration()).delete(place, True)
