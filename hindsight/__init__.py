"""All that is installed: ``jobs``, ``udfs``, ``schemas`` and ``conf`` at the top of the tree, under one name.

The four are links to these folders, so that ``hindsight.udfs`` is found from the root of a checkout alone, in the
archive for Spark's workers, and in a wheel alike. For programs and notebooks there is ``from hindsight import Lake``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hindsight.jobs.asking.python_lake import Lake as Lake

__all__ = ["Lake"]


def __getattr__(name: str) -> Any:
    """``Lake``, loaded by the first who asks for it: workers that only run kernels load nothing of it."""
    if name == "Lake":
        from hindsight.jobs.asking.python_lake import Lake

        return Lake
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
