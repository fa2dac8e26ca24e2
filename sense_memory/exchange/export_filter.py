"""Which memories an export has: those of a time, with a theme, or whose names begin with a text. Pure.

One meaning for every kind of memory and every format of export:

* The date of a memory is that of `search --since`: when it was first written, which for an imported or backdated memory is
  the date that it brought. For a flat memory, a block and any other record of the mind without such a date, it is when the
  newest version was written.
* Themes are those of palace memories, and the tags and topics of passages of the archive. Nothing else has themes.
* The name is `domain/facet/key`, a flat key, `journal/YYYY-MM-DD`, or the path of a record of the mind; entries of the log
  are under `mind/conversation/ID`, and those of no conversation under `mind/log`.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sense_memory.errors import InvalidInput


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True)
class ExportFilter:
    """The memories that an export has; without any condition, all of them.

    Attributes:
        since: only memories of this time or later, seconds since 1970.
        until: only memories of this time or earlier, seconds since 1970.
        theme: only memories with this theme; case does not matter. Not blank.
        prefix: only memories whose name begins with this text. Not blank.
    """

    since: float | None = None
    until: float | None = None
    theme: str | None = None
    prefix: str | None = None

    def __post_init__(self) -> None:
        """Raise InvalidInput for a blank text, which would give out everything, and if the time ends before it begins."""
        for what, text in (("theme", self.theme), ("prefix", self.prefix)):
            if text is not None and not text.strip():
                raise InvalidInput(
                    f"the {what} is empty; leave it out to export everything; nothing was written"
                )
        if self.since is not None and self.until is not None and self.until < self.since:
            raise InvalidInput("`until` is before `since`; nothing was written")

    def __bool__(self) -> bool:
        """Whether there is any condition."""
        return self != ExportFilter()

    def takes(self, name: str, at: float, themes: Iterable[str]) -> bool:
        """Whether a memory fulfils every condition.

        Args:
            name: its name, as the module says.
            at: its date, seconds since 1970.
            themes: its themes.
        """
        is_named = self.prefix is None or _plain(name).startswith(_plain(self.prefix))
        has_theme = self.theme is None or _folded(self.theme) in map(_folded, themes)
        begins = self.since is None or at >= self.since
        return is_named and has_theme and begins and (self.until is None or at <= self.until)

    def conditions(self, date_text: Callable[[float], object]) -> dict[str, object]:
        """The conditions by name, for the head of an export; empty if there are none.

        Args:
            date_text: how a time is written.
        """
        times = {"since": self.since, "until": self.until}
        found: dict[str, object] = {name: date_text(at) for name, at in times.items() if at is not None}
        texts = {"theme": self.theme, "prefix": self.prefix}
        return found | {name: text for name, text in texts.items() if text is not None}


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _folded(text: str) -> str:
    return _plain(text).casefold()
