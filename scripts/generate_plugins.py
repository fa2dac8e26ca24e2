"""Write the plugins of agent harnesses and the manifests of registries, from what `install` writes: `make plugins`.

A plugin starts the `sense-memory` that is on the PATH, where `install` names it by its absolute path; all else is the same,
and comes from `sense_memory.interfaces.harness.specs` and from the tools. A test compares the files with this module.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from sense_memory.__about__ import __version__
from sense_memory.interfaces.harness.specs import (
    CLAUDE_CODE,
    CLAUDE_HOOKS,
    NAME,
    SESSION_END,
    SKILL,
    EntryKind,
    Launch,
    opencode_plugin,
)
from sense_memory.interfaces.tools.registry import memory_tools


ROOT: Final = Path(__file__).resolve().parents[1]
LAUNCH: Final = Launch((NAME,))
AUTHOR: Final = {"name": "the sense-memory authors"}
BRIEF: Final = "Memory for agents that lasts across sessions and machines, encrypted under your own key."
REGISTRY_NAME: Final = f"io.github.{NAME}/{NAME}"  # whoever publishes it has to own this name
_SERVER_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_RUN: Final = f'''"""Starts the `{NAME}` of this machine as an MCP server; an MCPB bundle begins here."""

import shutil
import subprocess
import sys

program = shutil.which("{NAME}")
if program is None:
    sys.exit("{NAME} is not on the PATH: install it first, with its extra `mcp`")
sys.exit(subprocess.call([program, *sys.argv[1:]]))
'''


def plugin_files() -> dict[str, str]:
    """The text of each file by its path in the repository."""
    claude = "plugins/claude-code"
    return {
        ".claude-plugin/marketplace.json": _json(_marketplace(claude)),
        f"{claude}/.claude-plugin/plugin.json": _json(_plugin()),
        f"{claude}/.mcp.json": _json({"mcpServers": {NAME: _server()}}),
        f"{claude}/hooks/hooks.json": _json(_hooks()),
        f"{claude}/skills/{NAME}/SKILL.md": SKILL,
        f"plugins/opencode/{NAME}.js": opencode_plugin(LAUNCH),
        "plugins/mcpb/manifest.json": _json(_bundle()),
        "plugins/mcpb/server/main.py": _RUN,
        "server.json": _json(_registry_entry()),
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _marketplace(source: str) -> dict[str, Any]:
    plugin = {"name": NAME, "source": f"./{source}", "description": BRIEF}
    return {"name": NAME, "owner": AUTHOR, "metadata": {"description": BRIEF}, "plugins": [plugin]}


def _plugin() -> dict[str, Any]:
    return {"name": NAME, "version": __version__, "description": BRIEF, "author": AUTHOR, "license": "MIT"}


def _server() -> Any:
    """The server as `install` writes it for Claude Code."""
    (entry,) = (entry for entry in CLAUDE_CODE.entries if entry.part == "server")
    if entry.kind is not EntryKind.JSON_MEMBER:
        raise TypeError("the server of Claude Code is a member of a JSON object")
    return entry.value(LAUNCH)


def _hooks() -> dict[str, Any]:
    hooks = {event: [value(LAUNCH)] for event, value in CLAUDE_HOOKS.items()}
    # For the last hook of a plugin, Claude Code (2.1) waits 1.5 s, whatever its timeout says.
    hooks["SessionEnd"][0]["hooks"][0]["command"] = LAUNCH.detached_hook(SESSION_END)
    return {"description": "Shows the memory as a session begins, and keeps what is said.", "hooks": hooks}


def _bundle() -> dict[str, Any]:
    tools = memory_tools(_no_store)
    return {
        "manifest_version": "0.3",
        "name": NAME,
        "version": __version__,
        "description": BRIEF,
        "author": AUTHOR,
        "license": "MIT",
        "server": {
            "type": "python",
            "entry_point": "server/main.py",
            "mcp_config": {
                "command": "python3",
                "args": ["${__dirname}/server/main.py", *LAUNCH.server_args],
                "env": {},
            },
        },
        "tools": [{"name": tool.name, "description": tool.description} for tool in tools],
        "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"python": ">=3.11"}},
    }


async def _no_store() -> Any:
    raise RuntimeError("tools are described here, and never called")


def _registry_entry() -> dict[str, Any]:
    package = {
        "registryType": "pypi",
        "identifier": NAME,
        "version": __version__,
        "transport": {"type": "stdio"},
        "runtimeHint": "uvx",
        "runtimeArguments": [{"type": "named", "name": "--with", "value": f"{NAME}[mcp]"}],
        "packageArguments": [{"type": "positional", "value": word} for word in LAUNCH.server_args],
    }
    return {
        "$schema": _SERVER_SCHEMA,
        "name": REGISTRY_NAME,
        "title": NAME,
        "description": BRIEF,
        "version": __version__,
        "packages": [package],
    }


def main() -> None:
    """Write the files."""
    for name, text in plugin_files().items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
