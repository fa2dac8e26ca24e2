"""Views of the whole palace for `MemoryStore`: compression, introspection, pruning, counts.

What is found out is a view's business (`palace`, `search`); here it gets the memories of now and time, and
what it decides is written. Deletions need to know what every relay holds: those that cannot be asked are
named, and nothing is deleted until they answer or are left out by name.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Self

from sense_memory.errors import ClockSkewError, InvalidInput, StoreClosed
from sense_memory.limits import (
    MAX_BATCH_COUNT,
    MAX_DELETED_COUNT,
    SUGGESTED_PAIRS_COUNT,
)
from sense_memory.memories.persona import arguments as given
from sense_memory.memories.persona.batch import EditBatch, until_done
from sense_memory.nostr import address
from sense_memory.palace.compression import compress
from sense_memory.palace.contradictions.detection import pairs
from sense_memory.palace.introspection import introspect
from sense_memory.palace.introspection_log import from_log
from sense_memory.palace.pruning import PruneAction, PruneReport, plan
from sense_memory.records import envelope
from sense_memory.records.envelope import RecordType
from sense_memory.records.origins import PRUNE


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.memories.persona.persona import Persona
    from sense_memory.models import IntrospectionReport
    from sense_memory.palace.introspection_log import Baseline
    from sense_memory.palace.pruning import PrunePlan, PruneStep
    from sense_memory.records.reader import Reader
    from sense_memory.records.writer import Writer


# ── Introspection on a schedule ─────────────────────────────────────────────────────────
# Introspection on a schedule: an iterator that looks over the palace, waits, and looks again.


class Introspections:
    """Reports, the first at once, each other one so many seconds after the one before was asked for.

    Ends when the store is closed.

    Args:
        look: makes a report.
        every: seconds between two, 1 or more.

    Raises:
        InvalidInput: less than a second.
    """

    def __init__(self, look: Callable[[], Awaitable[IntrospectionReport]], every: float) -> None:
        if isinstance(every, bool) or not isinstance(every, int | float) or not 1 <= every < float("inf"):
            raise InvalidInput(f"introspections must lie a second or more apart, not {every!r}")
        self._look, self._every = look, every
        self._next = 0.0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> IntrospectionReport:
        """The next report, when it is time."""
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._next - clock()))
        self._next = clock() + self._every
        try:
            return await self._look()
        except StoreClosed:
            raise StopAsyncIteration from None


_FULL: Final = "its text leaves no room in an event for its new state; shorten it, or forget it"
LOGS: Final = f"{address.PREFIX}introspection/"


class Pruned(int):
    """How many memories changed their state or were deleted, and what became of each.

    Attributes:
        report: memory by memory.
    """

    report: PruneReport

    @classmethod
    def of(cls, report: PruneReport, count: int) -> Pruned:
        """A count with its report."""
        self = cls(count)
        self.report = report
        return self


class Reviews:
    """The views of one palace.

    Args:
        persona: its memories.
        ledger: where logs are looked up.
        reader: opens them.
        writer: seals and signs.
        clock: seconds since 1970.
    """

    def __init__(
        self, persona: Persona, ledger: Ledger, reader: Reader, writer: Writer, clock: Callable[[], float]
    ) -> None:
        self._persona, self._ledger, self._reader, self._writer = persona, ledger, reader, writer
        self._clock = clock

    # ── Looking ─────────────────────────────────────────────────────────────────────────

    async def compress(self, domain: str | None, max_tokens: int, *, full: bool) -> str:
        """The active memories in the spec's compressed format, with shorthand or without."""
        domain, _ = given.selection(domain, None)
        if type(max_tokens) is not int:
            raise InvalidInput("max_tokens must be a whole number")
        catalog = await self._persona.names.catalog()
        now = self._clock()
        relevances = catalog.columns().relevances(now)
        found = compress(
            list(catalog), now, domain=domain, max_tokens=max_tokens, relevances=relevances, full=full
        )
        return found.text

    async def stats(self) -> dict[str, Any]:
        """Counts: all, by state, by domain and facet, linked, superseded."""
        catalog = await self._persona.names.catalog()
        sizes, tally = catalog.sizes(), catalog.tally()
        return {
            "total": len(catalog),
            "states": {state.value: count for state, count in catalog.census(self._clock()).items()},
            "domains": {domain: sum(facets.values()) for domain, facets in sizes.items()},
            "facets": sizes,
            "connections": tally.connections // 2,
            "superseded": tally.superseded,
            "conflicts": tally.conflicts,
        }

    # ── Introspection ───────────────────────────────────────────────────────────────────

    async def introspect(self) -> IntrospectionReport:
        """Look over everything, compare with the last time, and leave a log for the next."""
        catalog = await self._persona.names.catalog()
        memories, columns = tuple(catalog), catalog.columns()
        previous = await self._last_log()
        scan = await asyncio.to_thread(pairs, memories, SUGGESTED_PAIRS_COUNT)
        suspected = {(item.old, item.new): item for item in self._persona.suspicions()}
        suspected |= {(item.old, item.new): item for item in scan.contradictions}
        near = await self._persona.alike()
        now = self._clock()
        # In a thread, so that whatever else this process does goes on: memories do not change, nor do copies.
        report = await asyncio.to_thread(
            introspect,
            memories,
            now,
            columns=columns,
            previous=previous,
            suspected=suspected.values(),
            near=near,
            all_searched=not scan.bounded,
        )
        await self._writer.write([envelope.introspection(int(now), report.to_log())], drafts=False)
        return report

    async def _last_log(self) -> Baseline | None:
        """How the palace stood at the last introspection, on whichever device; None where nobody knows."""
        slots = [(slot.removeprefix(LOGS), seq) for slot, seq in self._ledger.edits.heads(LOGS)]
        dated = sorted((float(ts), seq) for ts, seq in slots if ts.replace(".", "", 1).isdecimal())
        for _, seq in reversed(dated):
            for stored in self._ledger.read([seq]):
                record = await self._reader.record(stored)
                if record is not None and record.type is RecordType.INTROSPECTION:
                    log = record.fields.get("report")
                    baseline = from_log(log) if isinstance(log, dict) else None
                    if baseline is not None:
                        return baseline
        return None

    # ── Pruning ─────────────────────────────────────────────────────────────────────────

    async def planned(self) -> Pruned:
        """What pruning would do now."""
        made = await self._plan()
        return Pruned.of(PruneReport.dry(made), made.count)

    async def _plan(self) -> PrunePlan:
        catalog = await self._persona.names.catalog()
        return plan(catalog, self._clock(), columns=catalog.columns())

    async def prune(self, incomplete: Callable[[], Awaitable[Sequence[str]]]) -> Pruned:
        """Write what time has done to memories, and delete those that have been dissolved for 30 days.

        Args:
            incomplete: asks every relay that counts; gives one sentence for each that did not show everything.
        """
        await self._persona.publish_accesses()
        missing: Sequence[str] = ()
        due = (await self._plan()).deletions
        if due:
            missing = await incomplete()
        made = await self._plan()
        refused: dict[str, str] = {}
        if missing:
            why = f"not every relay showed what it holds: {'; '.join(missing)}; sync, or leave these relays out by name"
            refused = {step.path: why for step in made.deletions}
        for part in _parts(made.rewrites, MAX_BATCH_COUNT):
            refused |= await self._rewrite(part)
        for part in _parts([] if missing else made.deletions, MAX_DELETED_COUNT):
            refused |= await self._delete(part)
        if not missing:
            self._ledger.checkpoint()
        report = PruneReport.of(made, refused)
        return Pruned.of(report, report.count)

    async def _rewrite(self, steps: Sequence[PruneStep]) -> dict[str, str]:
        """Write the states of some memories as they are now; returns what was refused, and why."""
        unfit: dict[str, str] = {}

        async def attempt() -> None:
            batch = EditBatch(self._persona.palace)
            for step in steps:
                memory = await batch.get(step.path)
                for now in plan([memory] if memory else [], self._clock()).rewrites:
                    batch.put(now.applied())
            ids = await batch.write(spare=lambda _: True)
            unfit.update({path: _FULL for path, ident in ids.items() if not ident})

        refused = await self._tried(attempt, steps, self._rewrite)
        return unfit | refused

    async def _delete(self, steps: Sequence[PruneStep]) -> dict[str, str]:
        """Delete memories that are due, if they still are; returns what was refused, and why."""
        refused: dict[str, str] = {}

        async def attempt() -> None:
            refused.clear()
            paths, bases = [], {}
            for step in steps:
                path = address.PERSONA + step.path
                slot_state = await self._persona.palace.slot_state(address.d_tag(path))
                memory = slot_state.memory
                now = plan([memory] if memory else [], self._clock())
                if any(step.action is PruneAction.DELETE for step in now.steps):
                    paths.append(path)
                    bases[slot_state.slot] = slot_state.basis
                else:
                    refused[step.path] = "it was changed meanwhile"
            if paths:
                await self._writer.forget_all(paths, bases, why=PRUNE)

        refused |= await self._tried(attempt, steps, self._delete)
        return refused

    async def _tried(
        self,
        attempt: Callable[[], Awaitable[None]],
        steps: Sequence[PruneStep],
        again: Callable[[Sequence[PruneStep]], Awaitable[dict[str, str]]],
    ) -> dict[str, str]:
        """Do it for all at once; where the clock is wrong for one of them, one by one."""
        try:
            await until_done(attempt)
        except ClockSkewError as error:
            if len(steps) == 1:
                return {steps[0].path: str(error)}
            found: dict[str, str] = {}
            for step in steps:
                found |= await again([step])
            return found
        return {}


def _parts(steps: Sequence[PruneStep], size: int) -> list[Sequence[PruneStep]]:
    return [steps[start : start + size] for start in range(0, len(steps), size)]
