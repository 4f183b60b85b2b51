"""A name that may have been cut, and the names that are known, in; the whole name, or one that is nobody's, out.

mqadmin cuts names without a mark (UtilAll#frontStringAtLeast): a name that fills its column may be whole, or the
beginning of a longer one. Readers flag such names; here they are resolved.
"""

from __future__ import annotations

from collections.abc import Collection

# Doubts about a row of queue_progress whose names fill their columns.
TOPIC_MAYBE_CUT, BROKER_MAYBE_CUT = "TOPIC_MAYBE_CUT", "BROKER_MAYBE_CUT"
CUT_MARK = "..."  # no topic may hold a dot, and no broker is named so: what ends with it is nobody's name


def whole_name(printed: str, *known: Collection[str]) -> str:
    """The name that was printed; ``known``: names by how near they are told, the first that knows any of it decides.

    The one known name that is it or begins with it. Where several do, it is nobody's: the name with ``CUT_MARK``. One
    of which nothing is known stays as it was printed.
    """
    for names in known:
        found = {name for name in names if name.startswith(printed)}
        if found:
            return found.pop() if len(found) == 1 else printed + CUT_MARK
    return printed
