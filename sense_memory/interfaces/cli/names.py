"""Which memory a name on the command line means, and the error for a name without a memory.

A name is a flat key, a path DOMAIN/FACET/KEY of the palace, or a key that exactly one palace memory has. Looking a
name up revives no memory. Suggestions are names, never commands that delete.
"""

from __future__ import annotations

import asyncio
import time
import unicodedata
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidAddress
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, note, program, say, unknown
from sense_memory.interfaces.cli.output import told_by
from sense_memory.interfaces.shapes import shown_path
from sense_memory.interfaces.text import age, one_line, quantity, quoted, some
from sense_memory.limits import MAX_CANDIDATES_COUNT, MAX_FUTURE_SECONDS
from sense_memory.plain_text import is_unicode


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sense_memory.memories.status import Status
    from sense_memory.models import PersonaMemory
    from sense_memory.store import MemoryStore

_MAX_NEAR: Final = 3  # names that are suggested
_ALIKE: Final = 0.75  # the least similarity of a suggestion, 0 to 1: a typing error, not another word

_SEPARATORS: Final = str.maketrans("_ .", "---")


# ── Paths ───────────────────────────────────────────────────────────────────────────────


def parts(path: str) -> tuple[str, str, str]:
    """Domain, facet and key of a path.

    Raises:
        InvalidAddress: the text is not such a path.
    """
    found = shown_path(path).split("/")
    if len(found) != 3 or not all(found):
        raise InvalidAddress(
            f"{path!r} is neither a flat key, which has no '/', nor a path DOMAIN/FACET/KEY, such as "
            "people/facts/lisa"
        )
    return found[0], found[1], found[2]


def place(text: str | None) -> tuple[str | None, str | None]:
    """The domain and the facet that `DOMAIN[/FACET]` names; None for all.

    Raises:
        InvalidAddress: the text has more parts, or an empty name.
    """
    if text is None:
        return None, None
    domain, *rest = text.rstrip("/").split("/")
    if not domain or len(rest) > 1 or not all(rest):
        raise InvalidAddress(f"{text!r} is neither a DOMAIN nor DOMAIN/FACET, such as people or people/facts")
    return domain, rest[0] if rest else None


# ── Memories ────────────────────────────────────────────────────────────────────────────


async def everything(store: MemoryStore) -> list[PersonaMemory]:
    """All palace memories that are here, whatever their state; no relay is asked."""
    if store.status().never_complete:  # otherwise an empty list would wait for a relay
        return await store.persona_as_of(time.time() + MAX_FUTURE_SECONDS)
    return await store.persona_recall(include_forgotten=True)


def find(memories: Sequence[PersonaMemory], name: str) -> PersonaMemory | None:
    """The memory with that path or key; None if there is none.

    Raises:
        InvalidInput: several memories have the key.
    """
    bare = shown_path(name)
    names = {bare, unicodedata.normalize("NFC", bare)}
    if "/" in bare:
        return next((memory for memory in memories if memory.path in names), None)
    return only_one([memory for memory in memories if memory.key in names], name)


def only_one(found: Sequence[PersonaMemory], key: str) -> PersonaMemory | None:
    """The only memory that was found under a key, or None.

    Raises:
        InvalidInput: several memories were found.
    """
    from sense_memory.memories.persona.arguments import several_memories

    if len(found) > 1:
        raise several_memories(key, [memory.path for memory in found])
    return found[0] if found else None


async def path_of(store: MemoryStore, name: str) -> str | None:
    """The path that a name means if no flat memory has the name: the name itself, or the path of the only memory with
    that key.

    Raises:
        InvalidInput: several palace memories have the key.
    """
    if "/" in name:
        return name
    memory = find(await everything(store), name)
    return None if memory is None else memory.path


async def other_spelling(store: MemoryStore, path: str) -> str | None:
    """The path that is like a new one but for capital letters, in its facet or whole; None if there is none.

    Args:
        store: whose palace is looked at.
        path: domain/facet/key, as it was typed.
    """
    path = unicodedata.normalize("NFC", path)
    place, key = tuple(path.split("/")[:2]), path.rpartition("/")[2]
    memories = await everything(store)
    if any(memory.path == path for memory in memories):
        return None
    alike = next((memory.path for memory in memories if memory.path.casefold() == path.casefold()), None)
    places = {(memory.domain, memory.facet) for memory in memories}
    if alike is not None or place in places:
        return alike
    folded = tuple(map(str.casefold, place))
    near = next((one for one in sorted(places) if tuple(map(str.casefold, one)) == folded), None)
    return None if near is None else "/".join((*near, key))


async def flat_keys(store: MemoryStore) -> list[str]:
    """The keys of all flat memories that are here; no relay is asked."""
    listed = (
        store.as_of(time.time() + MAX_FUTURE_SECONDS) if store.status().never_complete else store.recall_all()
    )
    return [memory.key for memory in await listed]


def similar_to(name: str, memories: Iterable[PersonaMemory]) -> list[str]:
    """The names that a mistyped name may mean: paths of memories if it is a path, else keys."""
    return [memory.path if "/" in name else memory.key for memory in memories]


async def events_of(store: MemoryStore, names: Iterable[str]) -> dict[str, str]:
    """The events that hold some memories now, by path; missing memories are left out."""
    memories = await store.persona_recall(include_forgotten=True)
    found = [memory for name in names if (memory := find(memories, name)) is not None]
    return {memory.path: memory.event_id for memory in found}


# ── Names without a memory ─────────────────────────────────────────────────────────────


async def unknown_name(store: MemoryStore, name: str) -> CommandFailed:
    """The error if no memory has that name, flat or in the palace; suggests similar names."""
    if (stop := await _kept_back(store, name)) is not None:
        return stop
    similar = similar_to(name, await everything(store))
    return no_memory(name, store.status(), similar if "/" in name else [*await flat_keys(store), *similar])


async def _kept_back(store: MemoryStore, name: str) -> CommandFailed | None:
    """The error for a memory that a rule keeps back; None if none does."""
    held = await store.mind.store.trust().withheld()
    names = {name, *(path for path in held if path.rpartition("/")[2] == name)}
    found = next((held[one] for one in sorted(names) if one in held), None)
    if found is None:
        return None
    problem = f"a rule keeps {name!r} back ({found}); {program()} quarantine --show shows what it says"
    return CommandFailed(ExitCode.NOT_FOUND, "NotFound", problem)


def no_memory(name: str, status: Status, names: Collection[str] = ()) -> CommandFailed:
    """The error if no memory has that name; another error if no relay ever showed everything.

    Args:
        name: as it was typed.
        status: of the store.
        names: of all memories, for suggestions.
    """
    if not status.was_ever_complete:
        return unknown(f"{name!r} is")
    problem = f"no memory under {name!r} ({_asked(status)}){did_you_mean(name, names)}"
    return CommandFailed(ExitCode.NOT_FOUND, "NotFound", problem)


def did_you_mean(name: str, names: Collection[str]) -> str:
    """A question that suggests similar names, after a full stop; empty if no name is similar.

    Capital letters, and what separates words, make no difference: programs whose memories were imported write `Emil_Brandt`.
    """
    alike: dict[str, list[str]] = {}
    for one in dict.fromkeys(names):
        alike.setdefault(_folded(one), []).append(one)
    close = get_close_matches(_folded(name), alike, _MAX_NEAR, _ALIKE)
    near = [one for folded in close for one in alike[folded]][:_MAX_NEAR]
    return f". Did you mean {some(near, _MAX_NEAR)}?" if near else ""


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold().translate(_SEPARATORS)


def nothing_forgotten(stop: CommandFailed, absent: Sequence[str], names: Collection[str]) -> CommandFailed:
    """The error if some of several names have no memory; it begins by saying that nothing was forgotten.

    Args:
        stop: the error for the first such name.
        absent: all such names.
        names: all given names; nothing is added for a single name.
    """
    if len(names) == 1:
        return stop
    which = f" (not here: {some(absent, _MAX_NEAR)})" if len(absent) > 1 else ""
    return CommandFailed(stop.code, stop.name, f"nothing was forgotten{which}: {stop.message}")


async def in_palace(store: MemoryStore, key: str, command: str) -> CommandFailed | None:
    """If only palace memories have a key, an error with the commands that name these memories by path; else None."""
    named = unicodedata.normalize("NFC", key)
    paths = [memory.path for memory in await everything(store) if memory.key == named]
    if not paths:
        return None
    commands = [f"{program()} {command} {quoted(path)}" for path in paths]
    more = f" and {len(paths) - _MAX_NEAR:,} more" if len(paths) > _MAX_NEAR else ""
    problem = (
        f"no flat memory under {key!r} here. To {command} {'the' if len(paths) == 1 else 'a'} palace "
        f"memory, give its path: {' or '.join(commands[:_MAX_NEAR])}{more}"
    )
    return CommandFailed(ExitCode.NOT_FOUND, "NotFound", problem)


async def absent_in_palace(store: MemoryStore, name: str, command: str) -> CommandFailed:
    """The error if no palace memory has that name; if a flat memory has the name, the error gives the command for that
    one.
    """
    if (stop := await _kept_back(store, name)) is not None:
        return stop
    if unicodedata.normalize("NFC", name) not in await flat_keys(store):
        return no_memory(name, store.status(), similar_to(name, await everything(store)))
    problem = (
        f"no palace memory under {name!r} here. To {command} the flat memory: "
        f"{program()} {command} {quoted(name)}"
    )
    return CommandFailed(ExitCode.NOT_FOUND, "NotFound", problem)


async def check_place(store: MemoryStore, domain: str, facet: str | None = None) -> None:
    """Check that a named domain and facet exist.

    Raises:
        CommandFailed: the domain or the facet does not exist; lists the existing ones.
    """
    facets: dict[str, dict[str, int]] = (await store.persona_stats())["facets"]
    name = unicodedata.normalize("NFC", domain)
    if name not in facets:
        raise no_domain(domain, list(facets), store.status())
    if facet is not None and unicodedata.normalize("NFC", facet) not in facets[name]:
        there = some(sorted(facets[name]), MAX_CANDIDATES_COUNT)
        problem = f"there is no facet {facet!r} in {one_line(domain)}; its facets: {there}"
        raise CommandFailed(ExitCode.NOT_FOUND, "NotFound", problem)


def no_domain(domain: str, known: Sequence[str], status: Status) -> CommandFailed:
    """The error for a missing domain, with the existing ones; without a complete pull, a relay may have the domain."""
    if not status.was_ever_complete:
        return unknown(f"the domain {domain!r} is")
    there = f"the domains: {some(sorted(known), MAX_CANDIDATES_COUNT)}" if known else "the palace is empty"
    return CommandFailed(ExitCode.NOT_FOUND, "NotFound", f"there is no domain {domain!r}; {there}")


def unused_label(memories: Sequence[PersonaMemory], labels: Mapping[str, str | None]) -> str:
    """Which of some labels no memory has, with similar or existing ones, in a sentence; empty if each is in use.

    Args:
        memories: of the palace.
        labels: a domain, a facet and a theme, by these names; None for any. The facets of a named domain are its own.
    """
    from sense_memory.search.tokens import fold

    which = "memory"
    for name, label in labels.items():
        if label is None:
            continue
        there = [memory.themes if name == "theme" else (getattr(memory, name),) for memory in memories]
        known = sorted({one for some_of in there for one in some_of})
        alike = fold if name == "theme" else str
        if alike(label) not in map(alike, known):
            listed = f"; the {name}s: {some(known, MAX_CANDIDATES_COUNT)}" if known else ""
            return f"no {which} has the {name} {label!r}{did_you_mean(label, known) or listed}"
        if name == "domain":
            memories, which = [one for one in memories if one.domain == label], f"memory of {one_line(label)}"
    return ""


# ── Relays ──────────────────────────────────────────────────────────────────────────────


async def ask_relays(store: MemoryStore, seconds: float) -> str:
    """Pull from relays; returns in words why events may still be missing, or an empty text.

    Args:
        store: pulls from its relays.
        seconds: how long relays may take; 0 asks no relay.
    """
    from sense_memory.interfaces.cli.tables import spinner

    if not store.relays:
        return ""
    if not seconds:
        return "no relay was asked"
    try:
        with spinner(f"asking {quantity(len(store.relays), 'relay')}"):
            async with asyncio.timeout(seconds):
                report = await store.sync()
    except TimeoutError:
        return f"not every relay answered within {seconds:g} s"
    if told := await told_by(
        store, report
    ):  # the store reports this only once, so this command has to show it
        note(told)
    return "" if report.complete else "; ".join(report.problems) or "not every relay was asked"


def _asked(status: Status) -> str:
    """Why a "no" of this ledger can be trusted, or cannot, in words."""
    times = [relay.last_complete for relay in status.relays if relay.last_complete is not None]
    if not status.relays:
        return "no relays are configured"
    if not times:
        return "no relay was ever read completely"
    unsure = len(status.relays) - len(times)
    never = f"; {quantity(unsure, 'relay')} never read completely" if unsure else ""
    return f"{quantity(len(times), 'relay')} last read completely {age(max(times), time.time())}{never}"


async def note_missing(store: MemoryStore, targets: Sequence[str]) -> None:
    """Note each connection to a memory that does not exist: not yet, or misspelt."""
    paths = dict.fromkeys(target for target in targets if "/" in target)  # the store resolves bare keys
    there = await store.persona_recall(include_forgotten=True) if paths else []
    for target in paths:
        if find(there, target) is None:
            say("note", f"the connection counts once {target} exists; there is no such memory yet")


# ── Files by their names ────────────────────────────────────────────────────────────────


async def file_named(store: MemoryStore, name: str) -> str | None:
    """The full name of the mirrored file that a name means: `project:name`, or a path in a mirrored folder.

    Raises:
        CommandFailed: the project has no such file.
    """
    if not is_unicode(name):
        return None
    files = store.mind.files
    project, _, rest = name.partition(":")
    if project and rest:
        if files.is_known(name):
            return name
        if project in {one.project for gone in (False, True) for one in await files.all(deleted=gone)}:
            problem = f"there is no mirrored file {name!r}; `{program()} search --in file WORDS` finds files"
            raise CommandFailed(ExitCode.NOT_FOUND, "NotFound", problem)
    place = _place(name)
    for each in store.mirror.all():
        if place.is_relative_to(each.folder) and place != Path(each.folder):
            full_name = f"{each.project}:{place.relative_to(each.folder).as_posix()}"
            if files.is_known(full_name):
                return full_name
    return None


def _place(name: str) -> Path:
    """Where a file lies; links on the way are resolved, and the file may be gone."""
    path = Path(name).expanduser()
    return path.parent.resolve() / path.name


async def sync_folders_of(store: MemoryStore, full_name: str) -> None:
    """Bring the folders of a file's project on this machine in step; no relay is asked."""
    for each in store.mirror.all():
        if full_name.startswith(f"{each.project}:"):
            await store.mirror.sync(each.folder, seconds=0)
