"""Forget flat and persona memories by name, many with one deletion request (NIP-09).

A batch is forgotten whole or not at all: its tombstones, its deletion request and the removal of its drafts are one
transaction. A memory can be forgotten although the ledger does not hold it, because a relay may hold it, and although
the clock would not allow a write.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sense_memory.ledger import Role
from sense_memory.limits import MAX_DELETED_COUNT
from sense_memory.memories.history import parts_of
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.records.writer import Writer


@dataclass(frozen=True, slots=True)
class ForgetTarget:
    """A memory to forget.

    Attributes:
        paths: the paths where the memory may be, see `address.lookup_paths`.
        key: the key of a flat memory; None for a persona memory.
    """

    paths: tuple[str, ...]
    key: str | None = None

    @classmethod
    def named(cls, name: str) -> ForgetTarget:
        """A flat memory by its key, or a palace memory by its path. Raises InvalidAddress."""
        return cls.persona(*parts_of(name)) if isinstance(name, str) and "/" in name else cls.flat(name)

    @classmethod
    def flat(cls, key: str) -> ForgetTarget:
        """A flat memory by its key. Raises InvalidAddress."""
        return cls(address.lookup_paths(key), key)

    @classmethod
    def persona(cls, domain: str, facet: str, key: str) -> ForgetTarget:
        """A persona memory by its parts. Raises InvalidAddress."""
        return cls(address.persona_lookup_paths(domain, facet, key))


async def forget_targets(
    ledger: Ledger,
    writer: Writer,
    targets: Sequence[ForgetTarget],
    progress: Callable[[int], None] | None = None,
) -> list[str]:
    """Forget memories; returns the id of each memory's deletion request, which several memories share.

    Args:
        ledger: holds the memories.
        writer: signs tombstones and requests.
        targets: the memories.
        progress: called with the number of memories forgotten so far.

    Raises:
        InvalidAddress: the ledger does not hold a memory, and its name breaks the rules; nothing was forgotten.
        LedgerError: the ledger could not be written; batches before this one stay forgotten.
    """
    paths = [_paths_to_forget(ledger, target) for target in targets]
    ids: list[str] = []
    for start in range(0, len(targets), MAX_DELETED_COUNT):
        batch = slice(start, start + MAX_DELETED_COUNT)
        named = dict.fromkeys(path for found in paths[batch] for path in found)
        drafts = dict.fromkeys(path for target in targets[batch] for path in target.paths)
        slots = [address.d_tag(path) for path in drafts | named]
        ident = await writer.forget_all(list(named), insists=True, discarded=slots)
        ids += [ident] * len(targets[batch])
        if progress is not None:
            progress(len(ids))
        if len(targets) > MAX_DELETED_COUNT:
            await asyncio.sleep(0)  # a local signer never awaits, and other tasks need a turn
    if ids:
        ledger.checkpoint()
    return ids


def _paths_to_forget(ledger: Ledger, target: ForgetTarget) -> Sequence[str]:
    """The paths that hold a memory; if none does, the paths that get a tombstone."""
    heads = {path: ledger.head(address.d_tag(path)) for path in dict.fromkeys(target.paths)}
    live = [path for path, head in heads.items() if head is not None and head.role is Role.MEMORY]
    if live:
        return live
    return target.paths[:1] if target.key is None else (address.flat_path(target.key), target.key)
