"""What each relay holds, compared with the ledger. Nothing is changed, neither here nor at the relay.

A relay that supports NIP-77 shows the exact difference. A relay that supports NIP-45 shows numbers by kind: equal
numbers are a good sign, but no proof. Any other relay shows what it holds only in a complete pull. All answers are
claims; a relay proves that it has an event only by serving the event.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sense_memory.errors import RelayError
from sense_memory.limits import HOLDINGS_SECONDS, NIP11_SECONDS
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE
from sense_memory.relay.client.authentication import UNAUTHENTICATED
from sense_memory.relay.client.connection import RelayConnection
from sense_memory.relay.client.nip11 import frame_bytes, may_compare, may_count, relay_information
from sense_memory.relay.sync.reconcile import (
    JOURNAL,
    OTHERS,
    ComparedPart,
    InventoryCache,
    compare_journal,
    kinds_filter,
)
from sense_memory.relay.sync.walk import HIDDEN


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.client.actions import Timeouts


_NO_ANSWER: Final = frozenset({"went silent", "answered with a notice only", "blocked", "unsupported"})
_NOT_COMPARED: Final = "does not compare journal entries (kind 4)"


class Method(StrEnum):
    """How a relay was asked what it holds."""

    NEGENTROPY = "negentropy"  # NIP-77: exact
    COUNT = "count"  # NIP-45: numbers by kind
    UNKNOWN = "unknown"  # the relay does neither, or could not be asked


@dataclass(frozen=True, slots=True)
class Holding:
    """What one relay holds, compared with the ledger.

    Some events count on neither side: events that the relay refused or deleted, and events at the relay that the
    ledger has no use for, such as older versions.

    Attributes:
        url: the relay.
        method: how the relay was asked.
        here: the number of events of the ledger that the relay should hold.
        there: the number of events that the relay says it has, or None if unknown. A count includes other programs'
            events of the same key.
        missing_there: how many events of the ledger the relay lacks, or None if unknown; a lower bound if the relay was
            asked for counts.
        missing_here: how many events the relay says it has and the ledger lacks, or None if unknown; a lower bound if
            the relay was asked for counts.
        problem: why the relay did not answer, in our words; empty if it answered, or supports neither NIP. If it hides
            the journal, or does not compare it, this says so, and the numbers are of everything else.
    """

    url: str
    method: Method = Method.UNKNOWN
    here: int = 0
    there: int | None = None
    missing_there: int | None = None
    missing_here: int | None = None
    problem: str = ""


async def holdings(
    urls: Sequence[str],
    ledger: Ledger,
    signer: Signer,
    *,
    clock: Callable[[], float],
    timeouts: Timeouts,
) -> list[Holding]:
    """Ask all relays at once what they hold, each over a connection of its own and for at most a minute.

    Args:
        urls: the relays, checked already.
        ledger: the ledger to compare the relays with.
        signer: the key whose events are compared; signs NIP-42 challenges.
        clock: seconds since 1970.
        timeouts: the timeouts of every connection.

    Raises:
        LedgerError: the ledger could not be read.
    """
    inventories = InventoryCache(ledger)
    queries = [_HoldingsQuery(url, ledger, signer.public_key, inventories) for url in urls]
    return list(await asyncio.gather(*(query.run(signer, clock, timeouts) for query in queries)))


class _HoldingsQuery:
    """The questions to one relay."""

    def __init__(self, url: str, ledger: Ledger, author: str, inventories: InventoryCache) -> None:
        self._url, self._inventory, self._author, self._inventories = (
            url,
            ledger.inventory,
            author,
            inventories,
        )

    async def run(self, signer: Signer, clock: Callable[[], float], timeouts: Timeouts) -> Holding:
        """Dial, ask, hang up; a failure of the relay becomes the `problem`."""
        connection = RelayConnection(
            self._url,
            public_key=self._author,
            sign=signer.sign,
            timeouts=timeouts,
            clock=asyncio.get_running_loop().time,
            now=clock,
        )
        try:
            async with asyncio.timeout(HOLDINGS_SECONDS), connection:
                information = await relay_information(self._url, min(NIP11_SECONDS, timeouts.open))
                connection.information = information
                return await self._ask(connection)
        except RelayError as error:
            return self._unknown(error.problem)
        except TimeoutError:
            return self._unknown("took too long")

    async def _ask(self, connection: RelayConnection) -> Holding:
        """Compare if the relay supports NIP-77; otherwise, or if that fails, count if the relay supports NIP-45."""
        information = connection.information
        answers: list[Holding] = []
        for may, ask in ((may_compare, self._compared), (may_count, self._counted)):
            if may(information):
                answers.append(await ask(connection))
                if not answers[-1].problem:
                    return answers[-1]
        if partial := [answer for answer in answers if answer.method is not Method.UNKNOWN]:
            return partial[0]
        problem = answers[0].problem if answers else ""
        # A relay without a document that answers neither request most likely supports neither NIP; that is no problem.
        knows_neither = information is None and connection.is_open and problem in _NO_ANSWER
        return self._unknown("" if knows_neither else problem)

    async def _compared(self, connection: RelayConnection) -> Holding:
        version, items = await self._inventories.items_for(self._url)
        others, journal = (
            ComparedPart(kinds, kinds_filter(self._author, kinds), items[kinds])
            for kinds in (OTHERS, JOURNAL)
        )
        known = connection.information

        async def compare(part: ComparedPart) -> None:
            part.found = await connection.compare(
                part.wanted, part.items, frame_bytes=frame_bytes(known), doubtful=known is None
            )

        await compare(others)
        if not others.found.complete:
            return self._unknown(others.found.reason)
        sees_journal = await compare_journal(compare, connection.fetch, journal)
        compared = [others, journal] if sees_journal else [others]
        have = {ident for part in compared for ident in part.found.have}
        need = {ident for part in compared for ident in part.found.need}
        tally = self._inventory.counts_by_kind(version)
        here = sum(tally.get(kind, (0, 0))[0] for part in compared for kind in part.kinds)
        lacks = self._inventory.lacking_count(version, have)
        more = len(need) - len(self._inventory.known_pairs(need))
        lack = HIDDEN if journal.found.reason in UNAUTHENTICATED else _NOT_COMPARED
        problem = "" if sees_journal else lack
        return Holding(self._url, Method.NEGENTROPY, here, here - lacks + more, lacks, more, problem)

    async def _counted(self, connection: RelayConnection) -> Holding:
        tally = self._inventory.counts_by_kind(self._inventory.version(self._url))
        here = there = lacks = more = 0
        problem = ""
        for kind in (KIND_APP_DATA, KIND_DIRECT_MESSAGE, KIND_DELETION):
            doubtful = connection.information is None
            counted = await connection.count([kinds_filter(self._author, (kind,))], doubtful=doubtful)
            if counted.count is None and kind == KIND_DIRECT_MESSAGE and counted.reason in UNAUTHENTICATED:
                problem = HIDDEN
                continue
            if counted.count is None:
                return self._unknown(counted.reason)
            should, may = tally.get(kind, (0, 0))
            here, there = here + should, there + counted.count
            lacks += max(0, should - counted.count)
            more += max(0, counted.count - should - may)
        return Holding(self._url, Method.COUNT, here, there, lacks, more, problem)

    def _unknown(self, problem: str) -> Holding:
        tally = self._inventory.counts_by_kind(self._inventory.version(self._url))
        return Holding(self._url, here=sum(should for should, _ in tally.values()), problem=problem)
