from __future__ import annotations

from datetime import UTC

import pytest

from hindsight.schemas import TABLES
from hindsight.udfs.landing.landing_formats import FORMATS, formats_of
from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.lines.bounded_lines import Line, Refusal

LINES = [
    Line(1, 0, 0, "", None),
    Line(2, 1, 9, "no format", None),
    Line(3, 10, 14, "x\\xff", Refusal("INVALID_UTF8", "x")),
    Line(4, 15, 17, "{}", None),
]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_counts_each_line_once_and_keeps_what_was_refused_before(name):
    parsed = list(PARSERS[name](LINES, UTC))
    assert [one.line for one in parsed] == LINES
    assert parsed[2].refusal == LINES[2].refusal
    assert parsed[0].refusal is None and parsed[0].records == ()


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_feeds_tables_that_there_are(name):
    landing_format = FORMATS[name]
    assert landing_format.name == name
    assert set(landing_format.tables) <= TABLES.keys()
    assert landing_format.releases and landing_format.patterns


def test_every_format_belongs_to_one_side():
    assert sorted(formats_of("producer") + formats_of("consumer")) == sorted(FORMATS)
