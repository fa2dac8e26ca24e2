"""Forgetting memories that are named, flat ones and those of the palace: one request (NIP-09) for many.

A batch is forgotten whole or not at all: its tombstones, its request and the end of its drafts are one transaction. What is named is
forgotten whether or not it is here, because it may be on relays only, and whatever this clock says.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sense_memory.ledger import Role
from sense_memory.limits import MAX_DELETED_COUNT
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.records.writer import Writer


@dataclass(frozen=True, slots=True)
class Named:
    """A memory that is to be forgotten.

    Attributes:
        paths: where it may lie, see `address.lookup_paths`.
        key: of a flat memory; None for one of the palace.
    """

    paths: tuple[str, ...]
    key: str | None = None

    @classmethod
    def flat(cls, key: str) -> Named:
        """A flat memory by its key. Raises InvalidAddress."""
        return cls(address.lookup_paths(key), key)

    @classmethod
    def persona(cls, domain: str, facet: str, key: str) -> Named:
        """A persona memory by its parts. Raises InvalidAddress."""
        return cls(address.persona_lookup_paths(domain, facet, key))


async def forget(
    ledger: Ledger, writer: Writer, names: Sequence[Named], progress: Callable[[int], None] | None = None
) -> list[str]:
    """Forget memories; returns for each the id of the request that deletes it, which it shares with others.

    Args:
        ledger: where they lie.
        writer: signs tombstones and requests.
        names: the memories.
        progress: called with the number forgotten so far.

    Raises:
        InvalidAddress: one is unknown and breaks the naming rules; nothing was forgotten.
        LedgerError: the ledger could not be written; batches before this one stay forgotten.
    """
    paths = [_lying(ledger, name) for name in names]
    ids: list[str] = []
    for start in range(0, len(names), MAX_DELETED_COUNT):
        batch = slice(start, start + MAX_DELETED_COUNT)
        named = dict.fromkeys(path for found in paths[batch] for path in found)
        drafts = dict.fromkeys(path for name in names[batch] for path in name.paths)
        slots = [address.d_tag(path) for path in drafts | named]
        ident = await writer.forget_all(list(named), insists=True, drafts=slots)
        ids += [ident] * len(names[batch])
        if progress is not None:
            progress(len(ids))
        if len(names) > MAX_DELETED_COUNT:
            await asyncio.sleep(0)  # a local signer never waits, and other tasks want their turn
    if ids:
        ledger.checkpoint()
    return ids


def _lying(ledger: Ledger, name: Named) -> Sequence[str]:
    """The paths under which a memory lies, or is to be forgotten all the same."""
    heads = {path: ledger.head(address.d_tag(path)) for path in dict.fromkeys(name.paths)}
    live = [path for path, head in heads.items() if head is not None and head.role is Role.MEMORY]
    if live:
        return live
    return name.paths[:1] if name.key is None else (address.flat_path(name.key), name.key)
