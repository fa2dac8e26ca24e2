"""Names of any depth as names of palace memories, and back: namespaces of LangGraph, and paths of files.

A nested name is a sequence of labels and a name within them: `("users", "123", "memories")` and `"m1"`, or the folders
and the file of `/users/123/memories/m1`. A palace memory has exactly a domain, a facet and a key, of limited length
and without some characters.

Every nested name has one place in the palace, and every place has at most one nested name, so what is written under a
name is found under the same name and under no other:

* The first label is the domain, the name is the key, and the labels between are the facet, joined by dots. A single
  label has the facet ".".
* What a memory's name cannot hold is written as `%XX`, the bytes of its UTF-8: slashes, backslashes, control characters,
  lone surrogates, "%" before two hex digits, "~" in a label and at the beginning of a name, dots within a facet's label
  and after a dot, blanks that stand alone, and all that is not ASCII where Unicode's normal form (NFC) would change it.
  The empty name is "%", and "%" is "%25".
* A domain or a facet that is too long ends in "~", and its rest stands before the key, ended by "~" as well.

`nested_name` proves it: it answers only where `palace_name` leads back to the place that was asked for.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from sense_memory.limits import MAX_NAME_CHARS
from sense_memory.nostr.address import RESERVED_DOMAIN


if TYPE_CHECKING:
    from collections.abc import Sequence

HERE: Final = "."  # the facet of a name with a single label
_EMPTY: Final = "%"
_REST: Final = "~"

_ALWAYS: Final = r"[/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]|%(?=[0-9A-F]{2})|^%$|(?<=\.)\."
_IN_NAME: Final = re.compile(rf"{_ALWAYS}|^~")
_IN_DOMAIN: Final = re.compile(rf"{_ALWAYS}|~")
_IN_FACET: Final = re.compile(rf"{_ALWAYS}|[~.]")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_ESCAPED: Final = re.compile(r"(?:%[0-9A-F]{2})+")


def palace_name(labels: Sequence[str], name: str) -> tuple[str, str, str]:
    """The domain, facet and key of a nested name, which has at least one label; labels are not empty.

    The key may be longer than a memory's key may be; the store refuses it then.
    """
    domain, facet = _domain(labels[0]), ".".join(_escaped(label, _IN_FACET) for label in labels[1:])
    facet, rest = _cut(facet or HERE)
    domain, first = _cut(domain)
    return domain, facet, first + rest + memory_key(name)


def palace_domain(label: str) -> str:
    """The domain of all nested names whose first label this is."""
    return _cut(_domain(label))[0]


def nested_name(domain: str, facet: str, key: str) -> tuple[tuple[str, ...], str] | None:
    """The nested name of a place in the palace; None where the place is that of no nested name."""
    place, rests = (domain, facet, key), []
    for part in (domain, facet):
        rest = ""
        if part.endswith(_REST):
            rest, _, key = key.partition(_REST)
        rests.append(part.removesuffix(_REST) + rest)
    whole, joined = rests
    try:
        labels = (_read(whole), *(_read(label) for label in joined.split(".") if joined != HERE))
    except UnicodeDecodeError:
        return None
    name = nested_key(key)
    return (labels, name) if name is not None and all(labels) and palace_name(labels, name) == place else None


def memory_key(name: str) -> str:
    """The key of a name, as in `palace_name`; also that of a flat memory, whose name has no labels."""
    return _escaped(name, _IN_NAME) if name else _EMPTY


def nested_key(key: str) -> str | None:
    """The name that has this key; None where no name has it."""
    try:
        name = "" if key == _EMPTY else _read(key)
    except UnicodeDecodeError:
        return None
    return name if memory_key(name) == key else None


def _domain(label: str) -> str:
    domain = _escaped(label, _IN_DOMAIN)
    return "%66lat" if domain == RESERVED_DOMAIN else domain


def _cut(part: str) -> tuple[str, str]:
    """A domain or facet that is short enough, and its rest, to stand before the key."""
    if len(part) <= MAX_NAME_CHARS:
        return part, ""
    return part[: MAX_NAME_CHARS - 1] + _REST, part[MAX_NAME_CHARS - 1 :] + _REST


def _escaped(text: str, unusual: re.Pattern[str]) -> str:
    found = unusual.sub(_bytes, text) if text.strip() else "".join(map(_percent, text))
    if not found.isascii() and not unicodedata.is_normalized("NFC", found):
        found = _NOT_ASCII.sub(_bytes, found)
    return found


def _bytes(match: re.Match[str]) -> str:
    return _percent(match[0])


def _percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def _read(text: str) -> str:
    return _ESCAPED.sub(
        lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "surrogatepass"), text
    )
