"""One mirrored folder and memory in step: the passes, and what each does.

A pass reads the folder and decides for each file (`decisions`). What was changed or deleted here becomes versions in memory
first, each with the version vector of what the folder had last; versions that do not know each other are united
(`file_versions`); then the folder gets what memory has. A file that changed in the meantime is left for the next pass.

Guaranteed: a kill between any two steps loses nothing, and the next run goes on. Safe, because a text is a durable version
in the ledger before a file that had it is replaced or removed, and because the state names a version only after both sides
have it; a step that was done and not noted is recognised by its text.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sense_memory.ledger.feed import Cursor
from sense_memory.limits import DAY_SECONDS
from sense_memory.mind.files import FileEdit, MirroredFile, writer_of
from sense_memory.mirror.credentials import credentials_in
from sense_memory.mirror.decisions import MirrorReport, MirrorStep, StepKind, decided
from sense_memory.mirror.file_versions import has_seen, united
from sense_memory.mirror.folder import (
    MAX_FILES_COUNT,
    ChangedMeanwhile,
    FolderScan,
    MirroredFolder,
)
from sense_memory.mirror.name_patterns import Patterns, is_plain_name
from sense_memory.mirror.state import Base, digest_of
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from sense_memory.memories.open_store import OpenStore
    from sense_memory.mind.files import Files
    from sense_memory.mirror.state import MirrorState

_PASSES_COUNT: Final = 4
KEPT_SECONDS: Final = 30 * DAY_SECONDS  # that a deleted file stays in the history
_PUSHED: Final = frozenset({StepKind.KEEP, StepKind.MERGE, StepKind.DELETE})
_LISTED_COUNT: Final = 3  # credentials of a file that a note names
TOO_LARGE: Final = "too large for one memory"
NOT_WRITTEN: Final = (
    "it could not be kept yet: it changed meanwhile, or this clock is far behind the newest version"
)
OTHER_SPELLING: Final = (
    "another file here has this name in other letters: upper or lower case, or accents in another form"
)
FOLDER_HERE: Final = "a folder has this name here; rename the one or the other"
NOT_HERE: Final = "it has a name that cannot be written here"
NOT_WRITABLE: Final = "it could not be written"
JUST_EMPTIED: Final = "it was emptied just now, perhaps to be written anew; looked at again next time"

_PASSING: Final = (NOT_WRITTEN, NOT_WRITABLE, JUST_EMPTIED)  # how the notes begin that may be others soon


class FolderSync:
    """Brings one folder and memory in step.

    Args:
        store: the open store.
        files: the files in memory.
        state: of the mirror.
        path: of the folder, links resolved.
        clock: seconds since 1970, by which the file system dates files.
    """

    def __init__(self, store: OpenStore, files: Files, state: MirrorState, path: Path, clock: Any) -> None:
        self._store, self._files, self._state = store, files, state
        self._mirror = state.mirror
        self._patterns = Patterns(self._mirror.only)
        self._folder = MirroredFolder(path, self._patterns, clock)
        self._scan, self._heads = FolderScan(), dict[str, MirroredFile]()
        self._steps: dict[str, MirrorStep] = {}

    # ── A run ───────────────────────────────────────────────────────────────────────────

    async def plan(self) -> MirrorReport:
        """What a run would do; nothing is written."""
        if problem := await self._look("ask"):
            return self._report(problem, is_plan=True)
        for step in self._decisions():
            self._steps[step.name] = step
        return self._report(is_plan=True)

    async def run(self, empty: str) -> MirrorReport:
        """Bring folder and memory in step.

        Args:
            empty: what an empty folder means that had files: "ask" for nothing, "restore" or "delete".
        """
        writer = self._writer(await self._store.ledger.write_if_due(lambda: self._store.ledger.edits.device))
        for _ in range(_PASSES_COUNT):
            if problem := await self._look(empty):
                return self._report(problem)
            empty = (
                "ask" if empty == "restore" else empty
            )  # the next look may find that the folder was unmounted
            self._left_alone()
            if not await self._pass(writer):
                break
        else:
            self._name_unfinished()
        return self._report()

    def _writer(self, device: str) -> str:
        """The name of this mirror in version vectors: each folder writes its own sequence of versions."""
        return hashlib.sha256(
            f"{device}\0{self._mirror.folder}".encode("utf-8", "surrogatepass")
        ).hexdigest()[:8]

    def _report(self, problem: str = "", *, is_plan: bool = False) -> MirrorReport:
        steps = tuple(self._steps[name] for name in sorted(self._steps))
        mirror = self._mirror
        return MirrorReport(
            mirror.folder,
            mirror.project,
            steps,
            problem,
            len(self._state.bases),
            is_plan=is_plan,
            has_passing=any(step.note.startswith(_PASSING) for step in steps),
        )

    # ── What is there ───────────────────────────────────────────────────────────────────

    async def _look(self, empty: str) -> str:
        """Read the folder and memory; returns why nothing can be done, or an empty text."""
        self._heads = await self._files.heads(self._mirror.project)
        self._drop_unknown()
        try:
            number = self._folder.number()
            self._scan = await asyncio.to_thread(self._folder.scan, self._is_known)
        except OSError as error:
            return f"the folder cannot be read ({error.strerror or error}), so nothing was done, and nothing counts as deleted"
        count = len(self._scan.files)
        if count > MAX_FILES_COUNT:
            return f"{count:,} text files, more than {MAX_FILES_COUNT:,}; choose some with --only"
        return self._missing(number, empty)

    def _drop_unknown(self) -> None:
        """Forget the notes about versions that this ledger never had: it was lost, or restored from a backup.

        The folder may be the only place that has their texts, so they are met as if for the first time.
        """
        for name, base in [*self._state.bases.items()]:
            head = self._heads.get(name)
            is_head = head is not None and head.event_id == base.event_id
            if not is_head and not self._files.accounts_for(self._mirror.project, name, base.event_id):
                self._state.set_base(name, None)

    def _missing(self, number: int, empty: str) -> str:
        """Decide what it means that files are missing; returns why nothing can be done, or an empty text.

        An empty folder may be one that is not mounted. In another folder than last time nothing was deleted or edited:
        what it has is met as if for the first time.
        """
        had, is_empty = len(self._state.bases), not self._scan.files and not self._scan.left
        if had and is_empty and empty == "ask":
            return (
                f"the folder is empty, and had {had:,} file{'s' * (had > 1)}: nothing was done, because it may not be "
                "mounted; `--empty restore` writes the files again, and `--empty delete` takes them as deleted"
            )
        is_another = self._state.number not in {-1, number} and empty != "delete"
        if is_another or (is_empty and empty == "restore"):
            for name in list(self._state.bases):
                self._state.set_base(name, None)
        self._state.set_number(number)
        return ""

    def _is_known(self, name: str, data: bytes) -> bool:
        """Whether a text that a killed process left behind is in memory or in its file."""
        base, head = self._state.bases.get(name), self._heads.get(name)
        found = self._folder.path / name
        return (
            (base is not None and base.digest == digest_of(data))
            or (head is not None and head.text.encode() == data)
            or (found.is_file() and not found.is_symlink() and found.read_bytes() == data)
        )

    def _names(self) -> list[str]:
        """The files to decide about: of the folder, of memory, and of the last run; not those that are left alone."""
        names = {*self._scan.files, *self._heads, *self._state.bases}
        return sorted(name for name in names if self._patterns.holds(name) and not self._scan.is_left(name))

    def _decided(self, name: str) -> MirrorStep | None:
        found = self._scan.files.get(name)
        data = None if found is None else found.data
        return decided(name, data, self._state.bases.get(name), self._heads.get(name))

    def _decisions(self) -> list[MirrorStep]:
        """What to do about each file; files that are left alone with their reasons."""
        self._left_alone()
        steps = (self._decided(name) for name in self._names())
        return [self._refused(step) or step for step in steps if step is not None]

    def _left_alone(self) -> None:
        for name, reason in self._scan.left.items():
            self._steps[name] = MirrorStep(name, StepKind.LEFT, reason)
        for name, head in self._heads.items():
            if not head.is_deleted and not is_plain_name(name):
                self._steps[name] = MirrorStep(name, StepKind.LEFT, NOT_HERE)

    def _refused(self, step: MirrorStep) -> MirrorStep | None:
        """Why a text of the folder must not become a memory; None if it may."""
        found = self._scan.files.get(step.name)
        if step.what not in {StepKind.KEEP, StepKind.MERGE} or found is None:
            return None
        if not found.data and found.is_young and step.name in self._state.bases:
            return MirrorStep(step.name, StepKind.LEFT, JUST_EMPTIED)
        if not self._files.fits(self._edit(step.name, found.text)):
            return MirrorStep(step.name, StepKind.LEFT, TOO_LARGE)
        credentials = [] if step.name in self._mirror.allow else credentials_in(step.name, found.text)
        if not credentials:
            return None
        listed = ", ".join(map(str, credentials[:_LISTED_COUNT]))
        more = f" and {len(credentials) - _LISTED_COUNT:,} more" if len(credentials) > _LISTED_COUNT else ""
        note = f"looks like a credential in {listed}{more}; `--allow` with its name mirrors it all the same"
        return MirrorStep(step.name, StepKind.LEFT, note)

    def _edit(self, name: str, text: str, **fields: Any) -> FileEdit:
        head = self._heads.get(name)
        return FileEdit(
            self._mirror.project, name, text, head="" if head is None else head.event_id, **fields
        )

    # ── A pass ──────────────────────────────────────────────────────────────────────────

    async def _pass(self, writer: str) -> bool:
        """One pass; returns whether another one is needed."""
        changes = self._store.ledger.feed.since(Cursor(self._state.seq))
        steps = self._decisions()
        pushed = [step for step in steps if step.what in _PUSHED]
        for step in steps:
            if step.what is StepKind.LEFT:
                self._steps[step.name] = step
        again = await self._push(pushed, writer)
        self._heads = await self._files.heads(self._mirror.project)
        slots = self._heads if changes.is_everything else self._changed(changes.slots)
        met = {step.name for step in pushed if step.what is StepKind.MERGE or step.note}
        again |= await self._unite({*slots, *met}, writer)
        self._heads = await self._files.heads(self._mirror.project)
        again |= await self._pull({step.name for step in steps if step.what is StepKind.LEFT})
        await self._erase(self._store.options.clock())
        self._state.set_seq(changes.cursor.seq)
        return again

    async def _erase(self, now: float) -> None:
        """Forget files that were deleted long ago, if that was so a day ago too: a clock that jumps erases nothing."""
        erased = []
        for name, head in self._heads.items():
            is_due = head.is_deleted and now - head.written_at > KEPT_SECONDS
            since = self._state.due.get(name)
            if is_due and since is not None and now - since > DAY_SECONDS:
                erased.append(head.full_name)
            self._state.set_due(name, None if not is_due else now if since is None else min(since, now))
        if erased:
            await self._files.forget(erased)
        for name in self._state.due.keys() - self._heads.keys():
            self._state.set_due(name, None)

    def _changed(self, slots: Collection[str]) -> list[str]:
        """The names of the files that new events are about."""
        project = self._mirror.project
        return [name for name in self._heads if address.d_tag(address.file_path(project, name)) in slots]

    async def _push(self, steps: Iterable[MirrorStep], writer: str) -> bool:
        """Make versions of what was changed or deleted in the folder; returns whether something could not be written."""
        edits: dict[str, FileEdit] = {}
        for step in steps:
            edit = await self._edit_of(step, writer)
            if edit is not None:
                edits[step.name] = edit
                self._steps[step.name] = step
        written = await self._files.write(list(edits.values()), writer)
        for name, edit in edits.items():
            if edit.path not in written:
                continue
            if edit.is_deleted:
                self._state.set_base(name, None)
            else:
                self._state.set_base(name, Base(written[edit.path], digest_of(edit.text.encode())))
        return len(written) < len(edits)

    async def _edit_of(self, step: MirrorStep, writer: str) -> FileEdit | None:
        """The version to write for a file; None if memory has it already, which is noted."""
        name, base, head = step.name, self._state.bases.get(step.name), self._heads.get(step.name)
        found = self._scan.files.get(name)
        if found is None:
            return None if head is None else self._edit(name, head.text, is_deleted=True, seen=head.seen)
        if head is None:
            return self._edit(name, found.text)
        if base is not None and base.event_id == head.event_id:
            return self._edit(name, found.text, seen=head.seen)
        versions = await self._files.versions(self._mirror.project, name)
        before = next((one for one in versions if base is not None and one.event_id == base.event_id), None)
        seen = {} if before is None else before.seen
        if base is None and head.is_deleted:
            seen = head.seen
        for one in versions:
            if not one.is_deleted and one.text == found.text and has_seen(one.seen, seen):
                self._state.set_base(name, Base(one.event_id, digest_of(found.data)))
                return None
        return self._edit(name, found.text, seen=seen, writer=writer_of(writer, seen, versions))

    async def _unite(self, names: Iterable[str], writer: str) -> bool:
        """Unite the versions of files that do not know each other; returns whether anything was written."""
        edits: list[FileEdit] = []
        for name in names:
            head = self._heads.get(name)
            if head is None:
                continue
            versions = await self._files.versions(self._mirror.project, name)
            found = united(head, versions, lambda file: self._files.fits(self._edit(file.name, file.text)))
            if found is None:
                continue
            edits += [
                self._edit(copy, text) for copy, text in found.copies.items() if copy not in self._heads
            ]
            file = found.file
            edits.append(self._edit(name, file.text, is_deleted=file.is_deleted, seen=file.seen))
            self._steps[name] = MirrorStep(name, StepKind.MERGE, _merge_note(found.conflicts, found.copies))
        await self._files.write(edits, writer)
        return bool(edits)

    async def _pull(self, left: Collection[str]) -> bool:
        """Give the folder what memory has; returns whether a file changed meanwhile."""
        again = False
        steps = {name: self._decided(name) for name in self._names() if name not in left}
        for name, step in steps.items():
            if step is None:
                self._note_same(name)
        order = sorted(
            (one for one in steps.values() if one), key=lambda one: one.what is not StepKind.REMOVE
        )
        for step in order:
            if step.what in _PUSHED:
                again = True
            elif step.what is StepKind.LEFT:
                self._steps[step.name] = step
            else:
                again |= await asyncio.to_thread(self._write, step)
        return again

    def _note_same(self, name: str) -> None:
        """Note that both sides have the same."""
        found, head = self._scan.files.get(name), self._heads.get(name)
        if found is None or head is None:
            self._state.set_base(name, None)
        else:
            self._state.set_base(name, Base(head.event_id, digest_of(found.data)))

    def _write(self, step: MirrorStep) -> bool:
        """Write or remove a file; returns whether it had changed meanwhile."""
        name = step.name
        found, head = self._scan.files.get(name), self._heads[name]
        data = head.text.encode()
        if step.what is StepKind.WRITE and found is None and not self._folder.is_free(name):
            in_the_way = FOLDER_HERE if self._folder.is_folder(name) else OTHER_SPELLING
            self._steps[name] = MirrorStep(name, StepKind.LEFT, in_the_way)
            return False
        try:
            if step.what is StepKind.REMOVE and found is not None:
                self._folder.remove(found)
            else:
                self._folder.write(name, data, found)
        except ChangedMeanwhile:
            return True
        except OSError as error:
            reason = f"{NOT_WRITABLE} ({error.strerror or error})"
            self._steps[name] = MirrorStep(name, StepKind.LEFT, reason)
            return False
        is_removed = step.what is StepKind.REMOVE
        self._state.set_base(name, None if is_removed else Base(head.event_id, digest_of(data)))
        before = self._steps.get(name)
        self._steps[name] = step if before is None else replace(before, note=before.note or step.note)
        return False

    def _name_unfinished(self) -> None:
        for step in self._decisions():
            if step.what is not StepKind.LEFT:
                self._steps[step.name] = MirrorStep(step.name, StepKind.LEFT, NOT_WRITTEN)


def _merge_note(conflicts: int, copies: Collection[str]) -> str:
    """What a person should know about a merge; empty if everything fitted together."""
    notes = []
    if conflicts:
        which = "one section was" if conflicts == 1 else f"{conflicts:,} sections were"
        notes.append(f"{which} changed on two machines at once; both texts are in the file")
    if copies:
        notes.append(f"the other text is in {', '.join(sorted(copies))}")
    return "; ".join(notes)
