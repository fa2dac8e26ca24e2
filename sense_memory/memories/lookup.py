"""Where a memory lies: the paths that a name can mean, and the head that stands under one of them.

Other writers spell some paths differently (see `nostr.address`), so each name has a path that we write and others
that we read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.errors import InvalidAddress
from sense_memory.ledger import Role
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.ledger import Ledger, Stored


def paths_of(name: str) -> tuple[str, ...]:
    """The paths of a flat memory named by its key, or of a persona memory named `domain/facet/key`.

    Raises:
        InvalidAddress: `name` is neither.
    """
    if isinstance(name, str) and "/" in name:
        return address.persona_lookup_paths(*parts_of(name))
    return address.lookup_paths(name)


def parts_of(name: str) -> tuple[str, str, str]:
    """Domain, facet and key of a persona memory named `domain/facet/key`.

    Raises:
        InvalidAddress: `name` has not three parts.
    """
    parts = address.persona_name(name).split("/") if isinstance(name, str) else ()
    if len(parts) != 3:
        raise InvalidAddress("name a memory by its key, or by domain/facet/key")
    return parts[0], parts[1], parts[2]


def head_at(ledger: Ledger, paths: Sequence[str]) -> Stored | None:
    """The head under one of these paths: a memory rather than a tombstone; None where no path has a head."""
    found = [stored for path in paths if (stored := ledger.head(address.d_tag(path)))]
    return next((stored for stored in found if stored.role is Role.MEMORY), found[0] if found else None)


def is_deleted(ledger: Ledger, paths: Sequence[str]) -> bool:
    """Whether the ledger holds a deletion of one of these paths, whose tombstone it may lack."""
    return any(ledger.is_deleted(address.d_tag(path)) for path in paths)
