"""All that is installed: ``jobs``, ``udfs``, ``schemas`` and ``conf`` at the top of the tree, under one name.

The four are links to these folders, so that ``hindsight.udfs`` is found from the root of a checkout alone, in the
archive for Spark's workers, and in a wheel alike.
"""
