"""Edits the text of a configuration file: JSON, JSON with comments, JSON5, or TOML.

Guaranteed: only the entry that is named is put in or taken out. Every other character stays, with the comments, the
order, the indentation, the line ends and the trailing commas. It is safe because each result is parsed again, and
compared with what the old text and the edit must give, before it is returned; a text that is malformed, or written in
a form that the edit would disturb, is refused. Taking an entry out undoes putting it in, but for blanks in an object
that was empty. A text is read three times for an edit, which takes some 0.1 s for a megabyte.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sense_memory.config.config_file import toml_place
from sense_memory.errors import InvalidInput


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_DEPTH: Final = 100  # nested objects and arrays of a file
_MISSING: Final = object()
_is_blank = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL).match
_is_word = re.compile(r"[\w$.+-]+").match
_is_string = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL).match
_WORDS: Final = {"true": True, "false": False, "null": None}
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL)


# ── JSON: reading ───────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Child:
    """A member of an object or an item of an array: where it begins (its key, if it has one) and its comma, if any."""

    start: int
    node: _Node
    comma: int | None = None


@dataclass(slots=True)
class _Node:
    """A value and where it stands in the text; `children` by key, or by number."""

    start: int
    value: Any
    end: int = 0
    children: dict[Any, _Child] = field(default_factory=dict)


class _Reader:
    """Reads JSON5, which includes JSON and JSON with comments; a repeated key counts where it stands last."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def whole(self) -> _Node:
        self._skip()
        node = self._value(0)
        self._skip()
        if self.at < len(self.text):
            raise self._wrong("more follows after its end")
        return node

    def _skip(self) -> None:
        found = _is_blank(self.text, self.at)
        self.at = found.end() if found else self.at

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _value(self, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            raise self._wrong(f"it is nested more than {MAX_DEPTH} deep")
        char, start = self._peek(), self.at
        if char == "{":
            return self._container(_Node(start, {}), "}", depth)
        if char == "[":
            return self._container(_Node(start, []), "]", depth)
        value = self._text() if char in {'"', "'"} else self._word()
        return _Node(start, value, self.at)

    def _container(self, node: _Node, close: str, depth: int) -> _Node:
        self.at += 1
        self._skip()
        while self._peek() != close:
            start = self.at
            key = self._key() if close == "}" else len(node.children)
            child = _Child(start, self._value(depth + 1))
            if close == "}":
                node.value[key] = child.node.value
            else:
                node.value.append(child.node.value)
            node.children.pop(key, None)
            node.children[key] = child
            self._skip()
            if self._peek() == ",":
                child.comma = self.at
                self.at += 1
                self._skip()
            elif self._peek() != close:
                raise self._wrong(f"a comma or {close} is missing")
        self.at += 1
        node.end = self.at
        return node

    def _key(self) -> str:
        key = self._text() if self._peek() in {'"', "'"} else self._bare()
        self._skip()
        if self._peek() != ":":
            raise self._wrong("a colon is missing")
        self.at += 1
        self._skip()
        return key

    def _text(self) -> str:
        found = _is_string(self.text, self.at)
        if found is None:
            raise self._wrong("a string does not end")
        self.at = found.end()
        return _ESCAPED.sub(_unescaped, found[0][1:-1])

    def _bare(self) -> str:
        found = _is_word(self.text, self.at)
        if found is None:
            raise self._wrong("a value is missing" if self._peek() else "it ends too early")
        self.at = found.end()
        return found[0]

    def _word(self) -> Any:
        start = self.at
        word = self._bare()
        if word in _WORDS:
            return _WORDS[word]
        try:
            return int(word, 0) if re.fullmatch(r"[+-]?(0[xX][\da-fA-F]+|\d{1,4000})", word) else float(word)
        except ValueError:
            self.at = start
            raise self._wrong("a value is neither a string, a number, true, false nor null") from None

    def _wrong(self, problem: str) -> InvalidInput:
        line = self.text.count("\n", 0, self.at) + 1
        return InvalidInput(f"is not JSON: line {line}, {problem}")


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "ux" and len(code) > 1:
        return chr(int(code[1:], 16))
    return "" if code in {"\n", "\r\n"} else _ESCAPES.get(code, code)


def json_value(text: str) -> Any:
    """The plain value of a JSON, JSONC or JSON5 text; an empty object for a blank text.

    Raises:
        InvalidInput: the text is malformed; the error names the line.
    """
    return _Reader(text).whole().value if text.strip("\ufeff \t\r\n") else {}


# ── JSON: writing ───────────────────────────────────────────────────────────────────────


def json_set(text: str, path: Sequence[str], value: Any) -> str:
    """Set a member of nested objects, which are made where they are missing.

    Args:
        text: of the file; may be blank.
        path: the keys from the outermost object.
        value: plain JSON.

    Raises:
        InvalidInput: the text is malformed, or something on the path is not an object.
    """
    if not text.strip("\ufeff \t\r\n"):
        return text + json.dumps(_nested(path, value), indent=2, ensure_ascii=False) + "\n"
    root = _Reader(text).whole()
    node, depth = root, 0
    while depth < len(path) and path[depth] in node.children:
        node, depth = node.children[path[depth]].node, depth + 1
    if depth == len(path):
        if node.value == value:
            return text
        new = _rendered(value, _indent_at(text, node.start), text)
        return _checked(text[: node.start] + new + text[node.end :], _with(root.value, path, value))
    _require(isinstance(node.value, dict), path[:depth])
    new = f"{json.dumps(path[depth], ensure_ascii=False)}: "
    wanted = _with(root.value, path, value)
    return _checked(_inserted(text, node, new, _nested(path[depth + 1 :], value)), wanted)


def json_append(text: str, path: Sequence[str], value: Any) -> str:
    """Append an item to an array, which is made where it is missing; the rest as `json_set`."""
    found = _at(json_value(text), path)
    if found is _MISSING:
        return json_set(text, path, [value])
    _require(isinstance(found, list), path)
    root = _Reader(text).whole()
    wanted = _with(root.value, path, [*found, value])
    return _checked(_inserted(text, _node_at(root, path), "", value), wanted)


def json_remove(text: str, path: Sequence[str | int], *, with_empty: bool = True) -> str:
    """Take out a member or an item, and with it the objects and arrays on its path that become empty.

    Args:
        text: of the file.
        path: keys, and numbers of items; it must exist.
        with_empty: whether what becomes empty, without a comment, is taken out too; the outermost object never is.
    """
    root = _Reader(text).whole()
    wanted = copy.deepcopy(root.value)
    del _at(wanted, path[:-1])[path[-1]]
    text = _checked(_without(text, _node_at(root, path[:-1]), path[-1]), wanted)
    if not with_empty or len(path) == 1:
        return text
    parent = _node_at(_Reader(text).whole(), path[:-1])
    is_empty = not text[parent.start + 1 : parent.end - 1].strip()
    return json_remove(text, path[:-1]) if is_empty else text


def _inserted(text: str, node: _Node, key: str, value: Any) -> str:
    """The text with one more child at the end of an object or array."""
    inner = text[node.start + 1 : node.end - 1]
    tail = node.start + 1 + len(inner.rstrip())
    last = next(reversed(node.children.values()), None)
    if last is not None and "\n" not in text[node.start : last.start]:  # all on one line
        new = key + json.dumps(value, ensure_ascii=False)
        if last.comma is not None:
            return f"{text[: last.comma + 1]} {new},{text[last.comma + 1 :]}"
        return f"{text[: last.node.end]}, {new}{text[last.node.end :]}"
    outer = _indent_at(text, node.start)
    indent = _indent_at(text, last.start) if last else outer + _unit(text)
    line = "\r\n" if "\r\n" in text else "\n"
    new = line + indent + key + _rendered(value, indent, text)
    if last is None:
        rest = text[tail:] if "\n" in text[tail : node.end - 1] else line + outer + text[node.end - 1 :]
        return text[:tail] + new + rest
    if last.comma is not None:
        return f"{text[:tail]}{new},{text[tail:]}"
    return f"{text[: last.node.end]},{text[last.node.end : tail]}{new}{text[tail:]}"


def _without(text: str, node: _Node, key: str | int) -> str:
    """The text without one child, its comma, and the blanks before it."""
    children = list(node.children.values())
    child = node.children[key]
    place = next(number for number, other in enumerate(children) if other is child)
    start = len(text[: child.start].rstrip())
    end = child.node.end if child.comma is None else child.comma + 1
    if len(children) == 1:
        left = text[node.start + 1 : start] + text[end : node.end - 1]
        if not left.strip():
            return text[: node.start + 1] + text[node.end - 1 :]
    before = children[place - 1].comma if place else None
    if child.comma is None and before is not None:  # the last one of a style without a trailing comma
        return text[:before] + text[before + 1 : start] + text[end:]
    return text[:start] + text[end:]


def _rendered(value: Any, indent: str, text: str) -> str:
    """A value in the style of a text, for a line that begins with `indent`."""
    unit = _unit(text)
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return (("\r\n" if "\r\n" in text else "\n") + indent).join(lines)


def _unit(text: str) -> str:
    """The blanks of one level of indentation."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _indent_at(text: str, place: int) -> str:
    """The blanks at the beginning of the line of a place."""
    found = re.compile(r"[ \t]*").match(text, text.rfind("\n", 0, place) + 1)
    return found[0] if found else ""


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _at(value: Any, path: Sequence[str | int]) -> Any:
    """The part of a plain value at a path, or `_MISSING`."""
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return value


def _node_at(node: _Node, path: Sequence[str | int]) -> _Node:
    for key in path:
        node = node.children[key].node
    return node


def _with(value: Any, path: Sequence[str], new: Any) -> Any:
    """A copy of a plain value with a part set."""
    found = copy.deepcopy(value)
    inner = found
    for number, key in enumerate(path[:-1]):
        inner = inner.setdefault(key, {})
        _require(isinstance(inner, dict), path[: number + 1])
    inner[path[-1]] = new
    return found


def _require(is_right: bool, path: Sequence[str]) -> None:
    if not is_right:
        where = ".".join(path)
        raise InvalidInput(f"has something else at {where or 'its top'} than it must have there")


def _checked(text: str, wanted: Any) -> str:
    if json_value(text) != wanted:
        raise InvalidInput("is written in a form that cannot be edited safely; edit it by hand")
    return text


# ── TOML ────────────────────────────────────────────────────────────────────────────────


def toml_value(text: str) -> dict[str, Any]:
    """The plain value of a TOML text.

    Raises:
        InvalidInput: the text is malformed; the error names the line.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except ValueError as error:
        raise InvalidInput(f"is not TOML: see {toml_place(error)}") from None
    except RecursionError:
        raise InvalidInput("is not TOML: it is nested too deep") from None


def toml_set(text: str, path: Sequence[str], table: Mapping[str, Any]) -> str:
    """Set a table, at the end of the text or in the place of the old one.

    Args:
        text: of the file; may be blank.
        path: the keys of the table.
        table: texts, lists of texts, and tables of texts.

    Raises:
        InvalidInput: the text is malformed, or its table stands in a form that cannot be replaced safely.
    """
    old = toml_value(text)
    wanted = _with(old, path, dict(table))
    if wanted == old:
        return text
    block = toml_block(path, table)
    if _at(old, path) is not _MISSING:
        start, end = _toml_span(text, path)
        return _checked_toml(text[:start] + block + text[end:], wanted)
    gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    return _checked_toml(text + gap + block, wanted)


def toml_remove(text: str, path: Sequence[str]) -> str:
    """Take out a table, with the blank line before it; errors as `toml_set`."""
    wanted = toml_value(text)
    del _at(wanted, path[:-1])[path[-1]]
    start, end = _toml_span(text, path)
    before = text[:start].removesuffix("\n") if text[:start].endswith("\n\n") else text[:start]
    left = before + text[end:]
    if not _at(wanted, path[:-1]) and _at(toml_value(left), path[:-1]) is _MISSING:
        del _at(wanted, path[:-2])[path[-2]]
    return _checked_toml(left, wanted)


def toml_block(path: Sequence[str], table: Mapping[str, Any]) -> str:
    """A table as `toml_set` writes it."""
    name = ".".join(path)
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = [f"[{name}]", *(f"{key} = {_toml_text(value)}" for key, value in plain.items())]
    for key, value in table.items():
        if isinstance(value, dict) and value:
            lines += [
                "",
                f"[{name}.{key}]",
                *(f"{inner} = {_toml_text(text)}" for inner, text in value.items()),
            ]
    return "\n".join((*lines, ""))


def _toml_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_span(text: str, path: Sequence[str]) -> tuple[int, int]:
    """Where a table and the tables in it stand. A text search, which an unusual file can mislead: check the result."""
    parts = r"\s*\.\s*".join(rf"(?:{re.escape(part)}|[\"']{re.escape(part)}[\"'])" for part in path)
    head = re.compile(rf"^[ \t]*\[\s*{parts}\s*(?:\.[^\]\n]*)?\][^\n]*\n?", re.MULTILINE)
    first = head.search(text)
    if first is None:
        raise InvalidInput(f"has {'.'.join(path)} in a form that cannot be edited safely; edit it by hand")
    end = first.end()
    for line in re.compile(r"[^\n]*\n?").finditer(text, first.end()):
        if line[0].lstrip().startswith("[") and not head.match(line[0]):
            break
        if line[0].strip() and not line[0].lstrip().startswith("#"):
            end = line.end()
    return first.start(), end


def _checked_toml(text: str, wanted: Any) -> str:
    if toml_value(text) != wanted:
        raise InvalidInput("is written in a form that cannot be edited safely; edit it by hand")
    return text
