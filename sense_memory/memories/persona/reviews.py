"""Calls of `MemoryStore` on the whole palace: compression, introspection, pruning, counts.

The pure views of `palace` decide; this module gives them the memories and the time, and writes their decisions.

Guaranteed: pruning deletes a memory only after every relay has shown everything that it holds, so an edit or a recall
of another device is never deleted unseen. Relays that do not answer are named, and nothing is deleted until they answer
or the caller leaves them out by name. The cost of a pruning that deletes is one sync with every relay.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from sense_memory.errors import ClockSkewError, InvalidInput, StoreClosed
from sense_memory.ledger import retry_while_moved
from sense_memory.ledger.heads import LOGS
from sense_memory.limits import (
    MAX_BATCH_COUNT,
    MAX_DELETED_COUNT,
    MAX_SUSPICIONS_COUNT,
)
from sense_memory.memories.bulk import batches
from sense_memory.memories.persona import arguments as given
from sense_memory.memories.persona.palace import EditBatch
from sense_memory.memories.trust import of_memory
from sense_memory.models import State
from sense_memory.nostr import address
from sense_memory.palace.compression import compress
from sense_memory.palace.introspection import introspect
from sense_memory.palace.introspection_log import from_log, outdated
from sense_memory.palace.lifecycle import current_state
from sense_memory.palace.pruning import PruneReport, plan
from sense_memory.palace.token_estimate import estimated_tokens
from sense_memory.records import envelope
from sense_memory.records.kinds import RecordType
from sense_memory.records.origins import PRUNE


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.memories.persona.persona import Persona
    from sense_memory.models import IntrospectionReport, PersonaMemory
    from sense_memory.palace.candidates import Bears
    from sense_memory.palace.compression import Compressed
    from sense_memory.palace.introspection_log import Baseline
    from sense_memory.palace.prompt_style import StyleName
    from sense_memory.palace.pruning import PrunePlan, PruneStep
    from sense_memory.palace.search import PersonaHit
    from sense_memory.palace.trust import TrustJudge
    from sense_memory.records.reader import Reader
    from sense_memory.records.writer import Writer
    from sense_memory.search.hits import Hits


# ── Introspection on a schedule ─────────────────────────────────────────────────────────


class IntrospectionSchedule:
    """An iterator of introspection reports: the first at once, the others at an interval. It ends with the store.

    Args:
        make_report: makes a report.
        every: seconds from the start of one report to the start of the next, 1 or more.

    Raises:
        InvalidInput: `every` is below 1, or not a finite number.
    """

    def __init__(self, make_report: Callable[[], Awaitable[IntrospectionReport]], every: float) -> None:
        if isinstance(every, bool) or not isinstance(every, int | float) or not 1 <= every < float("inf"):
            raise InvalidInput(f"every must be a number of seconds, 1 or more, not {every!r}")
        self._make_report, self._every = make_report, every
        self._next = 0.0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> IntrospectionReport:
        """Wait until the next report is due, and return it."""
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._next - clock()))
        self._next = clock() + self._every
        try:
            return await self._make_report()
        except StoreClosed:
            raise StopAsyncIteration from None


_NEEDED_SHARE: Final = 0.05  # of the best score: hits with a lower score do not help to answer a question
# Reasons are shown after "because".
_FULL: Final = "its text leaves no room in an event for the new state; shorten the text, or forget the memory"


class Pruned(int):
    """The number of memories whose state changed or that were deleted, with a report.

    Attributes:
        report: the result for each memory.
        event_ids: the ids of the events that were written, deletion requests among them; 64 hex digits each.
    """

    report: PruneReport
    event_ids: tuple[str, ...]

    @classmethod
    def of(cls, report: PruneReport, count: int, event_ids: Iterable[str] = ()) -> Pruned:
        """A count with its report."""
        self = cls(count)
        self.report, self.event_ids = report, tuple(event_ids)
        return self


class Reviews:
    """The calls on a whole palace.

    Args:
        persona: the memories.
        ledger: holds the logs of earlier introspections.
        reader: decrypts events.
        writer: encrypts and signs events.
        clock: seconds since 1970.
        keeps_used: whether pruning never deletes what was recalled or used, see `pruning.plan`.
    """

    def __init__(
        self,
        persona: Persona,
        ledger: Ledger,
        reader: Reader,
        writer: Writer,
        clock: Callable[[], float],
        *,
        keeps_used: bool = False,
    ) -> None:
        self._keeps_used = keeps_used
        self._persona, self._ledger, self._reader, self._writer = persona, ledger, reader, writer
        self._clock = clock

    # ── Compression and counts ──────────────────────────────────────────────────────────

    async def compress(
        self,
        domain: str | None,
        max_tokens: int,
        style: StyleName,
        count: Callable[[str], int] | None,
        hits: Hits[PersonaHit],
        *,
        full: bool,
        bears: Bears | None = None,
        judge: TrustJudge | None = None,
    ) -> Compressed:
        """The active memories as text for a prompt.

        Args:
            domain: compress only this domain; None for all.
            max_tokens: the budget.
            style: `bracketed` or `plain`.
            count: counts the tokens of a text; None for an estimate.
            hits: the hits of a search for a question, best first; empty without a question.
            full: whether the bracketed notation has shorthand.
            bears: how much standing memories bear on the question; None without one.
            judge: says which memories may enter a prompt by themselves; None for all that no rule keeps back.
        """
        domain, _ = given.selection(domain, None)
        if type(max_tokens) is not int:
            raise InvalidInput("max_tokens must be a whole number")
        if count is not None and not callable(count):
            raise InvalidInput("count must be a function that takes a text and returns its number of tokens")
        needed = [hit.path for hit in hits if hit.score >= _NEEDED_SHARE * hits[0].score]
        catalog = await self._persona.names.catalog()
        now = self._clock()
        relevances, withheld = catalog.columns().relevances(now), await self._persona.withheld()
        there = [memory for memory in catalog if memory.path not in withheld]
        speaking = there if judge is None else [one for one in there if judge.may_speak(of_memory(one))]
        if len(speaking) < len(catalog):
            places = {memory.path: place for place, memory in enumerate(catalog)}
            relevances = relevances[[places[memory.path] for memory in speaking]]
        compares = self._persona.compares
        pairs = await self._persona.suspicions.pairs() if compares else []
        suspected = dict(reversed(pairs))  # of several, the latest
        found = compress(
            speaking,
            now,
            domain=domain,
            needed=needed,
            bears=bears,
            max_tokens=max_tokens,
            relevances=relevances,
            count=count or estimated_tokens,
            style=style,
            full=full,
            compares=compares,
            suspected=suspected,
        )
        found.is_doubtful = found.has_answer and hits.is_doubtful
        spoken = {memory.path for memory in speaking}
        found.untrusted = tuple(
            one.path
            for one in there
            if one.path not in spoken
            and domain in {None, one.domain}
            and current_state(one, now) is State.ACTIVE
        )
        return found

    async def stats(self) -> dict[str, Any]:
        """Counts of memories (total, by state, domain and facet, superseded, conflicts) and of connections."""
        catalog = await self._persona.names.catalog()
        sizes, tally = catalog.sizes(), catalog.tally()
        return {
            "total": len(catalog),
            "states": {state.value: count for state, count in catalog.counts_by_state(self._clock()).items()},
            "domains": {domain: sum(facets.values()) for domain, facets in sizes.items()},
            "facets": sizes,
            "connections": tally.connections // 2,
            "superseded": tally.superseded,
            "conflicts": tally.conflicts,
        }

    # ── Introspection ───────────────────────────────────────────────────────────────────

    async def introspect(self) -> IntrospectionReport:
        """Introspect, compare with the last introspection, and write a log for the next comparison."""
        report = await self.introspected()
        log = envelope.introspection(int(report.created_at), report.to_log())
        await self._writer.write([log], drafts=False)
        await self._thin_logs(report.created_at)
        return report

    async def introspected(self) -> IntrospectionReport:
        """As `introspect`, without writing a log."""
        catalog = await self._persona.names.catalog()
        previous = await self._last_log()
        scan = await self._persona.suspected(MAX_SUSPICIONS_COUNT)
        near = await self._persona.alike()
        memories, columns = tuple(catalog), catalog.columns()
        # In a thread, so that the event loop goes on: memories are immutable, and the columns are a copy.
        return await asyncio.to_thread(
            introspect,
            memories,
            self._clock(),
            columns=columns,
            previous=previous,
            suspected=None if scan is None else scan.contradictions,
            near=near,
            all_searched=scan is not None and not scan.bounded,
        )

    async def _thin_logs(self, now: float) -> None:
        """Delete outdated logs here and on relays, as many as one deletion request can name; the next run continues.

        Two devices may run this at the same time: `outdated` keeps the same logs on both.
        """
        seconds = [int(name) for slot, _ in self._logs() if (name := slot.removeprefix(LOGS)).isdecimal()]
        if due := outdated(seconds, now)[:MAX_DELETED_COUNT]:
            with suppress(ClockSkewError):  # the clock allows no deletion now; a later run deletes the logs
                await self._writer.forget_all(
                    [f"{address.INTROSPECTION}{second}" for second in due], why=PRUNE
                )

    def _logs(self) -> list[tuple[str, int]]:
        """The slot and the seq of every log in the ledger."""
        return self._ledger.heads.live_beneath(LOGS)

    async def _last_log(self) -> Baseline | None:
        """The baseline of the last introspection of any device; None if there is none."""
        slots = [(slot.removeprefix(LOGS), seq) for slot, seq in self._logs()]
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
        """What pruning would do now; nothing is written."""
        made = await self._plan()
        return Pruned.of(PruneReport.dry(made), made.count)

    async def _plan(self) -> PrunePlan:
        catalog = await self._persona.names.catalog()
        return plan(catalog, self._clock(), columns=catalog.columns(), keeps_used=self._keeps_used)

    def _plan_of(self, memory: PersonaMemory | None) -> PrunePlan:
        return plan([memory] if memory else [], self._clock(), keeps_used=self._keeps_used)

    async def prune(self, incomplete: Callable[[], Awaitable[Sequence[str]]]) -> Pruned:
        """Write the current states of memories, and delete memories that have been dissolved for 30 days.

        Args:
            incomplete: syncs with every relay that was not left out; returns a sentence for each relay that did not
                show everything.
        """
        await self._persona.publish_accesses()
        missing: Sequence[str] = ()
        due = (await self._plan()).deletions
        if due:
            missing = await incomplete()
        made = await self._plan()
        refused, written = dict[str, str](), list[str]()
        if missing:
            why = f"not every relay showed what it holds: {'; '.join(missing)}; sync, or leave these relays out by name"
            refused = {step.path: why for step in made.deletions}
        for part in batches(made.rewrites, MAX_BATCH_COUNT):
            refused |= await self._rewrite(part, written)
        for part in batches([] if missing else made.deletions, MAX_DELETED_COUNT):
            refused |= await self._delete(part, written)
        if not missing:
            self._ledger.checkpoint()
        report = PruneReport.of(made, refused)
        return Pruned.of(report, report.count, written)

    async def _rewrite(self, steps: Sequence[PruneStep], written: list[str]) -> dict[str, str]:
        """Write the current states of some memories; returns the reasons of refused memories, by path.

        The ids of the events are appended to `written`.
        """
        unfit: dict[str, str] = {}

        async def attempt() -> None:
            batch = EditBatch(self._persona.palace)
            for step in steps:
                memory = await batch.get(step.path)
                for now in self._plan_of(memory).rewrites:
                    batch.change(now.applied())
            ids = await batch.write(skip_unfit=lambda _: True)
            unfit.update({path: _FULL for path, ident in ids.items() if not ident})
            written.extend(filter(None, ids.values()))

        refused = await self._attempt_steps(attempt, steps, partial(self._rewrite, written=written))
        return unfit | refused

    async def _delete(self, steps: Sequence[PruneStep], written: list[str]) -> dict[str, str]:
        """Delete the memories that are still due; as `_rewrite`."""
        refused: dict[str, str] = {}

        async def attempt() -> None:
            refused.clear()
            paths, bases = [], {}
            for step in steps:
                path = address.PERSONA + step.path
                slot_state = await self._persona.palace.slot_state(address.d_tag(path))
                memory = slot_state.memory
                if self._plan_of(memory).deletions:
                    paths.append(path)
                    bases[slot_state.slot] = slot_state.basis
                else:
                    refused[step.path] = "it has changed in the meantime"
            if paths:
                written.append(await self._writer.forget_all(paths, bases, why=PRUNE))

        refused |= await self._attempt_steps(attempt, steps, partial(self._delete, written=written))
        return refused

    async def _attempt_steps(
        self,
        attempt: Callable[[], Awaitable[None]],
        steps: Sequence[PruneStep],
        again: Callable[[Sequence[PruneStep]], Awaitable[dict[str, str]]],
    ) -> dict[str, str]:
        """Attempt all steps at once; if the clock does not allow that, each step alone."""
        try:
            await retry_while_moved(attempt)
        except ClockSkewError as error:
            if len(steps) == 1:
                return {steps[0].path: str(error)}
            found: dict[str, str] = {}
            for step in steps:
                found |= await again([step])
            return found
        return {}
