"""How memories of the palace are named on a command line. No terminal, no delivery.

Looking a memory up here is no access: only `palace recall` is.
"""

from __future__ import annotations

import asyncio
import time
import unicodedata
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sense_memory.errors import InvalidAddress, InvalidInput
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, note, unknown
from sense_memory.interfaces.cli.json_output import shown_path
from sense_memory.interfaces.cli.text import age, one_line, quantity, quoted, some
from sense_memory.limits import MAX_FUTURE_SECONDS


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sense_memory.memories.status import Status
    from sense_memory.models import PersonaMemory
    from sense_memory.store import MemoryStore

_MAX_CANDIDATES: Final = 10

PathArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATH", show_default=False, help="DOMAIN/FACET/KEY of the memory, such as people/facts/lisa."
    ),
]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        show_default=False,
        help="DOMAIN/FACET/KEY of the memory, or its KEY alone where no other memory has it.",
    ),
]
PlaceArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="DOMAIN[/FACET]", show_default=False, help="Only of this domain, or of this facet of it."
    ),
]


def parts(path: str) -> tuple[str, str, str]:
    """Domain, facet and key of a path.

    Raises:
        InvalidAddress: it is none.
    """
    found = shown_path(path).split("/")
    if len(found) != 3 or not all(found):
        raise InvalidAddress(
            f"a memory of the palace is named DOMAIN/FACET/KEY, such as people/facts/lisa, not {path!r}; "
            "nothing was changed"
        )
    return found[0], found[1], found[2]


def place(text: str | None) -> tuple[str | None, str | None]:
    """The domain and the facet that `DOMAIN[/FACET]` names; None for all.

    Raises:
        InvalidAddress: more than that, or an empty name.
    """
    if text is None:
        return None, None
    domain, *rest = shown_path(text).rstrip("/").split("/")
    if not domain or len(rest) > 1 or not all(rest):
        raise InvalidAddress(f"give a DOMAIN or DOMAIN/FACET, such as people or people/facts, not {text!r}")
    return domain, rest[0] if rest else None


def find(memories: Sequence[PersonaMemory], name: str) -> PersonaMemory | None:
    """The memory that is named by its path or its bare key; None where there is none.

    Raises:
        InvalidInput: a bare key that several memories have.
    """
    bare = shown_path(name)
    names = {bare, unicodedata.normalize("NFC", bare)}
    if "/" in bare:
        return next((memory for memory in memories if memory.path in names), None)
    return only_one([memory for memory in memories if memory.key in names], name)


def only_one(found: Sequence[PersonaMemory], name: str) -> PersonaMemory | None:
    """The one memory that was found under a bare key, or None.

    Raises:
        InvalidInput: there are several.
    """
    if len(found) <= 1:
        return found[0] if found else None
    listed = sorted(repr(memory.path) for memory in found)
    more = ", …" if len(listed) > _MAX_CANDIDATES else ""
    raise InvalidInput(
        f"several memories have the key {name!r}: {', '.join(listed[:_MAX_CANDIDATES])}{more}. "
        "Name one by its path."
    )


def names(name: str, memories: Iterable[PersonaMemory]) -> list[str]:
    """The paths of memories, or their bare keys, whichever a name of that kind may be meant for."""
    return [memory.path if "/" in name else memory.key for memory in memories]


def no_domain(domain: str, known: Sequence[str], status: Status) -> CommandFailed:
    """There is no such domain, but these; where no relay has shown everything, it may exist there."""
    if not status.is_complete:
        return unknown(f"the domain {domain!r} is")
    there = f"there are: {some(sorted(known), _MAX_CANDIDATES)}" if known else "there are none yet"
    return CommandFailed(ExitCode.NOT_FOUND, "NotFound", f"there is no domain {domain!r}; {there}")


def no_facet(facet: str, domain: str, known: Sequence[str]) -> CommandFailed:
    """There is no such facet in a domain, but these."""
    there = some(sorted(known), _MAX_CANDIDATES)
    return CommandFailed(
        ExitCode.NOT_FOUND,
        "NotFound",
        f"there is no facet {facet!r} in {one_line(domain)}; there are: {there}",
    )


async def everything(store: MemoryStore) -> list[PersonaMemory]:
    """All memories that are here, whatever their state; no relay is asked."""
    if store.status().never_complete:  # a listing that finds none would wait for it
        return await store.persona_as_of(time.time() + MAX_FUTURE_SECONDS)
    return await store.persona_recall(include_forgotten=True)


async def events_of(store: MemoryStore, names: Iterable[str]) -> dict[str, str]:
    """The events that hold some memories now, by path; of those that are there."""
    memories = await store.persona_recall(include_forgotten=True)
    found = [memory for name in names if (memory := find(memories, name)) is not None]
    return {memory.path: memory.event_id for memory in found}


_MAX_NEAR: Final = 3  # names that are suggested
_ALIKE: Final = 0.75  # how alike they have to be, 0 to 1: a slip of the finger, not another word


def no_memory(key: str, status: Status, names: Collection[str] = ()) -> CommandFailed:
    """There is nothing under a key, as far as this ledger can know; where it cannot know, that is an error.

    Args:
        key: as it was typed.
        status: of the store.
        names: of all memories, of which one may have been meant.
    """
    if not status.is_complete:
        return unknown(f"{key!r} is")
    return CommandFailed(
        ExitCode.NOT_FOUND, "NotFound", f"no memory under {key!r} ({_asked(status)}){meant(key, names)}"
    )


def meant(key: str, names: Collection[str]) -> str:
    """A question for the names that a key may have been meant for, behind a full stop; nothing where none is alike."""
    near = get_close_matches(key, names, _MAX_NEAR, _ALIKE)
    return f". Did you mean {some(near, _MAX_NEAR)}?" if near else ""


def nothing_forgotten(stop: CommandFailed, absent: Sequence[str], names: Collection[str]) -> CommandFailed:
    """Of several names that were to be forgotten some are nowhere, so that none is forgotten: say so first.

    Args:
        stop: what is to be said of the first that is nowhere.
        absent: all that are nowhere.
        names: all that were to be forgotten; of a single one there is nothing to add.
    """
    if len(names) == 1:
        return stop
    which = f" ({some(absent, _MAX_NEAR)} are not here)" if len(absent) > 1 else ""
    return CommandFailed(stop.code, stop.name, f"nothing was forgotten{which}: {stop.message}")


async def no_flat_memory(store: MemoryStore, key: str, command: str) -> CommandFailed:
    """There is nothing under a plain key; where the palace has that name, the command that goes there.

    Args:
        store: where it is not.
        key: as it was typed.
        command: what does the same with a memory of the palace, such as "palace recall".
    """
    found = await in_palace(store, key, command)
    if found is not None:
        return found
    return no_memory(key, store.status(), await flat_keys(store))


async def flat_keys(store: MemoryStore) -> list[str]:
    """The plain keys of all memories that are here; no relay is asked."""
    listed = (
        store.as_of(time.time() + MAX_FUTURE_SECONDS) if store.status().never_complete else store.recall_all()
    )
    return [memory.key for memory in await listed]


async def in_palace(store: MemoryStore, name: str, command: str) -> CommandFailed | None:
    """Where the palace has a memory of that name, or path: that it is there, and how to get at it; else None."""
    named = unicodedata.normalize("NFC", shown_path(name))
    paths = [memory.path for memory in await everything(store) if named in {memory.key, memory.path}]
    if not paths:
        return None
    commands = [f"sense-memory {command} {quoted(path)}" for path in paths]
    one = "that is a memory of the palace" if len(paths) == 1 else "the palace has memories of that name"
    more = f" and {len(paths) - _MAX_NEAR:,} more" if len(paths) > _MAX_NEAR else ""
    problem = f"no memory under the plain key {name!r} here; {one}: {' or '.join(commands[:_MAX_NEAR])}{more}"
    return CommandFailed(ExitCode.NOT_FOUND, "NotFound", problem)


async def refuse_path(store: MemoryStore, name: str, command: str) -> None:
    """Meet the path of a memory of the palace, where a plain key belongs, with the command for that.

    Raises:
        CommandFailed: it is one. Whatever else is no key is left to the store.
    """
    found = await in_palace(store, name, command) if "/" in name else None
    if found is not None:
        raise found


async def ask_relays(store: MemoryStore, seconds: float) -> str:
    """Get what relays have that is not here; returns why that may not be all, in words, or nothing.

    Args:
        store: asks, and takes what they have.
        seconds: how long they may take; 0 asks nobody.
    """
    from sense_memory.interfaces.cli.sync import lost_edits
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
    if report.overruled:  # each is told once, so here or never
        note(lost_edits(report.overruled))
    return "" if report.complete else "; ".join(report.problems) or "not every relay was asked"


def _asked(status: Status) -> str:
    """How far a "no" can be trusted."""
    times = [relay.last_complete for relay in status.relays if relay.last_complete is not None]
    if not status.relays:
        return "no relays are configured"
    if not times:
        return "no relay ever showed everything"
    unknown = len(status.relays) - len(times)
    never = f"; {quantity(unknown, 'relay')} never showed everything" if unknown else ""
    return f"{quantity(len(times), 'relay')} last asked {age(max(times), time.time())}{never}"
