"""Joins on keys that may be null, as a producer's unknown start is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def null_safe_join(left: DataFrame, right: DataFrame, keys: Sequence[str], how: str = "inner") -> DataFrame:
    """Join on equal ``keys``, null equal to null; the frames share no other column. The keys stand once."""
    renamed = right.withColumnsRenamed({key: f"__{key}" for key in keys})
    same = reduce(Column.__and__, (F.col(key).eqNullSafe(F.col(f"__{key}")) for key in keys))
    return left.join(renamed, same, how).drop(*(f"__{key}" for key in keys))


def null_safe_semi_join(left: DataFrame, right: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows of ``left`` whose ``keys`` the small frame ``right`` holds, null equal to null."""
    renamed = right.select(*(F.col(key).alias(f"__{key}") for key in keys)).distinct()
    same = reduce(Column.__and__, (F.col(key).eqNullSafe(F.col(f"__{key}")) for key in keys))
    return left.join(F.broadcast(renamed), same, "left_semi")
