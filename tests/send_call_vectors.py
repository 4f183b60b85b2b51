"""Sends that RocketMQ's own sendDefaultImpl made, and what the kernels say of each from what a hook saw."""

from __future__ import annotations

import gzip
import json
from typing import NamedTuple

from hindsight.udfs.producer.retry_rules import Attempt, SendSettings
from hindsight.udfs.release_profiles import FaultProfile, profile_for
from tests.conftest import GOLDEN

BY_TEST, HELD_BACK = "used.jsonl.gz", "held_back.jsonl.gz"


class Vector(NamedTuple):
    """A send: ``seen`` by its hook (ASYNC: handed over, called back), in order; ``told``: what its caller got."""

    record: dict
    profile: FaultProfile
    settings: SendSettings
    seen: list[Attempt]
    told: dict | None

    @property
    def mode(self):
        return self.record["mode"]

    @property
    def is_all_seen(self):
        """A hook sees no attempt to a broker without an address, and none that ends in a class nobody catches."""
        uncaught = self.told is not None and "IllegalState" in self.told.get("exception", "")
        return self.record["without_address"] is None and not uncaught


def vectors(file, mode):
    with gzip.open(GOLDEN / "send_calls" / file, "rt", encoding="utf-8") as lines:
        return [vector for line in lines if (vector := _vector(json.loads(line))).mode == mode]


def _vector(record):
    settings = dict(record["settings"])
    seen = [_attempt(number, each) for number, each in enumerate(record["seen"])]
    told = (record["callbacks"] or [record["caller"]])[-1]
    own = SendSettings(send_timeout_ms=settings.pop("timeout_ms"), **settings)
    return Vector(record, profile_for(record["release"]), own, seen, told)


def _attempt(number, seen):
    told = seen["told"] or {}
    outcome = told.get("status") or ("EXCEPTION" if told else "SUBMITTED")
    said = (
        told.get("exception"),
        told.get("error"),
        told.get("code") if "MQBroker" in told.get("exception", "") else None,
    )
    return Attempt(number, seen["begin"], seen["end"], seen["broker"], seen["queue_id"], outcome, *said)
