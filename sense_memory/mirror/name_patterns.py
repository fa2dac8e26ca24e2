"""Which names in a folder are mirrored, and which may be written at all. Pure."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from sense_memory.plain_text import is_unicode


if TYPE_CHECKING:
    from collections.abc import Sequence

OURS: Final = ".sense-memory-"  # how the names of our temporary files begin
_NEVER: Final = frozenset({".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv"})
_TEMPORARY: Final = ("~", ".swp", ".swx", ".tmp", ".part", ".crdownload")
_CONTROL: Final = frozenset(map(chr, (*range(32), 127)))
_WINDOWS: Final = frozenset('<>:"|?*')


class Patterns:
    """Which names are mirrored.

    A pattern is compared part by part: `*.md` means files directly in the folder, `**/*.md` all of them. Hidden names are
    meant only by a pattern that begins the part with a dot; `.git` and the like, and temporary files, never.

    Args:
        only: the patterns; none for all names.
    """

    def __init__(self, only: Sequence[str] = ()) -> None:
        self._only = [tuple(pattern.strip("/").split("/")) for pattern in only] or [("**",)]

    def holds(self, name: str) -> bool:
        """Whether a name is mirrored."""
        parts = tuple(name.split("/"))
        return is_plain_name(name) and any(_matches(parts, pattern) for pattern in self._only)

    def reach(self, folder: str) -> bool:
        """Whether names in a folder may be mirrored."""
        parts = tuple(folder.split("/"))
        return not _NEVER.intersection(parts) and any(_reaches(parts, pattern) for pattern in self._only)


def _part(part: str, pattern: str) -> bool:
    return fnmatchcase(part, pattern) and (not part.startswith(".") or pattern.startswith("."))


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        hidden = next((place for place, part in enumerate(parts) if part.startswith(".")), len(parts))
        skipped = range(min(hidden, len(parts)) + 1)
        return any(_matches(parts[count:], pattern[1:]) for count in skipped)
    return bool(parts) and _part(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _reaches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not parts:
        return bool(pattern)
    if not pattern:
        return False
    if pattern[0] == "**":
        is_hidden = parts[0].startswith(".")
        return (not is_hidden and _reaches(parts[1:], pattern)) or _reaches(parts, pattern[1:])
    return _part(parts[0], pattern[0]) and _reaches(parts[1:], pattern[1:])


def is_plain_name(name: str) -> bool:
    """Whether a name may be written in a folder: relative, without `..`, control characters and what is never mirrored."""
    parts = name.split("/")
    if not is_unicode(name) or len(name.encode()) > 1_000 or _CONTROL.intersection(name) or "\\" in name:
        return False
    if os.name == "nt" and (_WINDOWS.intersection(name) or any(part[-1:] in {" ", "."} for part in parts)):
        return False
    return not any(
        part in {"", ".", ".."}
        or part in _NEVER
        or part.startswith(OURS)
        or part.endswith(_TEMPORARY)
        or len(part.encode()) > 255
        for part in parts
    )
