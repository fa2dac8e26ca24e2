"""Where harnesses keep their own memory: folders and files that `install --sync-memory` mirrors.

Claude Code has a folder for each repository, `~/.claude/projects/…/memory`, and makes it in the first session there; its
project is the repository's remote, so that it is the same on every machine. A folder whose repository has no remote is left
out, because its name could be that of another project elsewhere. The other harnesses have one place for each user. Formats
were looked up on 24 November 2026: Claude Code, Codex, Gemini CLI and OpenCode in the programs themselves, OpenClaw in the
documentation of its package, Hermes in texts about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sense_memory.interfaces.harness.specs import claude_folder, codex_folder, gemini_folder, openclaw_folder
from sense_memory.mirror.project import CLAUDE_MEMORY, project_of


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sense_memory.interfaces.harness.specs import Machine

_IN_PROJECT: Final = {  # the file of a project that its repository and other people share
    "claude-code": "CLAUDE.md",
    "codex": "AGENTS.md",
    "gemini-cli": "GEMINI.md",
    "opencode": "AGENTS.md",
}
_MAX_NAME_CHARS: Final = 200  # of the folder of a project; Claude Code shortens a longer name by a hash
_PROJECTS: Final = "projects"
_MEMORY: Final = "memory"


@dataclass(frozen=True, slots=True)
class MemoryFolder:
    """A place where a harness keeps memory.

    Attributes:
        folder: which need not exist.
        project: the name under which every machine knows it; empty if it has none that is the same elsewhere.
        only: patterns of the names that are mirrored; empty for all text files.
    """

    folder: Path
    project: str
    only: tuple[str, ...] = ()


def memory_folders(harness: str, machine: Machine, project: Path | None = None) -> list[MemoryFolder]:
    """The places of a harness, of the user or of a project; empty for a harness that keeps no memory in files."""
    if project is not None:
        name = _IN_PROJECT.get(harness)
        return [] if name is None else [MemoryFolder(project, project_of(project), (name,))]
    find = _FOLDERS.get(harness)
    return [] if find is None else list(find(machine))


def keeps_memory(harness: str, *, in_project: bool) -> bool:
    """Whether a harness keeps memory in files, of the user or in a project."""
    return harness in (_IN_PROJECT if in_project else _FOLDERS)


def session_folder(harness: str, machine: Machine, event: Mapping[str, Any]) -> MemoryFolder | None:
    """The folder of the project in which a session runs, which may not exist yet; None if there is none of its own."""
    working = event.get("cwd")
    if harness != "claude-code" or not isinstance(working, str) or "\\0" in working:
        return None
    path = Path(working)
    if not path.is_absolute():
        return None
    root = next((one for one in (path, *path.parents) if (one / ".git").is_dir()), path)
    name = re.sub(r"[^A-Za-z0-9]", "-", str(root))
    if len(name) > _MAX_NAME_CHARS:
        return None
    folder = claude_folder(machine) / _PROJECTS / name / _MEMORY
    return MemoryFolder(folder, _shared(f"{project_of(root)}/{CLAUDE_MEMORY}"))


def belongs_to(folder: Path, harness: str, machine: Machine) -> bool:
    """Whether a mirrored folder is one of a harness's own, also one that no session uses any more."""
    resolved = folder.resolve()
    if harness == "claude-code":
        projects = (claude_folder(machine) / _PROJECTS).resolve()
        return resolved.name == _MEMORY and resolved.parent.parent == projects
    return any(resolved == one.folder.resolve() for one in memory_folders(harness, machine))


def _shared(project: str) -> str:
    """A project if it is the same elsewhere: the address of a remote, not the name of a folder."""
    return project if "/" in project.removesuffix(f"/{CLAUDE_MEMORY}") else ""


def _claude_code(machine: Machine) -> Iterator[MemoryFolder]:
    for folder in sorted((claude_folder(machine) / _PROJECTS).glob(f"*/{_MEMORY}")):
        if folder.is_dir():
            yield MemoryFolder(folder, _shared(project_of(folder)))


def _codex(machine: Machine) -> Iterator[MemoryFolder]:
    yield MemoryFolder(codex_folder(machine), "codex", ("AGENTS.md",))


def _gemini_cli(machine: Machine) -> Iterator[MemoryFolder]:
    yield MemoryFolder(gemini_folder(machine), "gemini-cli", ("GEMINI.md",))


def _opencode(machine: Machine) -> Iterator[MemoryFolder]:
    yield MemoryFolder(machine.config / "opencode", "opencode", ("AGENTS.md",))


def _openclaw(machine: Machine) -> Iterator[MemoryFolder]:
    names = ("MEMORY.md", "USER.md", f"{_MEMORY}/*.md")  # the last are daily notes
    yield MemoryFolder(openclaw_folder(machine) / "workspace", "openclaw/workspace", names)


def _hermes(machine: Machine) -> Iterator[MemoryFolder]:
    home = machine.folder("HERMES_HOME", machine.home / ".hermes")
    yield MemoryFolder(home / "memories", "hermes/memories")


_FOLDERS: Final[Mapping[str, Callable[[Machine], Iterator[MemoryFolder]]]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "gemini-cli": _gemini_cli,
    "opencode": _opencode,
    "openclaw": _openclaw,
    "hermes": _hermes,
}
