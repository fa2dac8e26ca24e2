"""From a declared object to JSON values: `Shape` says what differs from the object's own fields, `shape_of` converts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar

from sense_memory.interfaces.text import iso


Source: TypeAlias = str | Callable[[Any, float], Any]

_T = TypeVar("_T")
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_DECIMALS: Final = 6
_TIMES: Final = frozenset(
    {
        "at",
        "begins",
        "dated_ahead",
        "last_accessed",
        "last_complete",
        "last_reinforced",
        "last_sync",
        "since",
    }
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How the objects of one class look as JSON: their public fields, with these exceptions.

    Attributes:
        thing: what docs/json.md calls such an object.
        path: where its path comes from; the fields `path` and `key` are made of it and come first.
        kind: a value of the field `kind` that is the same for all of them; empty for no such field.
        plus: more fields by name: the attribute that has the value, with dots for an attribute of an attribute, or a
            function of the object and the moment (seconds since 1970). A field of the class under another name is renamed.
        without: fields of the class that are not shown.
        or_null: fields whose empty text means that there is none: null.
        view: makes the object that is shown instead.
        is_named: whether the caller of `shape_of` has to give its path.
    """

    thing: str
    path: Source | None = None
    kind: str = ""
    plus: Mapping[str, Source] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    or_null: tuple[str, ...] = ()
    view: Callable[[Any], Any] | None = None
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a shape.

    Attributes:
        name: in JSON.
        source: where its value comes from; an attribute if it is a text.
        read: gives the value of an object at a moment.
        is_time: whether the value is seconds since 1970, or an object of such values.
        is_optional: whether an empty text becomes null.
    """

    name: str
    source: Source
    read: Callable[[Any, float], Any]
    is_time: bool
    is_optional: bool


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


def shown_path(path: str) -> str:
    """A path as the doors name it, without the prefix of the palace."""
    from sense_memory.nostr.address import persona_name

    return persona_name(path)


def names_of(path: str) -> dict[str, Any]:
    """The names of a memory: its path, and the key at the end of the path."""
    shown = shown_path(path)
    return {"path": shown, "key": shown.rpartition("/")[2]}


def thing(name: str, **exceptions: Any) -> Callable[[type[_T]], type[_T]]:
    """Declares a class of a door as a thing with a shape; `exceptions` are attributes of `Shape`."""

    def declare(kind: type[_T]) -> type[_T]:
        DECLARED[f"{kind.__module__}.{kind.__qualname__}"] = Shape(name, **exceptions)
        return kind

    return declare


DECLARED: Final[dict[str, Shape]] = {}  # by the full name of the class, those of `thing`


def declaration(kind: type) -> Shape | None:
    """The shape of a class, or of the nearest class that it derives from."""
    from sense_memory.interfaces.shapes.table import TABLE

    for base in kind.__mro__:
        name = f"{base.__module__}.{base.__qualname__}"
        if found := DECLARED.get(name) or TABLE.get(name):
            return found
    return None


def columns_of(kind: type, shape: Shape) -> tuple[Column, ...]:
    """The fields of a shape, in their order."""
    shown = {source: name for name, source in shape.plus.items() if isinstance(source, str)}
    left_out = {*shape.without, *(("path", "key") if shape.path is not None else ())}
    sources: dict[str, Source] = {"kind": lambda _item, _now: shape.kind} if shape.kind else {}
    for name in _own_fields(kind):
        if name not in left_out:
            sources.setdefault(shown.get(name, name), name)
    sources |= shape.plus
    return tuple(
        Column(name, source, _reader(source), _is_time(name), name in shape.or_null)
        for name, source in sources.items()
    )


def _own_fields(kind: type) -> list[str]:
    """The public fields of a model or a dataclass; none of another class, whose shape names them all."""
    if (known := getattr(kind, "model_fields", None)) is not None:
        return [name for name, info in known.items() if not info.exclude]
    names = [item.name for item in fields(kind)] if is_dataclass(kind) else []
    return [name for name in names if not name.startswith("_")]


def _is_time(name: str) -> bool:
    return name in _TIMES or name.endswith("_at")


def _reader(source: Source) -> Callable[[Any, float], Any]:
    if not isinstance(source, str):
        return source
    get = attrgetter(source)
    return lambda item, _now: get(item)


@cache
def _plan(kind: type) -> tuple[Shape, Callable[[Any, float], Any] | None, tuple[Column, ...]] | None:
    shape = declaration(kind)
    if shape is None:
        return None
    return shape, None if shape.path is None else _reader(shape.path), columns_of(kind, shape)


def _json(value: Any, now: float) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return round(value, _DECIMALS) if isfinite(value) else None
    if (plan := _plan(kind)) is not None:  # type: ignore[arg-type]  # mypy does not know that classes are hashable
        return _object(value, now, *plan)
    if isinstance(value, Enum):
        return _json(value.value, now)
    if isinstance(value, Mapping):
        return {str(name): _json(item, now) for name, item in value.items()}
    if is_dataclass(kind) or hasattr(kind, "model_fields"):
        raise TypeError(f"{kind.__name__} has no shape: declare it, see sense_memory.interfaces.shapes")
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_json(item, now) for item in value]
    return str(value)  # a path of a file, an error, a text that carries more


def _object(
    value: Any,
    now: float,
    shape: Shape,
    path: Callable[[Any, float], Any] | None,
    columns: tuple[Column, ...],
) -> Any:
    if shape.view is not None:
        return _json(shape.view(value), now)
    found = {} if path is None else names_of(path(value, now))
    for column in columns:
        item = column.read(value, now)
        if column.is_time:
            found[column.name] = _times(item)
        else:
            found[column.name] = (item or None) if column.is_optional else _json(item, now)
    return found


def _times(value: Any) -> Any:
    return {name: iso(at) for name, at in value.items()} if isinstance(value, Mapping) else iso(value)
