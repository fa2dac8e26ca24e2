"""`checked`: a public call refuses arguments that its annotations rule out, with `InvalidInput`, before it does anything.

The store's own calls, whose arguments have rules that no annotation says, are checked by `arguments` instead.

Checked are the types that the calls of the mind have: text, numbers, booleans, functions, mappings, iterables with their
items, and this package's own classes. A text is valid Unicode, and not a list of texts; a number is finite; a truth value
is not a number. An annotation of another type is not checked. The cost is some microseconds for each call.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache, wraps
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from sense_memory.errors import InvalidInput
from sense_memory.plain_text import is_unicode


if TYPE_CHECKING:
    from collections.abc import Callable

_CheckedT = TypeVar("_CheckedT")
# Arguments that count something; None means all where the annotation allows it.
_COUNTS: Final = frozenset(
    {"limit", "n_results", "recalled_count", "every", "identity_every", "arrived", "gone"}
)
_WORDS: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "None": "None",
}
_generic = re.compile(r"(\w+)\[(.*)\]").fullmatch


def checked(kind: _CheckedT, *, but: Collection[str] = ()) -> _CheckedT:
    """Make a function, or each public method of a class, refuse arguments that its annotations rule out.

    Args:
        kind: the function or the class.
        but: methods of the class that check for themselves.
    """
    if not isinstance(kind, type):
        return cast("_CheckedT", _checking(cast("Any", kind)))
    for name, method in list(vars(kind).items()):
        is_checked = name in but or hasattr(method, "__wrapped__")
        if inspect.isfunction(method) and not name.startswith("_") and not is_checked:
            setattr(kind, name, _checking(method))
    return cast("_CheckedT", kind)


def _checking(method: Callable[..., Any]) -> Callable[..., Any]:
    names = list(inspect.signature(method).parameters)
    notes = {name: note for name, note in method.__annotations__.items() if name != "return"}

    def check(given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        for name, value in (*zip(names, given, strict=False), *named.items()):
            if (note := notes.get(name)) is not None:
                _check(method.__name__, name, value, note)

    @wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        check(given, named)
        return method(*given, **named)

    @wraps(method)
    async def awaited(*given: Any, **named: Any) -> Any:
        check(given, named)
        return await method(*given, **named)

    return awaited if inspect.iscoroutinefunction(method) else call


def _check(method: str, name: str, value: object, note: str) -> None:
    if not _fits(value, note):
        if isinstance(value, str) and "str" in _split(note):
            raise InvalidInput(f"{method}: {name} must be valid Unicode")
        wanted = " or ".join(_WORDS.get(part, part) for part in _split(note))
        raise InvalidInput(f"{method}: {name} must be {wanted}, not {type(value).__name__}")
    if name in _COUNTS and isinstance(value, int) and value < 0:
        raise InvalidInput(f"{method}: {name} must be at least 0")


def _fits(value: object, note: str) -> bool:
    return any(_is(value, part) for part in _split(note))


@cache
def _split(note: str) -> tuple[str, ...]:
    """The types of a union.

    >>> _split("Sequence[str | int] | None")
    ('Sequence[str | int]', 'None')
    """
    parts, depth = [""], 0
    for sign in note:
        depth += (sign == "[") - (sign == "]")
        if sign == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return tuple(part.strip() for part in parts)


def _is(value: object, note: str) -> bool:
    """Whether a value has a type that is not a union."""
    if note in _SIMPLE:
        return _SIMPLE[note](value)
    found = _generic(note)
    if found is None:  # a class, by its name, because many are imported for type checkers only
        return note not in _CLASSES or _is_named(type(value), note)
    outer, inner = found.groups()
    if outer == "Callable":
        return callable(value) and not isinstance(value, type)
    if outer == "Mapping":
        return isinstance(value, Mapping) and (inner == "str, Any" or _are(value.keys(), "str"))
    if outer not in _LISTS:
        return True
    # The items of an iterator can be looked at only once, and not here.
    is_list = isinstance(value, _LISTS[outer]) and not isinstance(value, str | bytes | bytearray)
    return is_list and (not isinstance(value, Collection) or _are(value, inner))


def _are(values: Iterable[object], note: str) -> bool:
    if note in _CLASSES:  # each type once: a context is built from ten thousand entries
        return all(_is_named(kind, note) for kind in set(map(type, values)))
    return all(_fits(value, note) for value in values)


def _is_named(kind: type, name: str) -> bool:
    return any(base.__name__ == name for base in kind.__mro__)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and is_unicode(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    """A number as the annotation means it: also a `float64` of numpy, which is a float."""
    return _is_whole(value) or (isinstance(value, float) and isfinite(value))


def _is_model(value: object) -> bool:
    return callable(getattr(value, "answer", None)) and not isinstance(value, type)


_LISTS: Final[Mapping[str, Any]] = {"Iterable": Iterable, "Sequence": Collection, "Collection": Collection}
_CLASSES: Final = frozenset({"Conversation", "LogEntry", "NewEntry", "Passage", "Scene", "SceneState"})
_SIMPLE: Final[Mapping[str, Callable[[object], bool]]] = {
    "None": lambda value: value is None,
    "str": _is_text,
    "int": _is_whole,
    "float": _is_number,
    "bool": lambda value: isinstance(value, bool),
    "LanguageModel": _is_model,
}
