"""`remember`, `recall` and `forget`. A write is durable before it is sent; a read is local.

A name with a slash is a path of the palace, DOMAIN/FACET/KEY; any other name is a flat key, because a flat key cannot
contain a slash. `recall` looks in the palace for a key that no flat memory has. `forget` does not: it deletes for
good, so it deletes only memories whose full name was given.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import InvalidAddress, NotSynced
from sense_memory.interfaces.cli import delivery, inputs
from sense_memory.interfaces.cli.contradictions import (
    contradiction_data,
    marks_in,
    print_contradictions,
    print_marks,
)
from sense_memory.interfaces.cli.goodbye import forget_everything
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import (
    WAIT_SECONDS,
    AcksOption,
    AnywayOption,
    ConfidenceOption,
    ConnectOption,
    ContradictionsOption,
    DryRunOption,
    EverythingOption,
    ForgottenArgument,
    HalflifeOption,
    JsonOption,
    NameArgument,
    NewNameArgument,
    RawOption,
    SourceOption,
    ThemeOption,
    ValueArgument,
    VanishOption,
    WaitOption,
    YesOption,
)
from sense_memory.interfaces.cli.invocation import confirm, named, note, of, say
from sense_memory.interfaces.cli.many_memories import remember_many
from sense_memory.interfaces.cli.names import (
    absent_in_palace,
    ask_relays,
    did_you_mean,
    events_of,
    everything,
    file_named,
    find,
    flat_keys,
    in_palace,
    note_missing,
    nothing_forgotten,
    only_one,
    other_spelling,
    parts,
    path_of,
    unknown_name,
)
from sense_memory.interfaces.cli.operations import Write, deletion, operation
from sense_memory.interfaces.cli.output import as_value
from sense_memory.interfaces.cli.program import MEMORIES, app
from sense_memory.interfaces.shapes import names_of


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.interfaces.cli.invocation import Invocation
    from sense_memory.memories.persona.remembered import Remembered
    from sense_memory.models import Memory, PersonaMemory
    from sense_memory.store import MemoryStore

_OPTION_NAMES: Final = {  # by the names of the values in the store
    "themes": "--theme",
    "connections": "--connect",
    "halflife_days": "--halflife",
    "source": "--source",
    "confidence": "--confidence",
    "contradictions": "--contradictions",
}


# ── remember ────────────────────────────────────────────────────────────────────────────


@app.command(
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory remember user_timezone America/Vancouver",
        "sense-memory remember notes < notes.md",
        "# In the palace, where memories fade and connect:",
        'sense-memory remember people/facts/lisa "artist, teaches" --theme art',
        'sense-memory remember self/beliefs/tea "It helps." --confidence 0.6',
        "# Exit with code 3 unless two relays have the memory:",
        'sense-memory remember plan "Ship on Friday." --require-acks 2',
        "# Many memories, such as the flat ones that `list --json` prints:",
        "sense-memory remember --many memories.json",
        codes={
            3: "kept here, but fewer relays than --require-acks accepted it",
            130: "interrupted; with --many, stderr says how many memories were kept",
        },
    ),
)
def remember(
    context: typer.Context,
    *,
    name: NewNameArgument = None,
    value: ValueArgument = None,
    many: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep many memories: JSON lines with key and value, a list of such objects, or one object of keys and values. A key with slashes is a path. `-` is stdin.",
        ),
    ] = None,
    theme: ThemeOption = None,
    connect: ConnectOption = None,
    halflife: HalflifeOption = None,
    source: SourceOption = None,
    confidence: ConfidenceOption = None,
    contradictions: ContradictionsOption = None,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Keep a value under a name; it replaces the previous value.

    Kept means durable in the local ledger. Relays then have a few seconds to accept the memory; whatever they have not
    accepted by then stays queued, and the next command that talks to them sends it. `history` keeps the previous
    value. An unchanged flat memory is not written again. Write `--` before a value that begins with a dash.

    A path puts the memory into the palace, at full relevance. If the path has a memory already, options that are not
    given keep their values. If the new text clearly contradicts another memory of the same facet, that memory is
    marked as superseded and fades four times faster; the output gives the reason and the command that removes the
    mark. Memories that the text may contradict are named, but not marked.

    With --many, an object may also have themes, connections, halflife_days, source and confidence, if its key is a path.
    The whole file is checked before anything is written. A palace memory that has all of this already is not written
    again and keeps its marks, unless it was forgotten: a file may be kept twice.
    """
    delivery.refuse_contradiction(context, wait, require_acks)
    details = PalaceDetails(theme or [], connect or [], halflife, source, confidence, contradictions)
    if many is not None:
        if name is not None or set(details.given) - {"contradictions"}:
            context.fail(
                "with --many, names and palace options come from the file; give neither, but --contradictions"
            )
        remember_many(context, inputs.entries(many), contradictions, wait, require_acks)
    elif name is None:
        context.fail("give a NAME for the memory, or a file with --many")
    elif "/" in name:
        remember_in_palace(context, name, value, details, wait=wait, require_acks=require_acks)
    elif details.given:
        option = _OPTION_NAMES[details.given[0]]
        context.fail(
            f"{option} is for palace memories; give a path DOMAIN/FACET/KEY instead of the flat key {name!r}"
        )
    else:
        _remember_flat(context, name, value, wait, require_acks)


def _remember_flat(
    context: typer.Context, key: str, value: str | None, wait: float, require_acks: int
) -> None:
    text = inputs.text_or_stdin(value, "value")
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[delivery.Written, bool]:
        unsaved = await inputs.unsaved_pairs(store, [(key, text)])
        ids = unsaved.ids([await store.remember(*pair) for pair in unsaved.pairs])
        return await delivery.send(store, ids, wait), not unsaved.pairs

    written, unchanged = invocation.run(work, creates=True)
    result = {**names_of(key), "event_id": written.ids[0], "unchanged": unchanged}
    delivery.report_write(invocation, written, "unchanged" if unchanged else "kept", result, require_acks)


@dataclass(frozen=True, slots=True)
class PalaceDetails:
    """The options of `remember` for a palace memory; None and empty lists keep the old values."""

    themes: Sequence[str] = ()
    connections: Sequence[str] = ()
    halflife_days: float | None = None
    source: str | None = None
    confidence: float | None = None
    contradictions: str | None = None

    @property
    def given(self) -> list[str]:
        """The given fields, by their names."""
        return [name for name in _OPTION_NAMES if getattr(self, name) not in (None, (), [])]


def remember_in_palace(
    context: typer.Context,
    path: str,
    value: str | None,
    details: PalaceDetails,
    *,
    wait: float,
    require_acks: int,
) -> None:
    """Keep a palace memory, and say what it contradicts.

    Args:
        context: of the command.
        path: DOMAIN/FACET/KEY, or the key of the only palace memory that has it.
        value: the text; None or "-" for stdin.
        details: as `remember` takes them.
        wait: seconds for relays.
        require_acks: how many relays have to acknowledge the memory.

    Raises:
        InvalidAddress: the path is not a valid path, or no palace memory has the key.
        InvalidInput: several palace memories have the key.
    """
    delivery.refuse_contradiction(context, wait, require_acks)
    if "/" in path:
        parts(path)  # before stdin is read
    text = inputs.text_or_stdin(value, "value")
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[delivery.Written, Remembered, bool, str]:
        known = await path_of(store, path)
        if known is None:
            raise InvalidAddress(
                f"no palace memory here has the key {path!r}; give the path DOMAIN/FACET/KEY"
            )
        domain, facet, key = parts(await _as_spelled(invocation, store, "/".join(parts(known))))
        is_renewed = await _says(store, f"{domain}/{facet}/{key}", text)
        options: dict[str, Any] = {
            "halflife_days": details.halflife_days,
            "source": details.source,
            "confidence": details.confidence,
            "contradictions": details.contradictions,
        }
        with named(**_OPTION_NAMES):
            told = await store.persona_remember(
                domain, facet, key, text, details.themes, details.connections, **options
            )
        await note_missing(store, details.connections)
        marked = await events_of(store, told.superseded) if told.superseded else {}
        sent = await delivery.send(store, [told, *marked.values()], wait)
        return sent, told, is_renewed, f"{domain}/{facet}/{key}"

    written, told, is_renewed, name = invocation.run(work, creates=True)
    result = {
        **names_of(name),
        "event_id": written.ids[0],
        "renewed": is_renewed,
        "superseded": contradiction_data(told, told.superseded),
        "suspected": contradiction_data(told, told.suspected),
        "unmarked": [list(mark) for mark in told.unmarked],
    }
    try:
        delivery.report_write(invocation, written, "renewed" if is_renewed else "kept", result, require_acks)
    finally:
        if not invocation.as_json:
            print_contradictions(told, name)


async def _as_spelled(invocation: Invocation, store: MemoryStore, path: str) -> str:
    """The path to write: another one that differs in capital letters only, where a person at the terminal wants that.

    Without a terminal the path is written as it was given, and stderr names the other one.
    """
    other = await other_spelling(store, path)
    if other is None:
        return path
    differ = f"{other!r} differs from {path!r} in capital letters only"
    if not invocation.as_json and sys.stdin.isatty() and sys.stderr.isatty():
        return other if confirm(f"{differ}. Write to {other!r}?") else path
    say("note", f"{differ}: they are two names, and the text is at {path!r}")
    return path


async def _says(store: MemoryStore, path: str, text: str) -> bool:
    """Whether the memory at that path already has exactly this text, as far as the ledger knows."""
    try:
        versions = await store.history(path)
    except InvalidAddress:  # `persona_remember` raises a clearer error
        return False
    return any(version.is_head and version.value == text for version in versions)


# ── recall ──────────────────────────────────────────────────────────────────────────────


@operation(
    app,
    "recall",
    "sense-memory recall user_timezone",
    "sense-memory recall people/facts/lisa",
    "sense-memory recall notes > notes.md",
    "sense-memory recall picture.svg --raw | sha256sum",
    "sense-memory recall user_timezone --json",
    codes={
        1: "an error, such as: the memory is not here, and no relay could be reached",
        4: "no such memory",
    },
    panel=MEMORIES,
    shows=as_value,
)
async def recall(store: MemoryStore, name: NameArgument, *, raw: RawOption = False) -> Memory | PersonaMemory:
    """Print the value of a memory, from the local ledger.

    Recalling a palace memory revives it: its relevance is 1 again, and it fades anew from now. `palace show` shows a
    memory without reviving it. A key means the flat memory with that key; if there is none, it means the palace memory
    with that key.

    A line break follows a value that does not end with one; --raw leaves it out. On a terminal, invisible characters are
    escaped. Relays are asked only if the ledger lacks the memory and no relay has ever been asked.
    """
    del raw  # for `as_value`
    return await recall_in_palace(store, name) if "/" in name else await _recall_key(store, name)


async def _recall_key(store: MemoryStore, key: str) -> Memory | PersonaMemory:
    """The flat memory under a key, or the only palace memory with that key.

    Raises:
        NotSynced: neither is here, and no relay could be asked.
        CommandFailed: neither exists.
        InvalidInput: several palace memories have the key.
    """
    unsynced: NotSynced | None = None
    memory: Memory | PersonaMemory | None = None
    try:
        memory = await store.recall(key)
    except NotSynced as error:
        unsynced = error
    if memory is not None:
        return memory
    found = find(await everything(store), key)
    if found is not None:
        return await recall_in_palace(store, found.path)
    raise unsynced or await unknown_name(store, key)


async def recall_in_palace(store: MemoryStore, name: str) -> PersonaMemory:
    """The palace memory with that path or key, revived.

    Raises:
        CommandFailed: there is no such memory.
        InvalidInput: several memories have the key.
    """
    selected = parts(name) if "/" in name else (None, None, name)
    memory = only_one(await store.persona_recall(*selected), name)
    if memory is None:
        raise await absent_in_palace(store, name, "recall")
    return memory


# ── forget ──────────────────────────────────────────────────────────────────────────────


def check_names(given: Any) -> str:
    """Check the paths among `names`; raises InvalidAddress. A single one may be that of a mirrored file."""
    if len(given.names) > 1 or ":" not in given.names[0]:
        _check_paths(given.names)
    return ""


def check_forgotten(given: Any) -> str:
    """Check what `forget` was given together, and the paths among `names`; raises InvalidAddress."""
    if given.everything:
        return "give names, or --everything, not both" if given.names else ""
    if given.vanish or given.yes or given.dry_run:
        return "--vanish, --yes and --dry-run belong to --everything"
    if not given.names:
        return "Missing argument 'NAME...'."
    return check_names(given)


def _check_paths(names: Sequence[str]) -> None:
    for name in names:
        if "/" in name:
            parts(name)


@operation(
    app,
    "forget",
    "sense-memory forget user_timezone",
    "sense-memory forget people/facts/lisa",
    "# Forget now, and ask the relays later:",
    "sense-memory forget user_timezone --wait 0",
    "# All of this agent's memory, here and at its relays:",
    "sense-memory forget --everything --dry-run",
    codes={
        3: "forgotten here, but fewer relays than --require-acks accepted the deletion; or not all is confirmed",
        4: "no such memory here or on any relay",
    },
    panel=MEMORIES,
    writes=True,
    with_acks=True,
    refuses=check_forgotten,
)
async def forget(
    store: MemoryStore,
    *,
    names: ForgottenArgument = None,
    anyway: AnywayOption = False,
    everything: EverythingOption = False,
    vanish: VanishOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = WAIT_SECONDS,
) -> Write:
    """Delete memories for good, and ask every relay to delete its copies.

    If a memory is not here, relays are asked for it first. If every relay answers and none has the memory, nothing is
    written. If a relay cannot be reached, or with --anyway, the deletion is requested nevertheless. Nobody can promise
    that every copy is gone.

    With --everything, all of it goes: memories, journal, records of the mind, drafts, history. A terminal asks you to type
    part of the public key; a table then says what each relay still shows. Interrupted, the same command goes on.

    A mirrored file is forgotten by itself, by its full name PROJECT:FILE: its history goes, and the file in a folder stays.
    """
    if everything:
        return await forget_everything(store, yes=yes, vanish=vanish, dry_run=dry_run)
    names = names or []
    file = await file_named(store, names[0]) if len(names) == 1 else None
    if file is not None:
        ident = await store.mind.files.forget([file])
        return deletion(ident, "forgotten", **names_of(file), deletion_id=ident, was_here=True)
    _check_paths(names)
    return await forget_names(store, names, wait, anyway=anyway)


async def forget_names(
    store: MemoryStore, given: Sequence[str], wait: float, *, anyway: bool, is_palace_only: bool = False
) -> Write:
    """Forget memories; if one of the names has no memory, forget none.

    Args:
        store: with the memories.
        given: flat keys and paths, checked.
        wait: seconds for relays, where a memory is not here.
        anyway: whether deletion is requested for unknown memories too.
        is_palace_only: whether a bare key means the only palace memory with that key.

    Raises:
        CommandFailed: a name has no memory; nothing was written.
    """
    names = list(dict.fromkeys(given))
    found, unsure = await _targets(store, names, is_palace_only=is_palace_only), ""
    if not anyway and None in found.values():
        unsure = await ask_relays(store, wait)
        found = await _targets(store, names, is_palace_only=is_palace_only)
    absent = [name for name in names if found[name] is None]
    for name in absent:
        await _check_absent(
            store, name, absent, names, unsure=unsure, anyway=anyway, is_palace_only=is_palace_only
        )
    for name in absent:
        if "/" not in name and not anyway:
            note(f"{name!r} is not here{did_you_mean(name, await flat_keys(store))}")
    targets = {
        found[name] or ("/".join(parts(name)) if "/" in name else name): unsure
        if found[name] is None
        else None
        for name in names
    }
    there = await everything(store) if any("/" in target for target in targets) else []
    marks = marks_in(there)
    ids = await _forget(store, list(targets))
    forgotten = [delivery.Forgotten(names_of(target), ids[target], why) for target, why in targets.items()]
    gone = {(path, by) for path, by in marks if by in targets and path not in targets}
    lost = [
        f"{memory.path} is still here: an edit of {memory.conflict_of} that lost to one of another device"
        for memory in there
        if memory.conflict_of in targets and memory.path not in targets
    ]
    requests = list(dict.fromkeys(ids.values()))
    return Forgetting(requests, tells=partial(print_marks, gone), notes=lost, forgotten=forgotten)


async def _check_absent(
    store: MemoryStore,
    name: str,
    absent: Sequence[str],
    names: Sequence[str],
    *,
    unsure: str,
    anyway: bool,
    is_palace_only: bool,
) -> None:
    """Check that deletion may be requested for a name without a memory; raises CommandFailed where it may not."""
    is_flat = "/" not in name and not is_palace_only
    stop = await in_palace(store, name, "forget") if is_flat and not anyway else None
    is_wanted = (unsure or anyway) and (is_flat or "/" in name)  # the path of a bare key is not known
    if stop is None and is_wanted:
        return
    if is_palace_only:
        stop = await absent_in_palace(store, name, "forget")
    raise nothing_forgotten(stop or await unknown_name(store, name), absent, names)


@dataclass(frozen=True, slots=True)
class Forgetting(Write):
    """The result of forgetting memories: what is said depends on what relays answered."""

    forgotten: Sequence[delivery.Forgotten] = ()

    def outcome(self, invocation: Invocation, written: delivery.Written, require_acks: int) -> None:
        """Print the forgotten memories."""
        delivery.report_forgetting(invocation, written, self.forgotten, require_acks)


async def _targets(
    store: MemoryStore, names: Sequence[str], *, is_palace_only: bool
) -> dict[str, str | None]:
    """The meaning of each name here: a flat key, the path of a palace memory, or None. No relay is asked."""
    flat = [name for name in names if "/" not in name and not is_palace_only]
    drafts = {draft.key for draft in await store.drafts()} if flat else set()
    found: dict[str, str | None] = {
        name: name if name in drafts or await store.recall_many([name]) else None for name in flat
    }
    if len(flat) < len(names):
        there = await everything(store)
        for name in names:
            if name not in found:
                memory = find(there, name)
                found[name] = None if memory is None else memory.path
    return found


async def _forget(store: MemoryStore, targets: Sequence[str]) -> dict[str, str]:
    """Forget flat keys and paths; returns the id of the deletion request of each."""
    flat = [target for target in targets if "/" not in target]
    paths = [target for target in targets if "/" in target]
    ids = dict(zip(flat, await store.forget_many(flat), strict=True)) if flat else {}
    if paths:
        ids |= zip(paths, await store.persona_forget_many(paths), strict=True)
    return ids
