"""What the page says first: what is wrong now, the worst first, how old that is, and what was not judged.

Rows of ``report_queries`` in, plain values for the template out. What each code means and what to do is the runbook's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hindsight.jobs.asking.runbook import entry_of
from hindsight.schemas import SEVERITIES

SHOWN_EVIDENCE = 20  # lines of an incident
_STILL_MS = 10 * 60_000  # a producer's finding that ended no longer than this before the last record goes on


def wrong_now(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Open incidents and what still holds of producers and brokers, the worst and oldest first; nothing of INFO."""
    found = [*_incidents(data["incidents"]), *_findings(data["producer_findings"], data["stretch"]["recorded"])]
    return sorted(found, key=lambda one: (SEVERITIES.index(one["severity"]), one["since"]))


def _incidents(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row["state"] == "RESOLVED" or row["severity"] == "INFO":
            continue
        yield {
            "id": f"incident-{row['incident_id']}",
            "severity": row["severity"],
            "who": row["consumer_group"] or row["cause_key"],
            "cluster": row["cluster"],
            "since": row["opened_at"],
            "sentence": row["sentence"],
            "cause": row["root_cause"] + (f" ({row['cause_key']})" if row["cause_key"] else ""),
            "codes": row["codes"],
            "lag": row["lag_now"],
            "entry": entry_of([row["root_cause"], *row["codes"]]),
        }


def _findings(rows: list[dict[str, Any]], last: int) -> Iterator[dict[str, Any]]:
    """One for each code and subject: the runs of a producer's finding are one trouble; effects are the broker's."""
    seen: set[tuple[str, ...]] = set()
    for row in rows:
        key = (row["cluster"], row["code"], row["subject"])
        ended = row["to"] is not None and row["to"] < last - _STILL_MS
        if row["severity"] not in SEVERITIES[:2] or ended or row.get("incident_id") or key in seen:
            continue
        seen.add(key)
        yield {
            "id": None,
            "severity": row["severity"],
            "who": row["subject"],
            "cluster": row["cluster"],
            "since": row["from"],
            "sentence": row["sentence"],
            "cause": row["code"],
            "codes": [row["code"]],
            "lag": None,
            "entry": entry_of([row["code"]]),
        }


def as_of(data: dict[str, Any]) -> dict[str, int | None]:
    """The last instant that a record on the page speaks of, and when the tables were published, in epoch ms."""
    ends = [data["stretch"]["recorded"], *(i["last_seen_at"] for i in data["incidents"])]
    ends += [row["round_at"] for row in data["rounds"]]
    published = [row["published_at"] for row in data["publications"]]
    return {"recorded": max(filter(None, ends), default=None), "published": max(published, default=None)}


def to_find(data: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """What the page's search finds: what it is, its name, more words that lead to it, and where it stands."""
    found = [
        (
            "incident",
            f"{i['consumer_group'] or i['cause_key']}: {i['root_cause']}",
            _words(i),
            f"incident-{i['incident_id']}",
        )
        for i in data["incidents"]
    ]
    found += [
        ("group", f"{g['consumer_group']} {g['topic'] or ''}", g["cluster"], f"group-{place}")
        for place, g in enumerate(data["groups"])
    ]
    found += [("broker", b["broker_name"], b["cluster"], "isolation") for b in data["brokers"]]
    found += [("broker", b["broker_name"], b["cluster"], "sends-by-broker") for b in data["send_totals"]]
    found += [
        ("finding", f"{f['subject']}: {f['code']}", f["cluster"], f"finding-{place}")
        for place, f in enumerate(data["producer_findings"])
    ]
    return list(dict.fromkeys(found))


def _words(incident: dict[str, Any]) -> str:
    """What the page does not show of it; its script looks into the rest by itself."""
    return " ".join([incident["cause_key"] or "", *incident["evidence"][SHOWN_EVIDENCE:]])
