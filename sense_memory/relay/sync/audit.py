"""An audit: what each relay holds of what it should, and what it holds beside that. Nothing is changed, here or at the relay.

A relay that supports NIP-77 is compared with the ledger, and must serve up to 20 of the events that it claims to hold,
chosen at random; what it holds beside is fetched, to see what that is. A relay that does not, or that fails the sample, is
walked page by page, which proves every number. An audit that did not see everything says so, and then says nothing about
what is missing. The journal of a relay that hides it counts as not seen.

Cost: of a comparison some 10 KB for 10,000 events in step, and the events that the relay holds beside; of a walk every event.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sense_memory.errors import RelayError
from sense_memory.limits import NIP11_SECONDS, PROBE_COUNT
from sense_memory.nostr.event import KINDS
from sense_memory.nostr.negentropy import Items
from sense_memory.relay.client.connection import RelayConnection
from sense_memory.relay.client.nip11 import frame_bytes, ids_count, may_compare, page_size, relay_information
from sense_memory.relay.sync.conclusions import with_hidden
from sense_memory.relay.sync.pull import fetching
from sense_memory.relay.sync.reconcile import JOURNAL, OTHERS, ComparedPart, compare_journal, kinds_filter
from sense_memory.relay.sync.walk import walk_filter


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.ledger.inventory import InventoryVersion
    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.client.actions import Timeouts

_RANDOM: Final = secrets.SystemRandom()  # a relay that could guess the sample would keep just that


class AuditMethod(StrEnum):
    """How a relay was audited."""

    NEGENTROPY = "negentropy"  # compared by NIP-77, with a sample
    PAGES = "pages"  # every event was read
    NONE = "none"  # it could not be asked


@dataclass(frozen=True, slots=True)
class RelayAudit:
    """What one relay holds.

    Attributes:
        url: the relay.
        method: how it was asked.
        should: how many events of the ledger belong there.
        held: how many of these it has: by its claim with a sample, or read.
        missing: how many of these it lacks; None if it did not show everything.
        lost: how many of the missing it had accepted, or shown before; None as `missing`.
        stale: how many older versions it has of what is here, or of what was forgotten without its knowing.
        undeleted: how many events it still has although it accepted their deletion.
        extra: how many events it has that this ledger lacks or has no use for: of other programs, or new.
        reasons: why it did not show everything, in our words; empty if it did.
    """

    url: str
    method: AuditMethod = AuditMethod.NONE
    should: int = 0
    held: int = 0
    missing: int | None = None
    lost: int | None = None
    stale: int = 0
    undeleted: int = 0
    extra: int = 0
    reasons: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the relay showed everything."""
        return not self.reasons

    @property
    def is_sound(self) -> bool:
        """Whether the relay showed everything, lacks nothing, and has nothing that it should not have."""
        return self.complete and not (self.missing or self.stale or self.undeleted)


async def audit(
    urls: Sequence[str],
    ledger: Ledger,
    signer: Signer,
    *,
    full: bool,
    clock: Callable[[], float],
    timeouts: Timeouts,
    progress: Callable[[str, int], None] = lambda _url, _count: None,
) -> list[RelayAudit]:
    """Audit all relays at once, each over a connection of its own. A relay that fails raises no error.

    Args:
        urls: the relays, checked already.
        ledger: the ledger to compare them with.
        signer: the key whose events are compared; signs NIP-42 challenges.
        full: whether to read every event, whatever a relay claims to hold.
        clock: seconds since 1970.
        timeouts: the timeouts of every connection.
        progress: called with the relay and the number of events that were read of it so far.

    Raises:
        LedgerError: the ledger could not be read.
    """
    audits = [_Audit(url, ledger, signer.public_key, progress) for url in urls]
    return list(await asyncio.gather(*(one.run(signer, clock, timeouts, full=full) for one in audits)))


@dataclass(slots=True)
class _Seen:
    """What was seen of a relay.

    Attributes:
        held: the ids that it has, among those that it should have.
        beside: its other events.
        reasons: why it did not show everything.
    """

    held: set[bytes] = field(default_factory=set)
    beside: list[Event] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


class _Audit:
    """The audit of one relay."""

    def __init__(self, url: str, ledger: Ledger, author: str, progress: Callable[[str, int], None]) -> None:
        self._url, self._ledger, self._author, self._progress = url, ledger, author, progress
        self._version: InventoryVersion = ledger.inventory.version(url)
        bare = replace(self._version, aside=frozenset())
        self._should = {ident: at for at, ident in ledger.inventory.pairs(bare)}

    async def run(
        self, signer: Signer, clock: Callable[[], float], timeouts: Timeouts, *, full: bool
    ) -> RelayAudit:
        """Dial, ask, hang up; a failure of the relay becomes the reason."""
        connection = RelayConnection(
            self._url,
            public_key=self._author,
            sign=signer.sign,
            timeouts=timeouts,
            clock=asyncio.get_running_loop().time,
            now=clock,
        )
        try:
            async with connection:
                connection.information = await relay_information(self._url, min(NIP11_SECONDS, timeouts.open))
                if not full and may_compare(connection.information):
                    seen = await self._compared(connection)
                    if seen is not None:
                        return self._judged(AuditMethod.NEGENTROPY, seen)
                return self._judged(AuditMethod.PAGES, await self._walked(connection))
        except RelayError as error:
            return RelayAudit(self._url, should=len(self._should), reasons=(error.problem,))

    # ── Asking ──────────────────────────────────────────────────────────────────────────

    async def _compared(self, connection: RelayConnection) -> _Seen | None:
        """What a comparison shows; None if the relay must be walked."""
        journal_ids = self._ledger.inventory.journal_ids()
        others, journal = (
            ComparedPart(kinds, kinds_filter(self._author, kinds), Items(pairs))
            for kinds, pairs in (
                (OTHERS, [(at, one) for one, at in self._should.items() if one not in journal_ids]),
                (JOURNAL, [(at, one) for one, at in self._should.items() if one in journal_ids]),
            )
        )
        known, fetch = connection.information, fetching(connection)

        async def compare(part: ComparedPart) -> None:
            part.found = await connection.compare(
                part.wanted, part.items, frame_bytes=frame_bytes(known), doubtful=known is None
            )

        await compare(others)
        if not others.found.complete or not await compare_journal(compare, fetch, journal):
            return None
        seen = _Seen()
        for part in (others, journal):
            claimed = list(part.claimed)
            sample = _RANDOM.sample(claimed, min(PROBE_COUNT, len(claimed)))
            served = await self._fetched(connection, part, [*sample, *part.found.need])
            if len(served) < len({*sample, *part.found.need}):
                return None  # it claims more than it serves
            seen.held.update(claimed)
            beside = set(part.found.need)
            seen.beside += [event for ident, event in served.items() if ident in beside]
        return seen

    async def _fetched(
        self, connection: RelayConnection, part: ComparedPart, ids: Iterable[bytes]
    ) -> dict[bytes, Event]:
        """The events that a relay serves, among some ids."""
        left = list(dict.fromkeys(ids))
        found: dict[bytes, Event] = {}
        most = ids_count(connection.information)
        while left:
            batch = tuple(ident.hex() for ident in left[:most])
            page = await fetching(connection)([replace(part.wanted, ids=batch, limit=len(batch))])
            found |= {bytes.fromhex(event.id): event for event in page.events}
            rest = [ident for ident in left[:most] if ident not in found]
            if not page.complete or not page.events:
                break
            left = [*rest, *left[most:]]
            self._progress(self._url, len(found))
        return found

    async def _walked(self, connection: RelayConnection) -> _Seen:
        """What the pages of a relay show, kind by kind."""
        seen, count = _Seen(), 0

        async def take(events: Sequence[Event]) -> None:
            nonlocal count
            count += len(events)
            self._progress(self._url, count)
            for event in events:
                ident = bytes.fromhex(event.id)
                if ident in self._should:
                    seen.held.add(ident)
                else:
                    seen.beside.append(event)

        walks = {
            kind: await walk_filter(
                fetching(connection),
                take,
                kinds_filter(self._author, (kind,)),
                self._ledger.slots,
                page_size=page_size(connection.information),
            )
            for kind in KINDS
        }
        for walk in with_hidden(walks).values():
            seen.reasons += walk.reasons
        return seen

    # ── Judging ─────────────────────────────────────────────────────────────────────────

    def _judged(self, method: AuditMethod, seen: _Seen) -> RelayAudit:
        lacks = [ident for ident in self._should if ident not in seen.held]
        outbox, inventory = self._ledger.outbox, self._ledger.inventory
        stale, undeleted, extra = inventory.sorted_beside(
            self._version, seen.beside, lambda slot: outbox.has_accepted_deletion(self._url, [slot])
        )
        is_whole = not seen.reasons
        return RelayAudit(
            self._url,
            method,
            should=len(self._should),
            held=len(seen.held),
            missing=len(lacks) if is_whole else None,
            lost=inventory.accepted_count(self._url, lacks) if is_whole else None,
            stale=stale,
            undeleted=undeleted,
            extra=extra,
            reasons=tuple(dict.fromkeys(seen.reasons)),
        )
