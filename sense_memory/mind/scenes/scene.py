"""A scene: a log that several agents share.

A scene has a key pair that its members hold. Its log is written under that key, so relays see one more author and nothing
else, and nobody without the key can read a byte. Inside, each entry carries the signature of the agent that wrote it.

Guaranteed: a member cannot speak for another. An entry is shown only if a member signed its exact content for this scene,
under the member's own name; only the owner may speak under names that no member has, such as `world`. Other entries are
counted as forged. If a member overwrites another member's page, the next flush of the other member restores its entries; if
by an event that does not open, which only a relay can tell, a flush an hour after the page was written.
A removed member adds nothing to what others see: of its entries only those count that the owner had seen when it removed
the member; its other entries are not shown, whatever time they claim. No entry is later than the page in which it arrived.

Safe, because a signature covers the scene and the entry's id, so an entry can be neither moved nor repeated under another
id. The signed event holds only a hash, and its kind is not stored by relays, so a member that publishes it reveals
nothing. When a member is removed, the owner makes a new key and encrypts it to each remaining member. The removed member
can still read earlier entries, and no later ones. What counts of its entries is named by digest, under the new key, and
written to the owner's records together with that key. Entries that the remaining members wrote under the old key count
whenever they arrive, because the removed member cannot sign them.

Cost: one signature for each entry, one verification of some 50 µs for each entry read, and a ledger for each key.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidInput, LedgerCorrupt, LedgerError
from sense_memory.ledger.database import SCENE_LEDGER
from sense_memory.memories.open_store import OpenStore
from sense_memory.mind.call_checks import checked
from sense_memory.mind.episodic import GLOBAL_KINDS
from sense_memory.mind.flusher import Flusher
from sense_memory.mind.log import Log, NewEntry
from sense_memory.mind.records import MindRecords
from sense_memory.mind.scenes.announcements import MOVED, all_counted, announcement_of, counted_parts
from sense_memory.mind.scenes.invitations import opened_invitation, sealed_invitation
from sense_memory.mind.scenes.membership import (
    MAX_MEMBERS,
    UNREADABLE,
    EntrySigner,
    SceneKey,
    SceneState,
    before,
    digest_of,
    ended,
    fields_of,
    fits,
    folded,
    removed_and_unaware,
    settled,
    state_of,
    tidy,
    united,
    waiting,
)
from sense_memory.nostr import address
from sense_memory.nostr.keys import Secret, parse_public
from sense_memory.nostr.signer import LocalSigner
from sense_memory.plain_text import has_hidden


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from sense_memory.mind.log import LogEntry
    from sense_memory.mind.records import MindRecord
    from sense_memory.mind.scenes.announcements import Announcement
    from sense_memory.relay.sync.reports import SyncReport

SCENES: Final = f"{address.MIND}scene/"
_MAX_STEPS: Final = 16  # new keys, one after the other, that one sync follows


@checked
class Scene:
    """An open scene. Get one from `Scenes`.

    Args:
        records: the records of the member's mind.
        log: the member's own log, for entries that only the member may see.
        state: the member's knowledge of the scene.
        stores: the open ledgers of the scene's keys, by the id of the key.
    """

    def __init__(
        self, records: MindRecords, log: Log, state: SceneState, stores: Mapping[str, OpenStore]
    ) -> None:
        self._records, self._own, self.state = records, log, state
        self._signer = records.store.options.signer
        self._me = self._signer.public_key
        self._counted: dict[str, Mapping[str, frozenset[str]]] = {}  # by key, as `membership.ended` takes it
        # Whether the owner has told this member, under its newest key, that it was removed.
        self._is_told = False
        self._judges: dict[str, EntrySigner] = {}
        self._flushers: list[Flusher] = []
        self._opened: dict[str, tuple[OpenStore, Log]] = {}
        self._updating = asyncio.Lock()
        signers = self._signers(state)
        for key in state.keys:
            self._add(key, stores[key.id], signers[key.id])

    def __repr__(self) -> str:
        return f"Scene({self.state.name!r}, members={len(self.state.members)})"

    @property
    def name_of_self(self) -> str:
        """The name of this member; empty once this device knows that this member was removed."""
        return "" if self._is_told else self.state.members.get(self._me, "")

    @property
    def store(self) -> OpenStore:
        """The open ledger of the current key."""
        return self._opened[self.state.keys[-1].id][0]

    @property
    def log(self) -> Log:
        """The log under the current key."""
        return self._opened[self.state.keys[-1].id][1]

    @property
    def signing(self) -> EntrySigner:
        """Signs and verifies entries under the current key."""
        return self._judges[self.state.keys[-1].id]

    def _signers(self, state: SceneState) -> dict[str, EntrySigner]:
        """For each key, what signs and verifies entries under it by what is known now."""
        counted = ended(state, self._counted)
        return {
            key.id: EntrySigner(self._signer, state.id, state.owner, key.members, counted[key.id])
            for key in state.keys
        }

    def _add(self, key: SceneKey, store: OpenStore, judge: EntrySigner) -> None:
        self._judges[key.id] = judge

        async def write_pages() -> int:
            return await log.flush()

        flusher = Flusher(write_pages, is_on=store.options.background)
        log = Log(MindRecords(store), flusher.appended, judge)
        self._flushers.append(flusher)
        self._opened[key.id] = store, log

    def _judge(self) -> None:
        """Judge the entries again under the keys where members, or what counts of removed members, have changed."""
        for key_id, judge in self._signers(self.state).items():
            if not judge.judges_as(self._judges[key_id]):
                self._judges[key_id] = judge
                self._opened[key_id][1].judge(judge)

    async def _listen(self) -> dict[str, list[Announcement]]:
        """Read what the owner announced under each key, and judge the entries by that; returns the announcements."""
        told = {key_id: await self._told(log) for key_id, (_, log) in list(self._opened.items())}
        self._counted = {key_id: all_counted(found, key_id) for key_id, found in told.items()}
        newest = told.get(self.state.keys[-1].id, ())
        self._is_told = any(self._me in announcement.removed for announcement in newest)
        self._judge()
        return told

    async def _told(self, log: Log) -> list[Announcement]:
        moves = [entry for entry in await log.entries(kind=MOVED) if entry.author == self.state.owner]
        return [found for entry in moves if (found := announcement_of(entry.payload)) is not None]

    async def append(
        self, kind: str, payload: Mapping[str, Any], *, actor: str | None = None, turn: int | None = None
    ) -> LogEntry:
        """Append an entry: of a globally visible kind to the scene, of another kind to the agent's own log.

        Durable on return. It travels with `sync`, `flush` and the end of the store; and, where the store follows relays in
        the background, a moment later by itself, like an entry of the agent's own log.

        Args:
            kind: what happened, such as `agent.spoke` or `world.observed`.
            payload: plain JSON values.
            actor: by default this member; only the owner may give a name that no member has, such as `world`. Names that
                differ only in case or blanks count as one.
            turn: the number of the turn.

        Raises:
            InvalidInput: this member may not speak under that name, or was removed; nothing was appended.
        """
        await self._hear_of_removal()
        name = actor or self.name_of_self
        if not name:
            raise InvalidInput("this agent is no longer a member of the scene")
        if name != self.name_of_self:
            members = {folded(member): member for member in self.state.members.values()}
            if member := members.get(folded(name)):
                raise InvalidInput(f"only {member!r} itself may speak under its name")
            if self._me != self.state.owner:
                raise InvalidInput(f"only the owner of the scene may speak as {name!r}, who is not a member")
        if kind in GLOBAL_KINDS:
            return await self.log.append(kind, payload, actor=name, turn=turn, conversation=self.state.id)
        return await self._own.append(kind, payload, actor=name, turn=turn, conversation=self.state.id)

    async def is_member(self) -> bool:
        """Whether this agent is a member, as far as its ledger knows; no relay is asked."""
        await self._hear_of_removal()
        return bool(self.name_of_self)

    async def _hear_of_removal(self) -> None:
        """Read whether this member was removed, as far as the ledger knows; no relay is asked."""
        if self._me != self.state.owner:
            with suppress(LedgerCorrupt):  # reading raises it; an entry can be appended nevertheless
                await self.log.refresh()
                if self.log.pages():
                    await self._listen()

    async def entries(self) -> list[LogEntry]:
        """The genuine entries of the scene and the member's own entries about it, oldest first."""
        await self._listen()
        found = {
            entry.id + entry.author: entry
            for _, log in list(self._opened.values())  # a sync may add a key meanwhile
            for entry in await log.entries()
            if entry.kind != MOVED
        }
        found |= {entry.id: entry for entry in await self._own.entries(conversation=self.state.id)}
        return sorted(found.values(), key=lambda entry: (entry.at, entry.id))

    async def forged_count(self) -> int:
        """The number of entries that are not shown: their authors did not sign them, or were removed before."""
        await self._listen()
        logs = [log for _, log in self._opened.values()]
        for log in logs:
            await log.entries()
        return sum(len(log.forged) for log in logs)

    async def sync(self) -> list[SyncReport]:
        """Sync the scene's ledgers with its relays, and follow the owner to a new key."""
        reports = [await self._synced(key_id) for key_id in list(self._opened)]
        for _ in range(_MAX_STEPS):
            known = set(self._opened)
            used = await self._follow_owner()
            for key_id in dict.fromkeys((*used, *(self._opened.keys() - known))):
                await self._synced(key_id)
            if self._opened.keys() == known:
                break
        return reports

    async def _synced(self, key_id: str) -> SyncReport:
        store, log = self._opened[key_id]
        await log.flush()
        report = await store.replication.sync()
        await log.flush()
        return report

    def outbox(self) -> dict[str, Counter[str]]:
        """By relay of the scene, how many of its events are in which state, such as `queued`, `acked` or `refused`."""
        ledgers = [store.ledger for store, _ in self._opened.values()]
        return {
            url: sum((Counter(ledger.outbox.counts(url)) for ledger in ledgers), Counter())
            for url in self.state.relays
        }

    async def flush(self) -> None:
        """Write the entries that are in no page yet to pages."""
        for _, log in list(self._opened.values()):
            await log.flush()

    async def close(self, seconds: float | None = None) -> None:
        """Flush, wait up to `seconds` for relays (None: do not wait), and close the ledgers, even if a step fails."""
        for flusher in self._flushers:
            await flusher.stop()
        async with AsyncExitStack() as stack:
            for store, log in self._opened.values():
                stack.push_async_callback(closed, store, log, seconds)

    # ── Members ─────────────────────────────────────────────────────────────────────────

    async def invite(self, npub: str, name: str) -> str:
        """Add a member; returns the invitation, a text that only the member can decrypt, for you to send.

        Args:
            npub: the member's public key.
            name: the member's name in the scene.

        Raises:
            InvalidInput: this member is not the owner, the name is taken or has invisible characters, or the scene is
                full; nothing was changed.
            BadKey: not a public key.
        """
        key = parse_public(npub)
        wanted = tidy(name)
        if not wanted:
            raise InvalidInput("the new member has no name; give one")
        if has_hidden(wanted):  # the name could look like another member's
            raise InvalidInput("this name has invisible characters; give the new member a name without them")

        def invited(state: SceneState) -> SceneState:
            taken = {folded(member) for other, member in state.members.items() if other != key}
            if folded(wanted) in taken:
                raise InvalidInput("this name is taken; give the new member another one")
            if key not in state.members and len(state.members) >= MAX_MEMBERS:
                raise InvalidInput(f"a scene has at most {MAX_MEMBERS} members")
            return state.with_member(key, wanted)

        await self._change_members(invited)
        return await sealed_invitation(self._signer, key, self.state)

    async def remove(self, npub: str) -> None:
        """Remove a member: later entries are under a new key, encrypted to each remaining member.

        The scene is synced first, as far as its relays can be reached, because of the member's entries only those count
        that this device has seen. The new key is written to a record before it is announced, so that the owner's next
        sync announces it if that fails.

        Raises:
            InvalidInput: this member is not the owner, or the key is not another member's; nothing was changed.
        """
        key = parse_public(npub)

        def removed(state: SceneState) -> SceneState:
            if key == self._me or key not in state.members:
                raise InvalidInput("only another member can be removed")
            rest = {member: name for member, name in state.members.items() if member != key}
            return state.with_key(new_secret(), rest)

        if self._me == self.state.owner:
            removed(self.state)  # an error comes before the sync
            await self.sync()
        await self._change_members(removed)

    async def unite(self, state: SceneState) -> None:
        """Add the contents of the owner's invitation to this member's knowledge of the scene."""
        await self._update(lambda known: united(known, state))

    async def _change_members(self, edit: Callable[[SceneState], SceneState]) -> None:
        """Change the members as the owner, on top of changes by the owner's other devices, and announce the change."""
        if self._me != self.state.owner:
            raise InvalidInput("only the owner of a scene may change its members")
        await self._update(edit)
        for key_id in await self._announce():
            await self._opened[key_id][1].flush()

    async def _follow_owner(self) -> list[str]:
        """Read the owner's announcements, and the knowledge of this agent's other devices.

        On a device of the owner, announce again what members may not know; returns the ids of the keys used for that. An
        announcement of members names its key, so that a repetition under another key brings no member back.
        """
        found = list[SceneState]()
        for version in await self._records.versions(scene_path(self.state.id)):
            with suppress(*UNREADABLE):
                found.append(state_of(version.fields))
        keys = {key.id: key for key in self.state.keys}
        gone = frozenset[str]().union(*(key.removed for key in keys.values()))
        for key_id, announcements in (await self._listen()).items():
            for told in announcements:
                members = told.members
                if told.key is None and members:  # earlier versions name no key
                    members = {one: name for one, name in members.items() if one not in gone}
                if told.key in {None, key_id} and members:
                    joined = replace(keys[key_id], members=members)
                    found.append(replace(self.state, keys=(joined,)))
                if self._me in told.invitations:
                    with suppress(InvalidInput):  # an unreadable announcement must not stop the sync
                        found.append(await opened_invitation(self._signer, told.invitations[self._me]))
        theirs = [state for state in found if (state.id, state.owner) == (self.state.id, self.state.owner)]
        await self._update(lambda state: reduce(united, theirs, state))
        return await self._announce() if self._me == self.state.owner else []

    async def _announce(self) -> list[str]:
        """Announce what members may not know: who they are, the current key, and what counts; returns the keys used."""
        used = list[str]()
        told = await self._listen()
        named = await self._records.under(counted_folder(self.state.id), asks=False)
        for key in self.state.keys:
            if key.id not in told:  # made meanwhile, by a call that announces it
                continue
            if new := await self._unsaid(key, told[key.id], [record.fields for record in named]):
                name, scene = self.name_of_self, self.state.id
                entries = [NewEntry(MOVED, payload, name, conversation=scene) for payload in new]
                await self._opened[key.id][1].append_many(entries)
                used.append(key.id)
        return used

    async def _unsaid(
        self, key: SceneKey, told: Sequence[Announcement], named: Iterable[Mapping[str, Any]]
    ) -> list[Mapping[str, Any]]:
        """The payloads to announce under a key.

        Args:
            key: the key.
            told: what was announced under the key.
            named: the payloads that name what counts of removed members, of all keys.
        """
        current = self.state.keys[-1]
        new: list[Mapping[str, Any]] = []
        if key.id == current.id:
            mine = (announcement for announcement in told if announcement.key == current.id)
            known = {self._me}.union(*(announcement.members or () for announcement in mine))
            if not current.members.keys() <= known:
                new.append({"id": self.state.id, "members": dict(current.members), "key": current.id})
        else:
            sent = (announcement for announcement in told if announcement.key in {None, current.id})
            invited = {self._me}.union(*(announcement.invitations for announcement in sent))
            for member in sorted(waiting(self.state, key) - invited):
                sealed = {member: await sealed_invitation(self._signer, member, self.state)}
                new.append({"invitations": sealed, "key": current.id})
            gone = removed_and_unaware(self.state, key)
            if not gone <= frozenset().union(*(announcement.removed for announcement in told)):
                new.append({"removed": sorted(gone), "key": current.id})
        known_counts = all_counted(told, key.id)
        return new + [payload for payload in named if self._adds(payload, key.id, known_counts)]

    def _adds(self, payload: Mapping[str, Any], key_id: str, known: Mapping[str, frozenset[str]]) -> bool:
        part = announcement_of(payload)
        if part is None or part.key != key_id:
            return False
        return any(not digests <= known.get(member, frozenset()) for member, digests in part.counted.items())

    async def _with_counts(self, state: SceneState) -> tuple[SceneState, dict[str, Mapping[str, Any]]]:
        """The scene as its owner writes it, and records that name what counts of the members whom its keys removed.

        What counts is what this device shows now. It is named once, in the same write as the key. A key that follows a
        key that is not open here, or whose entries no relay has shown yet, waits until they have been read.
        """
        if all(key.counts or not key.removed for key in state.keys):
            return state, {}
        keys: list[SceneKey] = []
        records: dict[str, Mapping[str, Any]] = {}
        named = {record.name for record in await self._records.under(counted_folder(state.id), asks=False)}
        for key in state.keys:
            earlier = before(state, key)
            is_due = key.removed and not key.counts and all(map(self._has_read, earlier))
            if is_due and f"{key.id}-0" not in named:
                digests = {pair for one in earlier for pair in await self._shown_of(key.removed, one)}
                for number, payload in enumerate(counted_parts(key.id, digests)):
                    records[f"{counted_folder(state.id)}{key.id}-{number}"] = payload
            keys.append(replace(key, counts=True) if is_due else key)
        return replace(state, keys=tuple(keys)), records

    def _has_read(self, key_id: str) -> bool:
        """Whether a relay has shown everything under a key to this device, or there is no relay."""
        if key_id not in self._opened:
            return False
        relays = self._opened[key_id][0].ledger.relays
        answered = (relays.state(url).completed_at is not None for url in self.state.relays)
        return not self.state.relays or any(answered)

    async def _shown_of(self, members: Collection[str], key_id: str) -> list[tuple[str, str]]:
        """The authors and digests of the entries of some members that are shown under a key."""
        log, judge = self._opened[key_id][1], self._judges[key_id]
        await log.refresh()
        return [
            (row[7], digest_of(row)) for row in log.signed() if row[7] in members and judge.may_speak(row)
        ]

    async def _update(self, edit: Callable[[SceneState], SceneState]) -> None:
        """Change this member's knowledge, united with the current record; a device of the owner settles the members.

        Raises:
            InvalidInput: as `edit`, or the scene has too many keys; nothing was changed.
        """
        path, made = scene_path(self.state.id), [self.state]

        async def changed(found: Mapping[str, MindRecord]) -> Mapping[str, Mapping[str, Any]]:
            state = self.state
            with suppress(*UNREADABLE):
                if path in found:
                    state = united(state, state_of(found[path].fields))
            decides = self._me == self.state.owner
            state, members = settled(edit(settled(state, decides=decides)[0]), decides=decides)
            if members is not None:
                state = state.with_key(new_secret(), members)
            state, named = await self._with_counts(state) if decides else (state, {})
            if not fits(state):
                raise InvalidInput("this scene has too many keys; create a new scene")
            made[:] = [state]
            fields = fields_of(state)
            return {} if path in found and found[path].fields == fields else {path: fields, **named}

        async with self._updating:
            await self._records.change([path], changed)
            new = [key for key in made[0].keys if key.id not in self._opened]
            stores = await opened_ledgers(self._records.store, made[0], new)
            # Nothing waits from here on: whatever runs meanwhile finds a ledger for each key of the state.
            self.state, signers = made[0], self._signers(made[0])
            for key in new:
                self._add(key, stores[key.id], signers[key.id])
            self._judge()


async def closed(store: OpenStore, log: Log, seconds: float | None) -> None:
    """Flush a log, wait for relays, and close its ledger even if that fails.

    Entries that a failing ledger keeps out of a page stay durable; whatever uses the log next raises the error.
    """
    try:
        with suppress(LedgerError):
            await log.flush()
        if seconds is not None:  # `drain` logs what is still queued, which a sync has already reported
            await store.drain(seconds)
    finally:
        await store.close()


async def opened_ledgers(
    own_store: OpenStore, state: SceneState, keys: Iterable[SceneKey]
) -> dict[str, OpenStore]:
    """The open ledgers of some keys of a scene, by the id of the key: all, or none if one cannot be opened."""
    stores: dict[str, OpenStore] = {}
    async with AsyncExitStack() as stack:
        for key in keys:
            stores[key.id] = await _opened_ledger(own_store, state, key)
            stack.push_async_callback(stores[key.id].close)
        stack.pop_all()
    return stores


async def _opened_ledger(own_store: OpenStore, state: SceneState, key: SceneKey) -> OpenStore:
    """The open ledger of one key of a scene, beside the agent's own ledger."""
    own = own_store.options
    signer = LocalSigner.from_hex(key.secret)
    path = own_store.ledger.path
    ledger = (
        ":memory:" if path is None else path.with_name(f"{path.name}{SCENE_LEDGER}{signer.public_key[:16]}")
    )
    options = replace(own, signer=signer, urls=state.relays, ledger=ledger, embedder=None, snapshot=False)
    return await OpenStore.opened(options, lambda _: None)


def new_secret() -> str:
    """The secret of a new key of a scene, 64 hex digits."""
    with Secret.generate() as secret:
        return secret.reveal().hex()


def scene_path(scene_id: str) -> str:
    """The path of an agent's knowledge of a scene."""
    return address.mind_path("scene", scene_id)


def counted_folder(scene_id: str) -> str:
    """Where the owner keeps what counts of removed members; each record is announced under the key that it names."""
    return f"{address.mind_path('counted', scene_id)}/"
