"""The calls of a rotation: what a key owns is carried to another key, and then deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sense_memory.memories import goodbye, rotation
from sense_memory.nostr.keys import npub


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory.memories.goodbye import Goodbye
    from sense_memory.memories.open_store import OpenStore
    from sense_memory.memories.rotation import Carried, KeyLink, ReadBack
    from sense_memory.store.memory_store import MemoryStore


@dataclass(frozen=True, slots=True)
class Rotation:
    """A rotation from the key of one open store to that of another.

    Call `carry`, then `read_back`, and `delete_old` once every relay that matters shows everything. Each call may be
    repeated, also after a kill.

    Attributes:
        old: the store of the key that is given up.
        new: the store of the key that follows, with a ledger of its own.
    """

    old: MemoryStore
    new: MemoryStore

    async def carry(self, progress: Callable[[int], None] | None = None) -> Carried:
        """Seal everything again under the new key, write the link between the keys, and send both to relays.

        The new store goes on in the address mode of the old one; with private addresses, none is the same under both keys.

        Raises:
            LedgerError, SignerError: what was carried before stays; call again.
            NeedsNewerVersion: with private addresses, a newer version wrote a record; update, and call again.
        """
        await self.old.mind.log.flush()
        await self.old.sync()
        old, new = _opened(self.old), _opened(self.new)
        carried = await rotation.carry(old, new, progress)
        await rotation.write_link(old, new, int(self.old.clock()))
        await self.new.sync()
        return carried

    async def read_back(self) -> list[ReadBack]:
        """Ask each relay for everything of the new key."""
        return await rotation.read_back(_opened(self.new))

    async def delete_old(
        self, *, vanish: bool = False, progress: Callable[[int], None] | None = None
    ) -> Goodbye:
        """Forget everything of the old key but the link, here and at the relays; as `MemoryStore.forget_everything`."""
        return await goodbye.erase(
            _opened(self.old), vanish=vanish, progress=progress, spares=rotation.LINK_SLOT
        )


async def rotated_to(store: MemoryStore) -> KeyLink | None:
    """The link by which the key of a store was given up; None if it was not, as far as the ledger knows."""
    return await rotation.read_link(_opened(store))


async def rotation_notice(store: MemoryStore) -> str:
    """What a device whose key was given up elsewhere is told; empty if it was not."""
    link = await rotated_to(store)
    if link is None:
        return ""
    day = datetime.fromtimestamp(link.at, UTC).date().isoformat()
    return (
        f"this key was given up on {day}: its memories are under {npub(link.new)} now. Import that key here (`sense-memory "
        "--agent NAME init --import`) and sync; what you wrote here since is in `sense-memory export --readable FOLDER`, "
        "which `import` reads there. If nobody of yours gave the key up, it is in other hands"
    )


def _opened(store: MemoryStore) -> OpenStore:
    return store._now_open()  # noqa: SLF001 - its parts get the same function
