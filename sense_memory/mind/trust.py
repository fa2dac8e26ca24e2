"""Whose words may enter a prompt by themselves, and what is kept back: rules that a person makes, and takes back as one.

A rule is a record, `mind/trust/ID`, so every device applies it, also to what arrives later. Memories are judged when they
are read: nothing is rewritten by a quarantine. Revoking forgets what lies at an address, here and on relays, after a sealed
copy of it is durable (`mind/revoked/…`): that copy is what an undo writes again. Entries of the log are a record of what
happened: they are kept back, and never removed.

Guaranteed: after a kill at any moment the rule holds, and `undo` brings back whatever was forgotten. Safe, because the rule
and the copies are written first. What an undo cannot bring back are earlier versions of what was forgotten.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidInput
from sense_memory.ledger import retry_while_moved
from sense_memory.limits import MAX_DELETED_COUNT, MAX_PLAINTEXT_BYTES
from sense_memory.memories.bulk import batches
from sense_memory.memories.persona.arguments import checked_source
from sense_memory.memories.trust import RULES, of_entry, of_memory
from sense_memory.mind.call_checks import checked
from sense_memory.mind.entry_sources import every_source, name_of, parts_of, statement_of
from sense_memory.nostr import address
from sense_memory.palace.sources import is_told, least_trusted_last
from sense_memory.palace.trust import (
    BLOCK_PART,
    JOURNAL_PART,
    LOG_PART,
    PASSAGE_PART,
    Effect,
    Statement,
    TrustJudge,
    TrustRule,
    digest_of,
)
from sense_memory.palace.version import memory_of
from sense_memory.plain_text import printable
from sense_memory.records import envelope
from sense_memory.records.envelope import Record
from sense_memory.records.kinds import RecordType, kind_at


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sense_memory.ledger import Basis
    from sense_memory.memories.open_store import OpenStore
    from sense_memory.mind.layers.archive import Passage
    from sense_memory.mind.log import Log, LogEntry
    from sense_memory.mind.records import MindRecord, MindRecords

_COPIES: Final = f"{address.MIND}revoked/"
_NEVER_TAKEN: Final = (LOG_PART, JOURNAL_PART)  # entries of what happened, which are kept back only
_KINDS: Final = frozenset({"import", "tool", "document", "scene"})  # each stands for all of its sources
_ID_BYTES: Final = 4
_TURNS: Final = 3  # of looking again for what was written while something was forgotten
_REASONS: Final = {Effect.TRUST: "trusted", Effect.QUARANTINE: "kept back", Effect.REVOKE: "forgotten"}


@dataclass(frozen=True, slots=True)
class TrustStep:
    """What a rule is about.

    Attributes:
        name: a path, a flat key, `archive:ID`, `block:LABEL` or `log:CONVERSATION/ID`.
        source: who said it.
        at: when it was written, seconds since 1970.
        derived_from: what it was made of, if it is reached because of that; empty if the rule names it.
        outcome: trusted, kept back, or forgotten.
    """

    name: str
    source: str
    at: float
    derived_from: tuple[str, ...]
    outcome: str


@dataclass(frozen=True, slots=True)
class TrustPlan:
    """What a rule would do, or does.

    Attributes:
        rule: the rule.
        steps: what it is about, and what is derived from that, in the order of their names.
    """

    rule: TrustRule
    steps: tuple[TrustStep, ...]


@dataclass(frozen=True, slots=True)
class TrustUndo:
    """What an undo did.

    Attributes:
        rule: the rule, which no longer holds.
        restored: the names of what was written again.
        left: the names of what was not, because something else is there by now; its copy stays.
    """

    rule: TrustRule
    restored: tuple[str, ...]
    left: tuple[str, ...]


class EntryGate:
    """Judges entries of the log, for one look at it.

    Args:
        judge: applies the rules.
        log: the log, as of its last refresh.
        me: the public key of this agent.
        withheld: the rule that keeps a passage back, by the name of the passage.
    """

    def __init__(
        self, judge: TrustJudge, log: Log, me: str, withheld: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._judge, self._log, self._me, self._withheld = judge, log, me, withheld
        self._found: dict[str, str] = {}

    @property
    def withholds(self) -> bool:
        """Whether any rule keeps something back."""
        return self._judge.withholds

    def may_speak(self, entry: LogEntry) -> bool:
        """Whether an entry may enter a prompt by itself."""
        return self._judge.may_speak(statement_of(entry, self._me, self._log.known)) and not self.held(entry)

    def words_may_speak(self, entry: LogEntry) -> bool:
        """Whether what the speaker of a message said may, without the results of tools that stand beside it."""
        own = {name: value for name, value in entry.payload.items() if name != "blocks"}
        one = statement_of(replace(entry, payload=own), self._me, self._log.known)
        return self._judge.may_speak(one) and not self._judge.holds_back(one, {}, {})

    def passage_may_speak(self, passage: Passage) -> bool:
        """Whether a passage may enter a prompt by itself: its own source may, and the entry that it came from."""
        entry = self._log.known(passage.source)
        own = self._judge.may_speak(of_passage(passage)) and not self.passage_held(passage)
        return own and (entry is None or self.may_speak(entry))

    def passage_held(self, passage: Passage) -> str:
        """The id of the rule that keeps a passage back, or the entry that it came from; empty if none does."""
        entry = self._log.known(passage.source)
        held = self._withheld.get(PASSAGE_PART + passage.id, "")
        return held or ("" if entry is None else self.held(entry))

    def held(self, entry: LogEntry) -> str:
        """The id of the rule that keeps an entry back; empty if none does."""
        if not self._judge.withholds:
            return ""
        if entry.id not in self._found:
            self._found[entry.id] = ""  # a circle of beliefs ends here
            one = statement_of(entry, self._me, self._log.known)
            parts = {name_of(part): part for part in parts_of(entry, self._log.known)}
            held = {name: rule for name, part in parts.items() if (rule := self.held(part))}
            known = {name: statement_of(part, self._me, self._log.known) for name, part in parts.items()}
            self._found[entry.id] = self._judge.holds_back(one, held, known)
        return self._found[entry.id]


@checked
class Trust:
    """The rules of an agent.

    Args:
        records: reads and writes them.
        log: the log, whose entries they are also about.
    """

    def __init__(self, records: MindRecords, log: Log) -> None:
        self._records, self._log, self._store = records, log, records.store

    # ── Reading ─────────────────────────────────────────────────────────────────────────

    async def rules(self) -> list[TrustRule]:
        """All rules, also those that were undone, the earliest first."""
        return list(await self._store.trust().rules())

    async def gate(self) -> EntryGate:
        """Judges the entries of the log as it is now."""
        await self._log.refresh()
        return await gate_of(self._store, self._log)

    async def kept_back(self) -> dict[str, Statement]:
        """What the rules keep back, by name, with its text."""
        held, gate = await self._store.trust().withheld(), await self.gate()
        if not gate.withholds:
            return {}
        known = await self._store.trust().statements()
        found = {name: known[name] for name in held if name in known}
        judge = await self._store.trust().judge()
        said = map(of_entry, await self._store.journal.every())
        found |= {one.name: one for one in said if judge.holds_back(one, {}, {})}
        entries = (entry for entry in await self._log.entries() if gate.held(entry))
        return found | {name_of(entry): self._statement(entry) for entry in entries}

    async def sources_of(self, names: Iterable[str]) -> list[str]:
        """The sources of some memories, and of all that these are derived from, the least trusted last.

        Args:
            names: paths, flat keys, `archive:ID`, `block:LABEL`, `log:CONVERSATION/ID`.

        Raises:
            InvalidInput: there is no such memory here, or a rule keeps it back; nothing was written.
        """
        found: list[str] = []
        for name in names:
            one = await self._named(name)
            if one is None:
                raise InvalidInput(
                    f"derived_from names {printable(repr(name))}, and no such memory is here; nothing was written"
                )
            found += one.every_source
        return [source for source in least_trusted_last(found) if source]

    async def _named(self, name: str) -> Statement | None:
        """What the rules have to know of one memory; None if it is not here, or is kept back."""
        if not isinstance(name, str):
            return None
        if name.startswith(LOG_PART):
            entry = await self._log.get(name.rpartition("/")[2])
            held = entry is None or (await self.gate()).held(entry)
            return None if entry is None or held else self._statement(entry)
        if name in await self._store.trust().withheld():
            return None
        if name.count("/") == 2:
            memory = (await self._store.persona().palace.refresh()).get(name)
            return None if memory is None else of_memory(memory)
        return (await self._store.trust().statements()).get(name)

    def _statement(self, entry: LogEntry) -> Statement:
        return statement_of(entry, self._store.options.signer.public_key, self._log.known)

    # ── Plans ───────────────────────────────────────────────────────────────────────────

    async def plan(
        self,
        effect: str,
        *,
        source: str = "",
        session: str = "",
        name: str = "",
        since: float | None = None,
        made_by: str = "user",
    ) -> TrustPlan:
        """What a rule would do; nothing is written.

        Args:
            effect: trust, quarantine or revoke.
            source: such as `tool:browser`; `tool`, `document`, `import` and `scene` stand for all of their kind.
            session: a session, a conversation, or an import.
            name: of one memory; a rule that trusts it is about its text of now.
            since: only what was written at this time or later, seconds since 1970.
            made_by: who decides.

        Raises:
            InvalidInput: nothing is named, there is no such source or memory, or no such effect.
        """
        if effect not in set(Effect):
            raise InvalidInput(f"an effect is one of {', '.join(Effect)}; nothing was done")
        if not (source or session or name):
            raise InvalidInput("name a source, a session or a memory; nothing was done")
        if source and source not in _KINDS:
            checked_source(source)
        rule = TrustRule(
            secrets.token_hex(_ID_BYTES),
            Effect(effect),
            source,
            session,
            name,
            await self._digest(name) if name and effect == Effect.TRUST else "",
            since,
            made_at=self._store.options.clock(),
            made_by=made_by,
        )
        return TrustPlan(rule, await self._steps(rule))

    async def _digest(self, name: str) -> str:
        found = await self._named(name)
        if found is None:
            raise InvalidInput(f"there is no memory {printable(repr(name))} here; nothing was trusted")
        return digest_of(found.text)

    async def _steps(self, rule: TrustRule) -> tuple[TrustStep, ...]:
        """What a rule is about now, and what is derived from that unless it only trusts."""
        known = await self._store.trust().statements()
        known |= {one.name: one for one in map(of_entry, await self._store.journal.every())}
        await self._log.refresh()
        entries = await self._log.entries()
        if rule.effect is Effect.TRUST:
            judge, mine = TrustJudge(()), TrustJudge([rule])
            every = [*known.values(), *map(self._statement, entries)]
            named = {one.name: one for one in every if not judge.may_speak(one) and mine.may_speak(one)}
        else:
            judge = TrustJudge([rule])
            gate = EntryGate(judge, self._log, self._store.options.signer.public_key)
            held = {name_of(entry): self._statement(entry) for entry in entries if gate.held(entry)}
            found = judge.withheld(known.values(), dict.fromkeys(held, rule.id))
            named = held | {name: known[name] for name in found if name in known}
        return tuple(_step(rule, named[name]) for name in sorted(named))

    # ── Doing, and undoing ──────────────────────────────────────────────────────────────

    async def apply(self, plan: TrustPlan) -> TrustPlan:
        """Make the rule of a plan; it holds from now on, on every device. Returns what it is about by now.

        To revoke, what lies at an address is forgotten here and on relays, with a sealed copy for `undo`. What is written
        meanwhile is found again, and what comes later is kept back by the rule.

        Raises:
            LedgerError, ClockSkewError: it could not be written; the rule may hold already, and `undo` undoes it.
        """
        rule = replace(plan.rule, made_at=self._store.options.clock())
        await self._write(rule)
        if rule.effect is not Effect.REVOKE:
            return TrustPlan(rule, await self._steps(rule))
        done: dict[str, TrustStep] = {}
        for _ in range(_TURNS):
            steps = {step.name: step for step in await self._steps(rule)}
            done |= steps
            taken = await self._take(rule, [name for name in steps if not name.startswith(_NEVER_TAKEN)])
            if not taken:
                break
            rule = replace(rule, taken=tuple(dict.fromkeys((*rule.taken, *taken))))
            await self._write(rule)
        gone = set(rule.taken)
        told = (step if name in gone else _kept(step) for name, step in sorted(done.items()))
        return TrustPlan(rule, tuple(told))

    async def _write(self, rule: TrustRule) -> None:
        await self._records.write({RULES + rule.id: _fields(rule)})

    async def _take(self, rule: TrustRule, names: Iterable[str]) -> list[str]:
        """Forget memories after a sealed copy of each is durable; returns the names of those that are forgotten."""
        taken: list[str] = []
        for part in batches(list(names), MAX_DELETED_COUNT):
            taken += await retry_while_moved(partial(self._take_part, rule, part))
        return taken

    async def _take_part(self, rule: TrustRule, names: Iterable[str]) -> list[str]:
        """As `_take`. Raises HeadMoved where a memory was written again meanwhile; then nothing was forgotten."""
        copies, paths = dict[str, dict[str, Any]](), dict[str, str]()
        bases: dict[str, Basis] = {}
        for name in names:
            path = path_of(name)
            slot = address.d_tag(path)
            basis = self._store.ledger.edits.basis(slot)
            stored = self._store.ledger.head(slot)
            if stored is None or not stored.role.is_live:
                continue
            record = await self._store.reader.readable_record(stored)
            copy = {"rule": rule.id, "name": name, "at": path, "fields": dict(record.fields)}
            where = f"{_COPIES}{rule.id}-{digest_of(name)}"
            # A text so long that its copy does not fit an event is kept back, and not forgotten.
            if envelope.plaintext_bytes(envelope.record_at(where, copy)) <= MAX_PLAINTEXT_BYTES:
                copies[where], paths[name], bases[slot] = copy, path, basis
        if paths:
            await self._records.write(copies)
            async with self._store.writing() as store:
                await store.writer.forget_all(list(paths.values()), bases, insists=True)
                store.ledger.checkpoint()
        return list(paths)

    async def undo(self, rule_id: str, *, made_by: str = "user") -> TrustUndo:
        """Take a rule back as one: what it kept back is there again, and what it made forget is written again.

        Args:
            rule_id: the id, or its first digits, four or more.
            made_by: who decides.

        Raises:
            InvalidInput: no rule that holds has this id, or the copy of a text that it made forget is not here yet; nothing
                was done.
        """
        holding = [rule for rule in await self.rules() if rule.holds and rule.id.startswith(rule_id)]
        if len(holding) != 1 or len(rule_id) < _ID_BYTES:
            raise InvalidInput(f"no rule that holds has the id {printable(rule_id)!r}; nothing was undone")
        (rule,) = holding
        restored, left = list[str](), list[str]()
        copies = [one for one in await self._copies() if one.text("rule") == rule.id]
        if lacking := self._without_copy(rule, copies):
            raise InvalidInput(
                f"{len(lacking)} of the {len(rule.taken)} texts that the rule made forget are not on this machine yet; "
                "nothing was undone. Sync this machine and the one that made the rule, then try again"
            )
        for copy in copies:
            (restored if await self._restore(copy) else left).append(copy.text("name"))
        rule = replace(rule, undone_at=self._store.options.clock())
        await self._records.write({RULES + rule.id: {**_fields(rule), "undone_by": made_by}})
        await self._records.forget(copy.path for copy in copies if copy.text("name") in restored)
        return TrustUndo(rule, tuple(restored), tuple(left))

    def _without_copy(self, rule: TrustRule, copies: Iterable[MindRecord]) -> list[str]:
        """The names of what a rule made forget, of which neither a copy nor a text is here."""
        copied = {copy.text("name") for copy in copies}
        heads = {name: self._store.ledger.head(address.d_tag(path_of(name))) for name in rule.taken}
        return [
            name
            for name, head in heads.items()
            if name not in copied and not (head is not None and head.role.is_live)
        ]

    async def _copies(self) -> list[MindRecord]:
        return await self._records.under(_COPIES, asks=False)

    async def _restore(self, copy: MindRecord) -> bool:
        """Write a memory again from its copy, unless something else is there by now; whether it is there."""
        path, fields = copy.text("at"), copy.fields.get("fields")
        if not isinstance(fields, dict):
            return False
        head = self._store.ledger.head(address.d_tag(path))
        if head is not None and head.role.is_live:
            return dict((await self._store.reader.readable_record(head)).fields) == fields
        kind = kind_at(path)
        if kind is RecordType.PERSONA:
            async with self._store.writing() as store:
                await store.persona().restore(memory_of(fields, copy.event_id, copy.created_at))
        elif kind is RecordType.FLAT:
            async with self._store.writing() as store:
                await store.flat.publish_draft(Record(kind, path, fields))
        else:
            await self._records.write({path: {name: one for name, one in fields.items() if name != "path"}})
        return True

    # ── What is derived ─────────────────────────────────────────────────────────────────

    def foreign_sources(self, entries: Iterable[LogEntry]) -> list[str]:
        """The sources of some entries that are neither the user's nor the agent's own, the least trusted last."""
        me = self._store.options.signer.public_key
        found = (source for entry in entries for source in every_source(entry, me, self._log.known))
        return [source for source in least_trusted_last(found) if not is_told(source)]


async def gate_of(store: OpenStore, log: Log) -> EntryGate:
    """What judges the entries of a log as of its last refresh."""
    view = store.trust()
    return EntryGate(await view.judge(), log, store.options.signer.public_key, await view.withheld())


def of_passage(passage: Passage) -> Statement:
    """What the rules have to know of a passage."""
    about = passage.origin, passage.sources, passage.session, passage.at, passage.derived_from
    return Statement(PASSAGE_PART + passage.id, *about, passage.content)


def path_of(name: str) -> str:
    """The path of a memory that a rule names; not of an entry of the log."""
    for part, place in ((PASSAGE_PART, "archive"), (BLOCK_PART, "block")):
        if name.startswith(part):
            return address.mind_path(place, name.removeprefix(part))
    return f"{address.PERSONA}{name}" if name.count("/") == 2 else address.flat_path(name)


def _step(rule: TrustRule, one: Statement) -> TrustStep:
    derived = () if rule.effect is Effect.TRUST or rule.is_about(one) else one.derived_from
    step = TrustStep(one.name, one.source, one.at, derived, _REASONS[rule.effect])
    return _kept(step) if one.name.startswith(_NEVER_TAKEN) and rule.effect is Effect.REVOKE else step


def _kept(step: TrustStep) -> TrustStep:
    return replace(step, outcome=_REASONS[Effect.QUARANTINE])


def _fields(rule: TrustRule) -> dict[str, Any]:
    fields = {
        "effect": rule.effect.value,
        "source": rule.source,
        "session": rule.session,
        "name": rule.name,
        "digest": rule.digest,
        "since": rule.since,
        "taken": list(rule.taken),
        "made_at": rule.made_at,
        "made_by": rule.made_by,
        "undone_at": rule.undone_at,
    }
    return {name: value for name, value in fields.items() if value not in ("", None, [])}
