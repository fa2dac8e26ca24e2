"""From the objects of declared classes to JSON values: `shape_of`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from math import isfinite
from operator import attrgetter
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from sense_memory.interfaces.shapes.shape import DECLARED, Shape, Source, columns_of, names_of
from sense_memory.interfaces.shapes.table import TABLE
from sense_memory.interfaces.text import iso


_PLAIN: Final = frozenset({str, int, bool, type(None)})
_DECIMALS: Final = 6


def shape_of(item: Any, now: float | None = None, *, path: str | None = None) -> Any:
    """The JSON values of a thing, or of things in a list, a tuple or a mapping.

    Args:
        item: a model of the product, or of a door.
        now: the moment whose relevance is shown, seconds since 1970; None for this moment.
        path: the path of a thing that does not know its own, such as a version.

    Raises:
        TypeError: the class has no shape.
    """
    found = _json(item, time.time() if now is None else now)
    return found if path is None else names_of(path) | found


def declaration(kind: type) -> Shape | None:
    """The shape of a class, or of the nearest class that it derives from."""
    for base in kind.__mro__:
        name = f"{base.__module__}.{base.__qualname__}"
        if found := DECLARED.get(name) or TABLE.get(name):
            return found
    return None


class _Plan(NamedTuple):
    """How to read the objects of a class: `fields` has the names in JSON, with what `_reader` gives and two rules."""

    shape: Shape
    path: tuple[Callable[..., Any], bool] | None
    fields: tuple[tuple[str, Callable[..., Any], bool, bool, bool], ...]


@cache
def _plan(kind: type) -> _Plan | None:
    shape = declaration(kind)
    if shape is None:
        return None
    columns = columns_of(kind, shape)
    rows = ((one.name, *_reader(one.source), one.is_time, one.is_optional) for one in columns)
    return _Plan(shape, None if shape.path is None else _reader(shape.path), tuple(rows))


def _reader(source: Source) -> tuple[Callable[..., Any], bool]:
    """What gives a value of an object, and whether it asks for the moment too."""
    return (attrgetter(source), False) if isinstance(source, str) else (source, True)


def _json(value: Any, now: float) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return round(value, _DECIMALS) if isfinite(value) else None
    if kind is tuple or kind is list:
        return _list(value, now)
    if (plan := _plan(kind)) is not None:  # type: ignore[arg-type]  # mypy does not know that classes are hashable
        return _object(value, now, plan)
    if isinstance(value, Enum):
        return _json(value.value, now)
    if isinstance(value, Mapping):
        return {str(name): _json(item, now) for name, item in value.items()}
    if isinstance(value, str | PurePath | BaseException):  # such as a text that carries more
        return str(value)
    if not isinstance(value, list | tuple | set | frozenset | Iterator):
        raise TypeError(f"{kind.__name__} has no shape: declare it, see sense_memory.interfaces.shapes")
    return _list(value, now)


def _object(value: Any, now: float, plan: _Plan) -> Any:
    if plan.shape.view is not None:
        return _json(plan.shape.view(value), now)
    found = {}
    if plan.path is not None:
        read, asks = plan.path
        found = names_of(read(value, now) if asks else read(value))
    for name, read, asks, is_time, is_optional in plan.fields:
        item = read(value, now) if asks else read(value)
        if is_time:
            item = _times(item)
        elif is_optional:
            item = item or None
        elif type(item) not in _PLAIN:  # most are: this is half of the time of a long list
            item = _json(item, now)
        found[name] = item
    return found


def _list(items: Iterable[Any], now: float) -> list[Any]:
    return [item if type(item) in _PLAIN else _json(item, now) for item in items]


def _times(value: Any) -> Any:
    return {name: iso(at) for name, at in value.items()} if isinstance(value, Mapping) else iso(value)
