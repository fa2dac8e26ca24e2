"""`mind`: the log, conversations, blocks, archive, topics, identity and scenes of an agent."""

from __future__ import annotations

from pkgutil import iter_modules
from typing import Final

from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.program import app


MIND: Final = "Mind"
_MODULES: Final[dict[str, str]] = {  # by command, in the order of the help page
    "overview": "overview",
    "reflect": "identity",
    "search": "log",
    "prompt": "prompt",
    **dict.fromkeys(("share", "unshare", "shared"), "scenes"),
    **dict.fromkeys(("archive", "topics"), "archive"),
    "blocks": "blocks",
    **dict.fromkeys(("identity", "objectives"), "identity"),
    **dict.fromkeys(("log", "conversations"), "log"),
    "scenes": "scenes",
}
_OTHERS: Final = {module.name for module in iter_modules(__path__)} - {"group", *_MODULES.values()}
_MODULES.update((name, name) for name in sorted(_OTHERS))  # a module with a group of commands of its name

commands = app.group(
    "mind",
    __name__,
    _MODULES,
    default="overview",
    rich_help_panel=MIND,
    help="Read and write the agent's mind: blocks, log, conversations, archive, topics, identity and scenes.\n\n"
    "Blocks are part of every prompt. The log records everything that happened, including the messages of conversations. The "
    "archive stores passages to look up, grouped by topics; the identity is distilled from the topics. A scene is a log that "
    "several agents share. Everything is signed, encrypted and copied to relays like any memory. Without a language model, "
    "rules write the summaries.",
    epilog=ends(
        'sense-memory mind blocks append human "Name: Lisa."',
        'sense-memory mind archive add "Lisa paints with oil on wood." --tag art',
        "sense-memory mind search what does Lisa paint",
        "sense-memory mind prompt what does Lisa paint",
    ),
)
