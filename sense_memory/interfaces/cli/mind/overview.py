"""`mind overview`, which is `mind` alone: how much each part of the mind holds, and what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.interfaces.cli.invocation import program
from sense_memory.interfaces.cli.mind import commands
from sense_memory.interfaces.cli.operations import as_table, operation
from sense_memory.interfaces.text import quoted


if TYPE_CHECKING:
    from sense_memory.store import MemoryStore

_NAMED_COUNT: Final = 5  # names of a part that a line shows


@dataclass(frozen=True, slots=True)
class MindPart:
    """A part of the mind.

    Attributes:
        part: its name, which is also the name of its commands.
        count: how many things it holds.
        names: of these things, newest first where they have a date; empty for the log and the archive.
    """

    part: str
    count: int
    names: tuple[str, ...] = ()


def _cells(part: MindPart, _: float) -> tuple[str, str, str, str]:
    rest = len(part.names) - _NAMED_COUNT
    names = ", ".join(part.names[:_NAMED_COUNT]) + (f" and {rest} more" if rest > 0 else "")
    return part.part, str(part.count), names, f"{program()} mind {quoted(part.part)}"


@operation(
    commands,
    "overview",
    "sense-memory mind",
    "sense-memory mind overview --json",
    shows=as_table(("part", "holds", "which", "more"), _cells, none="", numbers=("holds",)),
    json=lambda part: {"part": part.part, "count": part.count, "names": list(part.names)},
)
async def overview(store: MemoryStore) -> list[MindPart]:
    """Count what each part of the mind holds, and name some of it.

    A pipe gets one line for each part: the part, how much it holds, names, and the command that shows more, with tabs
    between them. The blocks persona and human always exist, and may be empty.
    """
    mind = store.mind
    return [
        _named("conversations", list(await mind.conversations())),
        _named("blocks", [block.label for block in await mind.blocks.all()]),
        MindPart("archive", len(await mind.archive.all())),
        _named("topics", [topic.name for topic in await mind.topics.all()]),
        _named("identity", list((await mind.identity.get()).values)),
        _named("objectives", [one.text for one in await mind.identity.objectives()]),
        MindPart("log", len(await mind.log.entries())),
        _named("scenes", [scene.name for scene in await mind.scenes.all(asks=False)]),
    ]


def _named(part: str, names: list[str]) -> MindPart:
    return MindPart(part, len(names), tuple(names))
