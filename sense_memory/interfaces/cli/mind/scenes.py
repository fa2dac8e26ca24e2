"""`mind scenes`: a log that several agents share; and `mind share`: a facet of the palace that another agent reads."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.inputs import WAIT_SECONDS, WaitOption, argument, option
from sense_memory.interfaces.cli.invocation import ExitCode, note, program
from sense_memory.interfaces.cli.mind import commands
from sense_memory.interfaces.cli.mind.group import (
    TEXT,
    KindOption,
    OnlyKindOption,
    SetLimitOption,
    TurnOption,
    group,
    not_found,
    only,
)
from sense_memory.interfaces.cli.mind.log import APPENDED, ENTRIES
from sense_memory.interfaces.cli.names import place as place_of
from sense_memory.interfaces.cli.operations import (
    FromStdin,
    Write,
    as_sentence,
    as_table,
    as_text,
    deletion,
    operation,
)
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import one_line, quantity
from sense_memory.nostr.keys import npub as to_npub


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sense_memory.mind.log import LogEntry
    from sense_memory.mind.scenes.membership import SceneState
    from sense_memory.mind.scenes.scene import Scene
    from sense_memory.mind.scenes.share import SharedMemory
    from sense_memory.relay.sync.reports import SyncReport
    from sense_memory.store import MemoryStore

_T = TypeVar("_T")

scenes = group(
    "scenes",
    "Share a log with other agents.\n\nThe members of a scene share its key; every entry has its author's signature, so "
    "nobody can write in another member's name. Kinds that everybody may see (world.observed, judge.verdict, user.injected, "
    "run.started, agent.reflected) go to the scene, all others to the agent's own log.",
    "sense-memory mind scenes list",
)
SceneArgument = Annotated[str, argument("SCENE", "The name of the scene, or the first characters of its id.")]
NpubArgument = Annotated[str, argument("NPUB", "The member's public key.")]


_STILL_SEEN: Final = (
    "of your entries, the others see only those that the owner's device had when it removed you"
)


@dataclass(frozen=True, slots=True)
class _KnownScene:
    """What this device knows of a scene, and whether this agent is a member."""

    state: SceneState
    is_member: bool
    me: str

    @classmethod
    async def of(cls, store: MemoryStore, scene: Scene) -> _KnownScene:
        return cls(scene.state, await scene.is_member(), store.public_key)

    @property
    def members(self) -> dict[str, str]:
        """The names of the members by public key, without this agent if it was removed."""
        members = self.state.members
        return {key: name for key, name in members.items() if self.is_member or key != self.me}

    def members_in_words(self) -> str:
        """The names of the members, and that this agent was removed, if so."""
        names = ", ".join(sorted(self.members.values()))
        return names if self.is_member else f"{names} (the owner removed you)"

    def data(self) -> dict[str, Any]:
        """For JSON; never its keys."""
        return {**shape_of(self.state), "members": self.members, "is_member": self.is_member}


async def _state(store: MemoryStore, given: str) -> SceneState:
    known = await store.mind.scenes.all()
    named = [state for state in known if state.name == given]
    if len(named) > 1:
        raise InvalidInput(f"{len(named)} scenes are called {given!r}; give the first characters of an id")
    if not named and not any(state.id.startswith(given) for state in known):
        raise not_found(f"there is no scene {given!r}")
    ident = named[0].id if named else only(given, [state.id for state in known], "scene")
    return next(state for state in known if state.id == ident)


async def _scene(store: MemoryStore, given: str) -> Scene:
    return await store.mind.scenes.open((await _state(store, given)).id)


def _member(scene: Scene, given: str) -> str:
    """The public key of the member with that name; a text that looks like a key is taken as one."""
    named = [key for key, name in scene.state.members.items() if name == given]
    if len(named) > 1:
        raise InvalidInput(f"{len(named)} members are called {given!r}; give the public key")
    if named or given.startswith("npub1") or given in scene.state.members:
        return named[0] if named else given
    known = ", ".join(sorted(scene.state.members.values()))
    raise not_found(f"no member of {scene.state.name} is called {given!r}, only {known}")


def _note_lacks(reports: list[SyncReport]) -> bool:
    """Name each relay that does not hold all of a scene, with the reason; returns whether there is one.

    Args:
        reports: one for each key of the scene, the current key last.
    """
    lacks = {
        relay.url: relay.problem or ", ".join((*relay.pulled.reasons, *relay.reasons)) or "not finished"
        for report in reports
        for relay in report.relays
        if not relay.in_step_but_hidden
    }
    for url, why in lacks.items():
        note(f"{url} does not hold all of the scene ({one_line(why)}); its entries are kept here")
    return bool(lacks)


async def _changed(
    store: MemoryStore, given: str, wait: float, change: Callable[[Scene], Awaitable[_T]]
) -> tuple[_KnownScene, _T]:
    """Change a scene and send the change; returns what is known of the scene and the result of the change."""
    scene = await _scene(store, given)
    result = await change(scene)
    await _sync(scene, wait)
    return await _KnownScene.of(store, scene), result


async def _sync(scene: Scene, wait: float) -> None:
    """Bring the scene's relays in step, for `wait` seconds at most; what is written stays durable here."""
    if not wait:
        await scene.flush()
        return
    try:
        async with asyncio.timeout(wait):
            _note_lacks(await scene.sync())
    except TimeoutError:
        note(f"not every relay of the scene answered; run `{program()} mind scenes sync` later")


def _as_scene(say: Callable[[_KnownScene], str]) -> Any:
    """A sentence about a scene, which also says so if the owner removed this agent."""
    return as_sentence(
        lambda known: (
            say(known) if known.is_member else f"{say(known)}; the owner removed you from it: {_STILL_SEEN}"
        )
    )


_of_scene = partial(operation, scenes, json=_KnownScene.data)


@_of_scene(
    "create",
    "sense-memory mind scenes create village --as baker",
    writes=True,
    shows=_as_scene(lambda known: f"made scene {known.state.id}"),
)
async def create_scene(
    store: MemoryStore,
    name: Annotated[str, argument("NAME", "The name of the scene.")],
    *,
    as_name: Annotated[str, option("NAME", "Your own name in the scene.", "--as")],
) -> _KnownScene:
    """Make a scene and become its owner. The scene uses the relays that are configured now."""
    return await _KnownScene.of(store, await store.mind.scenes.create(name, as_name=as_name))


@dataclass(frozen=True, slots=True)
class _Invitation:
    """An invitation to a scene or a share, for one agent."""

    to: dict[str, str]
    text: str

    def data(self) -> dict[str, str]:
        return {**self.to, "invitation": self.text}


_as_invitation = as_text(lambda invitation: invitation.text)


@operation(
    scenes,
    "invite",
    'sense-memory mind scenes invite village "$NPUB" smith',
    writes=True,
    creates=False,
    json=_Invitation.data,
    shows=_as_invitation,
)
async def invite(
    store: MemoryStore,
    scene: SceneArgument,
    npub: NpubArgument,
    name: Annotated[str, argument("NAME", "The member's name in the scene.")],
    *,
    wait: WaitOption = WAIT_SECONDS,
) -> _Invitation:
    """Add a member, and print the invitation, which only that member can open."""
    known, text = await _changed(store, scene, wait, lambda found: found.invite(npub, name))
    return _Invitation({"scene": known.state.id}, text)


@_of_scene(
    "join",
    "sense-memory mind scenes join sense-scene:eyJpZCI6…",
    codes={2: "the text is not an invitation for this key"},
    writes=True,
    shows=_as_scene(lambda known: f"joined {known.state.name}, scene {known.state.id}"),
)
async def join(
    store: MemoryStore,
    invitation: Annotated[
        str, argument("INVITATION", "The invitation; `-` reads it from stdin."), FromStdin("invitation")
    ],
    *,
    wait: WaitOption = WAIT_SECONDS,
) -> _KnownScene:
    """Join a scene by an invitation."""
    scene = await store.mind.scenes.join(invitation)
    await _sync(scene, wait)
    return await _KnownScene.of(store, scene)


@_of_scene(
    "list",
    "sense-memory mind scenes list",
    shows=as_table(
        ("id", "name", "members"),
        lambda known, _: (known.state.id, known.state.name, known.members_in_words()),
        none="This agent is in no scene.",
    ),
)
async def list_scenes(store: MemoryStore) -> list[_KnownScene]:
    """List the scenes of this agent with their members, and those from which the owner removed it."""
    states, gone = await store.mind.scenes.all(), await store.mind.scenes.removed_from()
    return [_KnownScene(state, state.id not in gone, store.public_key) for state in states]


@operation(
    scenes,
    "append",
    'sense-memory mind scenes append village "It rains." --actor world',
    writes=True,
    creates=False,
    shows=APPENDED,
)
async def append_to_scene(
    store: MemoryStore,
    scene: SceneArgument,
    text: Annotated[str, TEXT, FromStdin("entry")] = "-",
    *,
    kind: KindOption = "world.observed",
    actor: Annotated[
        str | None,
        option(
            "NAME",
            "Who acted, if not you. Only the owner may name somebody who is not a member, such as world.",
        ),
    ] = None,
    turn: TurnOption = None,
    wait: WaitOption = WAIT_SECONDS,
) -> LogEntry:
    """Append an entry, signed by this agent."""
    payload = {"text": text}
    _, entry = await _changed(
        store, scene, wait, lambda found: found.append(kind, payload, actor=actor, turn=turn)
    )
    return entry


@operation(scenes, "log", "sense-memory mind scenes log village", shows=ENTRIES)
async def scene_log(
    store: MemoryStore, scene: SceneArgument, *, kind: OnlyKindOption = None, limit: SetLimitOption = 20
) -> list[LogEntry]:
    """Show the newest entries of a scene that you may see, oldest first; stderr counts those that are not genuine, and says
    so if the owner removed you.
    """
    found = await _scene(store, scene)
    entries = [entry for entry in await found.entries() if kind is None or entry.kind == kind]
    if not await found.is_member():
        note(f"the owner removed you from this scene: {_STILL_SEEN}")
    if forged := await found.forged_count():
        note(
            f"{quantity(forged, 'entry', 'entries')} not shown: their author did not sign them, or was removed from the scene"
        )
    return entries[-limit:]


@dataclass(frozen=True, slots=True)
class _Synced:
    """A scene after a synchronisation: how many entries it has, and what its relays reported for each key."""

    known: _KnownScene
    entries: int
    reports: list[SyncReport]

    @property
    def code(self) -> ExitCode:
        """The exit code; stderr names the relays that lack a part."""
        return ExitCode.NOT_REPLICATED if _note_lacks(self.reports) else ExitCode.OK


def _show_synced(found: _Synced, given: Any) -> None:
    entries = quantity(found.entries, "entry", "entries")
    _as_scene(lambda known: f"{known.state.name}: {entries}")(found.known, given)


@operation(
    scenes,
    "sync",
    "sense-memory mind scenes sync village",
    codes={3: "a relay of the scene does not hold all of it; the output says why"},
    json=lambda found: found.known.data(),
    shows=_show_synced,
    ends_with=lambda found: found.code,
)
async def sync_scene(store: MemoryStore, scene: SceneArgument) -> _Synced:
    """Bring the scene and its relays in step; if the owner made a new key, switch to that key.

    If the owner removed you, the output says so.
    """
    found = await _scene(store, scene)
    reports = await found.sync()
    await store.mind.flush()
    return _Synced(await _KnownScene.of(store, found), len(await found.entries()), reports)


def _removed(known: _KnownScene) -> str:
    return f"removed; {quantity(len(known.members), 'member')} left, under a new key"


@_of_scene(
    "remove",
    'sense-memory mind scenes invite village "$NPUB" smith',
    "sense-memory mind scenes remove village smith",
    codes={4: "no member has that name"},
    writes=True,
    creates=False,
    shows=_as_scene(_removed),
)
async def remove_member(
    store: MemoryStore,
    scene: SceneArgument,
    member: Annotated[str, argument("MEMBER", "The member's name in the scene, or public key.")],
    *,
    wait: WaitOption = WAIT_SECONDS,
) -> _KnownScene:
    """Remove a member: later entries use a new key. The member can still read earlier entries."""
    known, _ = await _changed(store, scene, wait, lambda found: found.remove(_member(found, member)))
    return known


@operation(scenes, "leave", "sense-memory mind scenes leave village", writes=True, creates=False)
async def leave_scene(store: MemoryStore, scene: SceneArgument) -> Write:
    """Forget a scene and its keys here, and ask relays to delete them. The entries stay in the scene."""
    state = await _state(store, scene)  # not opened: its ledger may be damaged
    done = f"left {state.name}; its keys are forgotten"
    return deletion(await store.mind.scenes.leave(state.id), done, left=state.id, name=state.name)


# ── Shares ──────────────────────────────────────────────────────────────────────────────

PlaceOfShare = Annotated[str, argument("DOMAIN/FACET", "The facet of the palace.")]
ReaderArgument = Annotated[str, argument("NPUB", "The public key of the reader.")]


def _place(given: str) -> tuple[str, str]:
    domain, facet = place_of(given)
    if domain is None or facet is None:
        raise InvalidInput(f"{given!r} is not DOMAIN/FACET, such as people/facts")
    return domain, facet


@operation(
    commands,
    "share",
    'sense-memory mind share people/facts "$NPUB"',
    writes=True,
    creates=False,
    json=_Invitation.data,
    shows=_as_invitation,
)
async def share(store: MemoryStore, place: PlaceOfShare, npub: ReaderArgument) -> _Invitation:
    """Let another agent read one facet of the palace, and print the invitation, which only that agent can open.

    The reader joins with `mind scenes join`, and reads with `mind shared`. Each `sync` updates what the reader sees.
    What has been read cannot be taken back.
    """
    return _Invitation({"place": place}, await store.share(*_place(place), with_=npub))


@dataclass(frozen=True, slots=True)
class _Unshared:
    """The end of a share with one reader."""

    place: str
    unshared: str

    def __str__(self) -> str:
        rest = f"run `{program()} sync`: until then the reader still sees what relays hold"
        return f"{self.place} is no longer shared with {self.unshared}; {rest}"


@operation(
    commands,
    "unshare",
    'sense-memory mind share people/facts "$NPUB"',
    'sense-memory mind unshare people/facts "$NPUB"',
    codes={2: "the facet is not shared with this key; nothing was changed"},
    writes=True,
    creates=False,
    json=asdict,
    shows=as_sentence(str),
)
async def unshare(store: MemoryStore, place: PlaceOfShare, npub: ReaderArgument) -> _Unshared:
    """End a share with one reader: later changes use a new key. What has been read cannot be taken back."""
    await store.unshare(*_place(place), with_=npub)
    return _Unshared(place, npub)


@operation(
    commands,
    "shared",
    "sense-memory mind shared",
    shows=as_table(
        ("owner", "memory", "state", "text"),
        lambda item, _: (to_npub(item.owner), item.path, item.state, item.value),
        none="Nothing is shared with this agent. To accept an invitation: {program} mind scenes join INVITATION",
    ),
)
async def shared(store: MemoryStore) -> list[SharedMemory]:
    """List what other agents share with this agent, as of the last `sync`."""
    return await store.mind.shares.read()
