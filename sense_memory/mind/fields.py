"""Fields of records and payloads. Pure.

Another program, or another version of this one, may have written them, so a field of an unexpected type counts as missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from collections.abc import Mapping


def list_in(fields: Mapping[str, Any], name: str) -> list[Any]:
    """A field with a list; empty if it is missing."""
    found = fields.get(name)
    return found if isinstance(found, list) else []


def texts_in(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A field with a list of texts; items of other types are left out."""
    return tuple(item for item in list_in(fields, name) if isinstance(item, str))


def mapping_in(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field with a mapping; empty if it is missing."""
    found = fields.get(name)
    return found if isinstance(found, dict) else {}
