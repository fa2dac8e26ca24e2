"""How the objects of a class look as JSON: `Shape` says what differs from their own fields, and `columns_of` names the fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar


Source: TypeAlias = str | Callable[[Any, float], Any]

_T = TypeVar("_T")
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


class ShapeField(NamedTuple):
    """One field of a shape.

    Attributes:
        name: in JSON.
        source: where its value comes from; an attribute if it is a text.
        is_time: whether the value is seconds since 1970, or an object of such values.
        is_optional: whether an empty text becomes null.
    """

    name: str
    source: Source
    is_time: bool
    is_optional: bool


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


def columns_of(kind: type, shape: Shape) -> tuple[ShapeField, ...]:
    """The fields of a shape, in their order."""
    shown = {source: name for name, source in shape.plus.items() if isinstance(source, str)}
    left_out = {*shape.without, *(("path", "key") if shape.path is not None else ())}
    sources: dict[str, Source] = {"kind": lambda _item, _now: shape.kind} if shape.kind else {}
    for name in _own_fields(kind):
        if name not in left_out:
            sources.setdefault(shown.get(name, name), name)
    sources |= shape.plus
    return tuple(
        ShapeField(name, source, _is_time(name), name in shape.or_null) for name, source in sources.items()
    )


def _own_fields(kind: type) -> list[str]:
    """The public fields of a model or a dataclass; none of another class, whose shape names them all."""
    if (known := getattr(kind, "model_fields", None)) is not None:
        return [name for name, info in known.items() if not info.exclude]
    names = [item.name for item in fields(kind)] if is_dataclass(kind) else []
    return [name for name in names if not name.startswith("_")]


def _is_time(name: str) -> bool:
    return name in _TIMES or name.endswith("_at")
