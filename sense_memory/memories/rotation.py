"""Rotation: everything of a key is sealed and signed again under a new key, in a ledger of its own.

Guaranteed: every version keeps its text and its date, and drafts are carried too; a version that was replaced in its own
second gets an earlier one. Each batch is durable whole or not at all, and what was carried before is not carried twice, so a rotation that
was killed is finished by another call. Nothing of the old key is deleted here.

Why it is safe: the new key opens each text again before it signs it. With private addresses the new key has an address key
of its own, so no address of the old key appears under the new one. What was forgotten under the old key between two calls
is forgotten under the new one too. The link between the keys is signed by both, and lies encrypted at an address of both:
no event names the other key, and another device of the old key learns it with its next sync.

Cost: one decryption with the old key for each version, and two encryptions and a signature with the new one.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import BadPayload, InvalidEvent, SealVerificationError
from sense_memory.memories.bulk import batches
from sense_memory.memories.trust import RULES
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DIRECT_MESSAGE, RawEvent, Unsigned, verify
from sense_memory.palace.trust import JOURNAL_PART
from sense_memory.records import envelope
from sense_memory.records.at_once import all_of


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sense_memory.ledger import StoredEvent
    from sense_memory.ledger.edits import SealedDraft
    from sense_memory.memories.open_store import OpenStore
    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer
    from sense_memory.records.envelope import Record, SealedRecord

LINK_PATH: Final = address.mind_path("key", "rotation")
LINK_SLOT: Final = address.d_tag(LINK_PATH)
_STATEMENT_TAG: Final = (
    "sense-memory/key-rotation"  # of the two signed statements, which are published nowhere
)
_BATCH_COUNT: Final = 200
_RULES: Final = address.d_tag(RULES)
_ENTRY_NAME: Final = re.compile(rb"(\b" + JOURNAL_PART.encode() + rb")([0-9a-f]{64})\b")
# Prefixes of the slots that each key has of its own: the link, the keys of its private addresses, and the manifests of the
# devices that wrote under it, which list what relays hold of it.
_NOT_CARRIED: Final = (LINK_SLOT, address.PREFIX + address.ADDRESS_KEY, address.PREFIX + address.DEVICE)


@dataclass(frozen=True, slots=True)
class Carried:
    """What a rotation has carried.

    Attributes:
        versions: how many versions and journal entries this call carried.
        heads: how many memories, records and journal entries the new key has now.
        missing: how many of the old key's the new one lacks; 0 unless something was written meanwhile.
    """

    versions: int
    heads: int
    missing: int


@dataclass(frozen=True, slots=True)
class KeyLink:
    """A link between two keys, whose signatures were checked.

    Attributes:
        old: the public key that was given up, 64 hex digits.
        new: the public key that followed it.
        at: when, seconds since 1970.
    """

    old: str
    new: str
    at: int


async def carry(old: OpenStore, new: OpenStore, progress: Callable[[int], None] | None = None) -> Carried:
    """Carry everything that the old key's ledger holds into the new key's.

    Args:
        old: the store of the old key, in step with its relays.
        new: the store of the new key.
        progress: called with the number of versions carried so far.

    The new store goes on in the address mode of the old one. What lies at a private address stays private in any mode.

    Raises:
        NeedsNewerVersion: with private addresses, a record of a newer version, whose address is not known here.
    """
    written = new.reader.addresses
    written.mode, written.pads = old.reader.addresses.mode, old.reader.addresses.pads
    versions = list(_versions(old))
    if any(_is_private(new, stored.event()) for stored, _ in versions):
        await new.writer.write_key()
    known, count = await _known_entries(new), 0
    wanted_slots: set[str] = set()
    wanted_entries: set[tuple[int, str]] = set()
    new_ids: dict[bytes, bytes] = {}
    for batch in _batches(versions):
        texts = await all_of(old.options.signer, [partial(_plaintext, old, item) for item, _ in batch])
        todo: list[tuple[StoredEvent, int, bytes]] = []
        for (stored, second), text in zip(batch, texts, strict=True):
            event = stored.event()
            if event.kind == KIND_DIRECT_MESSAGE:
                mark = second, _digest(text)
                wanted_entries.add(mark)
                if mark in known:
                    new_ids[event.id.encode()] = known[mark].id.encode()
                    continue
            else:
                slot = stored.slot
                wanted_slots.add(slot)
                if second in {other.created_at for other in new.ledger.versions(slot)}:
                    continue
            is_rule = stored.slot.startswith(_RULES)
            todo.append((stored, second, _with_new_ids(text, new_ids) if is_rule else text))
        made = await all_of(new.options.signer, [partial(_sealed_again, old, new, *item) for item in todo])
        await new.reader.file_events(made, None)
        new_ids |= {
            stored.id.hex().encode(): event.id.encode()
            for (stored, _, _), event in zip(todo, made, strict=True)
        }
        count += len(made)
        if progress is not None:
            progress(count)
    await _forget_what_was_forgotten(
        new, wanted_slots, {mark: known[mark] for mark in known.keys() - wanted_entries}
    )
    await _carry_drafts(old, new)
    there, here = _live_slots(old), _live_slots(new)
    entries = [{slot for slot in found if slot.startswith("#")} for found in (there, here)]
    missing = len({slot for slot in there - here if not slot.startswith("#")})
    return Carried(count, len(here), missing + max(0, len(entries[0]) - len(entries[1])))


async def _carry_drafts(old: OpenStore, new: OpenStore) -> None:
    """Seal the drafts of the old key for the new one, each once."""

    async def opened(store: OpenStore) -> list[tuple[SealedDraft, Record]]:
        drafts, signer = store.ledger.drafts.all(), store.options.signer
        return [(draft, await envelope.open_draft(signer, draft.content, draft.slot)) for draft in drafts]

    there = [(draft.slot, draft.created_at, record) for draft, record in await opened(new)]
    for draft, record in await opened(old):
        if (draft.slot, draft.created_at, record) not in there:
            sealed = draft.slot, await envelope.seal_draft(new.options.signer, record)
            await new.ledger.write(new.ledger.drafts.add, [sealed], draft.created_at, draft.reason)


def _batches(versions: Sequence[tuple[StoredEvent, int]]) -> Iterator[Sequence[tuple[StoredEvent, int]]]:
    """Versions in batches, the journal first: its entries have no name but their ids, by which rules name them."""
    for is_entry in (True, False):
        part = [item for item in versions if item[0].slot.startswith("#") is is_entry]
        yield from batches(part, _BATCH_COUNT)


def _with_new_ids(text: bytes, new_ids: Mapping[bytes, bytes]) -> bytes:
    """The text of a rule that names the entries of the journal by their ids under the new key."""
    return _ENTRY_NAME.sub(lambda found: found[1] + new_ids.get(found[2], found[2]), text)


def _versions(store: OpenStore) -> Iterator[tuple[StoredEvent, int]]:
    """Every version to carry, each with its second, the oldest of each slot first."""
    for slot in sorted(_live_slots(store)):
        found: list[tuple[StoredEvent, int]] = []
        second = None
        for stored in store.ledger.versions(slot):
            if stored.role.is_removal:
                break
            second = stored.created_at if second is None else min(stored.created_at, second - 1)
            found.append((stored, second))
        yield from reversed(found)


def _live_slots(store: OpenStore) -> set[str]:
    """The slots of what a rotation carries."""
    return {slot for slot in store.ledger.heads.live_ids() if not slot.startswith(_NOT_CARRIED)}


async def _plaintext(store: OpenStore, stored: StoredEvent) -> bytes:
    signer = store.options.signer
    return await signer.decrypt(stored.event().content, signer.public_key)


async def _sealed_again(
    old: OpenStore, new: OpenStore, stored: StoredEvent, second: int, text: bytes
) -> Event:
    """The event of a text under the new key: at the same readable address, or at a private one of the new key's own."""
    signer, event = new.options.signer, stored.event()
    me = signer.public_key
    if _is_private(new, event):
        return await signer.sign((await _sealed_privately(old, new, event, text)).at(second))
    content = await signer.encrypt(text, me)
    if await signer.decrypt(content, me) != text:
        raise SealVerificationError
    tags = (("p", me),) if event.kind == KIND_DIRECT_MESSAGE else (("d", event.d_tag or ""),)
    return await signer.sign(Unsigned(second, event.kind, tags, content))


def _is_private(new: OpenStore, event: Event) -> bool:
    """Whether an event gets a private address: as the new store writes, or as it had. A name that was hidden stays hidden."""
    tag = event.d_tag or ""
    return tag.startswith(address.PREFIX) and (new.reader.addresses.is_private or address.is_private(tag))


async def _sealed_privately(old: OpenStore, new: OpenStore, event: Event, text: bytes) -> SealedRecord:
    """A record at the private address that the new key's own address key gives it. Raises NeedsNewerVersion."""
    addresses = new.reader.addresses
    record = envelope.record_in(event, text, await old.reader.addresses.keys())
    tag = await addresses.tag_at(record.path, "private")
    return await envelope.seal(new.options.signer, record, tag, pads=addresses.pads)


async def _known_entries(store: OpenStore) -> dict[tuple[int, str], Event]:
    """The journal entries of a store, by their second and a digest of their text."""
    found = {}
    for slot, ident in store.ledger.heads.live_ids().items():
        stored = store.ledger.by_id(ident.hex()) if slot.startswith("#") else None
        if stored is not None:
            found[stored.created_at, _digest(await _plaintext(store, stored))] = stored.event()
    return found


async def _forget_what_was_forgotten(
    store: OpenStore, slots: set[str], entries: dict[tuple[int, str], Event]
) -> None:
    """Forget under the new key what the old key's ledger no longer has, after a call that was interrupted."""
    gone = [slot for slot in _live_slots(store) - slots if not slot.startswith("#")]
    paths = [path for slot in gone if (path := address.path_of(slot)) is not None]
    for part in batches(paths, 32):
        await store.writer.forget_all(list(part), insists=True)
    for chunk in batches(list(entries.values()), 100):
        await store.writer.forget_entries(chunk)


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


# ── The link between the keys ───────────────────────────────────────────────────────────


async def write_link(old: OpenStore, new: OpenStore, at: int) -> None:
    """Write the link under both keys, unless it is there: signed by the old key, with the consent of the new one."""
    if await read_link(old) is None:
        signers = old.options.signer, new.options.signer
        keys = {"old": signers[0].public_key, "new": signers[1].public_key}
        fields: dict[str, Any] = {**keys, "at": at}
        for name, signer in zip(keys, signers, strict=True):
            fields[f"signed_by_{name}"] = await _statement(signer, name, keys, at)
        await old.writer.write([envelope.record_at(LINK_PATH, fields)], drafts=False)
    if new.ledger.head(LINK_SLOT) is None:
        stored = old.ledger.head(LINK_SLOT)
        record = None if stored is None else await old.reader.record(stored)
        if record is not None:
            await new.writer.write([record], drafts=False)


async def _statement(signer: Signer, name: str, keys: dict[str, str], at: int) -> str:
    other = keys["new" if name == "old" else "old"]
    tags = (("d", _STATEMENT_TAG), ("p", other), ("role", name))
    return (await signer.sign(Unsigned(at, KIND_APP_DATA, tags, ""))).body().decode()


async def read_link(store: OpenStore) -> KeyLink | None:
    """The link by which the key of a store was given up for another; None if there is none that both keys signed."""
    stored = store.ledger.head(LINK_SLOT)
    if stored is None or not stored.role.is_live:
        return None
    record = await store.reader.record(stored)
    try:
        found = None if record is None else _checked(dict(record.fields))
    except (InvalidEvent, BadPayload, KeyError, TypeError, ValueError):
        return None
    return found if found is not None and found.old == store.options.signer.public_key else None


def _checked(fields: dict[str, Any]) -> KeyLink:
    """The link in a record. Raises InvalidEvent where a signature is not that of its key."""
    link = KeyLink(fields["old"], fields["new"], int(fields["at"]))
    for name, key, other in (("old", link.old, link.new), ("new", link.new, link.old)):
        said = verify(RawEvent.loads(fields[f"signed_by_{name}"]))
        wanted = (("d", _STATEMENT_TAG), ("p", other), ("role", name))
        if (said.pubkey, said.created_at, said.tags) != (key, link.at, wanted):
            raise InvalidEvent("a statement of a rotation says something else")
    return link


# ── Reading back ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What one relay shows of the new key.

    Attributes:
        url: the relay.
        missing: how many memories and entries it does not show; None if it could not be asked.
        problem: why it could not be asked, or may show less than it has; empty if it showed everything.
    """

    url: str
    missing: int | None
    problem: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the relay served every memory and entry."""
        return self.missing == 0


async def read_back(store: OpenStore) -> list[ReadBack]:
    """Ask each relay for everything of a store's key, and compare the events that it serves with the ledger."""
    from sense_memory.relay.client.actions import Timeouts
    from sense_memory.relay.sync.leftovers import RelayFarewell

    options, wanted = store.options, {ident.hex() for ident in store.ledger.heads.live_ids().values()}
    found = []
    for url in options.urls:
        relay = RelayFarewell(url, options.signer, options.clock, options.timeouts or Timeouts())
        contents = await relay.contents()
        missing = len(wanted - {event.id for event in contents.events})
        is_unknown = bool(contents.problem) and not contents.events
        found.append(ReadBack(url, None if is_unknown else missing, contents.problem))
    return found
