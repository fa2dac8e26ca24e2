"""The memory files of a harness, brought in step at events of a session."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sense_memory.interfaces.harness.memory_folders import session_folder
from sense_memory.interfaces.harness.specs import Machine


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.store import MemoryStore


def this_machine() -> Machine:
    """Where harnesses keep their files on this machine, for this user."""
    return Machine(Path.home(), os.environ, sys.platform)


async def sync_memory(
    store: MemoryStore, harness: str, event: Mapping[str, Any], *, seconds: float
) -> list[str]:
    """Bring every mirrored folder in step, and first the folder of the session's project, which is mirrored from now on.

    Args:
        store: of the agent.
        harness: its name.
        event: the harness's JSON, with `cwd`.
        seconds: for relays; 0 asks none.

    Returns what kept a folder as a whole from being in step.
    """
    place = session_folder(harness, this_machine(), event)
    if place is not None and place.project:
        place.folder.mkdir(parents=True, exist_ok=True)
        if str(place.folder.resolve()) not in {mirror.folder for mirror in store.mirror.all()}:
            await store.mirror.add(place.folder, project=place.project)
    if not store.mirror.all():
        return []
    reports = await store.mirror.sync(seconds=seconds)
    if place is not None and place.project and not place.folder.exists():
        # Claude Code clears away empty folders as it begins, maybe just now.
        place.folder.mkdir(parents=True, exist_ok=True)
        reports = await store.mirror.sync(seconds=0)
    return [f"{report.folder}: {report.problem}" for report in reports if report.problem]
