"""Mirrored files: the text files of a project as records, with their versions on every machine.

A file is named by its project and its name in the folder, `github.com/owner/repo:notes/MEMORY.md`. Each version says in a
version vector which versions its writer knew, so versions that two machines wrote at once are recognised; the mirror
(`sense_memory.mirror`) merges them. A deleted file keeps its text, as a version that says that the file is gone.
"""

from __future__ import annotations

import secrets
import unicodedata
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import ClockSkewError, InvalidAddress, InvalidInput
from sense_memory.ledger import HeadMoved, retry_while_moved
from sense_memory.limits import MAX_KEY_CHARS
from sense_memory.memories.history import RESTORED, Version, undo_target, version_at
from sense_memory.mind.call_checks import checked
from sense_memory.mind.records import RecordView
from sense_memory.nostr import address
from sense_memory.palace.version import counts_in
from sense_memory.plain_text import is_unicode, printable
from sense_memory.records import envelope
from sense_memory.records.origins import counted


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sense_memory.mind.records import MindRecord, MindRecords

_BATCH_COUNT: Final = 200  # versions that are written together, some 40 ms


@dataclass(frozen=True, slots=True)
class MirroredFile:
    """One version of a mirrored file.

    Attributes:
        project: such as `github.com/owner/repo`; the same on every machine.
        name: the path of the file in its folder, with `/` between its parts.
        text: word for word; of a deleted file the last text.
        is_deleted: whether the file was deleted.
        written_at: when this version was written, seconds since 1970.
        event_id: 64 hex digits.
        seen: the version vector: what the writer knew, by writer.
        restored: the event id of the version that an undo brought back; empty for any other version.
    """

    project: str
    name: str
    text: str = field(repr=False)
    is_deleted: bool
    written_at: float
    event_id: str
    seen: Mapping[str, int] = field(default_factory=dict, repr=False)
    restored: str = field(default="", repr=False)

    @property
    def full_name(self) -> str:
        """Project and name, as commands take them."""
        return f"{self.project}:{self.name}"

    def is_like(self, other: MirroredFile) -> bool:
        """Whether another version has the same text, or both are deleted."""
        return (self.is_deleted, self.text) == (other.is_deleted, other.text) or (
            self.is_deleted and other.is_deleted
        )


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A version to write.

    Attributes:
        project, name, text, is_deleted: of the new version.
        seen: the version vector of what the writer knew.
        head: the event id of the current version; empty if there is none. If another is current by then, nothing
            is written.
        restored: the event id of the version that this one brings back; empty if it is no undo.
        writer: who edits, if it is not the writer of the other edits; see `writer_of`.
    """

    project: str
    name: str
    text: str = field(repr=False)
    is_deleted: bool = False
    seen: Mapping[str, int] = field(default_factory=dict)
    head: str = ""
    restored: str = ""
    writer: str = ""

    @property
    def path(self) -> str:
        """Of the record."""
        return address.file_path(self.project, self.name)

    def fields(self, writer: str, count: int, now: float) -> dict[str, Any]:
        """The fields of the record."""
        writer = self.writer or writer
        seen = counted(self.seen, writer, max(self.seen.get(writer, 0) + 1, count))
        fields: dict[str, Any] = {
            "project": self.project,
            "name": self.name,
            "value": self.text,
            "ts": now,
            "seen": seen,
        }
        return (
            fields
            | ({"gone": True} if self.is_deleted else {})
            | ({RESTORED: self.restored} if self.restored else {})
        )


@checked
class Files:
    """The mirrored files of an agent. Get it as `store.mind.files`.

    Args:
        records: reads and writes the records.
    """

    def __init__(self, records: MindRecords) -> None:
        self._records = records
        self._view = RecordView(records, address.FILE, _file)

    async def all(self, project: str | None = None, *, deleted: bool = False) -> list[MirroredFile]:
        """The files of a project, or of all projects, by project and name.

        Args:
            project: None for all.
            deleted: the deleted ones instead.
        """
        found = (await self._view.refresh(asks=False)).values()
        chosen = (
            one for one in found if project in {None, one.project} and one.is_deleted is deleted and one.name
        )
        return sorted(chosen, key=lambda one: (one.project, one.name))

    async def get(self, full_name: str) -> MirroredFile | None:
        """The file `project:name` as it is now; None if there is none, or if it was deleted.

        Raises:
            InvalidAddress: not the name of a file.
        """
        found = await self.head(*parts_of(full_name))
        return None if found is None or found.is_deleted else found

    def is_known(self, full_name: str) -> bool:
        """Whether there is a file `project:name`, also a deleted one; no file is read for it.

        Raises:
            InvalidAddress: not the name of a file.
        """
        self._records.store.check()
        slot = address.d_tag(address.file_path(*parts_of(full_name)))
        return bool(self._records.store.ledger.heads.live_heads_at([slot]))

    async def history(self, full_name: str) -> list[Version]:
        """The versions of a file in this ledger, newest first; `value` is None where the file was deleted.

        Raises:
            InvalidAddress: not the name of a file.
        """
        project, name = parts_of(full_name)
        head = await self.head(project, name)
        return [_version(one, head) for one in await self.versions(project, name)]

    async def as_of(self, full_name: str, time: float) -> str | None:
        """The text of a file at a time, in seconds since 1970; None where there was no such file.

        Raises:
            InvalidAddress: not the name of a file.
        """
        found = version_at(await self.history(full_name), time)
        return None if found is None else found.value

    async def undo(self, full_name: str) -> MirroredFile | None:
        """Write the previous text of a file as a new version; mirrors then write it into their folders.

        A second undo goes one text further back; a deleted file comes back. Returns the file, or None where no other
        text is known.

        Raises:
            InvalidAddress: not the name of a file.
            ClockSkewError: this clock is far behind the newest version; nothing was written.
        """
        project, name = parts_of(full_name)

        async def attempt() -> MirroredFile | None:
            head = await self.head(project, name)
            target = undo_target(await self.history(full_name))
            if head is None or target is None or target.value is None:
                return None
            ledger = self._records.store.ledger
            device = await ledger.write_if_due(lambda: ledger.edits.device)
            edit = FileEdit(
                project,
                name,
                target.value,
                seen=head.seen,
                head=head.event_id,
                restored=target.event_id,
                writer=writer_of(device, head.seen, await self.versions(project, name)),
            )
            written = await self._write([edit], "")
            if edit.path not in written:
                raise HeadMoved
            versions = await self.versions(project, name)
            return next((one for one in versions if one.event_id == written[edit.path]), None)

        return await retry_while_moved(attempt)

    # ── For the mirror ──────────────────────────────────────────────────────────────────

    async def heads(self, project: str) -> dict[str, MirroredFile]:
        """The version that counts of each file of a project, by name; deleted files too."""
        found = (await self._view.refresh(asks=False)).values()
        return {one.name: one for one in found if one.project == project}

    async def head(self, project: str, name: str) -> MirroredFile | None:
        """The version of a file that counts; None if there is none."""
        view = await self._view.refresh(asks=False)
        return view.get(address.file_path(project, name).removeprefix(address.FILE))

    async def versions(self, project: str, name: str) -> list[MirroredFile]:
        """Every version of a file in this ledger, newest first."""
        found = await self._records.versions(address.file_path(project, name))
        return [_file(one) for one in found if not one.is_forgotten]

    def accounts_for(self, project: str, name: str, event_id: str) -> bool:
        """Whether this ledger holds a version of a file, or a deletion that may have removed the version.

        Otherwise the version was seen with another ledger, such as a later state of one that was restored from a backup.
        """
        ledger = self._records.store.ledger
        slot = address.d_tag(address.file_path(project, name))
        return ledger.by_id(event_id) is not None or ledger.is_deleted(slot)

    def fits(self, edit: FileEdit) -> bool:
        """Whether a version fits an event."""
        fields = edit.fields("0" * 8, int(self._records.store.options.clock()), 0.0)
        return envelope.fits(envelope.record_at(edit.path, fields))

    async def write(self, edits: Sequence[FileEdit], writer: str) -> dict[str, str]:
        """Write versions, in batches; returns the event ids of those that were written, by path of the record.

        The others had another head by then, or the clock is far behind the head.

        Args:
            edits: at most one for each file.
            writer: who edits: the name of a mirror, or empty for this device.

        Raises:
            LedgerError: the ledger could not be written; earlier batches stay.
        """
        written: dict[str, str] = {}
        for start in range(0, len(edits), _BATCH_COUNT):
            batch = edits[start : start + _BATCH_COUNT]
            try:
                written |= await self._write(batch, writer)
            except ClockSkewError:
                for edit in batch:
                    with suppress(ClockSkewError):
                        written |= await self._write([edit], writer)
        return written

    async def _write(self, edits: Sequence[FileEdit], writer: str) -> dict[str, str]:
        store = self._records.store
        slots = {edit.path: address.d_tag(edit.path) for edit in edits}
        device = await store.ledger.write_if_due(lambda: store.ledger.edits.device)

        async def attempt() -> dict[str, str]:
            bases = {slot: store.ledger.edits.basis(slot) for slot in slots.values()}
            view = await self._view.refresh(asks=False)
            heads = {path: view.get(path.removeprefix(address.FILE)) for path in slots}
            current = [edit for edit in edits if _id_of(heads[edit.path]) == edit.head]
            now = store.options.clock()
            fields = {edit.path: edit.fields(writer or device, int(now), now) for edit in current}
            if not fields:
                return {}
            return dict(zip(fields, await self._records.write(fields, bases=bases), strict=True))

        return await retry_while_moved(attempt)

    async def forget(self, full_names: Iterable[str]) -> str:
        """Forget files with all their versions, here and on relays; returns the id of the deletion request.

        A mirror leaves the file in its folder alone, until somebody changes the file.
        """
        return await self._records.forget([address.file_path(*parts_of(name)) for name in full_names])


def writer_of(usual: str, seen: Mapping[str, int], versions: Iterable[MirroredFile]) -> str:
    """The writer of a new version: the usual one, or a new one if the version does not know all that the usual one wrote.

    A version vector has one number for each writer, and so cannot leave out a version that lies in between.

    Args:
        usual: the usual writer.
        seen: what the new version knows.
        versions: of the file.
    """
    written = max((version.seen.get(usual, 0) for version in versions), default=0)
    return usual if seen.get(usual, 0) >= written else secrets.token_hex(4)


def parts_of(full_name: str) -> tuple[str, str]:
    """Project and name of a file.

    Raises:
        InvalidAddress: not `project:name`.
    """
    project, colon, name = full_name.partition(":")
    if not (project and colon and name and is_unicode(full_name)):
        raise InvalidAddress(
            f"{printable(repr(full_name))} is not the name of a mirrored file, such as "
            "github.com/owner/repo:MEMORY.md"
        )
    return unicodedata.normalize("NFC", project), unicodedata.normalize("NFC", name)


def checked_project(project: str) -> str:
    """The name of a project, NFC-normalised.

    Raises:
        InvalidInput: it is empty, too long, or has a colon or control characters.
    """
    name = unicodedata.normalize("NFC", project.strip())
    is_plain = is_unicode(name) and not any(ord(char) < 32 or char in ":\x7f" for char in name)
    if not name or len(name) > MAX_KEY_CHARS or not is_plain:
        raise InvalidInput(
            f"a project needs a name of at most {MAX_KEY_CHARS} characters without ':' and control characters, such as "
            "github.com/owner/repo; nothing was changed"
        )
    return name


def _file(record: MindRecord) -> MirroredFile:
    return MirroredFile(
        record.text("project"),
        record.text("name"),
        record.text("value"),
        record.is_true("gone"),
        record.written_at,
        record.event_id,
        counts_in(record.fields.get("seen")),
        record.text(RESTORED),
    )


def _version(one: MirroredFile, head: MirroredFile | None) -> Version:
    value = None if one.is_deleted else one.text
    is_head = one.event_id == _id_of(head)
    return Version(value, one.written_at, one.event_id, is_head, one.restored)


def _id_of(head: MirroredFile | None) -> str:
    return "" if head is None else head.event_id
