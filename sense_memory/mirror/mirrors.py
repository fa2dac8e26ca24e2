"""`store.mirror`: the folders that are kept in step with memory, and so with every other machine."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from sense_memory.errors import InvalidInput, SenseMemoryError, StoreClosed
from sense_memory.ledger.feed import START
from sense_memory.mind.files import checked_project
from sense_memory.mirror.decisions import MirrorReport
from sense_memory.mirror.folder import MirroredFolder
from sense_memory.mirror.folder_sync import FolderSync
from sense_memory.mirror.name_patterns import Patterns
from sense_memory.mirror.project import project_of
from sense_memory.mirror.state import FolderLock, Mirror, MirrorState, MirrorStates


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sense_memory.memories.open_store import OpenStore
    from sense_memory.mind.files import Files

EmptyFolder = Literal["ask", "restore", "delete"]
SYNC_SECONDS: Final = 10.0  # for relays, in one sync
POLL_SECONDS: Final = 2.0
_MAX_TURNS: Final = 32  # looks at all folders until one that is unfinished is tried again
_LOCK_SECONDS: Final = 5.0  # to wait for another mirror of the same folder
_LOCK_POLL_SECONDS: Final = 0.05
AT_WORK: Final = "another process is mirroring this folder now, so nothing was done"
ENDED: Final = "another process ended this mirror meanwhile, so nothing was done"


class Mirrors:
    """The mirrored folders of an agent on this machine. Get it as `store.mirror`.

    Args:
        opened: gives the open store, or raises StoreClosed.
        files: gives the files in memory.
        file_clock: seconds since 1970, by which the file system dates files.
    """

    def __init__(
        self,
        opened: Callable[[], OpenStore],
        files: Callable[[], Files],
        file_clock: Callable[[], float],
    ) -> None:
        self._open, self._files, self._file_clock = opened, files, file_clock
        self._states: MirrorStates | None = None

    # ── Which folders ───────────────────────────────────────────────────────────────────

    def all(self) -> list[Mirror]:
        """The mirrored folders."""
        return self._kept().all()

    async def add(
        self,
        folder: str | Path,
        *,
        project: str = "",
        only: Iterable[str] = (),
        allow: Iterable[str] = (),
    ) -> Mirror:
        """Mirror a folder from now on, or change how it is mirrored; nothing is read or written in it yet.

        Args:
            folder: an existing folder.
            project: the name under which every machine knows the files; by default the mapping that the folder has, else
                the address of its git remote, else its name.
            only: patterns of the names to mirror, such as `CLAUDE.md` or `**/*.md`; by default as before, else all text files.
            allow: names of files that are mirrored although they seem to hold credentials, in addition to those before.

        Raises:
            InvalidInput: there is no such folder, or a name cannot be used; nothing was changed.
        """
        mirror = self._mirror_of(folder, project, only, allow)
        self._kept().put(mirror)
        return mirror

    def remove(self, folder: str | Path) -> bool:
        """Mirror a folder no longer; its files stay, here and in memory. Returns whether it was mirrored."""
        return self._kept().remove(_resolved(folder))

    # ── In step ─────────────────────────────────────────────────────────────────────────

    async def plan(
        self,
        folder: str | Path,
        *,
        project: str = "",
        only: Iterable[str] = (),
        allow: Iterable[str] = (),
    ) -> MirrorReport:
        """What `add` and `sync` with these arguments would do now; nothing is written, and no relay is asked.

        Raises:
            InvalidInput: as `add`.
        """
        mirror = self._mirror_of(folder, project, only, allow)
        known = self._kept().get(mirror.folder)
        state = MirrorState(None, mirror)
        if known is not None and known.mirror.project == mirror.project:
            state.bases, state.number = dict(known.bases), known.number
        return await self._sync_of(state).plan()

    async def sync(
        self,
        folder: str | Path | None = None,
        *,
        seconds: float = SYNC_SECONDS,
        empty: EmptyFolder = "ask",
    ) -> list[MirrorReport]:
        """Bring a folder, or every mirrored folder, in step with memory, and memory with its relays.

        Args:
            folder: None for all.
            seconds: for relays; what they do not take in this time is sent later. 0 asks none.
            empty: what it means that a folder is empty that had files. "ask": nothing is done, and the report says so;
                "restore": they are written again; "delete": they were deleted.

        Raises:
            InvalidInput: the folder is not mirrored.
            LedgerError: the ledger cannot be used.
        """
        states = self._states_of(folder)
        await self._ask_relays(seconds)
        reports = [await self._synced(state, empty) for state in states]
        if any(report.changed for report in reports):
            await self._send(seconds)
        return reports

    async def follow(
        self, tell: Callable[[MirrorReport], None] | None = None, *, every: float = POLL_SECONDS
    ) -> None:
        """Keep every mirrored folder in step until this task is cancelled.

        Args:
            tell: called with each report in which something was done, or another problem arose.
            every: seconds between two looks at the folders and the ledger.

        Raises:
            StoreClosed: the store was closed; a run that it interrupted is as one that was killed.
        """
        told, seen, cursor = dict[str, str](), dict[str, object](), START
        retries = _Retries()
        async with AsyncExitStack() as watching:
            is_watching = False
            while True:
                try:
                    looks = await asyncio.to_thread(self._signatures, self.all())
                    if looks and not is_watching:  # relays then send what is new at once
                        await watching.enter_async_context(self._open().watchers().add(None))
                        is_watching = True
                    feed = self._open().ledger.feed
                    is_new, cursor = feed.has_changed(cursor), feed.cursor()
                except StoreClosed:
                    raise
                except (OSError, SenseMemoryError):  # the next look tries again
                    await asyncio.sleep(every)
                    continue
                retries.turn += 1
                changed = {name for name, look in looks.items() if is_new or seen.get(name) != look}
                for name in [name for name in looks if name in changed or retries.is_due(name)]:
                    report = await self._followed(name)
                    retries.note(report)
                    if tell is not None and (report.changed or told.get(name, "") != report.problem):
                        tell(report)
                    told[name] = report.problem
                seen = looks
                await asyncio.sleep(every)

    async def _followed(self, folder: str) -> MirrorReport:
        """Bring a folder in step; an error is the problem of the report, and the next look tries again."""
        try:
            return (await self.sync(folder, seconds=0))[0]
        except StoreClosed:
            raise
        except SenseMemoryError as error:
            return MirrorReport(folder, "", problem=str(error))
        except OSError as error:
            return MirrorReport(folder, "", problem=_unnoted(error))

    def _signatures(self, mirrors: Iterable[Mirror]) -> dict[str, object]:
        """By mirrored folder, what changes when a file in it does."""
        found: dict[str, object] = {}
        for mirror in mirrors:
            patterns = Patterns(mirror.only)
            found[mirror.folder] = (
                MirroredFolder(Path(mirror.folder), patterns, self._file_clock).signature(),
                mirror,
            )
        return found

    async def _synced(self, state: MirrorState, empty: EmptyFolder) -> MirrorReport:
        folder_name = state.mirror.folder
        folder = Path(folder_name)
        monotonic = self._open().options.monotonic
        until = monotonic() + _LOCK_SECONDS
        while True:
            with FolderLock(folder) as is_free:
                if is_free:
                    try:
                        fresh = self._kept().get(folder_name)  # as it is now that nobody else is at work
                        if fresh is None:
                            return MirrorReport(folder_name, state.mirror.project, problem=ENDED)
                        return await self._sync_of(fresh).run(empty)
                    except OSError as error:
                        return MirrorReport(folder_name, state.mirror.project, problem=_unnoted(error))
            if monotonic() > until:
                return MirrorReport(folder_name, state.mirror.project, problem=AT_WORK)
            await asyncio.sleep(_LOCK_POLL_SECONDS)

    def _sync_of(self, state: MirrorState) -> FolderSync:
        return FolderSync(self._open(), self._files(), state, Path(state.mirror.folder), self._file_clock)

    async def _ask_relays(self, seconds: float) -> None:
        store = self._open()
        if store.options.urls and seconds > 0:
            with suppress(TimeoutError, SenseMemoryError):
                async with asyncio.timeout(seconds):
                    await store.replication.sync()

    async def _send(self, seconds: float) -> None:
        store = self._open()
        store.replication.wake()
        if store.options.urls and seconds > 0:
            with suppress(TimeoutError, SenseMemoryError):
                async with asyncio.timeout(seconds):
                    await store.replication.flush()

    # ── The mapping ─────────────────────────────────────────────────────────────────────

    def _kept(self) -> MirrorStates:
        if self._states is None:
            path = self._open().options.path
            self._states = MirrorStates(None if str(path) == ":memory:" else Path(f"{path}.mirrors"))
        return self._states

    def _states_of(self, folder: str | Path | None) -> list[MirrorState]:
        kept = self._kept()
        folders = [mirror.folder for mirror in kept.all()] if folder is None else [_resolved(folder)]
        states = [kept.get(name) for name in folders]
        if None in states:
            raise InvalidInput(
                f"{folders[states.index(None)]} is not mirrored; `sense-memory mirror FOLDER --yes` or `mirror.add` mirrors it"
            )
        return [state for state in states if state is not None]

    def _mirror_of(
        self, folder: str | Path, project: str, only: Iterable[str], allow: Iterable[str]
    ) -> Mirror:
        path = Path(_resolved(folder))
        if not path.is_dir():
            raise InvalidInput(f"{path} is not a folder; give one that exists")
        known = self._kept().get(str(path))
        before = None if known is None else known.mirror
        chosen = project or (before.project if before else project_of(path))
        only, allow = tuple(only), tuple(allow)
        if before is not None:
            only, allow = only or before.only, tuple(dict.fromkeys((*before.allow, *allow)))
        return Mirror(str(path), checked_project(chosen), only, allow)


class _Retries:
    """Which folders are looked at again although nothing changed: those of which something is unfinished, ever more seldom.

    Attributes:
        turn: the number of this look at all folders.
    """

    def __init__(self) -> None:
        self.turn = 0
        self._due: dict[str, tuple[int, int]] = {}  # by folder: when, and how many turns after the last

    def is_due(self, folder: str) -> bool:
        """Whether a folder is to be looked at again in this turn."""
        return folder in self._due and self._due[folder][0] <= self.turn

    def note(self, report: MirrorReport) -> None:
        """Note what became of a folder."""
        _, before = self._due.pop(report.folder, (0, 0))
        if report.is_unfinished:
            turns = min(2 * before, _MAX_TURNS) or 1
            self._due[report.folder] = self.turn + turns, turns


def _unnoted(error: OSError) -> str:
    """What is wrong where the notes of a mirror cannot be used, for example because the disk is full."""
    return (
        f"the notes about this mirror, beside the ledger, cannot be used ({error.strerror or error}), so it is not wholly "
        "in step; no text is lost, and the next run goes on"
    )


def _resolved(folder: str | Path) -> str:
    return str(Path(folder).expanduser().resolve())
