"""A retry of a Go or C++ producer and the attempt before it in, why its client would not have made it out."""

from __future__ import annotations

from typing import NamedTuple

from hindsight.udfs.client_families import CLIENT_FAMILIES
from hindsight.udfs.formats.hook_lines import RESPONSE_CODE, STATUSES

_MOST_CPP_ATTEMPTS = 15  # setRetryTimes holds no more


class Ended(NamedTuple):
    """How an attempt ended: its ``outcome``, and the text of its error, None without one."""

    outcome: str | None
    error: str | None


def why_not_retried(profile: str, before: Ended) -> str | None:
    """Why no release of the family tries again after an attempt that ended so; None: it may.

    Go takes every answer for final, but for some codes from 2.1.2 on; C++ tries again whatever is not SEND_OK.
    Source: ``go_send``, ``cpp_send``.
    """
    family = CLIENT_FAMILIES[profile]
    if family.retried_codes is None:
        return f"a retry after {before.outcome}" if before.outcome == STATUSES[0] else None
    if before.outcome in (*STATUSES, "SUBMITTED"):
        return f"a retry after {before.outcome}"
    code = RESPONSE_CODE.search(before.error or "")
    if code is None or int(code[1]) in family.retried_codes:
        return None
    return f"a retry after the broker's answer {code[1]}"


def why_too_many(profile: str, attempt: int, retries: int | None) -> str | None:
    """Why the attempt, 0 for the first, is one too many; ``retries``: as the producer's start says; None: unknown."""
    most = _MOST_CPP_ATTEMPTS if CLIENT_FAMILIES[profile].language == "CPP" else None
    allowed = most if retries is None else 1 + retries
    return f"attempt {attempt + 1} of at most {allowed}" if allowed is not None and attempt >= allowed else None
