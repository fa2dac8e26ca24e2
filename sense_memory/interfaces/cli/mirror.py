"""`mirror`: folders of text files, such as the memory of a coding agent, kept in step with memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.inputs import WAIT_SECONDS, WaitOption, flag, option
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, program, tell
from sense_memory.interfaces.cli.operations import operation
from sense_memory.interfaces.cli.output import show_rows
from sense_memory.interfaces.cli.program import AGENTS, app
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import one_line, quantity


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.mirror.decisions import MirrorReport
    from sense_memory.store import MemoryStore

_DONE: Final = {
    "keep": "kept",
    "write": "written",
    "merge": "merged",
    "delete": "deleted",
    "remove": "removed",
    "left": "left alone",
}
_PLANNED: Final = {
    "keep": "to memory",
    "write": "to the folder",
    "merge": "to merge",
    "delete": "to delete in memory",
    "remove": "to remove from the folder",
    "left": "left alone",
}
_EMPTY: Final = ("restore", "delete")


@dataclass(frozen=True, slots=True)
class _Mirrored:
    """What `mirror` did, or would do, and how that is shown."""

    reports: Sequence[MirrorReport]
    is_status: bool = False
    stopped: str = ""

    def data(self) -> list[Any]:
        return [shape_of(report) for report in self.reports]


def _wrong(given: Any) -> str:
    """What is wrong with options that were given together; empty if nothing."""
    changes = given.project or given.only or given.allow
    if given.status and (given.apply or given.stop or changes or given.empty):
        return "--status only shows; leave out the other options"
    if given.stop and (given.folder is None or given.apply or changes or given.empty):
        return "--stop takes a FOLDER and no other option"
    if given.folder is None and changes:
        return "give the FOLDER that the options are for"
    if given.empty not in {"", *_EMPTY}:
        return f"--empty takes restore or delete, not {given.empty!r}"
    if given.empty and (given.folder is None or not given.apply):
        return "--empty needs a FOLDER and --apply"
    return ""


def _ends(found: _Mirrored) -> int:
    return ExitCode.ERROR if any(report.problem for report in found.reports) else 0


def _show(found: _Mirrored, given: Any) -> None:
    if found.stopped:
        typer.echo(found.stopped)
    elif not found.reports:
        tell(f"No folder is mirrored. To see what a mirror would do: {program()} mirror FOLDER")
    for report in found.reports:
        show_report(report, is_status=found.is_status)
    if given.folder is not None and not given.only and (given.folder / ".git").exists():
        tell(
            "This is a repository: every text file in it counts as a memory. To mirror only what agents read: "
            "--only CLAUDE.md --only AGENTS.md"
        )
    if (
        found.reports
        and not (given.apply or found.is_status)
        and not any(one.problem for one in found.reports)
    ):
        tell("Nothing was written. Add --apply to do it, and to keep the folder in step from now on.")


def show_report(report: MirrorReport, *, is_status: bool = False) -> None:
    """A folder with its project, and what is done about its files."""
    step = f"{quantity(report.in_step_count, 'file')} in step"
    typer.echo(f"{one_line(report.folder)} is {one_line(report.project)}: {step}")
    if report.problem:
        tell(f"{one_line(report.folder)}: {report.problem}")
    words = _PLANNED if report.is_plan else _DONE
    rows = [(words[each.what], each.name, each.note) for each in report.steps]
    if rows:
        show_rows(("", "file", "note"), rows)
    elif not is_status and not report.problem:
        tell("Nothing to do: the folder and memory have the same.")


@operation(
    app,
    "mirror",
    "# What would be done; nothing is written:",
    "sense-memory mirror ~/notes",
    "# Do it, and keep the folder in step from now on:",
    "sense-memory mirror ~/notes --apply",
    "# Of a repository, only the files that agents read:",
    "sense-memory mirror . --only CLAUDE.md --only AGENTS.md --apply",
    "# Bring all mirrored folders in step now, and see where they stand:",
    "sense-memory mirror --apply",
    "sense-memory mirror --status",
    codes={1: "a folder was left alone as a whole, and the output says why; the others were done"},
    panel=AGENTS,
    creates=lambda given: given.apply,
    json=_Mirrored.data,
    shows=_show,
    refuses=_wrong,
    ends_with=_ends,
)
async def mirror(
    store: MemoryStore,
    *,
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", show_default=False, help="The folder. Without it, every mirrored folder."
        ),
    ] = None,
    apply: Annotated[bool, flag("--apply", text="Do it. Without this option, only show it.")] = False,
    status: Annotated[
        bool, flag("--status", text="Show the mirrored folders, and what is not in step.")
    ] = False,
    project: Annotated[
        str,
        option(
            "NAME",
            "The name under which every machine knows these files. Default: the address of the git remote, else the name "
            "of the folder.",
        ),
    ] = "",
    only: Annotated[
        list[str] | None,
        option(
            "PATTERN",
            "Mirror only these names, such as CLAUDE.md or '**/*.md'. May be repeated. Default: all text files that are not "
            "hidden.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        option(
            "FILE",
            "Mirror this file although it seems to hold a credential. Its path in FOLDER; may be repeated.",
        ),
    ] = None,
    empty: Annotated[
        str,
        option(
            "WHAT",
            "What it means that FOLDER is empty and had files: restore writes them again, delete moves them to history.",
        ),
    ] = "",
    stop: Annotated[
        bool, flag("--stop", text="Mirror FOLDER no longer. Its files stay, there and in memory.")
    ] = False,
    wait: WaitOption = WAIT_SECONDS,
) -> _Mirrored:
    """Keep a folder of text files in step with memory, both ways, and so with the same project on other machines.

    Files stay files, word for word. What is changed here and there is merged by passages; where both changed the same
    passage, both texts stay, and a sentence in the file says so. A deleted file moves to history, from which `undo`
    brings it back. Binary, large and unreadable files, links, and files that look like credentials are left alone and
    named.

    `watch` and `mcp` keep all mirrored folders in step while they run; `mirror --apply` does it once.
    """
    if stop and folder is not None:
        was = store.mirror.remove(folder)
        said = "no longer mirrored; its files stay, here and in memory" if was else "not mirrored"
        return _Mirrored((), stopped=f"{folder} is {said}")
    about: dict[str, Any] = {"project": project, "only": only or (), "allow": allow or ()}
    if folder is None:
        if apply:
            return _Mirrored(await store.mirror.sync(seconds=wait))
        plans = [await _planned(store, one.folder) for one in store.mirror.all()]
        return _Mirrored([plan for plan in plans if plan is not None], is_status=status)
    if not apply:
        return _Mirrored([await store.mirror.plan(folder, **about)], is_status=status)
    await store.mirror.add(folder, **about)
    return _Mirrored(await store.mirror.sync(folder, seconds=wait, empty=empty or "ask"))  # type: ignore[arg-type]


async def _planned(store: MemoryStore, folder: str) -> MirrorReport | None:
    """The plan for a mirrored folder, which may be gone."""
    from sense_memory.mirror.decisions import MirrorReport

    try:
        return await store.mirror.plan(folder)
    except InvalidInput as error:
        known = next((one for one in store.mirror.all() if one.folder == folder), None)
        return (
            None if known is None else MirrorReport(folder, known.project, problem=str(error), is_plan=True)
        )


# ── Files by their names ────────────────────────────────────────────────────────────────


async def file_named(store: MemoryStore, name: str) -> str | None:
    """The full name of the mirrored file that a name means: `project:name`, or a path in a mirrored folder.

    Raises:
        CommandFailed: the project has no such file.
    """
    known = {
        one.full_name for deleted in (False, True) for one in await store.mind.files.all(deleted=deleted)
    }
    if name in known or not known:
        return name if name in known else None
    if any(name.startswith(f"{one.partition(':')[0]}:") for one in known):
        problem = f"there is no mirrored file {name!r}; `{program()} search --in file WORDS` finds files"
        raise CommandFailed(ExitCode.NOT_FOUND, "NotFound", problem)
    place = _place(name)
    for each in store.mirror.all():
        if place.is_relative_to(each.folder):
            full_name = f"{each.project}:{place.relative_to(each.folder).as_posix()}"
            if full_name in known:
                return full_name
    return None


def _place(name: str) -> Path:
    """Where a file lies; links on the way are resolved, and the file may be gone."""
    path = Path(name).expanduser()
    return path.parent.resolve() / path.name


async def sync_folders_of(store: MemoryStore, full_name: str) -> None:
    """Bring the folders of a file's project on this machine in step; no relay is asked."""
    for each in store.mirror.all():
        if full_name.startswith(f"{each.project}:"):
            await store.mirror.sync(each.folder, seconds=0)
