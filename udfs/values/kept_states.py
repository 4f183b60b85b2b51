"""Kept states as text: JSON without blanks, names sorted, so that equal states are equal texts.

What is carried over a date's end says by its type hints how it is written: a class that is ``Kept`` as its fields by
name, a tuple as a list, a set sorted. What is kept by tuples becomes rows in their order, each the key's parts, then
the value, a tuple's parts by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, Self, get_args, get_origin, get_type_hints

import orjson


def state_text(state: Any) -> str:
    """A state of JSON values, tuples of any kind among them, as text."""
    return orjson.dumps(state, _plain, orjson.OPT_SORT_KEYS).decode()


def state_of(text: str) -> Any:
    """What ``state_text`` wrote: tuples are lists."""
    return orjson.loads(text)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


class Kept:
    """A dataclass whose fields are carried over, those excepted that ``init`` leaves out or that begin with ``_``."""

    def to_state(self) -> dict[str, Any]:
        """As JSON values, in an order that equal ones share."""
        own: Any = type(self)
        state: dict[str, Any] = _of_fields(own).write(self)
        return state

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Self:
        """What ``to_state`` wrote; what states of earlier releases lack is as it is by default."""
        own: Any = cls
        made: Self = _of_fields(own).read(state)
        return made


class Form(NamedTuple):
    """How values of a type are written as JSON values, and read from these."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


_AS_IT_IS = Form(lambda value: value, lambda value: value)


@cache
def form_of(shape: Any) -> Form:
    """The form of a type, as a type hint has it."""
    origin, args = get_origin(shape), get_args(shape)
    if isinstance(shape, UnionType):
        write, read = form_of(args[0])  # or None
        return Form(
            lambda value: None if value is None else write(value), lambda state: None if state is None else read(state)
        )
    if hasattr(shape, "of_state"):
        return Form(shape.to_state, shape.of_state)
    if hasattr(shape, "_fields") or (origin is tuple and ... not in args):
        return _of_parts(shape)
    if origin in (list, tuple, frozenset):
        write, read = form_of(args[0])
        order = sorted if origin is frozenset else list
        return Form(lambda values: list(map(write, order(values))), lambda values: origin(map(read, values)))
    if origin in (dict, Mapping):
        return _by_names(args[1]) if args[0] is str else _by_tuples(*args)
    is_plain = not is_dataclass(shape)
    return _AS_IT_IS if is_plain else _of_fields(shape)


def _of_parts(shape: Any) -> Form:
    """A tuple of parts of their own types; of a named one that was written with fewer fields the others are usual."""
    make = (lambda parts: shape(*parts)) if hasattr(shape, "_fields") else tuple
    forms = [form_of(part) for part in _parts_of(shape)]
    if all(form is _AS_IT_IS for form in forms):
        return Form(_AS_IT_IS.write, make)
    return Form(
        lambda value: [form.write(part) for form, part in zip(forms, value, strict=True)],
        lambda state: make([form.read(part) for form, part in zip(forms, state, strict=False)]),
    )


def _parts_of(shape: Any) -> Sequence[Any]:
    return [*get_type_hints(shape).values()] if hasattr(shape, "_fields") else get_args(shape)


def _by_names(of: Any) -> Form:
    write, read = form_of(of)
    return Form(
        lambda values: {name: write(value) for name, value in values.items()},
        lambda state: {name: read(value) for name, value in state.items()},
    )


def _by_tuples(key: Any, of: Any) -> Form:
    """Rows."""
    (_, key_of), (write, read), size = _of_parts(key), form_of(of), len(_parts_of(key))
    has_parts = hasattr(of, "_fields") or get_origin(of) is tuple
    return Form(
        lambda values: [[*name, *(write(of) if has_parts else (write(of),))] for name, of in sorted(values.items())],
        lambda rows: {key_of(row[:size]): read(row[size:] if has_parts else row[size]) for row in rows},
    )


@cache
def _of_fields(shape: Any) -> Form:
    hints = get_type_hints(shape)
    names = [one.name for one in fields(shape) if one.init and not one.name.startswith("_")]
    forms = {name: form_of(hints[name]) for name in names}
    return Form(
        lambda value: {name: form.write(getattr(value, name)) for name, form in forms.items()},
        lambda state: shape(**{name: form.read(state[name]) for name, form in forms.items() if name in state}),
    )
