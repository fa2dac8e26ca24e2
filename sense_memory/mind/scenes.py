"""Scenes: a log that several agents share, each with a key of its own.

A scene has a key pair that its members hold. What happens in it is a log under that key, so relays see one more author and
nothing else, and nobody without the key can read a byte. Inside, each entry carries the signature of the agent that
wrote it.

Guaranteed: a member cannot speak for another. An entry is shown only if a member signed its exact content for this scene, under
the member's own name; only the owner may speak for names that no member has, such as `world`. Everything else is counted
as forged. An entry that a member wrote is restored by that member's next flush if another member overwrote its page.

Why it is safe: the signature covers the scene and the entry's id, so nothing can be moved or repeated under another id. The
signed event holds only a hash, of a kind that relays do not store, so a member who publishes it reveals nothing. When a
member is removed, the owner draws a new key and seals it to each remaining member; the removed member goes on reading what
was written before, and nothing after.

What it costs: one signature for each entry and one verification for each entry read, some 50 µs; a ledger of its own.
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import BadKey, BadPayload, InvalidAddress, InvalidEvent, InvalidInput
from sense_memory.memories.open_store import OpenStore
from sense_memory.mind.episodic import GLOBAL_KINDS
from sense_memory.mind.log import LAST_SECOND, Log, NewEntry
from sense_memory.mind.records import MindRecords
from sense_memory.nostr import address
from sense_memory.nostr.event import RawEvent, Unsigned, event_id, verify
from sense_memory.nostr.keys import Secret, parse_public
from sense_memory.nostr.signer import LocalSigner


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.mind.log import LogEntry
    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.sync.reports import SyncReport

KIND_ENTRY: Final = 24_078  # ephemeral (NIP-01): a relay that is sent one does not store it
KIND_INVITATION: Final = 24_079
MOVED: Final = "scene.moved"
MAX_MEMBERS: Final = 100
_INVITATION: Final = "sense-scene:"
_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, BadKey, InvalidAddress)


@dataclass(frozen=True, slots=True)
class SceneKey:
    """One key of a scene, and who is a member under it.

    Attributes:
        secret: 64 hex digits.
        members: the name of each member by public key, the owner's included.
    """

    secret: str = field(repr=False)
    members: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SceneState:
    """What a member knows of a scene, as its record holds it.

    Attributes:
        id: 16 hex digits; the same for all members.
        name: for people.
        owner: public key of who made the scene.
        keys: all keys, the current one last.
        relays: where the scene lies.
    """

    id: str
    name: str
    owner: str
    keys: tuple[SceneKey, ...]
    relays: tuple[str, ...]

    @property
    def members(self) -> Mapping[str, str]:
        """The name of each present member by public key."""
        return self.keys[-1].members


class Seal:
    """Signs entries of a scene as one agent, and tells genuine entries from forged ones.

    Args:
        signer: the agent.
        scene: the scene's id.
        owner: public key of the scene's owner.
        members: the name of each member by public key.
    """

    def __init__(self, signer: Signer, scene: str, owner: str, members: Mapping[str, str]) -> None:
        self._signer, self._scene, self._owner, self._members = signer, scene, owner, members

    async def signature(self, row: list[Any]) -> list[str]:
        """The author's public key and signature, to add to an entry."""
        event = await self._signer.sign(self._unsigned(row))
        return [event.pubkey, event.sig]

    def is_genuine(self, row: list[Any]) -> bool:
        """Whether a member signed an entry, and may say it under this name."""
        return self.is_signed(row) and self.may_speak(row)

    def is_signed(self, row: list[Any]) -> bool:
        """Whether a member signed an entry, under any name; False for any row that no member's program writes."""
        if len(row) != 9 or row[7] not in self._members or abs(row[1]) > LAST_SECOND:
            return False
        author, sig = row[7:]
        try:
            unsigned = self._unsigned(row[:7])
            ident = event_id(author, unsigned.created_at, unsigned.kind, unsigned.tags, unsigned.content)
            claim = {"id": ident, "pubkey": author, "sig": sig, "created_at": unsigned.created_at}
            claim |= {"kind": unsigned.kind, "tags": unsigned.tags, "content": unsigned.content}
            verify(RawEvent.parse(claim))
        except (InvalidEvent, orjson.JSONEncodeError):  # such as one that is nested too deep
            return False
        return True

    def may_speak(self, row: Sequence[Any]) -> bool:
        """Whether the author of an entry may speak under its name."""
        actor, author = row[3], row[7]
        name = self._members.get(author)
        return name is not None and (
            name == actor or (author == self._owner and actor not in self._members.values())
        )

    def _unsigned(self, row: Sequence[Any]) -> Unsigned:
        digest = sha256(orjson.dumps(row)).hexdigest()
        return Unsigned(max(0, int(row[1])), KIND_ENTRY, (("scene", self._scene),), digest)


class Scene:
    """A scene that is open. Get one from `Scenes`.

    Args:
        records: of the member's own mind.
        log: the member's own log, which keeps what is not for all.
        state: what the member knows of the scene.
        stores: the open ledgers of the scene's keys, the current one last.
    """

    def __init__(
        self, records: MindRecords, log: Log, state: SceneState, stores: Sequence[OpenStore]
    ) -> None:
        self._records, self._own, self.state, self._stores = records, log, state, list(stores)
        self._signer = signer = records.store.options.signer
        self._me = signer.public_key
        seals = (Seal(signer, state.id, state.owner, key.members) for key in state.keys)
        self._logs = [Log(MindRecords(store), seal=seal) for store, seal in zip(stores, seals, strict=True)]

    def __repr__(self) -> str:
        return f"Scene({self.state.name!r}, members={len(self.state.members)})"

    @property
    def name_of_self(self) -> str:
        """The name of this member; empty after it was removed."""
        return self.state.members.get(self._me, "")

    @property
    def store(self) -> OpenStore:
        """The open ledger of the present key."""
        return self._stores[-1]

    @property
    def seal(self) -> Seal:
        """What signs and checks under the present key."""
        return Seal(self._signer, self.state.id, self.state.owner, self.state.members)

    async def append(
        self, kind: str, payload: Mapping[str, Any], *, actor: str | None = None, turn: int | None = None
    ) -> LogEntry:
        """Append an entry: one of a globally visible kind to the scene, any other to the agent's own log.

        Args:
            kind: such as `agent.spoke`, `world.observed`.
            payload: plain JSON values.
            actor: by default this member; only the owner may name somebody who is no member, such as `world`.
            turn: the number of the turn.

        Raises:
            InvalidInput: this member may not speak under that name; nothing was appended.
        """
        name = actor or self.name_of_self
        is_free = self._me == self.state.owner and name not in self.state.members.values()
        if not name or (name != self.name_of_self and not is_free):
            raise InvalidInput("only the member itself may speak under its name; nothing was appended")
        if kind in GLOBAL_KINDS or kind == MOVED:
            return await self._logs[-1].append(
                kind, payload, actor=name, turn=turn, conversation=self.state.id
            )
        return await self._own.append(kind, payload, actor=name, turn=turn, conversation=self.state.id)

    async def entries(self) -> list[LogEntry]:
        """The member's own entries of this scene, and everything genuine that is visible to all, oldest first."""
        found = {
            entry.id + entry.author: entry
            for log in self._logs
            for entry in await log.entries()
            if entry.kind != MOVED
        }
        found |= {entry.id: entry for entry in await self._own.entries(conversation=self.state.id)}
        return sorted(found.values(), key=lambda entry: (entry.at, entry.id))

    async def forged_count(self) -> int:
        """How many entries are not shown, because their author did not sign them."""
        for log in self._logs:
            await log.entries()
        return sum(len(log.forged) for log in self._logs)

    async def sync(self) -> list[SyncReport]:
        """Bring the scene's relays and ledgers in step, and follow to a new key if the owner drew one."""
        reports = []
        for log, store in zip(self._logs, self._stores, strict=True):
            await log.flush()
            reports.append(await store.replication.sync())
            await log.flush()
        await self._follow()
        return reports

    async def flush(self) -> None:
        """Sign what is in no page yet."""
        for log in self._logs:
            await log.flush()

    async def close(self, seconds: float = 0.0) -> None:
        """Flush, wait up to `seconds` for relays, and close the scene's ledgers."""
        for log, store in zip(self._logs, self._stores, strict=True):
            try:
                await log.flush()
                await store.drain(seconds)
            finally:
                await store.close()

    # ── Members ─────────────────────────────────────────────────────────────────────────

    async def invite(self, npub: str, name: str) -> str:
        """Add a member; returns the invitation, a text that only the member can open. Hand it over in any way.

        Args:
            npub: the member's public key.
            name: under which it speaks in the scene.

        Raises:
            InvalidInput: this member is not the owner, the name is taken, or the scene is full; nothing was changed.
            BadKey: not a public key.
        """
        self._check_owner()
        key = parse_public(npub)
        taken = {member for other, member in self.state.members.items() if other != key}
        if not isinstance(name, str) or not name.strip() or name in taken:
            raise InvalidInput("give the member a name of its own; nothing was changed")
        if len(self.state.members) >= MAX_MEMBERS:
            raise InvalidInput(f"a scene has at most {MAX_MEMBERS} members; nothing was changed")
        current = self.state.keys[-1]
        joined = replace(current, members={**current.members, key: name})
        await self._become(replace(self.state, keys=(*self.state.keys[:-1], joined)))
        members = {"id": self.state.id, "members": dict(joined.members)}
        await self._logs[-1].append(MOVED, members, actor=self.name_of_self, conversation=self.state.id)
        return await _invitation(self._records.store.options.signer, key, self.state)

    async def remove(self, npub: str) -> None:
        """Remove a member: a new key, sealed to each remaining member, for everything that comes after.

        Raises:
            InvalidInput: this member is not the owner, or the other is no member; nothing was changed.
        """
        self._check_owner()
        key = parse_public(npub)
        if key == self._me or key not in self.state.members:
            raise InvalidInput("only another member can be removed; nothing was changed")
        rest = {member: name for member, name in self.state.members.items() if member != key}
        after = replace(self.state, keys=(*self.state.keys, SceneKey(_new_secret(), rest)))
        signer = self._records.store.options.signer
        sealed = {member: await _invitation(signer, member, after) for member in rest if member != self._me}
        store = await _opened(self._records.store, after, after.keys[-1])
        entries = [
            NewEntry(MOVED, {"invitations": {member: text}}, self.name_of_self, conversation=self.state.id)
            for member, text in sealed.items()
        ]
        await self._logs[-1].append_many(entries)
        await self._logs[-1].flush()
        self._stores.append(store)
        self._logs.append(Log(MindRecords(store), seal=Seal(signer, after.id, after.owner, rest)))
        await self._become(after)

    async def _follow(self) -> None:
        """Take over members and keys that the owner announced, and keys that another device of this agent knows."""
        signer = self._records.store.options.signer
        if (record := await self._records.read(_path(self.state.id))) is not None:
            with suppress(*_UNREADABLE):
                known = _state_of(record.fields)
                if known.owner == self.state.owner and len(known.keys) > len(self.state.keys):
                    await self._move(known)
        for entry in await self._logs[-1].entries(kind=MOVED):
            if entry.author != self.state.owner or entry.author == self._me:
                continue
            members, sealed = entry.payload.get("members"), entry.payload.get("invitations")
            if isinstance(members, dict) and _are_members(members):
                current = SceneKey(self.state.keys[-1].secret, {**self.state.members, **members})
                if current != self.state.keys[-1]:
                    await self._become(replace(self.state, keys=(*self.state.keys[:-1], current)))
            if isinstance(sealed, dict) and isinstance(text := sealed.get(self._me), str):
                after = self.state
                with suppress(InvalidInput):  # an announcement that does not open stops no sync
                    after = await _opened_invitation(signer, text)
                if after.owner == self.state.owner and len(after.keys) > len(self.state.keys):
                    await self._move(after)

    async def _move(self, after: SceneState) -> None:
        signer = self._records.store.options.signer
        for key in after.keys[len(self.state.keys) :]:
            store = await _opened(self._records.store, after, key)
            self._stores.append(store)
            self._logs.append(Log(MindRecords(store), seal=Seal(signer, after.id, after.owner, key.members)))
            await store.replication.sync()
        await self._become(after)

    async def _become(self, state: SceneState) -> None:
        await self._records.write({_path(state.id): _fields(state)})
        self.state = state
        signer = self._records.store.options.signer
        for log, key in zip(self._logs, state.keys, strict=True):
            log.reseal(Seal(signer, state.id, state.owner, key.members))

    def _check_owner(self) -> None:
        if self._me != self.state.owner:
            raise InvalidInput("only the owner of a scene changes its members; nothing was changed")


class Scenes:
    """The scenes of an agent.

    Args:
        records: of the agent's mind.
        log: the agent's own log.
    """

    def __init__(self, records: MindRecords, log: Log) -> None:
        self._records, self._log = records, log
        self._open: dict[str, Scene] = {}

    async def all(self) -> list[SceneState]:
        """What the agent knows of each of its scenes, by name."""
        found = []
        for record in await self._records.under(f"{address.MIND}scene/"):
            with suppress(*_UNREADABLE):  # of another version of this program
                found.append(_state_of(record.fields))
        return sorted(found, key=lambda state: (state.name, state.id))

    async def create(self, name: str, *, as_name: str) -> Scene:
        """Make a scene, whose owner this agent is.

        Args:
            name: of the scene, for people.
            as_name: under which the agent speaks in it.

        Raises:
            InvalidInput: a name is empty.
        """
        if not all(isinstance(text, str) and text.strip() for text in (name, as_name)):
            raise InvalidInput("give the scene and yourself a name; nothing was made")
        options = self._records.store.options
        me = options.signer.public_key
        key = SceneKey(_new_secret(), {me: as_name})
        state = SceneState(secrets.token_hex(8), name, me, (key,), options.urls)
        return await self._begin(state)

    async def join(self, invitation: str) -> Scene:
        """Join a scene by an invitation; joining again changes nothing.

        Raises:
            InvalidInput: the text is no invitation, was altered, or is for somebody else; nothing was changed.
        """
        state = await _opened_invitation(self._records.store.options.signer, invitation)
        known = next((item for item in await self.all() if item.id == state.id), None)
        if known is not None and (known.owner != state.owner or len(known.keys) >= len(state.keys)):
            return await self.open(state.id)
        return await self._begin(state)

    async def open(self, scene_id: str) -> Scene:
        """A scene of the agent, ready to use. It is closed with the store.

        Raises:
            InvalidInput: the agent is in no such scene.
        """
        if scene_id in self._open:
            return self._open[scene_id]
        state = next((item for item in await self.all() if item.id == scene_id), None)
        if state is None:
            raise InvalidInput("this agent is in no scene with this id")
        stores = [await _opened(self._records.store, state, key) for key in state.keys]
        self._open[scene_id] = Scene(self._records, self._log, state, stores)
        return self._open[scene_id]

    async def sync(self) -> None:
        """Bring every scene of the agent in step with its relays; see `Scene.sync`."""
        for state in await self.all():
            await (await self.open(state.id)).sync()

    async def leave(self, scene_id: str) -> None:
        """Forget a scene and its keys, here and on relays; what was written to the scene stays there.

        Raises:
            InvalidInput: the agent is in no such scene.
        """
        scene = await self.open(scene_id)
        await scene.close()
        del self._open[scene_id]
        await self._records.forget([_path(scene_id)])

    async def close(self, seconds: float = 0.0) -> None:
        """Close every open scene."""
        for scene_id in list(self._open):
            await self._open.pop(scene_id).close(seconds)

    async def _begin(self, state: SceneState) -> Scene:
        await self._records.write({_path(state.id): _fields(state)})
        if (before := self._open.pop(state.id, None)) is not None:
            await before.close()
        return await self.open(state.id)


async def _opened(own_store: OpenStore, state: SceneState, key: SceneKey) -> OpenStore:
    """The open ledger of one key of a scene, beside the agent's own ledger."""
    own = own_store.options
    signer = LocalSigner.from_hex(key.secret)
    path = own_store.ledger.path
    ledger = ":memory:" if path is None else path.with_name(f"{path.name}.scene-{signer.public_key[:16]}")
    options = replace(own, signer=signer, urls=state.relays, ledger=ledger, embedder=None, snapshot=False)
    return await OpenStore.opened(options, lambda _: None)


# ── Invitations ─────────────────────────────────────────────────────────────────────────


async def _invitation(signer: Signer, to: str, state: SceneState) -> str:
    """An invitation as text: signed by the inviter, sealed to the member."""
    content = await signer.encrypt(orjson.dumps(_fields(state)), to)
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
        state = _state_of(fields)
    except (*_UNREADABLE, InvalidEvent, BadPayload):
        raise InvalidInput(problem) from None
    is_for_me = signer.public_key in state.members
    if event.kind != KIND_INVITATION or event.pubkey != state.owner or not is_for_me:
        raise InvalidInput(problem)
    return state


def _new_secret() -> str:
    with Secret.generate() as secret:
        return secret.reveal().hex()


def _path(scene_id: str) -> str:
    return address.mind_path("scene", scene_id)


def _fields(state: SceneState) -> dict[str, Any]:
    keys = [{"secret": key.secret, "members": dict(key.members)} for key in state.keys]
    return {
        "id": state.id,
        "name": state.name,
        "owner": state.owner,
        "keys": keys,
        "relays": list(state.relays),
    }


def _state_of(fields: Mapping[str, Any]) -> SceneState:
    keys = []
    for key in fields["keys"]:
        LocalSigner.from_hex(key["secret"]).close()  # raises BadKey
        if not _are_members(key["members"]):
            raise ValueError
        keys.append(SceneKey(key["secret"], key["members"]))
    ident, name, owner = fields["id"], fields["name"], fields["owner"]
    address.mind_path("scene", ident)
    if not keys or not all(isinstance(text, str) for text in (ident, name, owner)):
        raise ValueError
    return SceneState(ident, name, parse_public(owner), tuple(keys), tuple(map(str, fields["relays"])))


def _are_members(members: object) -> bool:
    return (
        isinstance(members, dict)
        and 0 < len(members) <= MAX_MEMBERS
        and all(isinstance(key, str) and isinstance(name, str) for key, name in members.items())
        and len(set(members.values())) == len(members)
    )
