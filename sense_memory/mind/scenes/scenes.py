"""The scenes of an agent: made, joined, opened, synced and left. What a scene is, and how it is safe: `scene`."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidInput, LedgerCorrupt, LedgerError, StoreClosed
from sense_memory.mind.call_checks import checked
from sense_memory.mind.scenes.invitations import opened_invitation
from sense_memory.mind.scenes.membership import UNREADABLE, SceneKey, SceneState, fields_of, state_of, tidy
from sense_memory.mind.scenes.scene import (
    SCENES,
    Scene,
    counted_folder,
    new_secret,
    opened_ledgers,
    scene_path,
)
from sense_memory.plain_text import has_hidden


if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sense_memory.mind.log import Log
    from sense_memory.mind.records import MindRecords

_SYNCED_AT_ONCE: Final = 4  # scenes, each with some 4 files for each of its keys, and its connections


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
        # The number of `using` blocks of each scene that only they keep open.
        self._users: dict[str, int] = {}
        self._is_over = False
        self._turn = asyncio.Lock()  # a scene is opened once, and never while its ledgers are being closed

    async def all(self, *, asks: bool = True) -> list[SceneState]:
        """The agent's knowledge of each of its scenes, by name; with `asks`, relays are asked if there is none."""
        found = []
        for record in await self._records.under(SCENES, asks=asks):
            with suppress(*UNREADABLE):  # written by another version of this program
                found.append(state_of(record.fields))
        return sorted(found, key=lambda state: (state.name, state.id))

    async def removed_from(self) -> set[str]:
        """The ids of the scenes whose owner removed this agent, as far as this device knows; no relay is asked.

        A scene whose ledger cannot be read is left out, because then the device does not know.
        """
        me, found = self._records.store.options.signer.public_key, set[str]()
        for state in await self.all(asks=False):
            if state.owner != me:
                with suppress(LedgerError):
                    async with self.using(state.id) as scene:
                        if not await scene.is_member():
                            found.add(state.id)
        return found

    async def create(self, name: str, *, as_name: str) -> Scene:
        """Create a scene with this agent as its owner.

        Args:
            name: the name of the scene, for people.
            as_name: the agent's name in the scene.

        Raises:
            InvalidInput: a name is empty, or has invisible characters; nothing was created.
        """
        name, as_name = tidy(name), tidy(as_name)
        if not (name and as_name):
            raise InvalidInput("the name of the scene, or your name in it, is empty; give both")
        if has_hidden(name) or has_hidden(as_name):
            raise InvalidInput("a name has invisible characters; give names without them")
        options = self._records.store.options
        me = options.signer.public_key
        key = SceneKey(new_secret(), {me: as_name})
        state = SceneState(secrets.token_hex(8), name, me, (key,), options.urls)
        return await self._begin(state)

    async def join(self, invitation: str) -> Scene:
        """Join a scene by an invitation. Another invitation to a joined scene adds new keys and members.

        Raises:
            InvalidInput: the text is not an invitation, was altered, or is for another key; nothing was changed.
        """
        state = await opened_invitation(self._records.store.options.signer, invitation)
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
                # Before the wait: if the wait is cancelled, the next user closes the scene.
                self._users[scene_id] -= 1
            async with self._turn:
                if self._users.get(scene_id) == 0:
                    del self._users[scene_id]
                    await self._open.pop(scene_id).close()

    async def _opened(self, scene_id: str) -> Scene:
        if self._is_over:
            raise StoreClosed
        if scene_id in self._open:
            return self._open[scene_id]
        state: SceneState | None = None
        with suppress(*UNREADABLE):
            if (record := await self._records.read(scene_path(scene_id))) is not None:
                state = state_of(record.fields)
        if state is None:
            raise InvalidInput("this agent is in no scene with this id")
        stores = await opened_ledgers(self._records.store, state, state.keys)
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
                    held = {record.name for record in await self._records.under(SCENES, asks=False)}
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
            named = await self._records.under(counted_folder(scene_id), asks=False)
            return await self._records.forget([scene_path(scene_id), *(record.path for record in named)])

    async def close(self, seconds: float = 0.0) -> None:
        """Close every open scene, whatever fails; afterwards no scene can be opened."""
        self._is_over = True
        async with self._turn, AsyncExitStack() as stack:  # waits for a scene that is being opened
            self._users.clear()
            for scene in self._open.values():
                stack.push_async_callback(scene.close, seconds)
            self._open.clear()

    async def _begin(self, state: SceneState) -> Scene:
        await self._records.write({scene_path(state.id): fields_of(state)})
        return await self.open(state.id)
