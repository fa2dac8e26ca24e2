"""How memories of the palace are named on a command line. No terminal, no writing.

Looking a memory up here is no access: only `palace recall` is.
"""

from __future__ import annotations

import time
import unicodedata
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sense_memory.errors import InvalidAddress, InvalidInput
from sense_memory.interfaces.cli.invocation import ExitCode, Stop, unknown
from sense_memory.interfaces.cli.json_output import shown_path
from sense_memory.interfaces.cli.text import one_line, some
from sense_memory.limits import MAX_FUTURE_SECONDS


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


def no_domain(domain: str, known: Sequence[str], status: Status) -> Stop:
    """There is no such domain, but these; where no relay has shown everything, it may exist there."""
    if not status.is_complete:
        return unknown(f"the domain {domain!r} is")
    there = f"there are: {some(sorted(known), _MAX_CANDIDATES)}" if known else "there are none yet"
    return Stop(ExitCode.NOT_FOUND, "NotFound", f"there is no domain {domain!r}; {there}")


def no_facet(facet: str, domain: str, known: Sequence[str]) -> Stop:
    """There is no such facet in a domain, but these."""
    there = some(sorted(known), _MAX_CANDIDATES)
    return Stop(
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
