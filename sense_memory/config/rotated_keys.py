"""The files of an agent's keys while one key follows another: `keys/rotation/AGENT.next` and `keys/rotation/AGENT.old`.

Whatever moment a process is killed at, the agent has a key that works, and no key is lost. Files are linked and renamed,
never rewritten: the old key gets its second name before the new key takes its place.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sense_memory.config.key_file import private_folder, sync_folder


if TYPE_CHECKING:
    from pathlib import Path

KEY: Final = ".key"
BUNKER: Final = ".bunker"


class RotationStage(StrEnum):
    """How far a rotation has come."""

    NONE = "none"
    CARRYING = "carrying"  # there is a next key; the old key is in use
    DELETING = "deleting"  # the new key is in use; the old key's events are being deleted


@dataclass(frozen=True, slots=True)
class RotatedKeys:
    """The files of one agent's keys.

    Attributes:
        key_file: the agent's key file, `keys/AGENT.key`; its bunker file lies beside it.
    """

    key_file: Path

    @property
    def stage(self) -> RotationStage:
        """How far a rotation has come."""
        if self.old is not None and self.next is None:
            return RotationStage.DELETING
        return RotationStage.NONE if self.next is None else RotationStage.CARRYING

    @property
    def current(self) -> Path | None:
        """The file in use; a key file comes before a bunker's."""
        return self._existing(self.key_file)

    @property
    def next(self) -> Path | None:
        """The file of the key that follows, while it is not in use."""
        return self._existing(self._named("next"))

    @property
    def old(self) -> Path | None:
        """The file of the key that was given up, while its events are being deleted."""
        return self._existing(self._named("old"))

    def place_of_next(self, suffix: str) -> Path:
        """Where the file of the next key is written; its folder is made."""
        place = self._named("next").with_suffix(suffix)
        private_folder(place.parent)
        return place

    def switch(self) -> None:
        """Use the next key from now on. Repeating it after a kill finishes it."""
        current, following = self.current, self.next
        if following is None or current is None:
            return
        if self.old is None:
            os.link(current, self._named("old").with_suffix(current.suffix))
            sync_folder(self._named("old").parent)
        following.replace(self.key_file.with_suffix(following.suffix))
        if following.suffix != current.suffix:
            current.unlink()
        sync_folder(self.key_file.parent)

    def finish_switch(self) -> None:
        """After a kill within `switch`: remove the old key's first name if the new key lies beside it."""
        old = self.old
        if old is None or self.next is not None:
            return
        for suffix in (KEY, BUNKER):
            path = self.key_file.with_suffix(suffix)
            if path.exists() and path.samefile(old):
                path.unlink()

    def keep_old(self, name: str) -> Path | None:
        """End the rotation: the old key's file gets a name of its own, `AGENT.NAME`; returns it."""
        old = self.old
        if old is None:
            return None
        kept = old.with_name(f"{self.key_file.stem}.{name}{old.suffix}")
        old.replace(kept)
        return kept

    def _named(self, stage: str) -> Path:
        # Not in the folder of the keys: each file there is an agent.
        return self.key_file.parent / "rotation" / f"{self.key_file.stem}.{stage}{KEY}"

    @staticmethod
    def _existing(path: Path) -> Path | None:
        with suppress(OSError):
            return next((found for one in (KEY, BUNKER) if (found := path.with_suffix(one)).exists()), None)
        return None
