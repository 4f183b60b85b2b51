"""One self-contained page out of the rows that report_queries read: no network, every name shown as text.

jinja2 escapes what stands in the markup; what the script draws goes through a JSON island whose ``<``, ``>``, ``&`` and
``'`` are escaped, and from there only into text nodes. The page's own policy lets no other script run and nothing be
fetched.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, FunctionLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from hindsight.jobs.asking.runbook import entry_of
from hindsight.jobs.report.report_queries import Rows, fleet_strips
from hindsight.schemas import SEVERITIES

# The parts of d3 that are used, 77 of its 280 kB: elements, scales, axes and formats of time (ISC licence beside it).
# plotly.js would be 4.8 MB on every page, reads markup in labels, and has no ownership matrix.
_SCRIPTS = ("d3-parts.min.js", "time.js", "page.js", "find.js", "timeline.js", "matrix.js", "fleet.js", "sends.js")
_GROUP = ("cluster", "collector", "consumer_group", "topic")
_FITS, _LONGEST = 10, 13  # letters
_BREAKS = re.compile(r"(?<=[_@#])(?=\w)|(?<=[a-z])(?=[A-Z])")
SHOWN_EVIDENCE = 20  # lines of an incident
_STILL_MS = 10 * 60_000  # a producer's finding that ended no longer than this before the last record goes on


def page(data: dict[str, Any]) -> str:
    """The whole HTML text. ``data``: what ``report_queries.report_data`` returns."""
    start, drawings = asset("start.js"), "\n".join(map(asset, _SCRIPTS))
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            **data,
            now=wrong_now(data),
            as_of=as_of(data),
            headline=headline(data),
            own_pages={(cluster, named): link for _, cluster, named, link in data["parts"]},
            left_out=left_out(data),
            island=island(data),
            style=Markup(asset("page.css")),
            start=Markup(start),
            drawings=Markup(drawings),
            hashes=[_digest(start), _digest(drawings)],
        )
    )


def part_page(part: Any) -> str:
    """The text of a page of one group or broker."""
    return _environment().get_template("part.html.j2").render(part=part)


@cache
def _environment() -> Environment:
    """What makes pages, with the template once it is compiled."""
    environment = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_compiled(),
    )
    environment.filters |= {"instant": instant, "count": count, "length_of": duration, "breakable": breakable}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment


def _compiled() -> FileSystemBytecodeCache | None:
    """Where the compiled template is kept from run to run: in the user's own cache; None: there is no room for it."""
    try:
        folder = Path.home() / ".cache" / "hindsight" / "templates"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError):  # of a user without a home
        return None
    return _Kept(str(folder))


class _Kept(FileSystemBytecodeCache):
    """What cannot be kept is compiled again."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep it if there is room."""
        with suppress(OSError):
            super().dump_bytecode(bucket)


def left_out(data: dict[str, Any]) -> list[str]:
    """What the bounds cut off, a sentence each."""
    said = []
    for line in asset("listed.txt").splitlines():
        name, _, what = line.partition(": ")
        rows = data[name]
        if rows and rows[0]["of_all"] > len(rows):
            said.append(f"{count(len(rows))} of {count(rows[0]['of_all'])} {what} are shown.")
    without = sum(1 for group in data["groups"] if group["rounds"] and not group["matrix"])
    if without:
        said.append(f"{count(without)} of the listed groups and topics have no matrix: those with more drift have it.")
    return said


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
            _more_words(i),
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


def _more_words(incident: dict[str, Any]) -> str:
    """What the page does not show of it; its script looks into the rest by itself."""
    return " ".join([incident["cause_key"] or "", *incident["evidence"][SHOWN_EVIDENCE:]])


def headline(data: dict[str, Any]) -> list[tuple[str, str, str, bool, str]]:
    """The page's first figures: what, how many, a remark, whether it asks for somebody, and where more stands."""
    incidents = [i for i in data["incidents"] if i["state"] != "RESOLVED" and i["severity"] != "INFO"]
    worst = Counter(i["severity"] for i in incidents)
    verdicts: Counter[str] = Counter()
    for row in data["releases"]:
        verdicts[row["verdict"]] += row["producers"]
    refused = sum(row["lines"] for row in data["refused"])
    checked = sum(row["checks"] for row in data["checks"])
    failed = checked - sum(row["held"] for row in data["checks"])
    isolated = _all_of(data["brokers"])
    drifting = {tuple(g[n] for n in _GROUP[:3]) for g in data["groups"] if g["drift"]}
    judged = {tuple(g[n] for n in _GROUP[:3]) for g in data["groups"] if g["ok"] or g["drift"]}
    unknown = {tuple(g[n] for n in _GROUP[:3]) for g in data["groups"]} - judged
    nothing = f"{count(len(unknown))} groups were not judged" if unknown else "nothing is open"
    return [
        ("Open incidents", count(len(incidents)), _listed(worst) or nothing, bool(incidents or unknown), "now"),
        ("Consumer groups with drift", count(len(drifting)), "in at least one round", bool(drifting), "ownership"),
        ("Brokers isolated", count(isolated), "by at least one producer", bool(isolated), "isolation"),
        ("Producers", count(_all_of(data["producers"])), _listed(verdicts), bool(verdicts["unknown"]), "producers"),
        ("Refused lines", count(refused), "in quarantine", bool(refused), "quarantine"),
        (
            "Failed checks",
            count(failed),
            f"of {count(sum(r['checks'] for r in data['checks']))}",
            bool(failed),
            "quality",
        ),
    ]


def island(data: dict[str, Any]) -> dict[str, Any]:
    """What the script draws, names written once and referred to by their place."""
    brokers = {(b["cluster"], b["broker_name"]): n for n, b in enumerate(data["brokers"])}
    producers = {(p["cluster"], p["producer_group"], p["client_id"]): n for n, p in enumerate(data["producers"])}
    begin = data["stretch"]["begin"]
    kinds: dict[tuple[str, ...], int] = {}
    windows = [
        [
            brokers[key],
            producers[who],
            w["window_start"] - begin,
            -1 if w["window_end"] is None else w["window_end"] - begin,
            kinds.setdefault((w["state"], w["end_reason"], w["trigger_kind"], w["certainty"]), len(kinds)),
            w["trigger_latency_ms"],
        ]
        for w in data["windows"]
        if (key := (w["cluster"], w["broker_name"])) in brokers
        and (who := (w["cluster"], w["producer_group"], w["client_id"])) in producers
    ]
    strips: dict[int, list[list[int]]] = {}
    for row in data["strip"]:
        strips.setdefault(brokers[row["cluster"], row["broker_name"]], []).append([row["bucket"], row["producers"]])
    return {
        "stretch": data["stretch"],
        "brokers": [
            [b[n] for n in ("cluster", "broker_name", "windows", "producers", "seconds")] for b in data["brokers"]
        ],
        "producers": [
            [
                p[n]
                for n in ("cluster", "producer_group", "client_id", "client_version", "verdict", "windows", "seconds")
            ]
            for p in data["producers"]
        ],
        "replayed": {row["cluster"]: row["producers"] for row in data["replayed"]},
        "windows": windows,
        "kinds": list(kinds),
        "strips": strips,
        "matrices": _matrices(data),
        "fleet": fleet_strips(data),
        "sends": _sends(data["sends"]),
        "find": to_find(data),
    }


def _matrices(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Of each queue: a round, how many from there on are alike, who was expected, the owners, and what was found."""
    found = {
        tuple(g[n] for n in _GROUP): {
            **{name: g[name] for name in (*_GROUP, "message_model", "drift", "rounds")},
            "at": [],
            "verdicts": [],
            "members": {},
            "found": {},
            "queues": {},
        }
        for g in data["groups"]
        if g["matrix"]
    }
    for row in data["rounds"]:
        matrix = found[tuple(row[n] for n in _GROUP)]
        matrix["at"].append(row["round_at"])
        matrix["verdicts"].append(row["verdict"])
    column = {key: {at: n for n, at in enumerate(matrix["at"])} for key, matrix in found.items()}
    for row in data["cells"]:
        key = tuple(row[n] for n in _GROUP)
        members, queue = found[key]["members"], f"{row['broker_name']}:{row['queue_id']}"
        owners = [members.setdefault(client, len(members)) for client in row["observed"]]
        expected = row["expected_owner"]
        said = found[key]["found"]
        what = [said.setdefault((row["code"], row["finding_state"]), len(said))] if row["code"] else []
        shown = [-1 if expected is None else members.setdefault(expected, len(members)), owners, *what]
        cells = found[key]["queues"].setdefault(queue, [])
        at = column[key][row["round_at"]]
        if cells and cells[-1][0] + cells[-1][1] == at and cells[-1][2:] == shown:
            cells[-1][1] += 1
        else:
            cells.append([at, 1, *shown])
    return [
        {**m, "members": list(m["members"]), "found": list(m["found"]), "queues": list(m["queues"].items())}
        for m in found.values()
        if m["queues"]
    ]


def _sends(rows: Rows) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], list[list[int]]] = {}
    for row in rows:
        values = [row[n] for n in ("bucket", "attempts", "failed", "p99")]
        found.setdefault((row["cluster"], row["broker_name"]), []).append(values)
    return [{"cluster": cluster, "broker": broker, "buckets": buckets} for (cluster, broker), buckets in found.items()]


def instant(ms: int | None) -> str:
    """An instant as people write it, UTC; the script tells it in another zone."""
    if ms is None:
        return ""
    return Markup("<time>{}</time>").format(f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}")


def breakable(text: object) -> str:
    """Words that may go on in the next line where a reader would break them, or where a run of letters is long."""
    return Markup(" ").join(Markup("<wbr>").join(_pieces(word)) for word in str(text).split(" "))


def _pieces(word: str) -> Iterator[str]:
    for part in _BREAKS.split(word) if len(word) > _FITS else [word]:
        yield from (part[n : n + _LONGEST] for n in range(0, len(part), _LONGEST))


def count(number: float | None) -> str:
    """A count with its thousands apart; nothing where it is not known."""
    return "not known" if number is None else f"{number:,}"


def duration(seconds: float | None) -> str:
    """A length of time in the unit in which it is easily read."""
    if seconds is None:
        return "not known"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def _all_of(rows: Rows) -> int:
    return int(rows[0]["of_all"]) if rows else 0


def _listed(counter: Counter[str]) -> str:
    return ", ".join(f"{number} {what.lower()}" for what, number in counter.items())


def asset(name: str) -> str:
    """A text that stands beside."""
    return files("hindsight.jobs").joinpath("report", name).read_text(encoding="utf-8")


def _digest(text: str) -> Markup:
    """As a content security policy names a script it lets run."""
    return Markup("'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'")
