"""Scenes: logs that several agents share.

A scene has a key pair that its members hold. Its log is written under that key, so relays see one more author and nothing
else, and nobody without the key can read a byte. Inside, each entry carries the signature of the agent that wrote it.

Guaranteed: a member cannot speak for another. An entry is shown only if a member signed its exact content for this scene,
under the member's own name; only the owner may speak under names that no member has, such as `world`. Other entries are
counted as forged. If a member overwrites another member's page, the next flush of the other member restores its entries.

Safe, because a signature covers the scene and the entry's id, so an entry can be neither moved nor repeated under another
id. The signed event holds only a hash, and its kind is not stored by relays, so a member that publishes it reveals
nothing. When a member is removed, the owner makes a new key and encrypts it to each remaining member. The removed member
can still read earlier entries, and no later ones.

Cost: one signature for each entry, one verification of some 50 µs for each entry read, and a ledger for each key.
"""

from __future__ import annotations

import asyncio
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import (
    BadKey,
    BadPayload,
    InvalidAddress,
    InvalidEvent,
    InvalidInput,
    LedgerCorrupt,
    LedgerError,
    StoreClosed,
)
from sense_memory.ledger.database import SCENE_LEDGER
from sense_memory.memories.open_store import OpenStore
from sense_memory.mind.call_checks import checked
from sense_memory.mind.episodic import GLOBAL_KINDS
from sense_memory.mind.log import Log, NewEntry
from sense_memory.mind.membership import (
    MAX_INVITATION_BYTES,
    MAX_MEMBERS,
    EntrySigner,
    SceneKey,
    SceneState,
    are_members,
    fields_of,
    fits,
    folded,
    settled,
    state_of,
    tidy,
    united,
    waiting,
)
from sense_memory.mind.records import MindRecords
from sense_memory.nostr import address
from sense_memory.nostr.event import RawEvent, Unsigned, verify
from sense_memory.nostr.keys import Secret, parse_public
from sense_memory.nostr.signer import LocalSigner


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from sense_memory.mind.log import LogEntry
    from sense_memory.mind.records import MindRecord
    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.sync.reports import SyncReport

KIND_INVITATION: Final = 24_079
MOVED: Final = "scene.moved"
_INVITATION: Final = "sense-scene:"
_SCENES: Final = f"{address.MIND}scene/"
_MAX_STEPS: Final = 16  # new keys, one after the other, that one sync follows
_SYNCED_AT_ONCE: Final = 4  # scenes, each with some 4 files for each of its keys, and its connections
_UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError, BadKey, InvalidAddress)


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
        self._opened = {
            key.id: (stores[key.id], Log(MindRecords(stores[key.id]), signing=self._signing(key)))
            for key in state.keys
        }

    def __repr__(self) -> str:
        return f"Scene({self.state.name!r}, members={len(self.state.members)})"

    @property
    def name_of_self(self) -> str:
        """The name of this member; empty after this member was removed."""
        return self.state.members.get(self._me, "")

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
        return self._signing(self.state.keys[-1])

    def _signing(self, key: SceneKey) -> EntrySigner:
        return EntrySigner(self._signer, self.state.id, self.state.owner, key.members)

    async def append(
        self, kind: str, payload: Mapping[str, Any], *, actor: str | None = None, turn: int | None = None
    ) -> LogEntry:
        """Append an entry: of a globally visible kind to the scene, of another kind to the agent's own log.

        Args:
            kind: what happened, such as `agent.spoke` or `world.observed`.
            payload: plain JSON values.
            actor: by default this member; only the owner may give a name that no member has, such as `world`.
            turn: the number of the turn.

        Raises:
            InvalidInput: this member may not speak under that name; nothing was appended.
        """
        name = actor or self.name_of_self
        if not name:
            raise InvalidInput("this agent is no longer a member of the scene; nothing was appended")
        if name != self.name_of_self:
            if name in self.state.members.values():
                raise InvalidInput(f"only {name!r} itself may speak under its name; nothing was appended")
            if self._me != self.state.owner:
                raise InvalidInput(
                    f"only the owner of the scene may speak as {name!r}, who is not a member; nothing was appended"
                )
        if kind in GLOBAL_KINDS:
            return await self.log.append(kind, payload, actor=name, turn=turn, conversation=self.state.id)
        return await self._own.append(kind, payload, actor=name, turn=turn, conversation=self.state.id)

    async def entries(self) -> list[LogEntry]:
        """The genuine entries of the scene and the member's own entries about it, oldest first."""
        found = {
            entry.id + entry.author: entry
            for _, log in list(self._opened.values())  # a sync may add a key meanwhile
            for entry in await log.entries()
            if entry.kind != MOVED
        }
        found |= {entry.id: entry for entry in await self._own.entries(conversation=self.state.id)}
        return sorted(found.values(), key=lambda entry: (entry.at, entry.id))

    async def forged_count(self) -> int:
        """The number of entries that are not shown, because their authors did not sign them."""
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
        async with AsyncExitStack() as stack:
            for store, log in self._opened.values():
                stack.push_async_callback(_closed, store, log, seconds)

    # ── Members ─────────────────────────────────────────────────────────────────────────

    async def invite(self, npub: str, name: str) -> str:
        """Add a member; returns the invitation, a text that only the member can decrypt, for you to send.

        Args:
            npub: the member's public key.
            name: the member's name in the scene.

        Raises:
            InvalidInput: this member is not the owner, the name is taken, or the scene is full; nothing was changed.
            BadKey: not a public key.
        """
        key = parse_public(npub)
        wanted = tidy(name)
        if not wanted:
            raise InvalidInput("give the new member a name; nothing was changed")

        def invited(state: SceneState) -> SceneState:
            taken = {folded(member) for other, member in state.members.items() if other != key}
            if folded(wanted) in taken:
                raise InvalidInput("give the new member another name; this one is taken; nothing was changed")
            if key not in state.members and len(state.members) >= MAX_MEMBERS:
                raise InvalidInput(f"a scene has at most {MAX_MEMBERS} members; nothing was changed")
            return state.with_member(key, wanted)

        await self._change_members(invited)
        return await _invitation(self._signer, key, self.state)

    async def remove(self, npub: str) -> None:
        """Remove a member: later entries are under a new key, encrypted to each remaining member.

        The new key is written to a record first. If announcing it fails, the owner's next sync announces it.

        Raises:
            InvalidInput: this member is not the owner, or the key is not another member's; nothing was changed.
        """
        key = parse_public(npub)

        def removed(state: SceneState) -> SceneState:
            if key == self._me or key not in state.members:
                raise InvalidInput("only another member can be removed; nothing was changed")
            rest = {member: name for member, name in state.members.items() if member != key}
            return state.with_key(_new_secret(), rest)

        await self._change_members(removed)

    async def unite(self, state: SceneState) -> None:
        """Add the contents of the owner's invitation to this member's knowledge of the scene."""
        await self._update(lambda known: united(known, state))

    async def _change_members(self, edit: Callable[[SceneState], SceneState]) -> None:
        """Change the members as the owner, on top of changes by the owner's other devices, and announce the change."""
        if self._me != self.state.owner:
            raise InvalidInput("only the owner of a scene may change its members; nothing was changed")
        await self._update(edit)
        for key_id in await self._announce():
            await self._opened[key_id][1].flush()

    async def _follow_owner(self) -> list[str]:
        """Read the owner's announcements, and the knowledge of this agent's other devices.

        On a device of the owner, announce again what members may not know; returns the ids of the keys used for that. An
        announcement of members names its key, so that a repetition under another key brings no member back.
        """
        found = list[SceneState]()
        for version in await self._records.versions(_path(self.state.id)):
            with suppress(*_UNREADABLE):
                found.append(state_of(version.fields))
        keys = {key.id: key for key in self.state.keys}
        gone = frozenset[str]().union(*(key.removed for key in keys.values()))
        for key_id, (_, log) in list(self._opened.items()):
            for entry in await log.entries(kind=MOVED):
                if entry.author != self.state.owner:
                    continue
                members, sealed = entry.payload.get("members"), entry.payload.get("invitations")
                named = entry.payload.get("key")
                if named is None and isinstance(members, dict):  # earlier versions name no key
                    members = {one: name for one, name in members.items() if one not in gone}
                if named in {None, key_id} and are_members(members):
                    joined = replace(keys[key_id], members=members)
                    found.append(replace(self.state, keys=(joined,)))
                if isinstance(sealed, dict) and isinstance(text := sealed.get(self._me), str):
                    with suppress(InvalidInput):  # an unreadable announcement must not stop the sync
                        found.append(await _opened_invitation(self._signer, text))
        theirs = [state for state in found if (state.id, state.owner) == (self.state.id, self.state.owner)]
        await self._update(lambda state: reduce(united, theirs, state))
        return await self._announce() if self._me == self.state.owner else []

    async def _announce(self) -> list[str]:
        """Announce the current members, and the current key to members who may not know it; returns the keys used."""
        current, used = self.state.keys[-1], list[str]()
        for key in self.state.keys:
            log = self._opened[key.id][1]
            moves = await log.entries(kind=MOVED)
            announced = [entry.payload for entry in moves if entry.author == self.state.owner]
            new = list[dict[str, Any]]()
            if key.id == current.id:
                mine = (payload for payload in announced if payload.get("key") == current.id)
                known = {self._me}.union(*(_mapping(payload.get("members")) for payload in mine))
                if not current.members.keys() <= known:
                    new = [{"id": self.state.id, "members": dict(current.members), "key": current.id}]
            else:
                sent = (payload for payload in announced if payload.get("key", current.id) == current.id)
                invited = {self._me}.union(*(_mapping(payload.get("invitations")) for payload in sent))
                for member in sorted(waiting(self.state, key) - invited):
                    sealed = {member: await _invitation(self._signer, member, self.state)}
                    new.append({"invitations": sealed, "key": current.id})
            if new:
                name, scene = self.name_of_self, self.state.id
                await log.append_many([NewEntry(MOVED, payload, name, conversation=scene) for payload in new])
                used.append(key.id)
        return used

    async def _update(self, edit: Callable[[SceneState], SceneState]) -> None:
        """Change this member's knowledge, united with the current record; a device of the owner settles the members.

        Raises:
            InvalidInput: as `edit`, or the scene has too many keys; nothing was changed.
        """
        path, made = _path(self.state.id), [self.state]

        async def changed(found: Mapping[str, MindRecord]) -> Mapping[str, Mapping[str, Any]]:
            state = self.state
            with suppress(*_UNREADABLE):
                if path in found:
                    state = united(state, state_of(found[path].fields))
            decides = self._me == self.state.owner
            state, members = settled(edit(settled(state, decides=decides)[0]), decides=decides)
            if members is not None:
                state = state.with_key(_new_secret(), members)
            if not fits(state):
                raise InvalidInput("create a new scene: this scene has too many keys; nothing was changed")
            made[:] = [state]
            fields = fields_of(state)
            return {} if path in found and found[path].fields == fields else {path: fields}

        await self._records.change([path], changed)
        before, self.state = self.state, made[0]
        for key in self.state.keys:
            if key.id not in self._opened:
                store = await _opened(self._records.store, self.state, key)
                self._opened[key.id] = store, Log(MindRecords(store), signing=self._signing(key))
        if before != self.state:
            for key in self.state.keys:
                self._opened[key.id][1].judge(self._signing(key))


@partial(checked, but=("join",))
class Scenes:
    """The scenes of an agent.

    Args:
        records: the records of the agent's mind.
        log: the agent's own log.
    """

    def __init__(self, records: MindRecords, log: Log) -> None:
        self._records, self._log = records, log
        self._open: dict[str, Scene] = {}
        self._users: dict[
            str, int
        ] = {}  # the number of `using` blocks of each scene that only they keep open
        self._is_over = False
        self._turn = asyncio.Lock()  # a scene is opened once, and never while its ledgers are being closed

    async def all(self, *, asks: bool = True) -> list[SceneState]:
        """The agent's knowledge of each of its scenes, by name; with `asks`, relays are asked if there is none."""
        found = []
        for record in await self._records.under(_SCENES, asks=asks):
            with suppress(*_UNREADABLE):  # written by another version of this program
                found.append(state_of(record.fields))
        return sorted(found, key=lambda state: (state.name, state.id))

    async def create(self, name: str, *, as_name: str) -> Scene:
        """Create a scene with this agent as its owner.

        Args:
            name: the name of the scene, for people.
            as_name: the agent's name in the scene.

        Raises:
            InvalidInput: a name is empty; nothing was created.
        """
        name, as_name = tidy(name), tidy(as_name)
        if not (name and as_name):
            raise InvalidInput("give the scene and yourself a name; nothing was created")
        options = self._records.store.options
        me = options.signer.public_key
        key = SceneKey(_new_secret(), {me: as_name})
        state = SceneState(secrets.token_hex(8), name, me, (key,), options.urls)
        return await self._begin(state)

    async def join(self, invitation: str) -> Scene:
        """Join a scene by an invitation. Another invitation to a joined scene adds new keys and members.

        Raises:
            InvalidInput: the text is not an invitation, was altered, or is for another key; nothing was changed.
        """
        state = await _opened_invitation(self._records.store.options.signer, invitation)
        known = next((item for item in await self.all() if item.id == state.id), None)
        if known is None:
            return await self._begin(state)
        scene = await self.open(state.id)
        if known.owner == state.owner:
            await scene.unite(state)
        return scene

    async def open(self, scene_id: str) -> Scene:
        """Open a scene of the agent. It is closed with the store.

        Raises:
            InvalidInput: the agent is in no scene with this id.
        """
        async with self._turn:
            scene = await self._opened(scene_id)
            self._users.pop(scene_id, None)
            return scene

    @asynccontextmanager
    async def using(self, scene_id: str) -> AsyncIterator[Scene]:
        """A scene for the duration of a block. Its ledgers are then closed, unless `open` opened them or they are in RAM.

        Raises: as `open`.
        """
        async with self._turn:
            was_open, scene = scene_id in self._open, await self._opened(scene_id)
            if scene_id in self._users or not (was_open or self._records.store.ledger.path is None):
                self._users[scene_id] = self._users.get(scene_id, 0) + 1
        try:
            yield scene
        finally:
            if scene_id in self._users:
                self._users[scene_id] -= (
                    1  # before the wait: if the wait is cancelled, the next user closes it
                )
            async with self._turn:
                if self._users.get(scene_id) == 0:
                    del self._users[scene_id]
                    await self._open.pop(scene_id).close()

    async def _opened(self, scene_id: str) -> Scene:
        if self._is_over:
            raise StoreClosed
        if scene_id in self._open:
            return self._open[scene_id]
        state, stores = None, dict[str, OpenStore]()
        with suppress(*_UNREADABLE):
            if (record := await self._records.read(_path(scene_id))) is not None:
                state = state_of(record.fields)
        if state is None:
            raise InvalidInput("this agent is in no scene with this id")
        async with AsyncExitStack() as stack:
            for key in state.keys:
                stores[key.id] = await _opened(self._records.store, state, key)
                stack.push_async_callback(stores[key.id].close)
            stack.pop_all()
        self._open[scene_id] = Scene(self._records, self._log, state, stores)
        return self._open[scene_id]

    async def sync(self) -> None:
        """Sync every scene of the agent, a few at a time; see `Scene.sync`.

        If one scene fails, the others still sync; the first error is raised at the end.
        """
        scene_ids, errors = iter([state.id for state in await self.all()]), list[Exception]()

        async def synced() -> None:
            for scene_id in scene_ids:
                try:
                    async with self.using(scene_id) as scene:
                        await scene.sync()
                except Exception as error:
                    held = {record.name for record in await self._records.under(_SCENES, asks=False)}
                    if scene_id in held:  # else the agent has left it meanwhile
                        errors.append(error)

        outcomes = await asyncio.gather(*(synced() for _ in range(_SYNCED_AT_ONCE)), return_exceptions=True)
        for error in (*filter(None, outcomes), *errors):
            raise error

    async def leave(self, scene_id: str) -> str:
        """Forget a scene and its keys here, and ask relays to delete them; the entries of the scene stay on its relays.

        A damaged ledger of the scene stays as it is. Returns the id of the deletion request.

        Raises:
            InvalidInput: the agent is in no scene with this id.
        """
        with suppress(LedgerCorrupt):
            await self.open(scene_id)
        async with self._turn:  # a sync that the closed ledger stops finds that the scene was left
            if scene := self._open.pop(scene_id, None):
                await scene.close()
            return await self._records.forget([_path(scene_id)])

    async def close(self, seconds: float = 0.0) -> None:
        """Close every open scene, whatever fails; afterwards no scene can be opened."""
        self._is_over = True
        async with self._turn, AsyncExitStack() as stack:  # waits for a scene that is being opened
            self._users.clear()
            for scene in self._open.values():
                stack.push_async_callback(scene.close, seconds)
            self._open.clear()

    async def _begin(self, state: SceneState) -> Scene:
        await self._records.write({_path(state.id): fields_of(state)})
        return await self.open(state.id)


async def _closed(store: OpenStore, log: Log, seconds: float | None) -> None:
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


async def _opened(own_store: OpenStore, state: SceneState, key: SceneKey) -> OpenStore:
    """The open ledger of one key of a scene, beside the agent's own ledger."""
    own = own_store.options
    signer = LocalSigner.from_hex(key.secret)
    path = own_store.ledger.path
    ledger = (
        ":memory:" if path is None else path.with_name(f"{path.name}{SCENE_LEDGER}{signer.public_key[:16]}")
    )
    options = replace(own, signer=signer, urls=state.relays, ledger=ledger, embedder=None, snapshot=False)
    return await OpenStore.opened(options, lambda _: None)


# ── Invitations ─────────────────────────────────────────────────────────────────────────


async def _invitation(signer: Signer, to: str, state: SceneState) -> str:
    """An invitation as text: signed by the inviter, and encrypted to the member."""
    content = await signer.encrypt(orjson.dumps(fields_of(state, MAX_INVITATION_BYTES)), to)
    event = await signer.sign(Unsigned(0, KIND_INVITATION, (("p", to),), content))
    return _INVITATION + urlsafe_b64encode(event.body()).decode()


async def _opened_invitation(signer: Signer, text: str) -> SceneState:
    problem = "this is not an invitation to a scene for this key; nothing was changed"
    if not isinstance(text, str) or not text.strip().startswith(_INVITATION):
        raise InvalidInput(problem)
    try:
        body = urlsafe_b64decode(text.strip().removeprefix(_INVITATION))
        event = verify(RawEvent.loads(body))
        fields = orjson.loads(await signer.decrypt(event.content, event.pubkey))
        state = state_of(fields)
    except (*_UNREADABLE, InvalidEvent, BadPayload):
        raise InvalidInput(problem) from None
    is_for_me = signer.public_key in state.members
    if event.kind != KIND_INVITATION or event.pubkey != state.owner or not is_for_me:
        raise InvalidInput(problem)
    return state


def _new_secret() -> str:
    with Secret.generate() as secret:
        return secret.reveal().hex()


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}


def _path(scene_id: str) -> str:
    return address.mind_path("scene", scene_id)
