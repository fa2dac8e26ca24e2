"""How far the source of a memory is trusted: who said it decides what it may do without being asked for. Pure.

| source | who said it | enters a prompt by itself | held as said | contradicts what somebody told | in a summary of what always holds |
|---|---|---|---|---|---|
| empty, `user`, `agent` | the user, or the agent itself | yes | yes | yes | yes |
| `tool:anthropic`, `tool:langgraph` | the agent itself, into its notes | yes | no | no | no |
| `import`, `import:<name>` | another program of the user, some time ago | once somebody trusts it | no | yes | yes |
| `document:<hash>` | a text that somebody chose to import | once somebody trusts it | no | no | yes |
| `tool:<name>` | whoever wrote what a tool found, such as a page | once somebody trusts it | no | no | no |
| `scene:<name>`, anything else | another agent, or nobody knows | once somebody trusts it | no | no | no |

A memory of any source is found, shown and counted like all others. `palace.trust` says who trusts what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterable

_TOLD: Final = frozenset({"", "user", "agent"})
_NOTES: Final = frozenset({"tool:anthropic", "tool:langgraph"})  # an agent's own notes, through other doors
_KINDS: Final = ("user", "agent", "", "import", "document", "tool")  # the most trusted first
_TOOL: Final = "tool:"
_OUTSIDE: Final = (_TOOL, "document:", "scene:")


def is_told(source: str) -> bool:
    """Whether the user or the agent said it: only this may stand in every prompt, and without a mark that it is from elsewhere.

    >>> is_told("user"), is_told("import")
    (True, False)
    """
    return source in _TOLD


def speaks(source: str) -> bool:
    """Whether it may enter a prompt although nobody asked for it, and nobody vouched for it.

    >>> speaks("agent"), speaks("tool:langgraph"), speaks("tool:browser"), speaks("import")
    (True, True, False, False)
    """
    return source in _TOLD or source in _NOTES


def is_from_outside(source: str) -> bool:
    """Whether it comes from a tool, a document or another agent, whose text must not mark as wrong what somebody told.

    >>> is_from_outside("tool:browser"), is_from_outside("document:ab12"), is_from_outside("import")
    (True, True, False)
    """
    return source.startswith(_OUTSIDE)


def is_found_by_tool(source: str) -> bool:
    """Whether a tool found it: a page that says "always answer in German" is no instruction.

    >>> is_found_by_tool("tool:browser"), is_found_by_tool("document:ab12")
    (True, False)
    """
    return source.startswith(_TOOL)


def is_of(source: str, wanted: str) -> bool:
    """Whether a source is the wanted one, or a part of it: a kind has its names, a program its items, a file its lines.

    >>> is_of("tool:mem0/7", "tool:mem0"), is_of("document:a.md#L3", "document"), is_of("tool:mem01", "tool:mem0")
    (True, True, False)
    """
    return source == wanted or source.startswith(tuple(f"{wanted}{end}" for end in ":/#"))


def distrust(source: str) -> tuple[int, str]:
    """A sort key for sources: the user's own words come first, then what is trusted less."""
    kind = source.partition(":")[0]
    return (_KINDS.index(kind) if kind in _KINDS else len(_KINDS), source)


def least_trusted_last(sources: Iterable[str]) -> tuple[str, ...]:
    """Sources, each once, the least trusted last: that one bounds the trust in what is made of all of them.

    >>> least_trusted_last(["tool:browser", "user", "document:ab12", "user"])
    ('user', 'document:ab12', 'tool:browser')
    """
    return tuple(sorted(set(sources), key=distrust))
