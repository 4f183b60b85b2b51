"""The search for names in a bundle finds each in every form: one that found nothing would call all bundles clean."""

from __future__ import annotations

import base64
import random
import zipfile
from io import BytesIO
from urllib.parse import quote

import pytest

from tests.bundles.originals import contents, forms, left

NAME = "broker-ä@10.0.0.1"
FORMS = {
    "plain": NAME.encode(),
    "UTF-16": NAME.encode("utf-16-le"),
    "UTF-16, big": NAME.encode("utf-16-be"),
    "percent": quote(NAME, safe="").encode(),
    "hexadecimal": NAME.encode().hex().encode(),
    **{f"base64 at {at}": base64.b64encode(b"xyz"[:at] + NAME.encode() + b"more") for at in range(3)},
}


def packed(entries: dict[str, bytes]) -> bytes:
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return made.getvalue()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_name_is_found_in_each_form(form):
    assert left({NAME, "nobody"}, packed({"clean": b"broker-b", "told": b"..." + form})) == [(NAME, "told")]


def test_a_name_is_found_in_an_entry_s_name_and_an_address_as_numbers():
    file = packed({f"{NAME}.parquet": b"", "rows": b"of 0a000001 and others"})
    assert left({NAME, "10.0.0.1"}, file) == sorted(
        [("10.0.0.1", f"{NAME}.parquet"), ("10.0.0.1", "rows"), (NAME, f"{NAME}.parquet")]
    )


@pytest.mark.parametrize("seed", range(3))
def test_what_is_found_is_what_a_plain_search_finds(seed):
    dice = random.Random(seed)

    def text(length: int) -> str:
        return "".join(dice.choice("ab@:.") for _ in range(length))

    names = {text(dice.randint(4, 7)) for _ in range(300)}
    file = packed({f"entry {n}": text(2_000).encode() for n in range(3)})
    plain = [(n, e) for e, content in contents(file).items() for n in names if any(f in content for f in forms(n))]
    assert left(names, file) == sorted(plain) and 0 < len(plain) < 3 * len(names)
