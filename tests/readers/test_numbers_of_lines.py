"""Whole numbers of JSON lines, at the bounds of the types that hold them in Java."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.udfs.lines.parsed_line import (
    RefusedLineError,
    int32,
    json_object,
    optional_int32,
    optional_number,
    whole_number,
)

READERS = {whole_number: 64, optional_number: 64, int32: 32, optional_int32: 32}


def around(bits):
    """Numbers of every size, those at the bounds of a type often."""
    bounds = st.sampled_from([-(2 ** (bits - 1)), 2 ** (bits - 1)])
    return st.one_of(st.integers(-(2**66), 2**66), bounds.flatmap(near))


def near(number):
    return st.integers(number - 3, number + 3)


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@given(st.data())
def test_a_number_is_read_as_it_is_written_or_out_of_range(read, data):
    bits = READERS[read]
    number = data.draw(around(bits))
    fields = json_object(f'{{"n":{number}}}')
    if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        assert read(fields, "n") == number
    else:
        with pytest.raises(RefusedLineError) as refused:
            read(fields, "n")
        assert refused.value.refusal.code == "OUT_OF_RANGE"


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@pytest.mark.parametrize("text", ["1.5", "1e3", "true", '"7"', "[1]", "9e17"])
def test_what_is_no_whole_number_is_of_a_wrong_type(read, text):
    with pytest.raises(RefusedLineError) as refused:
        read(json_object(f'{{"n":{text}}}'), "n")
    assert refused.value.refusal.code == "WRONG_TYPE"
