"""`mind scenes`: a log that several agents share; and `mind share`: a facet of the palace that another agent reads."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli import delivery, inputs
from sense_memory.interfaces.cli.delivery import deliver
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import WAIT_SECONDS, JsonOption, WaitOption, argument, option
from sense_memory.interfaces.cli.invocation import ExitCode, note, of, program
from sense_memory.interfaces.cli.mind.group import (
    KindOption,
    OnlyKindOption,
    SetLimitOption,
    TextArgument,
    TurnOption,
    commands,
    done,
    group,
    not_found,
    only,
    show,
)
from sense_memory.interfaces.cli.mind.log import entry_data, show_entries
from sense_memory.interfaces.cli.names import place as place_of
from sense_memory.interfaces.text import as_json, iso, one_line, quantity
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
SceneArgument = Annotated[
    str,
    argument("SCENE", "The name of the scene, or the first characters of its id."),
]
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
        state = self.state
        fields = {"id": state.id, "name": state.name, "owner": state.owner, "members": self.members}
        return fields | {"is_member": self.is_member, "relays": list(state.relays)}


async def _state(store: MemoryStore, given: str) -> SceneState:
    known = await store.mind.scenes.all()
    named = [state for state in known if state.name == given]
    if len(named) > 1:
        raise InvalidInput(f"give the first characters of an id: {len(named)} scenes are called {given!r}")
    if not named and not any(state.id.startswith(given) for state in known):
        raise not_found(f"there is no scene {given!r}; nothing was changed")
    ident = named[0].id if named else only(given, [state.id for state in known], "scene")
    return next(state for state in known if state.id == ident)


async def _scene(store: MemoryStore, given: str) -> Scene:
    return await store.mind.scenes.open((await _state(store, given)).id)


def _member(scene: Scene, given: str) -> str:
    """The public key of the member with that name; a text that looks like a key is taken as one."""
    named = [key for key, name in scene.state.members.items() if name == given]
    if len(named) > 1:
        raise InvalidInput(
            f"give the public key: {len(named)} members are called {given!r}; nothing was changed"
        )
    if named or given.startswith("npub1") or given in scene.state.members:
        return named[0] if named else given
    known = ", ".join(sorted(scene.state.members.values()))
    raise not_found(f"no member of {scene.state.name} is called {given!r}, only {known}; nothing was changed")


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
    """Change a scene, send the change, and return what is known of the scene and the result of the change."""
    scene = await _scene(store, given)
    result = await change(scene)
    await _sync(scene, wait)
    await deliver(store, wait)
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


def _tell_scene(context: typer.Context, known: _KnownScene, sentence: str) -> None:
    told = sentence if known.is_member else f"{sentence}; the owner removed you from it: {_STILL_SEEN}"
    done(of(context), known.data(), told)


@scenes.command("create", epilog=ends("sense-memory mind scenes create village --as baker"))
def create_scene(
    context: typer.Context,
    name: Annotated[str, argument("NAME", "The name of the scene.")],
    *,
    as_name: Annotated[str, option("NAME", "Your own name in the scene.", "--as")],
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Make a scene and become its owner. The scene uses the relays that are configured now."""

    async def work(store: MemoryStore) -> _KnownScene:
        scene = await store.mind.scenes.create(name, as_name=as_name)
        await deliver(store, wait)
        return await _KnownScene.of(store, scene)

    known = of(context).run(work, creates=True)
    _tell_scene(context, known, f"made scene {known.state.id}")


@scenes.command(epilog=ends('sense-memory mind scenes invite village "$NPUB" smith'))
def invite(
    context: typer.Context,
    scene: SceneArgument,
    npub: NpubArgument,
    name: Annotated[str, argument("NAME", "The member's name in the scene.")],
    *,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Add a member, and print the invitation, which only that member can open."""
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[_KnownScene, str]:
        return await _changed(store, scene, wait, lambda found: found.invite(npub, name))

    known, text = invocation.run(work)
    typer.echo(as_json({"scene": known.state.id, "invitation": text}) if invocation.as_json else text)


@scenes.command(
    epilog=ends(
        "sense-memory mind scenes join sense-scene:eyJpZCI6…",
        codes={2: "the text is not an invitation for this key"},
    )
)
def join(
    context: typer.Context,
    invitation: Annotated[
        str,
        argument("INVITATION", "The invitation; `-` reads it from stdin."),
    ],
    *,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Join a scene by an invitation."""
    text = inputs.text_or_stdin(invitation, "invitation", is_lines=True)

    async def work(store: MemoryStore) -> _KnownScene:
        scene = await store.mind.scenes.join(text)
        await _sync(scene, wait)
        await deliver(store, wait)
        return await _KnownScene.of(store, scene)

    known = of(context).run(work, creates=True)
    _tell_scene(context, known, f"joined {known.state.name}, scene {known.state.id}")


@scenes.command("list", epilog=ends("sense-memory mind scenes list"))
def list_scenes(context: typer.Context, _json: JsonOption = False) -> None:
    """List the scenes of this agent with their members, and those from which the owner removed it."""

    async def work(store: MemoryStore) -> list[_KnownScene]:
        states, gone = await store.mind.scenes.all(), await store.mind.scenes.removed_from()
        return [_KnownScene(state, state.id not in gone, store.public_key) for state in states]

    found = of(context).run(work)
    rows = [(known.state.id, known.state.name, known.members_in_words()) for known in found]
    none = "This agent is in no scene."
    show(of(context), [known.data() for known in found], ("id", "name", "members"), rows, none=none)


@scenes.command("append", epilog=ends('sense-memory mind scenes append village "It rains." --actor world'))
def append_to_scene(
    context: typer.Context,
    scene: SceneArgument,
    text: TextArgument = None,
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
    _json: JsonOption = False,
) -> None:
    """Append an entry, signed by this agent."""
    content = inputs.text_or_stdin(text, "entry", is_lines=True)
    invocation = of(context)

    async def work(store: MemoryStore) -> LogEntry:
        payload = {"text": content}
        return (
            await _changed(
                store, scene, wait, lambda found: found.append(kind, payload, actor=actor, turn=turn)
            )
        )[1]

    entry = invocation.run(work)
    done(invocation, entry_data(entry), f"appended as {entry.id}")


@scenes.command("log", epilog=ends("sense-memory mind scenes log village"))
def scene_log(
    context: typer.Context,
    scene: SceneArgument,
    *,
    kind: OnlyKindOption = None,
    limit: SetLimitOption = 20,
    _json: JsonOption = False,
) -> None:
    """Show the newest entries of a scene that you may see, oldest first; stderr counts those that are not genuine, and says
    so if the owner removed you.
    """

    async def work(store: MemoryStore) -> tuple[list[LogEntry], int, bool]:
        found = await _scene(store, scene)
        entries = [entry for entry in await found.entries() if kind is None or entry.kind == kind]
        return entries[-limit:], await found.forged_count(), await found.is_member()

    entries, forged, is_member = of(context).run(work)
    show_entries(context, entries, time.time())
    if not is_member:
        note(f"the owner removed you from this scene: {_STILL_SEEN}")
    if forged:
        note(
            f"{quantity(forged, 'entry', 'entries')} not shown: their author did not sign them, or was removed from the scene"
        )


@scenes.command(
    "sync",
    epilog=ends(
        "sense-memory mind scenes sync village",
        codes={3: "a relay of the scene does not hold all of it; the output says why"},
    ),
)
def sync_scene(context: typer.Context, scene: SceneArgument, _json: JsonOption = False) -> None:
    """Bring the scene and its relays in step; if the owner made a new key, switch to that key.

    If the owner removed you, the output says so.
    """

    async def work(store: MemoryStore) -> tuple[_KnownScene, int, list[SyncReport]]:
        found = await _scene(store, scene)
        reports = await found.sync()
        await store.mind.flush()
        return await _KnownScene.of(store, found), len(await found.entries()), reports

    known, count, reports = of(context).run(work)
    _tell_scene(context, known, f"{known.state.name}: {quantity(count, 'entry', 'entries')}")
    if _note_lacks(reports):
        raise typer.Exit(ExitCode.NOT_REPLICATED)


@scenes.command(
    "remove",
    epilog=ends(
        'sense-memory mind scenes invite village "$NPUB" smith',
        "sense-memory mind scenes remove village smith",
        codes={4: "no member has that name"},
    ),
)
def remove_member(
    context: typer.Context,
    scene: SceneArgument,
    member: Annotated[str, argument("MEMBER", "The member's name in the scene, or public key.")],
    *,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Remove a member: later entries use a new key. The member can still read earlier entries."""

    async def work(store: MemoryStore) -> _KnownScene:
        return (await _changed(store, scene, wait, lambda found: found.remove(_member(found, member))))[0]

    known = of(context).run(work)
    _tell_scene(context, known, f"removed; {quantity(len(known.members), 'member')} left, under a new key")


@scenes.command("leave", epilog=ends("sense-memory mind scenes leave village"))
def leave_scene(
    context: typer.Context,
    scene: SceneArgument,
    *,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Forget a scene and its keys here, and ask relays to delete them. The entries stay in the scene."""
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[SceneState, delivery.Written]:
        found = await _state(store, scene)  # not opened: its ledger may be damaged
        return found, await delivery.send(store, [await store.mind.scenes.leave(found.id)], wait)

    state, written = invocation.run(work)
    left = {"left": state.id, "name": state.name}
    delivery.report_deletion(invocation, written, f"left {state.name}; its keys are forgotten", left)


# ── Shares ──────────────────────────────────────────────────────────────────────────────

PlaceOfShare = Annotated[str, argument("DOMAIN/FACET", "The facet of the palace.")]
ReaderArgument = Annotated[str, argument("NPUB", "The public key of the reader.")]


def _place(given: str) -> tuple[str, str]:
    domain, facet = place_of(given)
    if domain is None or facet is None:
        raise InvalidInput(f"give DOMAIN/FACET, such as people/facts, not {given!r}; nothing was changed")
    return domain, facet


@commands.command(epilog=ends('sense-memory mind share people/facts "$NPUB"'))
def share(
    context: typer.Context,
    place: PlaceOfShare,
    npub: ReaderArgument,
    *,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Let another agent read one facet of the palace, and print the invitation, which only that agent can open.

    The reader joins with `mind scenes join`, and reads with `mind shared`. Each `sync` updates what the reader sees.
    What has been read cannot be taken back.
    """
    domain, facet = _place(place)
    invocation = of(context)

    async def work(store: MemoryStore) -> str:
        invitation = await store.share(domain, facet, with_=npub)
        await deliver(store, wait)
        return invitation

    text = invocation.run(work)
    typer.echo(as_json({"place": place, "invitation": text}) if invocation.as_json else text)


@commands.command(
    epilog=ends(
        'sense-memory mind share people/facts "$NPUB"',
        'sense-memory mind unshare people/facts "$NPUB"',
        codes={2: "the facet is not shared with this key; nothing was changed"},
    )
)
def unshare(
    context: typer.Context,
    place: PlaceOfShare,
    npub: ReaderArgument,
    *,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """End a share with one reader: later changes use a new key. What has been read cannot be taken back."""
    domain, facet = _place(place)

    async def work(store: MemoryStore) -> None:
        await store.unshare(domain, facet, with_=npub)
        await deliver(store, wait)

    of(context).run(work)
    rest = f"run `{program()} sync`: until then the reader still sees what relays hold"
    done(of(context), {"place": place, "unshared": npub}, f"{place} is no longer shared with {npub}; {rest}")


@commands.command(epilog=ends("sense-memory mind shared"))
def shared(context: typer.Context, _json: JsonOption = False) -> None:
    """List what other agents share with this agent, as of the last `sync`."""
    invocation = of(context)

    async def work(store: MemoryStore) -> list[SharedMemory]:
        return await store.mind.shares.read()

    found = invocation.run(work)
    rows = [(to_npub(item.owner), item.path, item.state, item.value) for item in found]
    none = (
        f"Nothing is shared with this agent. To accept an invitation: {program()} mind scenes join INVITATION"
    )
    show(
        invocation,
        [_shared_data(item) for item in found],
        ("owner", "memory", "state", "text"),
        rows,
        none=none,
    )


def _shared_data(item: SharedMemory) -> dict[str, Any]:
    return {
        "owner": to_npub(item.owner),
        "path": item.path,
        "value": item.value,
        "themes": list(item.themes),
        "state": item.state,
        "created_at": iso(item.created_at),
        "last_accessed": iso(item.last_accessed),
    }
