"""The rules of who may speak, as they stand in a ledger, and what they say of its memories.

Guaranteed: whatever arrives later is judged by the same rules, because memories are judged when they are read. Rules are
read again only when the ledger has changed; without a rule that keeps something back, no memory is read for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sense_memory.ledger.feed import START
from sense_memory.models import PROVENANCE
from sense_memory.nostr import address
from sense_memory.palace.trust import (
    BLOCK_PART,
    JOURNAL_PART,
    PASSAGE_PART,
    Effect,
    Statement,
    TrustJudge,
    TrustRule,
)
from sense_memory.records.kinds import RecordType


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sense_memory.ledger import Ledger
    from sense_memory.models import JournalEntry, Memory, PersonaMemory
    from sense_memory.palace.catalog import Catalog
    from sense_memory.records.reader import Reader
    from sense_memory.search.hits import Hit

RULES: Final = f"{address.MIND}trust/"
_PARTS: Final = {f"{address.MIND}archive/": PASSAGE_PART, f"{address.MIND}block/": BLOCK_PART}


class TrustView:
    """What the rules in a ledger say of its memories.

    Args:
        ledger: holds the rules and the memories.
        reader: opens them.
        catalog: gives the palace memories as they are now.
    """

    def __init__(self, ledger: Ledger, reader: Reader, catalog: Callable[[], Awaitable[Catalog]]) -> None:
        self._ledger, self._reader, self._catalog = ledger, reader, catalog
        self._rules: tuple[TrustRule, ...] = ()
        self._judge, self._cursor = TrustJudge(()), START
        self._withheld: Mapping[str, str] = {}
        self._judged = START

    async def rules(self) -> tuple[TrustRule, ...]:
        """All rules, also those that were undone, the earliest first."""
        if self._ledger.feed.has_changed(self._cursor):
            cursor = self._ledger.feed.cursor()
            opened = await self._reader.live(address.PREFIX + RULES)
            found = (rule_of(item.path, item.record.fields) for item in opened)
            self._rules = tuple(sorted(found, key=lambda rule: (rule.made_at, rule.id)))
            self._judge, self._cursor = TrustJudge(self._rules), cursor
        return self._rules

    async def judge(self) -> TrustJudge:
        """What applies the rules that hold."""
        await self.rules()
        return self._judge

    async def withheld(self) -> Mapping[str, str]:
        """The id of the rule that keeps a memory back, by the memory's name; empty without such rules."""
        judge = await self.judge()
        if not judge.withholds:
            return {}
        if self._ledger.feed.has_changed(self._judged):
            cursor = self._ledger.feed.cursor()
            self._withheld, self._judged = judge.withheld((await self.statements()).values()), cursor
        return self._withheld

    async def statements(self) -> dict[str, Statement]:
        """Every palace memory, flat memory, passage and block of the ledger, by name."""
        found = {memory.path: of_memory(memory) for memory in await self._catalog()}
        for item in await self._reader.live(address.PREFIX):
            if item.type is RecordType.FLAT:
                one = of_fields(item.path, item.record.fields, item.record.written_at(item))
                found[one.name] = one
        for prefix, part in _PARTS.items():
            for item in await self._reader.live(address.PREFIX + prefix):
                name = part + item.path.removeprefix(prefix)
                found[name] = of_fields(name, item.record.fields, item.record.written_at(item))
        return found

    async def may_speak(self, memory: PersonaMemory) -> bool:
        """Whether a palace memory may enter a prompt by itself."""
        return (await self.judge()).may_speak(of_memory(memory)) and memory.path not in await self.withheld()


def of_memory(memory: PersonaMemory) -> Statement:
    """What the rules have to know of a palace memory."""
    return Statement(
        memory.path,
        memory.source,
        memory.sources,
        memory.session,
        memory.written_at,
        memory.derived_from,
        memory.value,
    )


def of_flat(memory: Memory | Hit) -> Statement:
    """What the rules have to know of a flat memory, or of a hit of a search that is no palace memory."""
    at, is_entry = memory.created_at, getattr(memory, "kind", "") == "journal"
    return Statement(
        f"{JOURNAL_PART}{memory.key}" if is_entry else memory.key,
        memory.source,
        memory.sources,
        memory.session,
        at,
        memory.derived_from,
        memory.value,
    )


def of_entry(entry: JournalEntry) -> Statement:
    """What the rules have to know of a journal entry."""
    name, at = f"{JOURNAL_PART}{entry.event_id}", entry.created_at
    return Statement(name, entry.source, (), entry.session, at, (), entry.content)


def of_fields(name: str, fields: Mapping[str, Any], at: float) -> Statement:
    """What the rules have to know of a record that says where its text came from, as `provenance_fields` has it."""
    text = next((value for key in ("value", "content") if isinstance(value := fields.get(key), str)), "")
    if isinstance(more := fields.get("more"), dict):  # a block whose text goes on elsewhere, under this token
        text = f"{text}{more.get('of')}"
    given = provenance_in_fields(fields)
    return Statement(
        name, given["source"], given["sources"], given["session"], at, given["derived_from"], text
    )


def provenance_in_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """`source`, `sources`, `session` and `derived_from` of a record; what has another type counts as missing.

    A passage has named its entry as `source` from the beginning, so its own source is `origin`.
    """
    source = fields.get("origin") if "content" in fields else fields.get("source")
    lists = {
        name: tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
        for name in ("sources", "derived_from")
        for value in (fields.get(name),)
    }
    session = fields.get("session")
    return {
        "source": source if isinstance(source, str) else "",
        "session": session if isinstance(session, str) else "",
        **lists,
    }


def provenance_of(memory: Memory | PersonaMemory) -> dict[str, Any]:
    """Where a memory came from, as fields of a record; also that nobody said so."""
    found = {name: getattr(memory, name, None) for name in PROVENANCE}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def rule_of(path: str, fields: Mapping[str, Any]) -> TrustRule:
    """The rule in a record. A rule that this version does not understand keeps back what it is about."""

    def text(name: str) -> str:
        value = fields.get(name)
        return value if isinstance(value, str) else ""

    def time(name: str) -> float | None:
        value = fields.get(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    taken = fields.get("taken")
    known = text("effect")
    return TrustRule(
        path.rpartition("/")[2],
        Effect(known) if known in set(Effect) else Effect.QUARANTINE,
        source=text("source"),
        session=text("session"),
        name=text("name"),
        digest=text("digest"),
        since=time("since"),
        taken=tuple(name for name in taken if isinstance(name, str)) if isinstance(taken, list) else (),
        made_at=time("made_at") or 0.0,
        made_by=text("made_by"),
        undone_at=time("undone_at"),
    )
