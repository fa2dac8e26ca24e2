"""Roles: how the ledger treats an event, as one table of traits.

The ledger cannot read an event; whoever opened it says its role (`records.kinds`). No query and no rule of the ledger names
a role: a rule asks a `Role` for a trait, and a query has one of the conditions below, which are made from the table once,
at import. So a new role is one line here, and the ledger treats it as its traits say.

The numbers are in every ledger file: a number is never given twice. A ledger with a role that an older version does not
know must be refused there (`LedgerTooNew`), so a new role needs a migration, which may be empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Final, Self


if TYPE_CHECKING:
    from collections.abc import Callable


class Removes(Enum):
    """Where an event removes something."""

    NOTHING = "nothing"
    ITS_SLOT = "its slot"  # a tombstone: older versions of its slot
    NAMED_SLOTS = "named slots"  # a deletion request (NIP-09), which has no address itself


class RemovedBy(Enum):
    """How a removal reaches a version, see `removals`."""

    ORIGIN = "origin"  # by where its text comes from, which is read inside
    DATE = "date"  # every version up to the second of the removal
    NOTHING = "nothing"  # never: it is itself a removal


@dataclass(frozen=True, slots=True)
class Traits:
    """What the ledger asks of a role.

    Attributes:
        is_live: whether a head of this role is something that the user has: it is listed and followed, and the caches
            beside the ledger hold it until it is removed.
        removes: where an event of this role removes something. Removals reach every relay, also if they are no heads.
        removed_by: how a removal reaches a version of this role.
        keeps_older: whether replaced versions stay as history; otherwise only the newest is kept.
        is_derived: whether the event was made from the record at another address, and goes when that goes.
        history_of: the number of the role whose versions get this role when they are rewritten in their own second. They
            stay in the history of this ledger only: neither relays nor exports get them. None for all other roles.
        counted_as: the name under which events of this role are counted; empty for heads and history, which are counted
            by what they hold.
    """

    is_live: bool = False
    removes: Removes = Removes.NOTHING
    removed_by: RemovedBy = RemovedBy.DATE
    keeps_older: bool = False
    is_derived: bool = False
    history_of: int | None = None
    counted_as: str = ""


class Role(IntEnum):
    """The role of an event in the ledger: its number in the file, and its traits."""

    traits: Traits

    def __new__(cls, number: int, traits: Traits) -> Self:
        """A role from its line in the table."""
        role = int.__new__(cls, number)
        role._value_ = number
        role.traits = traits
        return role

    MEMORY = 0, Traits(is_live=True, removed_by=RemovedBy.ORIGIN, keeps_older=True)
    TOMBSTONE = (
        1,
        Traits(removes=Removes.ITS_SLOT, removed_by=RemovedBy.NOTHING, counted_as="tombstones"),
    )
    DELETION = (
        2,
        Traits(removes=Removes.NAMED_SLOTS, removed_by=RemovedBy.NOTHING, counted_as="deletions"),
    )
    EMBEDDING = 3, Traits(is_derived=True, counted_as="embeddings")  # vectors of a memory
    REPLACED = 4, Traits(removed_by=RemovedBy.ORIGIN, keeps_older=True, history_of=0)

    # ── What rules ask ──────────────────────────────────────────────────────────────────

    @property
    def is_live(self) -> bool:
        """Whether a head of this role is something that the user has."""
        return self.traits.is_live

    @property
    def is_tombstone(self) -> bool:
        """Whether the event covers the older versions of its slot."""
        return self.traits.removes is Removes.ITS_SLOT

    @property
    def is_request(self) -> bool:
        """Whether the event asks relays to delete others, and has no address itself."""
        return self.traits.removes is Removes.NAMED_SLOTS

    @property
    def is_removal(self) -> bool:
        """Whether the event removes something."""
        return self.traits.removes is not Removes.NOTHING

    @property
    def is_history(self) -> bool:
        """Whether the event stays in this ledger."""
        return self.traits.history_of is not None

    @property
    def is_content(self) -> bool:
        """Whether relays hold the event until it is removed."""
        return not (self.is_removal or self.is_history)

    @property
    def has_origin(self) -> bool:
        """Whether removals and merges go by what is read inside the event."""
        return self.traits.removed_by is RemovedBy.ORIGIN

    @property
    def history(self) -> Role | None:
        """The role of a version that is rewritten in its own second; None if such a version is deleted."""
        return next((role for role in Role if role.traits.history_of == self), None)


ROLES: Final = {int(role): role for role in Role}  # by their numbers
REQUEST: Final = Role.DELETION  # of every deletion request (NIP-09)
UNREAD: Final = Role.MEMORY  # of an event that nobody could open: kept until a newer version opens it


# ── What queries ask ────────────────────────────────────────────────────────────────────
# Conditions on the column `role`: put the name of a table and a dot before one if the column needs it.


def condition(has_trait: Callable[[Role], bool]) -> str:
    """The condition `role = 1`, `role <> 1` or `role IN (0, 3)` for the roles with a trait.

    With one number where that is enough, because SQLite then uses a partial index of this role.
    """
    having = [int(role) for role in Role if has_trait(role)]
    lacking = [int(role) for role in Role if role not in having]
    for numbers, sign in ((having, "="), (lacking, "<>")):
        if len(numbers) == 1:
            return f"role {sign} {numbers[0]}"
    return f"role IN ({', '.join(map(str, having))})"


def exchanged(pairs: dict[Role, Role]) -> str:
    """The column `role`, with some roles in place of others."""
    cases = (f"WHEN {int(one)} THEN {int(other)}" for one, other in pairs.items())
    return f"CASE role {' '.join(cases)} ELSE role END"


_HISTORY: Final = {role: history for role in Role if (history := role.history) is not None}

IS_LIVE: Final = condition(lambda role: role.is_live)
IS_TOMBSTONE: Final = condition(lambda role: role.is_tombstone)
IS_REQUEST: Final = condition(lambda role: role.is_request)
IS_REMOVAL: Final = condition(lambda role: role.is_removal)
IS_HISTORY: Final = condition(lambda role: role.is_history)
IS_NO_HISTORY: Final = condition(lambda role: not role.is_history)
IS_CONTENT: Final = condition(lambda role: role.is_content)
IS_DERIVED: Final = condition(lambda role: role.traits.is_derived)
IS_FOLLOWED: Final = condition(lambda role: role.is_live or role.is_removal)
HAS_ORIGIN: Final = condition(lambda role: role.has_origin)
HAS_NO_ORIGIN: Final = condition(lambda role: not role.has_origin)
GOES_BY_DATE: Final = condition(lambda role: role.traits.removed_by is RemovedBy.DATE)
AS_HISTORY: Final = exchanged(_HISTORY)
AS_MEMORY: Final = exchanged({history: role for role, history in _HISTORY.items()})
