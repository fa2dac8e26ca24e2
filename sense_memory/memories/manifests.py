"""Device manifests: what a device knew to be on relays, so that another device notices what relays leave out.

A manifest is a record at `device/{device id}`: the device, a sequence, how many heads its list has, their digest, and the
time. Its list lies on pages beside it, `device/{device id}/{number}`, see `ledger.listing`. It is written after every relay
has shown everything, at most once a day, and only if something has changed. The first one is written at once where there
are 500 memories, and otherwise a day later, so that a machine that lives for an hour leaves none; below 10 memories none is
written by itself.

Guaranteed: `check` finds every memory that a manifest here names and that is here in no version, or only in an older one,
and every deletion that relays hide of a memory that they show. It says nothing of what no manifest here names: relays that
agree to hide both a memory and the manifests that name it are not found out.

Why it is safe: a line of a list stays true, so an old manifest, or pages of several, only say less. A device writes under an
id that nobody else has (`ledger.device_id`), so a sequence goes back only where a ledger was copied or set back. A manifest
is removed only by a ledger that has everything that it names.

Cost: two events a day for up to 400 memories, and 256 pages of some 14 KB for 100,000, of which only those that changed are
written; a check reads the pages of other devices' manifests when one has changed, and hashes every slot: 0.7 s for 100,000.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sense_memory.ledger.listing import MANIFESTS, ManifestList, compared, joined, lines_of, listing
from sense_memory.ledger.manifests import DeviceManifest, ManifestCheck
from sense_memory.limits import DAY_SECONDS
from sense_memory.nostr import address
from sense_memory.records.envelope import Record
from sense_memory.records.kinds import RecordType


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.ledger.listing import ListedSlot
    from sense_memory.records.reader import Reader
    from sense_memory.records.snapshot import OpenedRecord
    from sense_memory.records.writer import Writer

MANY_COUNT: Final = 500  # memories of which the first manifest is written at once
FEW_COUNT: Final = 10  # memories below which none is written by itself
OLD_SECONDS: Final = (
    90 * DAY_SECONDS
)  # after which a manifest of another device is removed, if all that it names is here
_WHOLE: Final = 2**53  # above every number that a manifest may have


@dataclass(frozen=True, slots=True)
class _ManifestFound:
    """A manifest as it lies here.

    Attributes:
        manifest: what it says.
        said: a hash of that, by which two manifests of one sequence are told apart.
        digest: of its heads.
        lines: what its pages list, as far as they are here.
        event_id: of its event, 64 hex digits.
    """

    manifest: DeviceManifest
    said: str
    digest: str
    lines: tuple[ListedSlot, ...]
    event_id: str


class Manifests:
    """Writes the manifest of this ledger, and checks those of others.

    Args:
        ledger: what is listed and compared.
        reader: opens manifests.
        writer: writes them.
        clock: seconds since 1970.
    """

    def __init__(self, ledger: Ledger, reader: Reader, writer: Writer, clock: Callable[[], float]) -> None:
        self._ledger, self._reader, self._writer, self._clock = ledger, reader, writer, clock
        self._checked: tuple[object, ManifestCheck] | None = None

    # ── Checking ────────────────────────────────────────────────────────────────────────

    async def sent(self) -> dict[int, dict[str, tuple[str, float]]]:
        """Which relays have which manifest, before they are asked; see `check`."""
        return self._ledger.manifests.sent([seq for _, seq in self._ledger.heads.live_beneath(MANIFESTS)])

    async def check(
        self,
        *,
        unanswered: Sequence[str] = (),
        fresh: Iterable[str] = (),
        before: Mapping[int, Mapping[str, tuple[str, float]]] | None = None,
    ) -> ManifestCheck:
        """Compare this ledger with every manifest in it, and note the result.

        Args:
            unanswered: relays that did not show everything.
            fresh: relays that showed everything for the first time.
            before: from `sent`, before the relays were asked.

        Raises:
            LedgerCorrupt, LedgerError: the ledger could not be read or written.
        """
        relapsed = self._relapsed(before or {})
        key = self._ledger.feed.cursor().seq
        if self._checked is not None and self._checked[0] == key and not fresh:
            base = self._checked[1]
        else:
            base = await self._compared(tuple(fresh))
            self._checked = key, replace(base, lacking={})
        found = replace(
            base, checked_at=self._clock(), unanswered=tuple(unanswered), relapsed=tuple(relapsed)
        )
        if found.devices or self._ledger.manifests.last_check().devices:
            await self._ledger.write_if_due(self._ledger.manifests.note_check, found)
        return found

    async def _compared(self, fresh: Sequence[str]) -> ManifestCheck:
        await self._drop_older()
        found = await self._found()
        if not found:
            return ManifestCheck()
        for item in found:
            await self._note_seen(item)
        foreign = [
            item for item in found if not self._ledger.manifests.wrote(item.manifest.device, item.event_id)
        ]
        devices = tuple(self._judged(item) for item in found)
        if not foreign:
            return ManifestCheck(devices=devices)
        states = self._ledger.manifests.states()
        result = compared(joined(item.lines for item in foreign), states, self._clock())
        shown = {url: self._ledger.manifests.shown_by(url) for url in fresh}
        known = (
            result.slots & self._ledger.manifests.shown_by_any()
        )  # not what only this ledger has, newer than listed
        return ManifestCheck(
            devices=devices,
            expected=result.expected,
            missing=result.missing,
            outdated=result.outdated,
            undeleted=result.undeleted,
            ahead=result.ahead,
            lacking={url: len(known - slots) for url, slots in shown.items()},
        )

    def _judged(self, item: _ManifestFound) -> DeviceManifest:
        """A manifest with what was seen of its device before."""
        seq, said = self._ledger.manifests.seen(item.manifest.device)
        is_doubled = item.manifest.seq == seq and item.said != said
        is_own = self._ledger.manifests.wrote(item.manifest.device, item.event_id)
        unlisted = 0 if is_own else item.manifest.unlisted
        return replace(item.manifest, seen_seq=seq, is_doubled=is_doubled, unlisted=unlisted)

    async def _note_seen(self, item: _ManifestFound) -> None:
        """Note the sequence of a manifest, if it is the highest of its device so far."""
        device, seq = item.manifest.device, item.manifest.seq
        if seq > self._ledger.manifests.seen(device)[0]:
            await self._ledger.write_if_due(self._ledger.manifests.note_seen, device, seq, item.said)

    def _relapsed(self, before: Mapping[int, Mapping[str, tuple[str, float]]]) -> list[str]:
        """The relays that had a manifest and lacked it when they were asked, so that it was queued or sent again."""
        found: dict[str, None] = {}
        after = self._ledger.manifests.sent([*before])
        for seq, states in before.items():
            for url, (state, due) in states.items():
                now, later = after[seq].get(url, (state, due))
                if state != "queued" and (now == "queued" or later > due):
                    found[url] = None
        return list(found)

    async def _found(self) -> list[_ManifestFound]:
        """The manifests here, with their lists."""
        opened = await self._reader.opened(self._ledger.heads.live_beneath(MANIFESTS))
        items = [item for item in opened if item.type is RecordType.DEVICE]
        pages = {item.path: item for item in items if "page" in item.record.fields}
        heads = [item for item in items if item.path not in pages]
        return [found for item in heads if (found := _manifest(item, pages)) is not None]

    # ── Writing ─────────────────────────────────────────────────────────────────────────

    async def write_if_due(self) -> bool:
        """Write the manifest of this ledger if it is due; call this after every relay has shown everything.

        Nothing is written while something is missing here that other manifests name. Returns whether anything was written.

        Raises: as `write`.
        """
        notes, now = self._ledger.manifests, self._clock()
        at, _ = notes.written()
        if 0 <= now - at < DAY_SECONDS or not self._ledger.heads.has_many(FEW_COUNT, MANIFESTS):
            return False
        if at == 0 and not self._ledger.heads.has_many(MANY_COUNT, MANIFESTS):
            await self._ledger.write_if_due(notes.note_written, now, "")
            return False
        return (await self.check()).holds and await self.write()

    async def write(self) -> bool:
        """Write the manifest of this ledger, unless this ledger's last one or another device's says the same.

        Manifests that this one makes superfluous are removed: those that this ledger wrote under earlier ids, and others
        that are older than 90 days. So call it only after every relay has shown everything, and if everything that
        manifests name is here. Returns whether anything was written.

        Raises:
            ClockSkewError, LedgerError: nothing was written.
        """
        made = listing(self._ledger.manifests.states())
        pages = made.pages()
        said = hashlib.sha256(b"".join(pages)).hexdigest()
        others = await self._found()
        if not made.heads or said == self._ledger.manifests.written()[1]:
            return False
        is_new = not _is_said(made, others)
        if is_new:
            device = await self._own_device(others)
            await self._write(device, made, pages, others)
            await self._remove_superfluous(device, others)
        await self._ledger.write_if_due(self._ledger.manifests.note_written, self._clock(), said)
        return is_new

    async def _own_device(self, others: Sequence[_ManifestFound]) -> str:
        """The id under which this ledger writes; a new one if a manifest under it was not written here."""
        edits = self._ledger.edits
        device = await self._ledger.write_if_due(lambda: edits.device)
        for item in others:
            is_ours = self._ledger.manifests.wrote(device, item.event_id)
            if item.manifest.device == device and not is_ours:
                edits.device_id.renew_if_shared(device, item.event_id, item.event_id)
                return await self._ledger.write_if_due(lambda: edits.device)
        return device

    async def _write(
        self, device: str, made: ManifestList, pages: Sequence[bytes], others: Sequence[_ManifestFound]
    ) -> None:
        before = max((item.manifest.seq for item in others if item.manifest.device == device), default=0)
        seq = max(before, self._ledger.manifests.seen(device)[0]) + 1
        now, digests = self._clock(), [_digest(page) for page in pages]
        counts = [sum(not line.is_gone for line in lines_of(page)) for page in pages]
        records = []
        for number, page in enumerate(pages):
            path = f"{address.DEVICE}{device}/{number}"
            if await self._listed(path) != page:
                text = base64.b64encode(page).decode()
                fields = {"device": device, "page": number, "seq": seq, "lines": text, "ts": now}
                records.append(Record(RecordType.DEVICE, path, fields))
        fields = {
            "device": device,
            "seq": seq,
            "heads": made.heads,
            "digest": made.digest,
            "ts": now,
            "pages": [list(page) for page in zip(counts, digests, strict=True)],
        }
        records.append(Record(RecordType.DEVICE, f"{address.DEVICE}{device}", fields))
        await self._writer.write(records, drafts=False)
        said = _said(seq, made.heads, made.digest, now)
        await self._ledger.write_if_due(self._ledger.manifests.note_seen, device, seq, said)
        await self._drop_older()

    async def _drop_older(self) -> None:
        """Drop the replaced versions of manifests: old lists are no history that anybody asks for, and they are large."""
        crowded = self._ledger.heads.crowded_beneath(MANIFESTS)
        older = [stored.seq for slot in crowded for stored in self._ledger.versions(slot)[1:]]
        if older:
            await self._ledger.write(self._ledger.drop_versions, older)

    async def _listed(self, path: str) -> bytes:
        """The lines on a page as they were last written; empty if there is none."""
        heads = self._ledger.heads.seqs_at([address.d_tag(path)])
        opened = await self._reader.opened(heads)
        return _lines(opened[0].record.fields) if opened else b""

    async def _remove_superfluous(self, device: str, others: Sequence[_ManifestFound]) -> None:
        """Forget the manifests that say less than the one just written."""
        now = self._clock()
        for item in others:
            manifest = item.manifest
            is_old = now - manifest.written_at > OLD_SECONDS
            if manifest.device == device or not (
                is_old or self._ledger.manifests.wrote(manifest.device, item.event_id)
            ):
                continue
            path = f"{address.DEVICE}{manifest.device}"
            beneath = self._ledger.heads.live_beneath(f"{address.PREFIX}{path}/")
            paths = [path, *(slot.removeprefix(address.PREFIX) for slot, _ in beneath)]
            await self._writer.forget_all(paths, insists=True)

    async def accept_losses(self) -> int:
        """Forget the manifests that name what is missing here, so that it is expected no longer; returns how many.

        A device that still has what they name writes a new one, and sends what relays lack.

        Raises:
            LedgerError: the ledger could not be written.
        """
        states, removed = self._ledger.manifests.states(), 0
        for item in await self._found():
            found = compared(joined([item.lines]), states, self._clock())
            is_own = self._ledger.manifests.wrote(item.manifest.device, item.event_id)
            if is_own or not (found.missing or found.outdated or found.undeleted or item.manifest.unlisted):
                continue
            path = f"{address.DEVICE}{item.manifest.device}"
            beneath = self._ledger.heads.live_beneath(f"{address.PREFIX}{path}/")
            paths = [path, *(slot.removeprefix(address.PREFIX) for slot, _ in beneath)]
            await self._writer.forget_all(paths, insists=True)
            removed += 1
        return removed


def _manifest(item: OpenedRecord, pages: Mapping[str, OpenedRecord]) -> _ManifestFound | None:
    """A manifest and its list; None if its fields are not those of a manifest."""
    fields = item.record.fields
    device, digest = fields.get("device"), fields.get("digest")
    seq, heads = _whole(fields.get("seq")), _whole(fields.get("heads"))
    if not isinstance(device, str) or not isinstance(digest, str) or seq is None or heads is None:
        return None
    written_at = item.record.written_at(item)
    lines: list[ListedSlot] = []
    listed = 0
    for number, (count, wanted) in enumerate(_page_list(fields.get("pages"))):
        page = pages.get(f"{item.path}/{number}")
        found = b"" if page is None else _lines(page.record.fields)
        lines += lines_of(found)
        is_newer = page is not None and (_whole(page.record.fields.get("seq")) or 0) > seq
        if is_newer or _digest(found) == wanted:
            listed += count
    unlisted = (
        max(0, heads - listed) if "pages" in fields else 0
    )  # one without a list counts, and names nothing
    manifest = DeviceManifest(device, seq, heads, written_at, unlisted=unlisted)
    said = _said(seq, heads, digest, written_at)
    return _ManifestFound(manifest, said, digest, tuple(lines), item.id.hex())


def _page_list(value: object) -> list[tuple[int, str]]:
    """The count and the digest of each page that a manifest names; what is not of this form ends the list."""
    found: list[tuple[int, str]] = []
    for page in value if isinstance(value, list) else ():
        if not isinstance(page, list) or len(page) != 2:
            break
        count, digest = _whole(page[0]), page[1]
        if count is None or not isinstance(digest, str):
            break
        found.append((count, digest))
    return found


def _lines(fields: Mapping[str, Any]) -> bytes:
    try:
        return base64.b64decode(fields.get("lines", ""), validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _WHOLE else None


def _digest(page: bytes) -> str:
    return hashlib.sha256(page).hexdigest()[:16]


def _said(seq: int, heads: int, digest: str, at: float) -> str:
    """A hash of what a manifest says, which signing it again does not change."""
    return hashlib.sha256(f"{seq} {heads} {digest} {at}".encode()).hexdigest()[:16]


def _is_said(made: ManifestList, others: Iterable[_ManifestFound]) -> bool:
    """Whether another manifest lists the same heads and deletions, on whole pages."""
    mine = frozenset(made.lines)
    return any(
        item.digest == made.digest and not item.manifest.unlisted and mine <= frozenset(item.lines)
        for item in others
    )
