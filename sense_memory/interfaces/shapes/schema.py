"""The fields of every thing, their types and what they mean, read from annotations and docstrings.

docs/json.md and the OpenAPI document of the HTTP API are made of it.
"""

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
_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "number"}
_TIME: Final = {"type": "string", "format": "date-time"}
_NULL: Final = {"type": "null"}
_ATTRIBUTE: Final = re.compile(r"    ([a-z_]+(?:, [a-z_]+)*): (.*)")


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field of a thing.

    Attributes:
        name: in JSON.
        type: in the words of docs/json.md, such as "list of text".
        meaning: what it says.
        schema: the type as JSON Schema, in which a thing is a reference to `component`.
    """

    name: str
    type: str
    meaning: str
    schema: Mapping[str, Any]


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
            FieldSchema("path", "text", _PATH, _TEXT),
            FieldSchema("key", "text", "the last part of the path", _TEXT),
        ]
    fields = [_field(kind, shape, column) for column in columns_of(kind, shape)]
    return ThingSchema(
        shape.thing, (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " "), (*names, *fields)
    )


def _field(kind: type, shape: Shape, column: ShapeField) -> FieldSchema:
    if column.name == "kind" and shape.kind:
        return FieldSchema("kind", "text", f"always `{shape.kind}`", {"const": shape.kind})
    hint, about = _source(kind, column)
    words = "times" if column.is_time and _is_mapping(hint) else _words(hint)
    if column.is_time:
        words = words.replace("number", "time")
    if column.is_optional and not words.endswith(" or null"):
        words += " or null"
    meaning = _meaning(about or _about(kind).get(column.name, ""), column)
    choices = [choice for choice in _choices(hint) if choice not in meaning]
    schema = json_schema(hint, _TIME if column.is_time else _NUMBER)
    if column.is_optional:
        schema = _any_of([schema, _NULL])
    return FieldSchema(
        column.name, words, f"{meaning} ({', '.join(choices)})" if choices else meaning, schema
    )


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


def json_schema(hint: Any, number: Mapping[str, Any] = _NUMBER) -> Mapping[str, Any]:
    """A type as JSON Schema.

    Args:
        hint: as annotated.
        number: what stands for a number that need not be whole: a time is one.
    """
    origin, given = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if origin is Annotated:
        return json_schema(given[0], number)
    if origin in {Union, types.UnionType}:
        return _any_of([json_schema(item, number) for item in given])
    if origin is Literal:
        return {"type": "string", "enum": list(given)}
    if _is_mapping(hint):
        return {"type": "object", "additionalProperties": json_schema(given[1], number)}
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return {"type": "array", "items": json_schema(given[0], number)}
    return _plain_schema(hint, number)


def _plain_schema(kind: type, number: Mapping[str, Any]) -> Mapping[str, Any]:
    if kind is types.NoneType:
        return _NULL
    if issubclass(kind, Enum):
        return {"type": "string", "enum": [str(choice.value) for choice in kind]}
    if issubclass(kind, bool):
        return {"type": "boolean"}
    if issubclass(kind, int | float):
        return {"type": "integer"} if issubclass(kind, int) and number is _NUMBER else number
    if (shape := declaration(kind)) is not None:
        return {"$ref": f"#/components/schemas/{component(shape.thing)}"}
    return _TEXT


def component(thing: str) -> str:
    """The name of a thing in OpenAPI: `PalaceMemory` for a palace memory."""
    return "".join(word.capitalize() for word in thing.split())


def _any_of(schemas: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    found: list[Mapping[str, Any]] = []
    for schema in schemas:
        found += [item for item in schema.get("anyOf", [schema]) if item not in found]
    return found[0] if len(found) == 1 else {"anyOf": found}


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
