"""Shares: other agents read one facet of a palace. Built on scenes.

A share is a scene whose owner is the sharing agent. Under the scene's key there is one record for each memory of the facet.
The records are a view: every `sync()` of the sharing store updates them, and deletes the records of forgotten memories.

Guaranteed: no reader can write for another reader, because each record contains the owner's signature. A reader that
repeats or moves an old record, or the record of a forgotten memory, deceives nobody who has seen a later index: a signed
index names the current records. A new machine, which has seen no index, can be deceived until the next `sync()` of the
sharing store. A facet of more than `MAX_INDEXED` memories has no index.

When a reader is removed, the view moves to a new key, and the records under the old key are deleted. A reader keeps the
memories that it has read. The cost of a sync is one signature for each changed memory, and one for the index.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.mind.call_checks import checked
from sense_memory.mind.records import MindRecords
from sense_memory.nostr import address
from sense_memory.nostr.keys import parse_public


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.memories.open_store import OpenStore
    from sense_memory.mind.records import MindRecord
    from sense_memory.mind.scenes.membership import SceneState
    from sense_memory.mind.scenes.scene import Scene
    from sense_memory.mind.scenes.scenes import Scenes
    from sense_memory.models import PersonaMemory

_NAME: Final = "palace:"  # the beginning of the names of scenes that are shares
_OWNER: Final = "owner"
_KIND: Final = "memory.shared"
_FOLDER: Final = f"{address.MIND}shared/"
_INDEX: Final = f"{_FOLDER}index"
MAX_INDEXED: Final = 500  # memories, some 35 KB of index


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """A memory of another agent's palace, as of the last sync of that agent.

    Attributes:
        owner: the public key of the agent that shares the memory.
        path: domain/facet/key.
        value: the text.
        themes: the themes of the memory.
        state: active, fading, forgotten or dissolved.
        created_at: when the memory was first written, seconds since 1970.
        last_accessed: when the memory was last recalled or written, seconds since 1970.
    """

    owner: str
    path: str
    value: str = field(repr=False)
    themes: tuple[str, ...]
    state: str
    created_at: float
    last_accessed: float


@checked
class Shares:
    """The facets that an agent shares, and the facets that other agents share with it.

    Args:
        store: the agent's open store.
        scenes: the agent's scenes.
    """

    def __init__(self, store: OpenStore, scenes: Scenes) -> None:
        self._store, self._scenes = store, scenes
        self._me = store.options.signer.public_key

    async def share(self, domain: str, facet: str, *, with_: str) -> str:
        """Let another key read a facet; returns the invitation, which that agent passes to `scenes.join`.

        Args:
            domain: the domain of the facet.
            facet: the facet to share.
            with_: the reader's public key, as npub or hex.

        Raises:
            BadKey: `with_` is not a public key.
            InvalidAddress: `domain` or `facet` is not a valid name.
            InvalidInput: the key is this agent's own, the facet holds no memory, or there are too many readers.
        """
        address.persona_path(domain, facet, "any")  # raises InvalidAddress
        reader = parse_public(with_)
        if reader == self._me:
            raise InvalidInput("this is the agent's own key; share with another one")
        if not await self._store.persona().listing(domain, facet, include_forgotten=True):
            raise InvalidInput(
                f"there is no memory in {domain}/{facet}: check the names, or remember one first; nothing was shared"
            )
        known = await self._mine(domain, facet)
        with_reader = (state for state in known if reader in state.members)
        state = next(with_reader, known[0] if known else None)
        if state is None:
            scene = await self._scenes.create(f"{_NAME}{domain}/{facet}", as_name=_OWNER)
        else:
            scene = await self._scenes.open(state.id)
        invitation = await scene.invite(reader, reader)
        await self._update_view(scene, domain, facet)
        return invitation

    async def unshare(self, domain: str, facet: str, *, with_: str) -> None:
        """End a share with one reader. The reader keeps what it has read; later memories are under a new key.

        Raises:
            BadKey: `with_` is not a public key.
            InvalidInput: the facet is not shared with this key.
        """
        address.persona_path(domain, facet, "any")
        reader = parse_public(with_)
        known = await self._mine(domain, facet)
        read = [state for state in known if reader in state.members and reader != self._me]
        if not read:
            problem = "this key does not read this facet" if known else "this facet is not shared"
            raise InvalidInput(f"{problem}")
        for state in read:
            scene = await self._scenes.open(state.id)
            before = MindRecords(scene.store)
            await scene.remove(reader)
            await before.forget([record.path for record in await before.under(_FOLDER)])
            if len(scene.state.members) > 1:
                await self._update_view(scene, domain, facet)

    async def refresh(self) -> None:
        """Update the views of all facets that this agent shares; call after `Scenes.sync`."""
        for state in await self._scenes.all():
            if state.owner == self._me and state.name.startswith(_NAME) and len(state.members) > 1:
                domain, _, facet = state.name.removeprefix(_NAME).partition("/")
                async with self._scenes.using(state.id) as scene:
                    await self._update_view(scene, domain, facet)

    async def read(self) -> list[SharedMemory]:
        """The memories that others share with this agent, by owner and path, as of the last `Scene.sync` of each share."""
        found = list[SharedMemory]()
        for state in await self._scenes.all():
            if state.owner != self._me and state.name.startswith(_NAME):
                async with self._scenes.using(state.id) as scene:
                    found += await _shown(scene)
        # If two devices of an owner shared one facet with this agent, its memories are found twice.
        found.sort(key=lambda memory: memory.last_accessed)
        newest = {(memory.owner, memory.path): memory for memory in found}
        return [newest[name] for name in sorted(newest)]

    async def _mine(self, domain: str, facet: str) -> list[SceneState]:
        """The scenes of a facet: several, if devices shared the facet without knowing of each other."""
        name = f"{_NAME}{domain}/{facet}"
        return [state for state in await self._scenes.all() if (state.name, state.owner) == (name, self._me)]

    async def _update_view(self, scene: Scene, domain: str, facet: str) -> None:
        memories = await self._store.persona().listing(domain, facet, include_forgotten=True)
        wanted = {_place(scene, memory.path): _fields(memory) for memory in memories}
        records = MindRecords(scene.store)
        held = {record.path: record for record in await records.under(_FOLDER)}
        changed = {}
        for place, fields in wanted.items():
            if place not in held or _content(held[place]) != fields or _genuine(scene, held[place]) is None:
                row = _row(scene, fields)
                changed[place] = {"fields": fields, "seal": await scene.signing.signature(row)}
        index = {place: _hash(fields) for place, fields in wanted.items()}
        if len(index) <= MAX_INDEXED and (_INDEX not in held or _listed(scene, held[_INDEX]) != index):
            content = {"at": self._store.options.clock(), "index": index}
            changed[_INDEX] = {"fields": content, "seal": await scene.signing.signature(_row(scene, content))}
        if changed:
            await records.write(changed)
        kept = wanted.keys() | ({_INDEX} if len(index) <= MAX_INDEXED else set())
        await records.forget(held.keys() - kept)
        await scene.sync()


async def _shown(scene: Scene) -> list[SharedMemory]:
    """The current memories of a share: for each, the version that the newest index names."""
    records, newest, listed = MindRecords(scene.store), 0.0, None
    for version in await records.versions(_INDEX):
        found, content = _listed(scene, version), _content(version) or {}
        if found is not None and (at := float(content["at"])) > newest:
            newest, listed = at, found
    if listed is None:
        held = await records.under(_FOLDER)
        found_all = [
            (record.path, memory) for record in held if (memory := _genuine(scene, record)) is not None
        ]
        return [memory for place, memory in found_all if place == _place(scene, memory.path)]
    shown = []
    for place, hashed in listed.items():
        for version in await records.versions(place):
            fields = _content(version)
            if fields is not None and _hash(fields) == hashed and (memory := _genuine(scene, version)):
                shown.append(memory)
                break
    return shown


def _listed(scene: Scene, record: MindRecord) -> dict[str, str] | None:
    """The index in a record that the scene's owner signed, as hashes by place; None if the record holds none."""
    fields = _content(record)
    if fields is None or not _is_signed(scene, record, fields) or not isinstance(fields.get("index"), dict):
        return None
    is_dated = isinstance(fields.get("at"), int | float)
    return {str(place): str(hashed) for place, hashed in fields["index"].items()} if is_dated else None


def _is_signed(scene: Scene, record: MindRecord, fields: Mapping[str, Any]) -> bool:
    seal = record.fields.get("seal")
    if not isinstance(seal, list) or len(seal) != 2 or seal[0] != scene.state.owner:
        return False
    try:
        return scene.signing.is_genuine([*_row(scene, fields), *seal])
    except (KeyError, TypeError, ValueError):
        return False


def _hash(fields: Mapping[str, Any]) -> str:
    """A hash of a memory's fields; empty for fields that a reader nested too deeply for JSON."""
    try:
        return sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
    except orjson.JSONEncodeError:
        return ""


def _genuine(scene: Scene, record: MindRecord) -> SharedMemory | None:
    """The memory in a record that the scene's owner signed; None if the record holds none."""
    fields = _content(record)
    if fields is None or not _is_signed(scene, record, fields):
        return None
    try:
        themes = tuple(map(str, fields["themes"]))
        times = float(fields["created_at"]), float(fields["last_accessed"])
        return SharedMemory(
            scene.state.owner, str(fields["path"]), str(fields["value"]), themes, str(fields["state"]), *times
        )
    except (KeyError, TypeError, ValueError):
        return None


def _content(record: MindRecord) -> dict[str, Any] | None:
    fields = record.fields.get("fields")
    return fields if isinstance(fields, dict) else None


def _row(scene: Scene, fields: Mapping[str, Any]) -> list[Any]:
    """The row that the owner signs, in the form of `EntrySigner`."""
    return ["", 0, _KIND, _OWNER, None, scene.state.id, dict(sorted(fields.items()))]


def _place(scene: Scene, path: str) -> str:
    """The path of a memory's record, which reveals nothing about the memory without the scene's id."""
    return _FOLDER + sha256(f"{scene.state.id}/{path}".encode()).hexdigest()[:32]


def _fields(memory: PersonaMemory) -> dict[str, Any]:
    return {
        "path": memory.path,
        "value": memory.value,
        "themes": list(memory.themes),
        "state": memory.state.value,
        "created_at": memory.created_at,
        "last_accessed": memory.last_accessed,
    }
