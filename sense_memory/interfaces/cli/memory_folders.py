"""`install --sync-memory`: the files in which a harness keeps its own memory are mirrored, and `uninstall` ends that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sense_memory.errors import KeyMissing, SenseMemoryError
from sense_memory.interfaces.cli.invocation import program
from sense_memory.interfaces.harness.memory_folders import MemoryFolder, belongs_to, memory_folders
from sense_memory.interfaces.text import one_line


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.interfaces.cli.invocation import Invocation
    from sense_memory.interfaces.harness.specs import HarnessSpec, Machine
    from sense_memory.mirror.decisions import MirrorReport
    from sense_memory.store import MemoryStore

RELAY_SECONDS = 10.0  # for relays, in the first sync


def found_folders(
    spec: HarnessSpec, machine: Machine, project: Path | None
) -> tuple[list[MemoryFolder], list[str]]:
    """The folders that can be mirrored, and what to know about those that cannot."""
    ready, notes = list[MemoryFolder](), list[str]()
    for place in memory_folders(spec.name, machine, project):
        where = one_line(str(place.folder))
        if not place.project:
            notes.append(
                f"{where} is left out: its repository has no remote, by which another machine would know it. To mirror it, "
                f"give it a name: {program()} mirror {where} --project NAME --yes"
            )
        elif place.folder.is_dir():
            ready.append(place)
        else:
            notes.append(f"{where} is left out: there is no such folder yet; install again when there is")
    if project is None and spec.name == "claude-code":
        notes.append(
            f"Claude's memory of each {'other ' if ready else ''}repository with a remote is mirrored from your next "
            "session in that repository on"
        )
    elif project is None and not spec.entries:
        notes.append(f"{spec.title} has no hooks here: run `{program()} mirror --yes` or `{program()} watch`")
    return ready, notes


def plan(invocation: Invocation, places: Sequence[MemoryFolder]) -> list[MirrorReport]:
    """What mirroring would do now. Raises as `Invocation.run`."""

    async def planned(store: MemoryStore) -> list[MirrorReport]:
        return [await store.mirror.plan(one.folder, **_mapping(store, one)) for one in places]

    return invocation.run(planned, creates=True)


def begin(invocation: Invocation, places: Sequence[MemoryFolder]) -> list[MirrorReport]:
    """Mirror the folders from now on, and bring them in step. Raises as `Invocation.run`."""

    async def begun(store: MemoryStore) -> list[MirrorReport]:
        mirrors = [await store.mirror.add(one.folder, **_mapping(store, one)) for one in places]
        reports = await store.mirror.sync(seconds=RELAY_SECONDS) if mirrors else []
        ours = {mirror.folder for mirror in mirrors}
        return [report for report in reports if report.folder in ours]

    return invocation.run(begun, creates=True)


def _mapping(store: MemoryStore, place: MemoryFolder) -> dict[str, Any]:
    """How a folder is mirrored: as before, if it is mirrored already and the user chose another project."""
    known = next((one for one in store.mirror.all() if one.folder == str(place.folder.resolve())), None)
    return {"project": place.project if known is None else known.project, "only": place.only}


def end(
    invocation: Invocation, spec: HarnessSpec, machine: Machine, project: Path | None, *, apply: bool
) -> list[str]:
    """The folders of a harness that are mirrored, which with `apply` they are no longer; files and memory stay."""

    async def ended(store: MemoryStore) -> list[str]:
        own = {str(one.folder.resolve()) for one in memory_folders(spec.name, machine, project)}
        found = [
            one.folder
            for one in store.mirror.all()
            if (one.folder in own if project else belongs_to(Path(one.folder), spec.name, machine))
        ]
        for folder in found if apply else ():
            store.mirror.remove(folder)
        return found

    from sense_memory.config.settings import ledger_path
    from sense_memory.signers.agent_signer import find_signer

    try:  # without a key or a ledger, nothing is mirrored
        settings = invocation.settings()
        signer, _ = find_signer(settings)
    except (KeyMissing, SenseMemoryError):
        return []
    path = settings.ledger or ledger_path(settings.home, signer.public_key)
    return invocation.run(ended) if path.exists() else []
