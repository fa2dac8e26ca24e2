"""Forget flat and palace memories by name, many with one deletion request (NIP-09).

A batch is forgotten whole or not at all: its tombstones, its deletion request and the removal of its drafts are one
transaction. A memory can be forgotten although the ledger does not hold it, because a relay may hold it, and although
the clock would not allow a write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sense_memory.errors import InvalidAddress
from sense_memory.limits import MAX_DELETED_COUNT
from sense_memory.memories.bulk import batches, write_batches
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
        key: the key of a flat memory; None for a palace memory.
    """

    paths: tuple[str, ...]
    key: str | None = None

    @classmethod
    def named(cls, name: str) -> ForgetTarget:
        """A flat memory by its key, or a palace memory by its path. Raises InvalidAddress; nothing was forgotten."""
        try:
            return cls.persona(*parts_of(name)) if isinstance(name, str) and "/" in name else cls.flat(name)
        except InvalidAddress as error:
            raise InvalidAddress(f"{error}; nothing was forgotten") from None

    @classmethod
    def flat(cls, key: str) -> ForgetTarget:
        """A flat memory by its key. Raises InvalidAddress."""
        return cls(address.lookup_paths(key), key)

    @classmethod
    def persona(cls, domain: str, facet: str, key: str) -> ForgetTarget:
        """A palace memory by its parts. Raises InvalidAddress."""
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
    found = [(target, _paths_to_forget(ledger, target)) for target in targets]

    async def forget(batch: Sequence[tuple[ForgetTarget, Sequence[str]]]) -> list[str]:
        named = dict.fromkeys(path for _, paths in batch for path in paths)
        drafts = dict.fromkeys(path for target, _ in batch for path in target.paths)
        slots = [address.d_tag(path) for path in drafts | named]
        return [await writer.forget_all(list(named), insists=True, discarded=slots)] * len(batch)

    ids = await write_batches(batches(found, MAX_DELETED_COUNT), forget, progress)
    if ids:
        ledger.checkpoint()
    return ids


def _paths_to_forget(ledger: Ledger, target: ForgetTarget) -> Sequence[str]:
    """The paths that hold a memory; if none does, the paths that get a tombstone."""
    heads = {path: ledger.head(address.d_tag(path)) for path in dict.fromkeys(target.paths)}
    live = [path for path, head in heads.items() if head is not None and head.role.is_live]
    if live:
        return live
    return target.paths[:1] if target.key is None else (address.flat_path(target.key), target.key)
