"""What to say of a name under which nothing is kept: how sure that is, what was meant, where else to look.

A suggestion is a name, never a command that destroys something.
"""

from __future__ import annotations

import asyncio
import time
import unicodedata
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from sense_memory.interfaces.cli.invocation import ExitCode, Stop, note, unknown
from sense_memory.interfaces.cli.json_output import shown_path
from sense_memory.interfaces.cli.text import age, quantity, quoted, some
from sense_memory.limits import MAX_FUTURE_SECONDS


if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sense_memory.memories.status import Status
    from sense_memory.store import MemoryStore

_MAX_NEAR: Final = 3  # names that are suggested
_ALIKE: Final = 0.75  # how alike they have to be, 0 to 1: a slip of the finger, not another word


def no_memory(key: str, status: Status, names: Collection[str] = ()) -> Stop:
    """There is nothing under a key, as far as this ledger can know; where it cannot know, that is an error.

    Args:
        key: as it was typed.
        status: of the store.
        names: of all memories, of which one may have been meant.
    """
    if not status.is_complete:
        return unknown(f"{key!r} is")
    return Stop(
        ExitCode.NOT_FOUND, "NotFound", f"no memory under {key!r} ({_asked(status)}){meant(key, names)}"
    )


def meant(key: str, names: Collection[str]) -> str:
    """A question for the names that a key may have been meant for, behind a full stop; nothing where none is alike."""
    near = get_close_matches(key, names, _MAX_NEAR, _ALIKE)
    return f". Did you mean {some(near, _MAX_NEAR)}?" if near else ""


def nothing_forgotten(stop: Stop, absent: Sequence[str], names: Collection[str]) -> Stop:
    """Of several names that were to be forgotten some are nowhere, so that none is forgotten: say so first.

    Args:
        stop: what is to be said of the first that is nowhere.
        absent: all that are nowhere.
        names: all that were to be forgotten; of a single one there is nothing to add.
    """
    if len(names) == 1:
        return stop
    which = f" ({some(absent, _MAX_NEAR)} are not here)" if len(absent) > 1 else ""
    return Stop(stop.code, stop.name, f"nothing was forgotten{which}: {stop.message}")


async def no_flat_memory(store: MemoryStore, key: str, command: str) -> Stop:
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


async def in_palace(store: MemoryStore, name: str, command: str) -> Stop | None:
    """Where the palace has a memory of that name, or path: that it is there, and how to get at it; else None."""
    from sense_memory.interfaces.cli.palace.naming import everything

    named = unicodedata.normalize("NFC", shown_path(name))
    paths = [memory.path for memory in await everything(store) if named in {memory.key, memory.path}]
    if not paths:
        return None
    commands = [f"sense-memory {command} {quoted(path)}" for path in paths]
    one = "that is a memory of the palace" if len(paths) == 1 else "the palace has memories of that name"
    more = f" and {len(paths) - _MAX_NEAR:,} more" if len(paths) > _MAX_NEAR else ""
    problem = f"no memory under the plain key {name!r} here; {one}: {' or '.join(commands[:_MAX_NEAR])}{more}"
    return Stop(ExitCode.NOT_FOUND, "NotFound", problem)


async def refuse_path(store: MemoryStore, name: str, command: str) -> None:
    """Meet the path of a memory of the palace, where a plain key belongs, with the command for that.

    Raises:
        Stop: it is one. Whatever else is no key is left to the store.
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
    from sense_memory.interfaces.cli.syncing import lost_edits
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
