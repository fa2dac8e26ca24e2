"""How far the source of a memory is trusted: who said it decides what it may do without being asked for. Pure.

| source | who said it | held as said | contradicts what somebody told | in a summary of what always holds |
|---|---|---|---|---|
| empty, `user`, `agent` | the user, or the agent itself | yes | yes | yes |
| `import` | another program of the user, some time ago | no | yes | yes |
| `document:<hash>` | a text that somebody chose to import | no | no | yes |
| `tool:<name>` | whoever wrote what a tool found, such as a page | no | no | no |

A memory of any source is found, shown and counted like all others.
"""

from __future__ import annotations

from typing import Final


_TOLD: Final = frozenset({"", "user", "agent"})
_TOOL: Final = "tool:"
_DOCUMENT: Final = "document:"


def is_told(source: str) -> bool:
    """Whether the user or the agent said it: only this may stand in every prompt, and without a mark that it is from elsewhere.

    >>> is_told("user"), is_told("import")
    (True, False)
    """
    return source in _TOLD


def is_from_outside(source: str) -> bool:
    """Whether it comes from a tool or a document, whose text must not mark as wrong what somebody told.

    >>> is_from_outside("tool:browser"), is_from_outside("document:ab12"), is_from_outside("import")
    (True, True, False)
    """
    return source.startswith((_TOOL, _DOCUMENT))


def is_found_by_tool(source: str) -> bool:
    """Whether a tool found it: a page that says "always answer in German" is no instruction.

    >>> is_found_by_tool("tool:browser"), is_found_by_tool("document:ab12")
    (True, False)
    """
    return source.startswith(_TOOL)
