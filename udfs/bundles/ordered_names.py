"""Names in, other names out that sort as they do: what RocketMQ's rules decide by the order of names stays decided.

The order is Java's, UTF-16 code units. Some names stay as they are, or are made of others; the new ones stand between
them as the old ones did.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from hindsight.udfs.values.java_strings import java_string_key

# Of what names are made where a plain label would stand at the wrong place.
_LETTERS = "!-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"


class NoNameBetweenError(ValueError):
    """Raised where no name sorts between two that stay."""


def numbered(names: Iterable[str], form: Callable[[str, str], str]) -> dict[str, str]:
    """Each name's new one: ``form`` of it and of its place in their order, digits of one width."""
    ordered = sorted(set(names), key=java_string_key)
    width = max(4, len(str(len(ordered))))
    return {name: form(name, f"{place:0{width}}") for place, name in enumerate(ordered, 1)}


def ordered_names(
    names: Collection[str], fixed: Mapping[str, str], label: str, is_special: Callable[[str], bool] = lambda _: False
) -> dict[str, str]:
    """New names for ``names`` and those of ``fixed``, which have theirs already, that sort as the old ones do.

    A new name is a lead, ``<label>-`` where it may be, and a number. ``is_special``: whether a name means something to
    a rule: no new one does.

    Raises: NoNameBetweenError: two of ``fixed`` leave no room between them, or do not sort as before.
    """
    ordered = sorted({*names, *fixed}, key=java_string_key)
    width = max(4, len(str(len(ordered))))
    found: dict[str, str] = {}
    before: str | None = None
    number = 0
    for stretch, after in _stretches(ordered, fixed):
        if before is not None and after is not None and java_string_key(before) >= java_string_key(after):
            raise NoNameBetweenError(f"{before!r} and {after!r} do not sort as what they stand for.")
        if stretch:
            lead = _lead(before, after, label, is_special)
            for name in stretch:
                number += 1
                found[name] = f"{lead}{number:0{width}}"
        before = after
    return found | dict(fixed)


def _stretches(ordered: list[str], fixed: Mapping[str, str]) -> Iterator[tuple[list[str], str | None]]:
    """The names between those that are fixed, with the new name after them."""
    stretch: list[str] = []
    for name in ordered:
        if name in fixed:
            yield stretch, fixed[name]
            stretch = []
        else:
            stretch.append(name)
    yield stretch, None


def _lead(before: str | None, after: str | None, label: str, is_special: Callable[[str], bool]) -> str:
    for lead in _leads(before or "", label):
        above = before is None or (lead > before and not before.startswith(lead))
        below = after is None or (lead < after and not after.startswith(lead))
        if above and below and not is_special(f"{lead}0"):
            return lead
    raise NoNameBetweenError(f"no name sorts between {before!r} and {after!r}.")


def _leads(before: str, label: str) -> Iterator[str]:
    """What new names may begin with: the plainest first, then what stands ever nearer behind ``before``."""
    yield from (f"{label}-", f"{label.capitalize()}-", f"{label.upper()}-")
    for kept in range(len(before) + 1):
        yield from (f"{before[:kept]}{letter}{label}-" for letter in _LETTERS)
