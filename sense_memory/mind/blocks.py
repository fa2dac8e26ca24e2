"""Core memory: editable blocks of text that are always in an agent's prompt (four-tier memory, tier 1).

A block is one record; every change is a new version, and earlier versions stay in the local history. The blocks
`persona` and `human` exist from the start, empty, and are written when they first change. `compile_blocks` is pure and
returns the documented XML; a prompt is rebuilt only if this XML has changed, see `MemoryManager`.

A text that does not fit an event (20,000 characters of Chinese have 60,000 bytes) is written in pieces, in one
transaction: the first piece in the block's record, the others at addresses that only this device writes.

Guaranteed: a block never shows pieces of two versions together. Safe, because each version names its pieces by a random
token. While a piece has not arrived from a relay, the block is not whole: it shows the first piece, and tools refuse to
edit it. The cost is one more event for each further piece, four at most.

A program that does not know pieces sees a shorter text that is read-only. If that program writes another text, the block
stays read-only until `update(label, read_only=False)`: its record then looks like that of a block that its owner made
read-only, so a guess could open a block that was closed on purpose.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape

import orjson

from sense_memory.errors import InvalidAddress, InvalidInput
from sense_memory.limits import MAX_PLAINTEXT_BYTES
from sense_memory.memories.persona.arguments import checked_source
from sense_memory.mind.call_checks import checked
from sense_memory.mind.records import MindRecord
from sense_memory.mind.versioned import VersionedRecords
from sense_memory.nostr import address
from sense_memory.palace.sources import least_trusted_last
from sense_memory.palace.trust import BLOCK_PART
from sense_memory.plain_text import printed
from sense_memory.records import envelope


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sense_memory.mind.records import MindRecords

MAX_BLOCK_CHARS: Final = 20_000  # Letta's CORE_MEMORY_BLOCK_CHAR_LIMIT
DESCRIPTIONS: Final[Mapping[str, str]] = {
    "persona": "Stores details about your current persona, guiding how you behave and respond.",
    "human": "Stores key details about the person you are conversing with.",
}
_INTRODUCTION: Final = "The following memory blocks are currently engaged in your core memory unit:"
_label = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}").fullmatch  # the name of an XML element
_PREFIX: Final = f"{address.MIND}block/"
_MORE: Final = f"{address.MIND}more/"
_ROOM: Final = MAX_PLAINTEXT_BYTES - 2_000  # for a block's record; the rest is for the edits that it knows
_PIECE_BYTES: Final = MAX_PLAINTEXT_BYTES - 1_000  # of text in the record of a piece
_OF_PIECES: Final = {"more", "locked"}  # fields of a record whose text goes on in pieces
_MAX_PIECES: Final = 4  # 20,000 characters have at most 120,000 bytes of JSON


@dataclass(frozen=True, slots=True)
class Block:
    """One block of core memory.

    Attributes:
        label: the name of the block and of its XML element.
        description: the purpose of the block.
        value: the text.
        limit: the largest number of characters of the value.
        read_only: whether the agent's tools may not change the block.
        version: how often the block was written; 0 for a default block that was never written.
        updated_at: when this version was written, seconds since 1970; None for version 0.
        is_whole: false while a piece of a long text has not arrived from a relay; the value then ends with "…".
        sources: who said its lines, as sources of palace memories; the least trusted last, empty for the agent's own.
        session: the import that brought it; empty for none.
    """

    label: str
    description: str = ""
    value: str = field(default="", repr=False)
    limit: int = MAX_BLOCK_CHARS
    read_only: bool = False
    version: int = 0
    updated_at: float | None = None
    is_whole: bool = True
    sources: tuple[str, ...] = ()
    session: str = ""


@checked
class Blocks:
    """The blocks of an agent.

    Args:
        records: reads and writes the blocks.
    """

    def __init__(self, records: MindRecords) -> None:
        self._records = records
        self._blocks = _stored(records)
        self._turn = asyncio.Lock()  # held by a change, which reads a block and writes it back

    # ── Reading ─────────────────────────────────────────────────────────────────────────

    async def all(self) -> list[Block]:
        """All blocks: `persona` and `human` first, then the others by label.

        A record that another program wrote under a name that cannot be a label is left out, and so is what a rule keeps
        back.
        """
        stored = {name: block for name, block in (await self._blocks.all()).items() if _label(name)}
        defaults = {label: Block(label, description) for label, description in DESCRIPTIONS.items()}
        found = defaults | stored
        withheld = await self._records.store.trust().withheld()
        labels = (*defaults, *sorted(found.keys() - defaults.keys()))
        return [found[label] for label in labels if f"{BLOCK_PART}{label}" not in withheld]

    async def speaking(self) -> list[Block]:
        """The blocks that may stand in a prompt: those with lines of a tool or another agent may not, see `Trust`."""
        view = self._records.store.trust()
        judge, blocks = await view.judge(), await self.all()
        if not any(block.sources for block in blocks):
            return blocks
        known = await view.statements()
        return [
            block
            for block in blocks
            if (one := known.get(f"{BLOCK_PART}{block.label}")) is None or judge.may_speak(one)
        ]

    async def get(self, label: str) -> Block:
        """One block.

        Raises:
            InvalidInput: no block has this label.
        """
        return _existing(label, await self._blocks.get(_checked_label(label)))

    async def history(self, label: str) -> list[Block]:
        """The versions of a block in this ledger, newest first."""
        return await self._blocks.history(_checked_label(label))

    async def compile(self) -> str:
        """All blocks as XML for a system prompt; see `compile_blocks`."""
        return compile_blocks(await self.speaking())

    # ── Changes by programs ─────────────────────────────────────────────────────────────

    async def create(
        self,
        label: str,
        value: str = "",
        *,
        description: str = "",
        limit: int = MAX_BLOCK_CHARS,
        read_only: bool = False,
        sources: Iterable[str] = (),
    ) -> Block:
        """Add a block; `sources` says who said its text, if that was not the agent or its user.

        Raises:
            InvalidInput: a block has the label already, the label cannot name an XML element, or the value exceeds the
                limit.
        """
        new = Block(
            *(_checked_label(label), description or DESCRIPTIONS.get(label, ""), value, limit, read_only),
            sources=_sources(sources),
        )

        def made(old: Block) -> Block:
            if old.version:
                raise InvalidInput(f"a block {label!r} exists already")
            return new

        return await self._change(new.label, made, Block(new.label))

    async def update(
        self,
        label: str,
        *,
        value: str | None = None,
        description: str | None = None,
        limit: int | None = None,
        read_only: bool | None = None,
        sources: Iterable[str] | None = None,
    ) -> Block:
        """Change the given fields of a block, which may be read-only; returns the new version.

        A new value without `sources` keeps those of the value before: trust rises only where somebody says so.

        Raises:
            InvalidInput: no block has the label, or the value exceeds the limit.
        """
        given: dict[str, Any] = {
            "value": value,
            "description": description,
            "limit": limit,
            "read_only": read_only,
            "sources": None if sources is None else _sources(sources),
        }
        changes = {name: item for name, item in given.items() if item is not None}
        return await self._change(label, lambda block: replace(block, **changes))

    async def delete(self, label: str) -> str:
        """Forget a block here, and ask relays to delete it; a default block becomes empty again.

        Returns the id of the deletion request.
        """
        await self.get(label)
        pieces = await self._records.under(f"{_MORE}{label}/", asks=False)
        return await self._records.forget([self._blocks.path(label), *(piece.path for piece in pieces)])

    # ── Changes by an agent's tools ─────────────────────────────────────────────────────

    async def memory_replace(self, block: str, old: str, new: str) -> Block:
        """Replace text in a block; an empty `new` removes it.

        Args:
            block: the block's label.
            old: a text that occurs exactly once.
            new: the replacement.

        Raises:
            InvalidInput: no block has the label, the block is read-only, the text does not occur or occurs more than
                once, or the value would exceed the limit; nothing was changed.
        """
        _check_texts(old, new)

        def replaced(found: Block) -> Block:
            _check_writable(found)
            count = found.value.count(old) if old else 0
            if count != 1:
                often = f"contains that text {count} times; give more of it"
                problem = often if count else "does not contain that text"
                raise InvalidInput(f"the block {block!r} {problem}")
            return replace(found, value=found.value.replace(old, new))

        return await self._change(block, replaced)

    async def memory_append(self, block: str, content: str, *, sources: Iterable[str] = ()) -> Block:
        """Append a line to a block. Arguments and errors as `memory_insert`."""
        return await self.memory_insert(block, content, sources=sources)

    async def memory_insert(
        self, block: str, content: str, line: int = -1, *, sources: Iterable[str] = ()
    ) -> Block:
        """Insert lines into a block.

        Args:
            block: the block's label.
            content: the lines.
            line: the number of the line after which to insert; 0 for the beginning, -1 for the end.
            sources: who said the lines, if that was not the agent or its user; they join those of the block.

        Raises:
            InvalidInput: as `memory_replace`, or the block has fewer lines.
        """
        _check_texts(content)

        def inserted(found: Block) -> Block:
            _check_writable(found)
            lines = found.value.split("\n") if found.value else []
            if type(line) is not int or not -1 <= line <= len(lines):
                raise InvalidInput(f"line must be -1 to {len(lines)} for the block {block!r}")
            place = len(lines) if line == -1 else line
            value = "\n".join([*lines[:place], content, *lines[place:]])
            return replace(found, value=value, sources=_sources((*found.sources, *more)))

        more = _sources(sources)
        return await self._change(block, inserted)

    async def _change(
        self, label: str, edit: Callable[[Block], Block], default: Block | None = None
    ) -> Block:
        """Edit the current version of a block, again if it changes meanwhile; returns the new version."""
        now = self._records.store.options.clock

        async def edited(found: Block | None) -> Block:
            block = edit(_existing(_checked_label(label), found, default))
            _check(block)
            return replace(block, version=block.version + 1, updated_at=now(), is_whole=True)

        async with self._turn:
            changed = await self._blocks.change(_checked_label(label), edited)
        return _existing(label, changed)


def _existing(label: str, found: Block | None, default: Block | None = None) -> Block:
    """The stored block, or the default of its label, or another one.

    Raises:
        InvalidInput: there is none.
    """
    if found is not None:
        return found
    if label in DESCRIPTIONS:
        return Block(label, DESCRIPTIONS[label])
    if default is None:
        raise InvalidInput(f"there is no block {label!r}")
    return default


class _BlockRecords(VersionedRecords[Block]):
    """Blocks as records: one for each, or several if the text has to be split into pieces."""

    async def value(self, record: MindRecord) -> Block:
        """A block from its record, with the pieces of this version."""
        block, more = _block(record), record.fields.get("more")
        if not isinstance(more, dict):
            return block
        device, token, count = more.get("device"), more.get("of"), more.get("count")
        pieces: list[str | None] = [None]
        if isinstance(device, str) and type(count) is int and 0 < count <= MAX_BLOCK_CHARS:
            with suppress(InvalidAddress):  # another program wrote a device id that cannot be part of a path
                paths = [
                    _piece_path(block.label, device, number) for number in range(min(count, _MAX_PIECES))
                ]
                pieces = [await self._piece(path, token) for path in paths]
        is_whole = None not in pieces
        value = "".join((block.value, *(piece for piece in pieces if piece is not None)))
        return replace(
            block,
            value=value if is_whole else f"{block.value}…",
            read_only=record.is_true("locked"),
            is_whole=is_whole,
        )

    async def records_of(self, name: str, value: Block) -> dict[str, dict[str, Any]]:
        """The records of a block by path."""
        path, fields = self.path(name), _fields(value)
        if envelope.plaintext_bytes(envelope.record_at(path, fields)) <= _ROOM:
            return {path: fields}
        ledger, token = self._records.store.ledger, secrets.token_hex(8)
        device = await ledger.write_if_due(lambda: ledger.edits.device)
        room = _ROOM - envelope.plaintext_bytes(envelope.record_at(path, {**fields, "value": ""}))
        first, *others = _pieces(value.value, room)
        more = {"device": device, "of": token, "count": len(others)}
        held = {path: {**fields, "value": first, "more": more, "read_only": True, "locked": value.read_only}}
        for number, piece in enumerate(others):
            held[_piece_path(name, device, number)] = {"of": token, "text": piece}
        return held

    async def _piece(self, path: str, token: object) -> str | None:
        """A piece of one version of a block, from the head or the history; None if it has not arrived."""
        versions = await self._records.versions(path)
        return next((version.text("text") for version in versions if version.fields.get("of") == token), None)


# ── For export and import ───────────────────────────────────────────────────────────────


async def with_whole_text(records: MindRecords, record: MindRecord) -> MindRecord:
    """A block's record with the whole text in it, as an export needs it; other programs' fields stay.

    The text of a block of which a piece has not arrived ends with "…".
    """
    if "more" not in record.fields:
        return record
    rest = {name: value for name, value in record.fields.items() if name not in _OF_PIECES}
    return replace(record, fields={**rest, **_fields(await _stored(records).value(record))})


async def records_of_block(
    records: MindRecords, label: str, fields: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """The records by path that hold a block of these fields: one, or several if its text does not fit an event."""
    blocks = _stored(records)
    path = blocks.path(label)
    if envelope.plaintext_bytes(envelope.record_at(path, fields)) <= _ROOM:
        return {path: fields}
    return dict(await blocks.records_of(label, _block(MindRecord(path, fields, "", 0))))


async def event_ids_of_block(records: MindRecords, label: str) -> set[str]:
    """The ids of the events that hold a block: of its record, and of the pieces of its text."""
    record = await records.read(_stored(records).path(label))
    pieces = await records.under(f"{_MORE}{label}/", asks=False)
    return {one.event_id for one in (record, *pieces) if one is not None}


def _stored(records: MindRecords) -> _BlockRecords:
    return _BlockRecords(records, _PREFIX, _block, _fields)


def compile_blocks(blocks: Iterable[Block]) -> str:
    """Blocks as XML for a system prompt, in the format of the four-tier memory. Values are escaped as XML text.

    Hidden characters, and those that XML forbids or that control a terminal, are escaped (`plain_text`).
    """
    parts = [f"<memory_blocks>\n{_INTRODUCTION}\n"]
    parts += [
        f"<{block.label}>\n<description>\n{_xml(block.description)}\n</description>\n<metadata>\n"
        f"- chars_current={len(block.value)}\n- chars_limit={block.limit}\n</metadata>\n"
        f"<value>\n{_xml(block.value)}\n</value>\n</{block.label}>\n"
        for block in blocks
    ]
    return "\n".join((*parts, "</memory_blocks>"))


def _check_writable(block: Block) -> None:
    if block.read_only:
        raise InvalidInput(f"the block {block.label!r} is read-only")
    if not block.is_whole:
        raise InvalidInput(f"a part of the block {block.label!r} has not arrived; sync first")


def _check(block: Block) -> None:
    if not isinstance(block.value, str) or not isinstance(block.description, str):
        raise InvalidInput("the value and the description of a block must be text")
    if type(block.limit) is not int or not 0 < block.limit <= MAX_BLOCK_CHARS:
        raise InvalidInput(f"the limit of a block must be 1 to {MAX_BLOCK_CHARS:,} characters")
    if len(block.value) > block.limit:
        raise InvalidInput(
            f"the block {block.label!r} may hold {block.limit:,} characters, not {len(block.value):,}"
        )


def _xml(text: str) -> str:
    return escape(printed(text))


def _check_texts(*texts: object) -> None:
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInput("the arguments of a block's tools must be text")


def _checked_label(label: str) -> str:
    if not isinstance(label, str) or not _label(label):
        raise InvalidInput(
            "the label of a block must be 1 to 100 letters, digits, '_' or '-', and begin with a letter or '_'"
        )
    return label


def _pieces(text: str, room: int) -> list[str]:
    """A text in pieces, by their length as JSON: the first of at most `room` bytes, the others of `_PIECE_BYTES`."""
    pieces, start, left = [], 0, room
    for place, char in enumerate(text):
        size = len(orjson.dumps(char)) - 2  # without quotes
        if size > left:
            pieces.append(text[start:place])
            start, left = place, _PIECE_BYTES
        left -= size
    return [*pieces, text[start:]]


def _piece_path(label: str, device: str, number: int) -> str:
    return address.mind_path("more", label, f"{device}-{number}")


def _fields(block: Block) -> dict[str, Any]:
    return {
        "description": block.description,
        "value": block.value,
        "limit": block.limit,
        "read_only": block.read_only,
        "version": block.version,
        "ts": block.updated_at,
        **({"sources": list(block.sources)} if block.sources else {}),
        **({"session": block.session} if block.session else {}),
    }


def _block(record: MindRecord) -> Block:
    return Block(
        record.name,
        record.text("description"),
        record.text("value"),
        record.whole("limit", MAX_BLOCK_CHARS),
        record.is_true("read_only"),
        record.whole("version", 1),
        record.written_at,
        sources=record.texts("sources"),
        session=record.text("session"),
    )


def _sources(given: Iterable[str]) -> tuple[str, ...]:
    """Sources, checked, each once, the least trusted last."""
    return least_trusted_last(map(checked_source, given))
