"""The fields of every thing, their types and what they mean, read from annotations and docstrings: docs/json.md is made of it."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from sense_memory.interfaces.shapes.conversion import declaration
from sense_memory.interfaces.shapes.shape import DECLARED, Shape, ShapeField, columns_of
from sense_memory.interfaces.shapes.table import TABLE


_SECONDS: Final = re.compile(r",? (?:in )?seconds since 1970")
_PATH: Final = "how the doors name it: `user_timezone`, `people/facts/lisa`, or `journal/` and the entry's id"
_RUN_TIME: Final = {"Any": Any, "Mapping": Mapping}
_ATTRIBUTE: Final = re.compile(r"    ([a-z_]+(?:, [a-z_]+)*): (.*)")


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field of a thing.

    Attributes:
        name: in JSON.
        type: in the words of docs/json.md, such as "list of text".
        meaning: what it says.
    """

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ThingSchema:
    """A thing and its fields.

    Attributes:
        name: what docs/json.md calls it.
        summary: what it is.
        fields: in their order.
    """

    name: str
    summary: str
    fields: tuple[FieldSchema, ...]


def things() -> list[ThingSchema]:
    """Every declared thing of this package, in the order of the declarations."""
    own = {name: shape for name, shape in (TABLE | DECLARED).items() if name.startswith("sense_memory.")}
    return [_thing(_class(name), shape) for name, shape in own.items() if shape.view is None]


def _class(name: str) -> type:
    module, _, kind = name.rpartition(".")
    found: type = getattr(import_module(module), kind)
    return found


def _thing(kind: type, shape: Shape) -> ThingSchema:
    names = []
    if shape.path is not None or shape.is_named:
        names = [
            FieldSchema("path", "text", _PATH),
            FieldSchema("key", "text", "the last part of the path"),
        ]
    fields = [_field(kind, shape, column) for column in columns_of(kind, shape)]
    return ThingSchema(
        shape.thing, (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " "), (*names, *fields)
    )


def _field(kind: type, shape: Shape, column: ShapeField) -> FieldSchema:
    if column.name == "kind" and shape.kind:
        return FieldSchema("kind", "text", f"always `{shape.kind}`")
    hint, about = _source(kind, column)
    words = "times" if column.is_time and _is_mapping(hint) else _words(hint)
    if column.is_time:
        words = words.replace("number", "time")
    if column.is_optional and not words.endswith(" or null"):
        words += " or null"
    meaning = _meaning(about or _about(kind).get(column.name, ""), column)
    choices = [choice for choice in _choices(hint) if choice not in meaning]
    return FieldSchema(column.name, words, f"{meaning} ({', '.join(choices)})" if choices else meaning)


def _meaning(text: str, column: ShapeField) -> str:
    """What a docstring says of a field, in the words of JSON."""
    text = " ".join(text.split()).removesuffix(".")
    text = _SECONDS.sub("", text) if column.is_time else text
    text = re.sub(r"\bNone\b" if not column.is_optional else r"\bNone\b|\bempty\b", "null", text)
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _source(kind: type, column: ShapeField) -> tuple[Any, str]:
    """The type of a field, and what the docstring of its attribute or function says."""
    source: Any = column.source
    if not isinstance(source, str):
        function = source.func if isinstance(source, partial) else source
        return _hints(function)["return"], (inspect.getdoc(function) or "")
    *way, name = source.split(".")
    for step in way:
        kind = _hints(kind)[step]
    found = inspect.getattr_static(kind, name, None)
    if isinstance(found, property) and found.fget is not None:
        return _hints(found.fget)["return"], inspect.getdoc(found) or ""
    return _hints(kind)[name], _about(kind).get(name, "")


@cache
def _hints(owner: Any) -> dict[str, Any]:
    """The annotations of a class or a function, those included whose names are imported for type checkers only."""
    names = dict(_RUN_TIME)
    for base in getattr(owner, "__mro__", (owner,)):
        names |= _imported_for_types(base.__module__)
    return get_type_hints(owner, localns=names, include_extras=True)


@cache
def _imported_for_types(module: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    source = inspect.getsource(sys.modules[module]) if module != "builtins" else ""
    blocks = (node for node in ast.parse(source).body if isinstance(node, ast.If))
    nodes = (item for block in blocks for item in ast.walk(block))
    for node in (item for item in nodes if isinstance(item, ast.ImportFrom)):
        for alias in node.names:
            with suppress(ImportError, AttributeError):  # of an extra that is not installed
                found[alias.asname or alias.name] = getattr(import_module(node.module or ""), alias.name)
    return found


def _words(hint: Any) -> str:
    """A type in the words of docs/json.md."""
    origin, given = get_origin(hint), get_args(hint)
    if hint is Any:
        return "value"
    if origin is Annotated:
        return _words(given[0])
    if origin in {Union, types.UnionType}:
        kinds = dict.fromkeys(_words(item) for item in given if item is not types.NoneType)
        return " or ".join((*kinds, *(["null"] if types.NoneType in given else [])))
    if origin is Literal:
        return "text"
    if _is_mapping(hint):
        return {"number": "counts", "text": "texts"}.get(_words(given[1]), "object")
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return f"list of {_words(given[0])}"
    return _word(hint)


def _word(kind: type) -> str:
    if issubclass(kind, bool):
        return "boolean"
    if issubclass(kind, int | float):
        return "number"
    if (shape := declaration(kind)) is not None:
        return shape.thing
    return "text"


def _is_mapping(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _choices(hint: Any) -> list[str]:
    """The values of a field that has few of them."""
    for item in (hint, *get_args(hint)):
        if isinstance(item, type) and issubclass(item, Enum):
            return [str(choice.value) for choice in item]
        if get_origin(item) is Literal:
            return [str(choice) for choice in get_args(item)]
    return []


@cache
def _about(kind: type) -> dict[str, str]:
    """What the docstring of a class, or else of its bases, says of its attributes."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        _, _, listed = (inspect.cleandoc(base.__doc__ or "")).partition("Attributes:\n")
        names: list[str] = []
        for line in listed.split("\n"):
            if match := _ATTRIBUTE.fullmatch(line):
                names = match[1].split(", ")
                found |= dict.fromkeys(names, match[2])
            elif line.startswith("        ") and names:
                found |= {name: f"{found[name]} {line.strip()}" for name in names}
            else:
                names = []
    return found
