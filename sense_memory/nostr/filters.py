"""Filters (NIP-01): what a subscription asks for, and whether an event matches."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sense_memory.errors import MalformedFrame
from sense_memory.limits import MAX_SAFE_INTEGER
from sense_memory.nostr.event import is_hex64


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.nostr.event import RawEvent


_tag_field = re.compile(r"#[a-zA-Z]").fullmatch


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter. An event must match every field; None matches anything, and a list matches any of its values.

    Attributes:
        ids: event ids, 64 hex digits each.
        authors: public keys, 64 hex digits each.
        kinds: event kinds.
        tags: values by single-letter tag name, such as {"d": ("sense-memory/x",)}.
        since: earliest created_at, seconds, inclusive.
        until: latest created_at, seconds, inclusive.
        limit: how many stored events the relay may send at most.
    """

    ids: tuple[str, ...] | None = None
    authors: tuple[str, ...] | None = None
    kinds: tuple[int, ...] | None = None
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    since: int | None = None
    until: int | None = None
    limit: int | None = None

    def matches(self, event: RawEvent) -> bool:
        """Whether an event matches every field; `limit` is not considered."""
        return (
            (self.ids is None or event.id in self.ids)
            and (self.authors is None or event.pubkey in self.authors)
            and (self.kinds is None or event.kind in self.kinds)
            and (self.since is None or event.created_at >= self.since)
            and (self.until is None or event.created_at <= self.until)
            and all(
                any(value in values for value in event.tag_values(name)) for name, values in self.tags.items()
            )
        )

    def as_json(self) -> dict[str, Any]:
        """The filter as NIP-01 JSON values; unset fields are absent."""
        plain = {
            "ids": self.ids,
            "authors": self.authors,
            "kinds": self.kinds,
            "since": self.since,
            "until": self.until,
            "limit": self.limit,
        }
        named = {name: value for name, value in plain.items() if value is not None}
        return named | {f"#{name}": values for name, values in self.tags.items()}

    @classmethod
    def parse(cls, value: object) -> Filter:
        """Read a filter from a client's JSON; unknown fields are ignored.

        Raises:
            MalformedFrame: a field has the wrong type or alphabet.
        """
        if not isinstance(value, dict):
            raise MalformedFrame("a filter must be a JSON object")
        tags = {
            name[1:]: _strings(values)
            for name, values in value.items()
            if isinstance(name, str) and _tag_field(name)
        }
        return cls(
            ids=_hexes(value.get("ids")),
            authors=_hexes(value.get("authors")),
            kinds=_integers(value.get("kinds")),
            tags=tags,
            since=_integer(value.get("since")),
            until=_integer(value.get("until")),
            limit=_integer(value.get("limit")),
        )


def _integer(value: object) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= MAX_SAFE_INTEGER:
        raise MalformedFrame("since, until and limit must be plain integers")
    return value


def _integers(value: object) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(
        type(item) is int and 0 <= item <= 65_535 for item in value
    ):
        raise MalformedFrame("kinds must be a list of integers of 0 to 65535")
    return tuple(value)


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise MalformedFrame("ids, authors and tag values must be lists of strings")
    return tuple(value)


def _hexes(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    found = _strings(value)
    if not all(map(is_hex64, found)):
        raise MalformedFrame("ids and authors must be 64 lower-case hex digits")
    return found
