"""What is kept between steps is there, and leaves memory to those that work beside it."""

from __future__ import annotations

from hindsight.jobs.engines.spark_sql import staged


def kept_by(context):
    """What Spark keeps of each frame: bytes in memory and on disk, by the frame's number."""
    kept = context._jsc.sc().getRDDStorageInfo()
    return {one.id(): (one.memSize(), one.diskSize()) for one in kept}


def test_what_is_staged_lies_on_disk(spark):
    before = kept_by(spark.sparkContext).keys()
    frame = staged(spark.range(1000).selectExpr("id", "repeat('x', 100) AS text"))
    assert frame.where("length(text) = 100").count() == 1000
    [(in_memory, on_disk)] = [sizes for number, sizes in kept_by(spark.sparkContext).items() if number not in before]
    assert (in_memory, on_disk > 0) == (0, True)
