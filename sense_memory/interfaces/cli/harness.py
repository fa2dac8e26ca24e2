"""`install` and `uninstall` change the settings of agent harnesses; harnesses run `hook`."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import KeyMissing, MissingExtra, SenseMemoryError
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import DryRunOption, JsonOption, YesOption, flag
from sense_memory.interfaces.cli.invocation import (
    Invocation,
    confirm,
    note,
    of,
    program,
    tell,
    warnings_as_lines,
    with_options,
)
from sense_memory.interfaces.cli.program import SETUP, app
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import as_json, safe


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.config.settings import Settings
    from sense_memory.interfaces.harness.installation import FileChange
    from sense_memory.interfaces.harness.specs import HarnessSpec, Launch, Machine
    from sense_memory.mirror.decisions import MirrorReport


BACKUPS: Final = "harness-backups"  # in the data folder of sense-memory
_PARTS: Final = ("server", "hooks", "skill")
_HOME_VARIABLE: Final = "SENSE_MEMORY_HOME"

HarnessArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="HARNESS", show_default=False, help="A harness, such as claude-code; `--list` names all."
    ),
]
ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project",
        metavar="FOLDER",
        help="Only for the project in this folder, such as `.`, instead of all projects of this user.",
    ),
]
CreateKeyOption = Annotated[
    bool,
    flag(
        "--create-key", text="Allow the server to make the agent's key on first use, if the agent has none."
    ),
]
WithoutOption = Annotated[
    list[str] | None,
    typer.Option(metavar="PART", help="Leave out this part: server, hooks or skill. May be repeated."),
]
SyncOption = Annotated[
    bool,
    flag(
        "--sync-memory",
        text="Also mirror the files in which the harness keeps its own memory, so that they are the same on your other "
        "machines: at the start and end of a session, and while the server runs. With --project, its CLAUDE.md, AGENTS.md "
        "or GEMINI.md.",
    ),
]
ListOption = Annotated[
    bool, flag("--list", text="List the harnesses, which of them this machine has, and what is installed.")
]


@app.command(
    rich_help_panel=SETUP,
    epilog=ends(
        "# Which harnesses this machine has:",
        "sense-memory install --list",
        "# Show the change, and write it if you say yes; in a pipe, --yes writes it:",
        "sense-memory install claude-code",
        "sense-memory install codex --without hooks --agent bob",
        "# The harness's own memory too, on every machine:",
        "sense-memory install claude-code --sync-memory --yes",
        codes={2: "wrong usage, or a file cannot be edited safely; nothing was changed"},
    ),
)
def install(
    context: typer.Context,
    harness: HarnessArgument = None,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    create_key: CreateKeyOption = False,
    without: WithoutOption = None,
    sync_memory: SyncOption = False,
    show_list: ListOption = False,
    _json: JsonOption = False,
) -> None:
    """Give the memory to an agent harness, such as Claude Code, Codex or Cursor.

    The change adds the MCP server, which gives the agent its memory tools. If the harness supports hooks, it also adds
    those: one shows the palace at the start of a session, the others keep what is said, at the end of a turn, before a
    compaction, and at the end of the session. If the harness supports skills, it adds a skill, which says when to use
    the memory. All other settings and their comments stay. Each file is backed up first.
    """
    from sense_memory.interfaces.cli import memory_folders
    from sense_memory.interfaces.harness import installation
    from sense_memory.interfaces.harness.memory_folders import keeps_memory

    invocation, machine = of(context), this_machine()
    if show_list or harness is None:
        _show_list(invocation, machine)
        return
    for part in without or ():
        if part not in _PARTS:
            context.fail(f"--without takes server, hooks or skill, not {part!r}")
    if invocation.ledger is not None or invocation.relays is not None:
        context.fail(
            "a harness uses the agent's own ledger and relays, see `relays add`; leave out --ledger and --relay"
        )
    spec, folder = _spec(context, harness), _folder(context, project)
    settings = invocation.settings()
    launch = _launch(invocation, settings, creates_key=create_key)
    if not spec.entries and not sync_memory:
        context.fail(f"{spec.title} gets only --sync-memory; nothing was changed")
    if sync_memory and not keeps_memory(spec.name, in_project=folder is not None):
        context.fail(
            f"{spec.title} keeps no memory in files there that could be mirrored; nothing was changed"
        )
    launch = replace(launch, syncs=spec.name if sync_memory else "")
    parts = [part for part in _PARTS if part not in (without or ())]
    changes = []
    if spec.entries:
        changes = installation.plan_install(spec, machine, launch, project=folder, parts=parts)
    notes = [*spec.notes, *_warnings(settings, launch, parts, has_project=folder is not None)]
    places, told = memory_folders.found_folders(spec, machine, folder) if sync_memory else ([], [])
    reports = memory_folders.plan(invocation, places) if sync_memory else []
    may_write, is_shown = _asked(invocation, changes, reports, yes=yes, dry_run=dry_run)
    kept = _write(changes, settings, machine, folder) if may_write else None
    if may_write and places:
        reports = memory_folders.begin(invocation, places)
    _show(
        invocation,
        spec,
        changes,
        kept,
        folder=folder,
        is_shown=is_shown,
        notes=[*notes, *told],
        reports=reports,
    )


@app.command(
    rich_help_panel=SETUP,
    epilog=ends(
        "# Show the change, and write it if you say yes; in a pipe, --yes writes it:",
        "sense-memory uninstall claude-code",
        codes={2: "wrong usage, or a file cannot be edited safely; nothing was changed"},
    ),
)
def uninstall(
    context: typer.Context,
    harness: Annotated[
        str, typer.Argument(metavar="HARNESS", show_default=False, help="Such as claude-code.")
    ],
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    _json: JsonOption = False,
) -> None:
    """Remove from an agent harness what `install` added, and nothing else. Memories, keys and the harness's own files stay."""
    from sense_memory.interfaces.cli import memory_folders
    from sense_memory.interfaces.harness import installation

    invocation, machine = of(context), this_machine()
    spec, folder = _spec(context, harness), _folder(context, project)
    settings = invocation.settings()
    backups = settings.home / BACKUPS
    changes = []
    if spec.entries:
        changes = installation.plan_uninstall(spec, machine, project=folder, backups=backups)
    may_write, is_shown = _asked(invocation, changes, yes=yes, dry_run=dry_run)
    kept = _write(changes, settings, machine, folder) if may_write else None
    ended = memory_folders.end(invocation, spec, machine, folder, apply=may_write)
    _show(invocation, spec, changes, kept, folder=folder, is_shown=is_shown, ended=ended)


# ── What is installed, and how ──────────────────────────────────────────────────────────


def this_machine() -> Machine:
    """The machine as the formats of harnesses see it: home folder, environment, platform."""
    from sense_memory.interfaces.harness.specs import Machine

    return Machine(Path.home(), os.environ, sys.platform)


def _spec(context: typer.Context, name: str) -> HarnessSpec:
    from sense_memory.interfaces.harness.specs import HARNESSES, MEMORY_ONLY

    found = HARNESSES.get(name.lower()) or MEMORY_ONLY.get(name.lower())
    if found is None:
        context.fail(f"no harness {safe(name[:40])!r}; choose {', '.join(HARNESSES)}")
    return found


def _folder(context: typer.Context, project: Path | None) -> Path | None:
    if project is not None and not project.is_dir():
        context.fail(f"--project must be an existing folder, not {safe(str(project))!r}")
    return None if project is None else project.absolute()


def _launch(invocation: Invocation, settings: Settings, *, creates_key: bool) -> Launch:
    """How harnesses start this program: by absolute paths, because they do not see this shell's environment."""
    from sense_memory.config.sources import DEFAULT
    from sense_memory.interfaces.harness.specs import Launch

    script = Path(sysconfig.get_path("scripts")) / "sense-memory"
    program = (str(script),) if os.access(script, os.X_OK) else (sys.executable, "-m", "sense_memory")
    options: list[str] = []
    if settings.origins["agent"] != DEFAULT:
        options += ["--agent", settings.agent]
    if invocation.env_file is not None:
        options += ["--env-file", str(invocation.env_file.absolute())]
    env = {_HOME_VARIABLE: str(settings.home.absolute())} if os.environ.get(_HOME_VARIABLE) else {}
    return Launch(program, tuple(options), creates_key, env)


def _warnings(settings: Settings, launch: Launch, parts: Sequence[str], *, has_project: bool) -> list[str]:
    """The problems that would keep the installed server from working."""
    from sense_memory.signers.agent_signer import find_signer

    found = []
    if "server" in parts and importlib.util.find_spec("mcp") is None:
        found.append(f"the server cannot start yet: {MissingExtra('mcp')}")
    if not launch.creates_key:
        try:
            with warnings_as_lines():
                _, place = find_signer(settings)
            if place == "NOSTR_NSEC in the environment":
                found.append(
                    f"a harness may not see this shell's NOSTR_NSEC; keep the key in a file, see `{program()} init`"
                )
        except KeyMissing:
            found.append(f"the agent has no key yet; run `{program()} init`, or install with --create-key")
        except SenseMemoryError as error:
            found.append(with_options(error))
    if {".cache", "Caches"} & set(Path(launch.program[0]).parts):
        found.append(
            "this program runs from a cache, which may be emptied; install it with pipx or uv tool first"
        )
    if has_project:
        found.append(
            "do not commit these files for other machines: they contain absolute paths of this machine"
        )
    return found


# ── Output ──────────────────────────────────────────────────────────────────────────────


def _write(
    changes: Sequence[FileChange], settings: Settings, machine: Machine, folder: Path | None
) -> list[Path]:
    from sense_memory.interfaces.harness import installation

    base = machine.home if folder is None else folder
    return installation.apply(changes, settings.home / BACKUPS, base=base, is_project=folder is not None)


def _asked(
    invocation: Invocation,
    changes: Sequence[FileChange],
    reports: Sequence[MirrorReport] = (),
    *,
    yes: bool,
    dry_run: bool,
) -> tuple[bool, bool]:
    """Whether to write changes, and whether they were shown: a terminal shows them and asks, elsewhere nobody is asked."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not invocation.as_json
    is_same = all(change.action == "unchanged" for change in changes)
    if yes or dry_run or not is_terminal or (is_same and not reports):
        return yes and not dry_run, False
    _show_changes(changes)
    _show_reports(reports)
    return confirm("Write this?"), True


def _show_reports(reports: Sequence[MirrorReport]) -> None:
    from sense_memory.interfaces.cli.mirror import show_report

    for report in reports:
        show_report(report)


def _show_changes(changes: Sequence[FileChange]) -> None:
    for change in changes:
        what = "already there" if change.action == "unchanged" else change.action
        typer.echo(f"{what}: {safe(str(change.path))} ({', '.join(change.parts)})")
        if change.lines:
            typer.echo(safe("".join(f"    {line}\n" for line in change.lines)))


def _show(
    invocation: Invocation,
    spec: HarnessSpec,
    changes: Sequence[FileChange],
    kept: Sequence[Path] | None,
    *,
    folder: Path | None,
    is_shown: bool,
    notes: Sequence[str] = (),
    reports: Sequence[MirrorReport] = (),
    ended: Sequence[str] = (),
) -> None:
    """Show a plan, unless it is shown already; `kept` are the backups where it was written, None where it was not."""
    if invocation.as_json:
        files = [
            {
                "path": str(change.path),
                "action": change.action,
                "parts": change.parts,
                "diff": "\n".join(change.lines),
            }
            for change in changes
        ]
        result = {
            "harness": spec.name,
            "project": folder and str(folder),
            "applied": kept is not None,
            "files": files,
        }
        more = {"backups": [str(path) for path in kept or ()], "notes": list(notes)}
        typer.echo(
            as_json(result | more | {"mirrors": shape_of(list(reports)), "no_longer_mirrored": list(ended)})
        )
        return
    if not is_shown:
        _show_changes(changes)
    if reports and (not is_shown or kept is not None):
        _show_reports(reports)
    for folder_name in ended:
        typer.echo(f"mirror ends: {safe(folder_name)} (its files stay)")
    changed = [change for change in changes if change.action != "unchanged"]
    if not changed and not ended and not reports:
        tell(f"{spec.title}: nothing to change.")
    elif kept is not None:
        backups = f" Backups are in {safe(str(kept[0].parent))}." if kept else ""
        tell(f"{spec.title}: done. Restart {spec.title} to use the change.{backups}")
    else:
        tell(f"{spec.title}: nothing was written. To write this change, add --yes.")
    for line in notes:
        note(f"note: {line}")


def _show_list(invocation: Invocation, machine: Machine) -> None:
    from sense_memory.interfaces.harness import installation
    from sense_memory.interfaces.harness.specs import HARNESSES

    rows = [
        {
            "name": spec.name,
            "title": spec.title,
            "found": installation.is_found(spec, machine),
            "installed": installation.parts_installed(spec, machine),
            "offers": list(dict.fromkeys(entry.part for entry in spec.entries)),
            "documented": [source for source in spec.sources if source.startswith("https:")],
        }
        for spec in HARNESSES.values()
    ]
    if invocation.as_json:
        typer.echo(as_json(rows))
        return
    width = max(len(spec.name) for spec in HARNESSES.values())
    for row in rows:
        found = "found" if row["found"] else "not found"
        installed: Any = row["installed"]
        state = f"installed: {', '.join(installed)}" if installed else found
        typer.echo(f"{row['name']:{width}}  {state}")
    tell(f"To see what would be written: {program()} install HARNESS")
