"""Where a search over everything may find something."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from sense_memory.errors import InvalidInput
from sense_memory.search.hits import Kind


class Scope(NamedTuple):
    """What a search may find.

    Attributes:
        within: kinds.
        since: only what was first written then or later, seconds since 1970; None for all.
        source: only persona memories that came from there; None for all.
    """

    within: frozenset[Kind]
    since: float | None = None
    source: str | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.since is None and self.source is None and len(self.within) == len(Kind)

    def is_from(self, source: str) -> bool:
        """Whether a persona memory of this source may be found; `tool` stands for every `tool:<name>`."""
        return self.source is None or source == self.source or source.startswith(f"{self.source}:")


def scope(within: Any, since: Any, source: Any) -> Scope:
    """What a caller wants to find, checked.

    Raises:
        InvalidInput: no such kind, no time, or no source.
    """
    names = (within,) if isinstance(within, str) else within
    try:
        kinds = frozenset(Kind(name) for name in names)
    except (TypeError, ValueError):
        kinds = frozenset()
    if not kinds:
        raise InvalidInput(f"within must name some of {', '.join(Kind)}")
    if since is not None and (type(since) not in {int, float} or math.isnan(since)):
        raise InvalidInput("since must be a time, in seconds since 1970")
    if source is not None and not isinstance(source, str):
        raise InvalidInput("a source must be text")
    return Scope(kinds, since, source)
