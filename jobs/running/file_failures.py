"""The text of a failure in; a sentence out, where it is one of files that either engine may meet."""

from __future__ import annotations

import re

_VANISHED = re.compile(r"FileNotFoundError: (?:\[Errno 2\] )?(.*)")


def of_files(text: str) -> str | None:
    """What a text says of landing files and of room for the lake; None: it is about something else."""
    if vanished := _VANISHED.search(text):
        return (
            f"a landing file was listed and is gone ({vanished[1]}); what was read with it is not in the ledger, "
            "and a rerun takes in what is there."
        )
    if "No space left on device" in text:
        return (
            "there is no space left where the lake is, or where a run keeps its steps (the temporary folder; Spark's "
            "is spark.local.dir); make room and rerun: what was committed stays, and the rest is done then."
        )
    return None
