"""The page from rows, without Spark: hostile names stay text, nothing is fetched, what is cut is said."""

from __future__ import annotations

import json
import re
from datetime import date
from html.parser import HTMLParser

import pytest

from hindsight.conf.settings_file import load_settings
from hindsight.jobs.report.report_page import (
    as_of,
    breakable,
    duration,
    headline,
    island,
    left_out,
    page,
    to_find,
    wrong_now,
)
from hindsight.jobs.report.report_queries import CELLS, dates_shown
from hindsight.jobs.running.run_context import DateRange
from tests.page.hostile import NAMES, SCRIPT, hostile_data


class Elements(HTMLParser):
    """The elements a browser would make, their attributes, and the text of what is no script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.island = ""
        self._into = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._into = "island" if ("id", "island") in attrs else tag

    def handle_endtag(self, tag):
        self._into = ""

    def handle_data(self, data):
        if self._into == "island":
            self.island += data
        elif self._into not in ("script", "style"):
            self.text.append(data)


@pytest.fixture(scope="module")
def html() -> str:
    return page(hostile_data())


@pytest.fixture(scope="module")
def elements(html) -> Elements:
    return Elements(html)


def test_a_script_in_a_client_id_shows_as_text(elements):
    assert elements.tags.count("script") == 3  # the island, the drawings, and what starts them
    assert SCRIPT in "".join(elements.text)
    assert "img" not in elements.tags
    assert not [name for name, _ in elements.attributes if name.startswith("on")]


def test_every_hostile_name_is_whole_in_the_island_and_in_the_markup(elements):
    told = json.loads(elements.island)
    assert [p[2] for p in told["producers"]] == list(NAMES)
    assert [m["members"][0] for m in told["matrices"]] == list(NAMES)
    assert [b[1] for b in told["fleet"]["brokers"]] == list(NAMES)
    assert [name for name in NAMES if name not in "".join(elements.text)] == []


def test_nothing_in_the_island_can_end_or_open_an_element(elements):
    assert elements.island.strip().startswith("{")
    assert not set("<>&'\u2028\u202e") & set(elements.island)


def test_the_page_names_no_other_file_and_lets_only_its_own_scripts_run(html, elements):
    assert [v for n, v in elements.attributes if n in ("src", "href") and v and not v.startswith(("#", "data:"))] == []
    (policy,) = [v for n, v in elements.attributes if n == "content" and v and "default-src" in v]
    assert policy.startswith("default-src 'none';") and policy.count("'sha256-") == 2
    assert "unsafe-inline" not in re.search("script-src[^;]*", policy).group()
    assert "@import" not in html and "url(http" not in html


def test_the_same_rows_give_the_same_page(html):
    assert page(hostile_data()) == html


def test_what_is_left_out_is_said_with_its_number(html):
    said = left_out(hostile_data())
    assert "7 of 8 windows of the timeline are shown." in said
    assert len([s for s in said if s.startswith("7 of 8 ")]) == 15
    assert all(s in html for s in said)


def test_an_empty_lake_has_a_page():
    data = {name: [] for name in hostile_data()} | {
        "dates": None,
        "stretch": {"begin": 0, "end": 0, "recorded": 0, "step": 1, "send_step": 1},
        "fleet_stretch": {"begin": 0, "step": 60_000},
    }
    assert "The lake holds nothing yet." in page(data)
    assert left_out(data) == []
    assert [figure for _, figure, _, asks, _ in headline(data) if asks] == []


def test_a_window_and_a_cell_refer_to_their_names_by_place():
    told = island(hostile_data())
    assert told["windows"][3] == [3, 3, 3, 60_000, 0, 1]
    assert told["kinds"] == [("unavailable", "expired", "latency", "certain")]
    (queue, cells) = told["matrices"][0]["queues"][0]
    assert (queue, cells) == (f"{SCRIPT}:0", [[0, 1, 0, [0, 1], 0]])
    assert told["matrices"][0]["found"] == [("DOUBLE_OWNED", "OPEN")]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("short_name", ["short_name"]),
        ("please_rename_unique", ["please_", "rename_", "unique"]),
        ("10.0.0.1@22341#25", ["10.0.0.1@", "22341#", "25"]),
        ("RemotingTimeoutException", ["Remoting", "Timeout", "Exception"]),
        ("<b>" + "x" * 20, ["&lt;b&gt;" + "x" * 10, "x" * 10]),
        ("rebalanced at 09:30:41: it joined", ["rebalanced at 09:30:41: it joined"]),
        ("a member of order_service", ["a member of order_", "service"]),
    ],
)
def test_a_name_may_go_on_in_the_next_line_where_a_reader_would_break_it(name, parts):
    assert breakable(name) == "<wbr>".join(parts)


@pytest.mark.parametrize(
    ("seconds", "told"), [(None, "not known"), (0, "0.0 s"), (119.9, "119.9 s"), (120, "2.0 min"), (7200, "2.0 h")]
)
def test_a_length_of_time_is_told_in_a_unit_that_is_easily_read(seconds, told):
    assert duration(seconds) == told


def test_a_cell_tells_of_its_worst_minute_and_of_how_many_like_it():
    (_, name, judged, refused, by_half, worst, cells) = island(hostile_data())["fleet"]["brokers"][0]
    assert (name, judged, refused, by_half, worst[:2]) == (NAMES[0], 4, 1, 1, [1, 2])
    assert cells == [[0, 1, 2, 3, 1, 1, 2], [1, 0, 2, 0]]


@pytest.mark.parametrize(
    ("brokers", "told"),
    [
        ([], "In no minute was a producer active"),
        ([{"judged": 0}], "who refused a broker is not known"),
        ([{"judged": 9}], "No producer refused a broker in any minute"),
    ],
)
def test_without_a_refusal_the_fleet_says_why_in_words(brokers, told):
    data = hostile_data()
    data["fleet_cells"] = []
    data["fleet_brokers"] = [
        {"cluster": "c", "broker_name": "b", "refused": 0, "by_half": 0, "worst": None, "of_all": 1, **b}
        for b in brokers
    ]
    html = page(data)
    assert told in html and 'id="fleet-strips"' not in html


def test_findings_about_producers_are_listed_worst_first_the_first_ones_in_sight():
    data = hostile_data()
    (finding, *_) = data["producer_findings"]
    data["producer_findings"] = [finding | {"sentence": f"finding {n}.", "of_all": 15} for n in range(15)]
    html = page(data)
    fleet = html[html.index('id="fleet"') :]  # what lasts stands above, too
    listed = re.findall(r"finding \d+\.", fleet)
    assert listed == [f"finding {n}." for n in range(15)]
    assert fleet.index("finding 11.") < fleet.index("The other 3 of 15") < fleet.index("finding 12.")
    data["producer_findings"] = []
    assert "Nothing stood out about a producer." in page(data)


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (DateRange(), (4, 10)),  # the last seven
        (DateRange(first=date(2026, 1, 2)), (2, 10)),
        (DateRange(last=date(2026, 1, 8)), (2, 8)),
        (DateRange(date(2026, 1, 3), date(2026, 1, 3)), (3, 3)),
        (DateRange(date(2025, 1, 1), date(2027, 1, 1)), (1, 10)),
        (DateRange(first=date(2026, 1, 11)), None),
        (DateRange(last=date(2025, 12, 31)), None),
    ],
)
def test_the_page_shows_the_dates_that_were_asked_for(asked, shown):
    found = dates_shown({"first": date(2026, 1, 1), "last": date(2026, 1, 10)}, 7, asked)
    assert (found and tuple(day.day for day in found)) == shown
    assert dates_shown({"first": None, "last": None}, 7, asked) is None


def incident(**own):
    return {
        "incident_id": "ab12",
        "cluster": "c",
        "consumer_group": "g",
        "state": "OPEN",
        "severity": "HIGH",
        "root_cause": "UNEXPLAINED",
        "cause_key": "",
        "codes": ["ORPHAN_QUEUE"],
        "opened_at": 1_000,
        "lag_now": 5,
        "sentence": "s",
        "evidence": ["f:1 7F0000012A9F"],
    } | own


def finding(**own):
    held = {"cluster": "c", "code": "FLEET_SLOW", "severity": "HIGH", "subject": "b", "from": 0, "to": None}
    return held | {"sentence": "slow"} | own


def shown_first(incidents=(), findings=(), end=10_000_000):
    data = {"incidents": incidents, "producer_findings": findings, "stretch": {"recorded": end}}
    return [(one["severity"], one["who"], one["entry"] and one["entry"].code) for one in wrong_now(data)]


def test_what_is_wrong_now_stands_first_with_its_entry_of_the_runbook():
    rows = [
        incident(severity="MEDIUM", consumer_group="later", opened_at=2_000),
        incident(severity="MEDIUM", consumer_group="earlier"),
        incident(severity="INFO"),
        incident(state="RESOLVED", severity="CRITICAL"),
        incident(severity="CRITICAL", root_cause="GROUP_DOWN"),
        incident(severity="HIGH", root_cause="BROKER_NEW", codes=["NOBODY_KNOWS"], consumer_group="", cause_key="b1"),
    ]
    assert shown_first(rows) == [
        ("CRITICAL", "g", "GROUP_DOWN"),
        ("HIGH", "b1", None),
        ("MEDIUM", "earlier", "ORPHAN_QUEUE"),
        ("MEDIUM", "later", "ORPHAN_QUEUE"),
    ]


def test_a_producer_s_finding_is_wrong_now_while_it_lasts_and_once():
    over, lasting = finding(subject="over", to=9_000_000), finding(subject="lasting", to=9_500_000)
    assert shown_first(findings=[over, lasting, finding(subject="lasting"), finding(severity="MEDIUM")]) == [
        ("HIGH", "lasting", "FLEET_SLOW")
    ]


def test_the_last_record_is_no_window_that_ends_after_it():
    """A producer's window may last for ten minutes more than what was recorded of it."""
    data = {"stretch": {"end": 600_000, "recorded": 5_000}, "incidents": [], "rounds": [], "publications": []}
    assert as_of(data)["recorded"] == 5_000


def test_every_incident_has_an_anchor_and_is_found_by_what_its_evidence_names(html):
    data = hostile_data()
    shown = Elements(page(data | {"incidents": [data["incidents"][0] | incident(evidence=["f:1 7F0000012A9F"] * 21)]}))
    assert "7F0000012A9F" in "".join(shown.text)  # where the page's script looks into
    (found,) = [one for one in json.loads(shown.island)["find"] if one[0] == "incident"]
    assert "7F0000012A9F" in found[2] and found[3] == "incident-ab12"  # the line that is not shown
    for anchor in {anchor for *_, anchor in to_find(data)}:
        assert f'id="{anchor}"' in html


def test_groups_that_were_not_judged_stand_first_and_nothing_open_is_said_of_the_rest_alone():
    shown = page(hostile_data() | {"incidents": [], "producer_findings": [], "unjudged": ["c  g  T: POP"]})
    assert "c  g  T: POP" in shown and "is open, of what was judged" in shown


def test_the_first_page_of_a_large_fleet_stays_under_2_mb():
    bounds, data = load_settings(None).report, hostile_data()

    def times(name, number, **own):
        (one, *_) = data[name]
        plain = {key: "oracle" if value in NAMES else value for key, value in one.items()}
        data[name] = [plain | {key: of(n) for key, of in own.items()} | {"of_all": number * 9} for n in range(number)]

    broker, client = (
        (lambda n: f"broker-{n % bounds.brokers}"),
        (lambda n: f"10.0.{n % 2000}.7@{n % 2000}#2507521046470"),
    )
    begin, step = data["fleet_stretch"]["begin"], data["fleet_stretch"]["step"]
    worst = {"isolating": 17, "active": 2000, "active_unknown": 3}
    times("brokers", bounds.brokers, broker_name=broker)
    times("producers", 2000, client_id=client)
    times("windows", bounds.windows, broker_name=broker, client_id=client, window_start=lambda n: begin + n * 997)
    times("fleet_brokers", bounds.brokers, broker_name=broker)
    data["fleet_cells"] = [
        {"cluster": "oracle", "broker_name": broker(n), "bucket": at, "judged": 60, "refused": 30}
        | {"worst": worst | {"minute_at": begin + at * step}}
        for n in range(bounds.brokers)
        for at in range(CELLS)
    ]
    data["strip"] = [
        {"cluster": "oracle", "broker_name": broker(n), "bucket": at, "producers": at}
        for n in range(bounds.brokers)
        for at in range(240)
    ]
    for name in ("incidents", "producer_findings", "rebalances", "rebalance_events", "delays"):
        times(name, bounds.rows, **({"incident_id": lambda n: f"{n:016x}"} if name == "incidents" else {}))
    times("groups", bounds.groups, consumer_group=lambda n: f"group-{n}")
    data["rounds"], data["cells"] = [], []
    for n in range(bounds.cells // bounds.rounds):
        key = {"cluster": "oracle", "collector": "oracle", "consumer_group": f"group-{n // 4}", "topic": "oracle"}
        for at in range(bounds.rounds):
            data["rounds"] += [{**key, "round_at": begin + at * 15_000, "verdict": "drift"}] if n % 4 == 0 else []
            cell = {"broker_name": "b", "queue_id": n % 4, "expected_owner": client(at), "observed": [client(n)]}
            found = {"code": "WRONG_OWNER", "finding_state": "OPEN"}
            data["cells"].append({**key, "round_at": begin + at * 15_000, **cell, **found})
    size = len(page(data).encode())
    assert 500_000 < size < 2_000_000, size
