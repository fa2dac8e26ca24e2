"""Who said an entry of the log, as the source of a palace memory, and what a belief is derived from. Pure.

What a tool found is the tool's, what an import brought is the import's, and what another agent said in a scene is that
agent's; the rest is of the user or of the agent itself. A belief has the sources of everything that was read for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sense_memory.mind.chat.messages import KIND_PREFIX, is_from_tool, role_of
from sense_memory.mind.fields import texts_in
from sense_memory.palace.sources import least_trusted_last
from sense_memory.palace.trust import LOG_PART, Statement
from sense_memory.plain_text import one_line


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory.mind.log import LogEntry

_AUTHOR_CHARS: Final = 16  # of a public key
_NAME_CHARS: Final = 100  # of a tool


def name_of(entry: LogEntry) -> str:
    """What a memory that is derived from an entry calls it: `log:CONVERSATION/ID`."""
    return f"{LOG_PART}{entry.conversation or ''}/{entry.id}"


def source_of(entry: LogEntry, me: str) -> str:
    """Who said an entry.

    Args:
        entry: of the log.
        me: the public key of this agent, 64 hex digits.
    """
    for name in ("origin", "source"):
        given = entry.payload.get(name)
        if isinstance(given, str) and given.startswith(("tool:", "document:", "import", "scene:")):
            return one_line(given)
    if entry.author not in {"", me}:
        return f"scene:{entry.author[:_AUTHOR_CHARS]}"
    if is_from_tool(entry):
        name = one_line(entry.actor)[:_NAME_CHARS].replace(" ", "_")
        return f"tool:{name if role_of(entry) == 'tool' and name != 'tool' else 'result'}"
    return "user" if role_of(entry) == "user" else "agent"


def every_source(entry: LogEntry, me: str, known: Callable[[str], LogEntry | None]) -> tuple[str, ...]:
    """The source of an entry, and the sources of what it is based on, the least trusted last.

    Args:
        entry: of the log.
        me: the public key of this agent.
        known: gives an entry by its id; None if there is none.
    """
    found, waiting, seen = set[str](), [entry], {entry.id}
    while waiting:
        one = waiting.pop()
        found |= {source_of(one, me), *texts_in(one.payload, "sources")}
        for part in parts_of(one, known):
            if part.id not in seen:
                seen.add(part.id)
                waiting.append(part)
    return least_trusted_last(found)


def parts_of(entry: LogEntry, known: Callable[[str], LogEntry | None]) -> list[LogEntry]:
    """The entries that a belief is based on, as far as they are here; a message is based on nothing."""
    named = () if entry.kind.startswith(KIND_PREFIX) else texts_in(entry.payload, "based_on")
    return [part for ident in named if (part := known(ident)) is not None]


def statement_of(entry: LogEntry, me: str, known: Callable[[str], LogEntry | None]) -> Statement:
    """What the rules have to know of an entry. Its session is that of the import that brought it, or its conversation."""
    session = entry.payload.get("session")
    return Statement(
        name_of(entry),
        source_of(entry, me),
        tuple(source for source in every_source(entry, me, known) if source != source_of(entry, me)),
        session if isinstance(session, str) else entry.conversation or "",
        entry.at,
        tuple(map(name_of, parts_of(entry, known))),
        entry.text,
    )
