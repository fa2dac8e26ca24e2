"""Adds the server, the hooks and the skill to a harness's files, and removes them again.

Everything is planned first, from the present files: a plan is a list of `FileChange`, and planning writes nothing.
`apply` then makes all changes or none: each file is compared with what the plan saw, backed up, and replaced
atomically; if one fails, the files before it are restored. A removal undoes exactly what was added: if a backup plus
our entries equals the present file, the file gets the bytes of the backup; otherwise our entries are cut out of its
text. It costs a few reads and parses of each file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sense_memory.config.key_file import private_folder, sync_folder
from sense_memory.errors import InvalidInput
from sense_memory.interfaces.harness import config_text
from sense_memory.interfaces.harness.specs import HOOKS, EntryKind
from sense_memory.operating_system import create_private, set_mode


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sense_memory.interfaces.harness.specs import Entry, HarnessSpec, Launch, Machine

MAX_BYTES: Final = 32_000_000  # of a configuration file; Claude Code's state file grows to some megabytes
_PROGRAMS: Final = frozenset({"sense-memory", "sense_memory"})
_FILE_MODE: Final = 0o644  # of a new file in a project
_is_our_hook = re.compile(rf"\bsense[-_]memory\b.*\bhook (?:{'|'.join(HOOKS)})\b").search


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change of one file.

    Attributes:
        path: as the harness names it.
        target: the file itself, behind symbolic links.
        before: the bytes that it holds; None if there is no file.
        after: the bytes that it gets; None if it is removed.
        parts: what in it is ours: server, hooks, skill.
        lines: the change for people: "+ " and our own text, "- " and the place of what is taken out. A line of the
            file itself is never among them, nor a value from it: others keep their secrets there.
    """

    path: Path
    target: Path
    before: bytes | None = field(repr=False)
    after: bytes | None = field(repr=False)
    parts: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def action(self) -> str:
        """`create`, `change`, `remove` or `unchanged`."""
        if self.before == self.after:
            return "unchanged"
        return "create" if self.before is None else "remove" if self.after is None else "change"


# ── Plans ───────────────────────────────────────────────────────────────────────────────


def plan_install(
    spec: HarnessSpec, machine: Machine, launch: Launch, *, project: Path | None, parts: Iterable[str]
) -> list[FileChange]:
    """The changes of an installation, file by file.

    Args:
        spec: the harness.
        machine: where its files are.
        launch: how it starts our program.
        project: the folder of a project, instead of the user's files.
        parts: what to install: server, hooks, skill.

    Raises:
        InvalidInput: a file is malformed, read-only, or has another program's entry in our place; or there is
            nothing to install.
    """
    wanted = [entry for entry in spec.entries if entry.part in set(parts)]
    files = _files(spec, wanted, machine, project)
    return [_changed(path, entries, project, launch) for path, entries in files]


def plan_uninstall(
    spec: HarnessSpec, machine: Machine, *, project: Path | None, backups: Path
) -> list[FileChange]:
    """The changes of a removal, file by file; files without our entries are left out. Errors as `plan_install`."""
    found = []
    for path, entries in _files(spec, spec.entries, machine, project):
        change = _changed(path, entries, project, None)
        if change.action == "unchanged":
            continue
        exact = _from_backup(change, entries, backups)
        is_blank = change.after is not None and not _plain(change.after.decode(), entries[0])
        after = exact if exact is not None else None if is_blank else change.after
        found.append(replace(change, after=after))
    return found


def parts_installed(spec: HarnessSpec, machine: Machine, *, project: Path | None = None) -> list[str]:
    """Which of our parts a harness has; a file that cannot be read counts as having none."""
    found = []
    for entry in spec.entries:
        path = entry.file(machine, project)
        try:
            text = None if path is None else _text_of(path)
            if text is not None and _present(text, entry):
                found.append(entry.part)
        except (InvalidInput, OSError):
            continue
    return list(dict.fromkeys(found))


def is_found(spec: HarnessSpec, machine: Machine) -> bool:
    """Whether a harness seems to be used on this machine."""
    if spec.platforms and machine.platform not in spec.platforms:
        return False
    search = machine.environ.get("PATH", os.defpath)
    return any(
        shutil.which(trace, path=search) is not None if isinstance(trace, str) else trace.exists()
        for trace in spec.traces(machine)
    )


def _files(
    spec: HarnessSpec, entries: Iterable[Entry], machine: Machine, project: Path | None
) -> list[tuple[Path, list[Entry]]]:
    """The files, each with its entries."""
    if spec.platforms and machine.platform not in spec.platforms:
        raise InvalidInput(
            f"{spec.title} documents no configuration file for this platform ({machine.platform}); nothing was changed"
        )
    found: dict[Path, list[Entry]] = {}
    for entry in entries:
        path = entry.file(machine, project)
        if path is not None:
            found.setdefault(path, []).append(entry)
    if not found:
        problem = (
            f"{spec.title} has no such files in a project, so nothing was changed; leave out --project"
            if project
            else "no part is left to install, so nothing was changed"
        )
        raise InvalidInput(problem)
    return list(found.items())


def _changed(path: Path, entries: Sequence[Entry], project: Path | None, launch: Launch | None) -> FileChange:
    """The change of one file that puts entries in, or without `launch` takes them out."""
    target = _target(path, project)
    text = _text_of(target)
    new, lines = text or "", []
    try:
        for entry in entries:
            old = new
            new = _without_entry(old, entry) if launch is None else _with_entry(old, entry, launch)
            lines += _shown(old, new, entry, launch) if new != old else []
    except InvalidInput as error:
        raise InvalidInput(f"{path} {error}; nothing was changed") from None
    parts = tuple(dict.fromkeys(entry.part for entry in entries))
    before = None if text is None else text.encode()
    after = None if text is None and not new else new.encode()
    if before != after and text is not None and not target.stat().st_mode & stat.S_IWUSR:
        raise InvalidInput(f"{path} is read-only, so nothing was changed; make it writable with `chmod u+w`")
    return FileChange(path, target, before, after, parts, tuple(lines))


def _target(path: Path, project: Path | None) -> Path:
    """The file behind links. Links in a project must not lead out of the project: somebody else may have made them."""
    try:
        target = path.resolve()
    except (OSError, RuntimeError):
        raise InvalidInput(f"{path} is a symbolic link that leads in a circle; nothing was changed") from None
    if project is not None and not target.is_relative_to(project.resolve()):
        raise InvalidInput(f"{path} leads out of the project, to {target}; nothing was changed")
    if path.is_symlink() and not target.parent.is_dir():
        raise InvalidInput(f"{path} is a symbolic link to nowhere; nothing was changed")
    return target


def _text_of(path: Path) -> str | None:
    """The text of a file; None if there is none."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"{path} is not a plain file; nothing was changed")
    if status.st_size > MAX_BYTES:
        raise InvalidInput(f"{path} has more than {MAX_BYTES:,} bytes; nothing was changed")
    return _decoded(path.read_bytes(), path)


def _decoded(data: bytes, path: Path) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text; nothing was changed") from None


# ── Entries ─────────────────────────────────────────────────────────────────────────────


def _with_entry(text: str, entry: Entry, launch: Launch) -> str:
    """A file's text with an entry; an older one of ours is replaced."""
    value = entry.value(launch)
    if entry.kind == EntryKind.FILE:
        if text and not _present(text, entry):
            raise InvalidInput(
                f"was not written by this program: rename or remove it first, or leave it out with --without {entry.part}"
            )
        return str(value)
    if entry.kind == EntryKind.JSON_ITEM:
        ours = list(_our_items(text, entry))
        if [item for _, item in ours] == [value]:
            return text
        for place, _ in reversed(ours):
            text = config_text.json_remove(text, place, with_empty=False)
        return config_text.json_append(text, entry.path, value)
    old = _part(_plain(text, entry), entry.path)
    if old is not None and not _is_our_server(old):
        raise InvalidInput(
            f"has an entry {'.'.join(entry.path)} that this program did not write: rename or remove it first"
        )
    edit = config_text.toml_set if entry.kind == EntryKind.TOML_TABLE else config_text.json_set
    return edit(text, entry.path, value)


def _without_entry(text: str, entry: Entry) -> str:
    """A file's text without an entry of ours."""
    if entry.kind == EntryKind.FILE:
        return "" if _present(text, entry) else text
    if entry.kind == EntryKind.JSON_ITEM:
        for place, _ in reversed(list(_our_items(text, entry))):
            text = config_text.json_remove(text, place)
        return text
    if not _present(text, entry):
        return text
    remove = config_text.toml_remove if entry.kind == EntryKind.TOML_TABLE else config_text.json_remove
    return remove(text, entry.path)


def _present(text: str, entry: Entry) -> bool:
    if entry.kind == EntryKind.FILE:
        return entry.mark in text
    if entry.kind == EntryKind.JSON_ITEM:
        return next(_our_items(text, entry), None) is not None
    return _is_our_server(_part(_plain(text, entry), entry.path))


def _plain(text: str, entry: Entry) -> Any:
    if entry.kind == EntryKind.FILE:
        return text
    return (config_text.toml_value if entry.kind == EntryKind.TOML_TABLE else config_text.json_value)(text)


def _part(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_our_server(value: Any) -> bool:
    """Whether an entry of a server starts this program's `mcp`."""
    if not isinstance(value, dict):
        return False
    words: list[Any] = []
    for name in ("command", "args"):
        given = value.get(name, [])
        words += given if isinstance(given, list) else [given]
    names = {Path(word).name for word in words if isinstance(word, str)}
    return bool(names & _PROGRAMS) and "mcp" in names


def _shown(old: str, new: str, entry: Entry, launch: Launch | None) -> list[str]:
    """The lines that show an entry's change. What is taken out is shown by its place alone: a user may have added a
    secret even to an entry of ours.
    """
    places = [place for place, _ in _our_items(old, entry)] if entry.kind == EntryKind.JSON_ITEM else []
    if not places and _present(old, entry):
        places = [entry.path]
    gone = [f"- {_place_name(place)}" for place in places]
    if launch is None:
        return gone
    value = entry.value(launch)
    if entry.kind == EntryKind.FILE:
        text = str(value)
    elif entry.kind == EntryKind.TOML_TABLE:
        text = config_text.toml_block(entry.path, value)
    else:
        last = (len(_part(_plain(new, entry), entry.path)) - 1,) if entry.kind == EntryKind.JSON_ITEM else ()
        text = f"{_place_name((*entry.path, *last))}: {json.dumps(value, indent=2, ensure_ascii=False)}"
    return [*gone, *(f"+ {line}".rstrip() for line in text.splitlines())]


def _place_name(place: Sequence[str | int]) -> str:
    """A place in a file, such as `hooks.PreCompact[0]`."""
    words = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)
    return "".join(words).removeprefix(".") or "the whole file"


def _our_items(text: str, entry: Entry) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Our hooks in a list, each with its place: a whole matcher group, or one hook in a group of another program."""
    groups = _part(_plain(text, entry), entry.path)
    for number, group in enumerate(groups if isinstance(groups, list) else ()):
        hooks = group.get("hooks") if isinstance(group, dict) else None
        inner = hooks if isinstance(hooks, list) else []
        ours = [place for place, hook in enumerate(inner) if _is_our_command(hook)]
        if inner and len(ours) == len(inner):
            yield (*entry.path, number), group
            continue
        for place in ours:
            yield (*entry.path, number, "hooks", place), inner[place]


def _is_our_command(hook: Any) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and _is_our_hook(command) is not None


# ── Writing ─────────────────────────────────────────────────────────────────────────────


def apply(changes: Sequence[FileChange], backups: Path, *, base: Path, is_project: bool) -> list[Path]:
    """Write a plan, all of it or nothing; returns the backups of the files that were there.

    Args:
        changes: the plan.
        backups: the private folder of backups, which is made if needed.
        base: the user's home folder or the project's: folders below it that a removal leaves empty go too.
        is_project: whether new files may be read by others.

    Raises:
        InvalidInput: a file has changed since the plan was made.
        OSError: a file could not be written; what was written before it is put back.
    """
    done: list[FileChange] = []
    kept: list[Path] = []
    try:
        for change in changes:
            if change.action == "unchanged":
                continue
            now = change.target.read_bytes() if change.target.exists() else None
            if now != change.before:
                raise InvalidInput(
                    f"{change.path} was changed meanwhile, so nothing was written; run the command again"
                )
            if change.before is not None:
                kept.append(_back_up(change, backups))
            _write(change.target, change.after, is_project=is_project, base=base)
            done.append(change)
    except BaseException:
        for change in reversed(done):
            _write(change.target, change.before, is_project=is_project, base=base)
        raise
    return kept


def _write(target: Path, data: bytes | None, *, is_project: bool, base: Path) -> None:
    if data is None:
        target.unlink(missing_ok=True)
        for folder in target.parents:
            if base not in folder.parents or any(folder.iterdir()):
                return
            folder.rmdir()
        return
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else _FILE_MODE if is_project else 0o600
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(data)
            file.flush()
            set_mode(descriptor, mode)
            os.fsync(descriptor)
        Path(name).replace(target)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(target)
        raise
    sync_folder(target.parent)


def _back_up(change: FileChange, backups: Path) -> Path:
    private_folder(backups)
    path = backups / f"{_slot(change.target)}-{time.time_ns():020d}-{change.target.name}"
    with open(create_private(path), "wb") as file:  # noqa: PTH123
        file.write(change.before or b"")
        os.fsync(file.fileno())
    return path


def _slot(target: Path) -> str:
    """What names the backups of one file."""
    return hashlib.sha256(os.fsencode(target)).hexdigest()[:16]


def _from_backup(change: FileChange, entries: Sequence[Entry], backups: Path) -> bytes | None:
    """The newest backup that equals the present file once our entries from that file are added to it."""
    text = (change.before or b"").decode()
    for path in sorted(backups.glob(f"{_slot(change.target)}-*"), reverse=True):
        old = path.read_bytes()
        try:
            if _with_ours(old.decode(), text, entries).encode() == change.before:
                return old
        except (InvalidInput, UnicodeDecodeError):
            continue
    return None


def _with_ours(old: str, text: str, entries: Sequence[Entry]) -> str:
    """A text with our entries from another text; a text that has our entries already is refused."""
    for entry in entries:
        if entry.kind == EntryKind.FILE or _present(old, entry):
            raise InvalidInput("was made after the installation")
        if not _present(text, entry):
            continue
        if entry.kind == EntryKind.JSON_ITEM:
            for _, item in _our_items(text, entry):
                old = config_text.json_append(old, entry.path, item)
            continue
        edit = config_text.toml_set if entry.kind == EntryKind.TOML_TABLE else config_text.json_set
        old = edit(old, entry.path, _part(_plain(text, entry), entry.path))
    return old
