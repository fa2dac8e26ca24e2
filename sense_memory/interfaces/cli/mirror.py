"""`mirror`: folders of text files, such as the memory of a coding agent, kept in step with memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.inputs import WAIT_SECONDS, WaitOption, flag, option
from sense_memory.interfaces.cli.invocation import ExitCode, program, tell
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
    if given.status and (given.yes or given.stop or changes or given.empty):
        return "--status only shows; leave out the other options"
    if given.stop and (given.folder is None or given.yes or changes or given.empty):
        return "--stop takes a FOLDER and no other option"
    if given.folder is None and changes:
        return "give the FOLDER that the options are for"
    if given.empty not in {"", *_EMPTY}:
        return f"--empty takes restore or delete, not {given.empty!r}"
    if given.empty and (given.folder is None or not given.yes):
        return "--empty needs a FOLDER and --yes"
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
    if found.reports and not (given.yes or found.is_status) and not any(one.problem for one in found.reports):
        tell("Nothing was written. Add --yes to do it, and to keep the folder in step from now on.")


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


FolderArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="FOLDER", show_default=False, help="The folder. Without it, every mirrored folder."
    ),
]
EmptyOption = Annotated[
    str,
    option(
        "WHAT",
        "What it means that FOLDER is empty and had files: restore writes them again, delete moves them to history.",
    ),
]


@operation(
    app,
    "mirror",
    "# What would be done; nothing is written:",
    "sense-memory mirror ~/notes",
    "# Do it, and keep the folder in step from now on:",
    "sense-memory mirror ~/notes --yes",
    "# Of a repository, only the files that agents read:",
    "sense-memory mirror . --only CLAUDE.md --only AGENTS.md --yes",
    "# Bring all mirrored folders in step now, and see where they stand:",
    "sense-memory mirror --yes",
    "sense-memory mirror --status",
    codes={1: "a folder was left alone as a whole, and the output says why; the others were done"},
    panel=AGENTS,
    creates=lambda given: given.yes,
    json=_Mirrored.data,
    shows=_show,
    refuses=_wrong,
    ends_with=_ends,
)
async def mirror(
    store: MemoryStore,
    *,
    folder: FolderArgument = None,
    yes: Annotated[
        bool, flag("--yes", "-y", "--apply", text="Do it. Without this option, only show it.")
    ] = False,
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
    empty: EmptyOption = "",
    stop: Annotated[
        bool, flag("--stop", text="Mirror FOLDER no longer. Its files stay, there and in memory.")
    ] = False,
    wait: WaitOption = WAIT_SECONDS,
) -> _Mirrored:
    """Keep a folder of text files the same in memory, and so in the same project on other machines.

    Files stay files, word for word. What is changed here and there is merged by sections; where both changed the same
    section, both texts stay, and a sentence in the file says so. A deleted file moves to history, from which `undo`
    brings it back. Binary, large and unreadable files, links, and files that look like credentials are left alone and
    named.

    `watch` and `mcp` keep all mirrored folders in step while they run; `mirror --yes` does it once.
    """
    if stop and folder is not None:
        was = store.mirror.remove(folder)
        said = "no longer mirrored; its files stay, here and in memory" if was else "not mirrored"
        return _Mirrored((), stopped=f"{folder} is {said}")
    about: dict[str, Any] = {"project": project, "only": only or (), "allow": allow or ()}
    if folder is None:
        if yes:
            return _Mirrored(await store.mirror.sync(seconds=wait))
        plans = [await _planned(store, one.folder) for one in store.mirror.all()]
        return _Mirrored([plan for plan in plans if plan is not None], is_status=status)
    if not yes:
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
