"""The project of a folder: a name that is the same on every machine.

It is the address of the folder's git remote without scheme, user and `.git`, or else the name of the folder. The git
configuration is read as a file; no program is run.
"""

from __future__ import annotations

import re
from configparser import ConfigParser
from configparser import Error as ConfigError
from typing import TYPE_CHECKING, Final

import orjson


if TYPE_CHECKING:
    from pathlib import Path

CLAUDE_MEMORY: Final = (
    "claude-memory"  # after the project of a working directory: its auto memory of Claude Code
)
_LOOKED_AT: Final = 20  # sessions, and lines of each, that are searched for a working directory
_remote = re.compile(r"""^remote ["'](.+)["']$""").match
_url = re.compile(r"^[a-z][a-z0-9+.-]*://(?:[^/]*@)?([^/:]*)(?::\d+)?/(.*)$", re.IGNORECASE).match
_scp = re.compile(r"^(?:[^/@:]+@)?([^/:]+):(?!/)(.+)$").match
_drive = re.compile(r"^[A-Za-z]:[\\/]").match


def project_of(folder: Path) -> str:
    """The project of a folder, which need not exist.

    A folder below the root of a repository is named after the repository and its path in it. The memory that Claude Code
    keeps in `~/.claude/projects/…/memory` belongs to the working directory of its sessions.
    """
    if folder.name == "memory" and folder.parent.parent.name == "projects":
        working = _working_directory(folder.parent)
        if working is not None:
            return f"{project_of(working)}/{CLAUDE_MEMORY}"
    for root in (folder, *folder.parents):
        remote = _remote_of(root)
        if remote:
            return "/".join((remote, *folder.relative_to(root).parts)).replace(":", "-")
    return folder.name.replace(":", "-") or "root"


def normal_remote(url: str) -> str:
    """The address of a remote, alike for every way to write it.

    >>> normal_remote("git@GitHub.com:Ada/Engine.git"), normal_remote("https://ada:key@github.com/ada/engine/")
    ('github.com/ada/engine', 'github.com/ada/engine')
    """
    url = url.strip()
    found = None if _drive(url) else _url(url) or _scp(url)
    host, path = (found[1], found[2]) if found else ("", url)
    path = re.split("[?#]", path)[0] if host else path  # which may hold a token
    path = path.replace("\\", "/").rstrip("/").removesuffix(".git").rstrip("/")
    if not host:  # a path on this machine, which says nothing elsewhere
        return path.rpartition("/")[2].lower()
    return f"{host}/{path.lstrip('/~')}".lower()


def _remote_of(root: Path) -> str:
    """The normal address of the remote of a repository, `origin` before others; empty if it is none, or has none."""
    try:
        config = _git_folder(root) / "config"
        text = config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    parser = ConfigParser(strict=False, interpolation=None, allow_no_value=True, delimiters=("=",))
    try:
        parser.read_string("\n".join(line.strip() for line in text.splitlines()))
    except ConfigError:
        return ""
    urls = {
        match[1]: parser.get(section, "url", fallback="") or ""
        for section in parser.sections()
        if (match := _remote(section))
    }
    url = urls.get("origin") or next(filter(None, urls.values()), "")
    return normal_remote(url) if url else ""


def _git_folder(root: Path) -> Path:
    """The folder with the configuration of a repository, also of a work tree or a submodule."""
    git = root / ".git"
    if not git.is_file():
        return git
    text = git.read_text(encoding="utf-8", errors="replace")
    folder = root / text.partition("gitdir:")[2].strip()
    common = folder / "commondir"
    return folder / common.read_text(encoding="utf-8").strip() if common.is_file() else folder


def _working_directory(sessions: Path) -> Path | None:
    """The working directory that the sessions of Claude Code in a folder name; None if none does."""
    for session in sorted(sessions.glob("*.jsonl"))[-_LOOKED_AT:]:
        try:
            with session.open("rb") as file:
                lines = [line for line, _ in zip(file, range(_LOOKED_AT), strict=False)]
        except OSError:
            continue
        for line in lines:
            found = _working_directory_in(line)
            if found:
                return sessions.__class__(found)
    return _spelled_out(sessions)


def _working_directory_in(line: bytes) -> str:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return ""
    found = entry.get("cwd") if isinstance(entry, dict) else None
    return found if isinstance(found, str) else ""


def _spelled_out(sessions: Path) -> Path | None:
    """The existing folder that Claude Code names like this: its path with `-` for every other character."""
    wanted = sessions.name

    def below(folder: Path, spelled: str) -> Path | None:
        if spelled == wanted:
            return folder
        try:
            inside = sorted(one for one in folder.iterdir() if one.is_dir())
        except OSError:
            return None
        for one in inside:
            name = f"{spelled}-{re.sub(r'[^A-Za-z0-9]', '-', one.name)}"
            if (f"{wanted}-").startswith(f"{name}-") and (found := below(one, name)) is not None:
                return found
        return None

    return below(sessions.__class__(sessions.anchor or "/"), "")
