"""The readable export: a folder of Markdown or one file of JSON lines, which can be imported again word for word.

Each memory has values and a text. In Markdown the values are front matter (JSON after each name, which is valid YAML) and
the text follows word for word; in JSON lines both are one object. The value `exported` is a hash of the memory at the time
of the export, so that an import can distinguish edits of the file from later edits in the store.

File names are for people: they are shortened and cleaned for every file system, and the real path is inside the file.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import unicodedata
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput, NotSynced
from sense_memory.exchange import front_matter, items
from sense_memory.exchange.export_filter import ExportFilter
from sense_memory.exchange.import_files import read_source, text_of
from sense_memory.exchange.items import Item, ItemKind, Problem, ReaderResult, fingerprint
from sense_memory.limits import DEFAULT_HALFLIFE_DAYS, MAX_RECENT_COUNT
from sense_memory.memories.backup import write_export
from sense_memory.memories.persona.arguments import PAST
from sense_memory.mind.blocks import with_whole_text
from sense_memory.models import PROVENANCE
from sense_memory.operating_system import create_private
from sense_memory.records.kinds import RecordType


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from pathlib import Path
    from typing import TypeVar

    from sense_memory.exchange.import_files import Source, SourceFiles
    from sense_memory.mind.log import LogEntry
    from sense_memory.mind.records import MindRecord, MindRecords
    from sense_memory.models import JournalEntry, Memory, PersonaMemory
    from sense_memory.store import MemoryStore

    _T = TypeVar("_T")

ALL: Final = ExportFilter()
MANIFEST: Final = "sense-memory.json"
KIND_FIELD: Final = "sense-memory"  # the field with the kind of an entry; it also marks our files
_VERSION: Final = 1
_EXPORT: Final = "readable export"
BLOCKS: Final = "mind/block/"
_TEXTS: Final = {  # the paths of exported records, or prefixes of them, each with the field that is the text
    BLOCKS: "value",
    "mind/archive/": "content",
    "mind/topic/": "summary",
    "mind/identity": "themes",
    "mind/objective/": "text",
    "mind/conversation/": "summary",
    **{kind.traits.prefix: kind.traits.text for kind in RecordType if kind.traits.is_exported},
}
_DEVICE_FIELDS: Final = frozenset(
    {"seen", "said"}
)  # fields of a record of the mind that only its device needs
_TOLD_HERE: Final = frozenset({"origin", "session", "sources", "derived_from"})  # an import says them itself
_README: Final = """This folder is a readable export of sense-memory: the memories of an agent in plain text.
Anyone who can read these files can read the memories. `sense-memory export FILE` writes an encrypted export instead.

`sense-memory import FOLDER` imports this folder again, word for word. If you edit a text here, the import edits its memory.
"""
_PARTIAL: Final = """
It is only a part of the memories, and no backup: `filter` in sense-memory.json says which.
"""
_FORMAT: Final = "a readable export"
OWN_FORMATS: Final = frozenset({_FORMAT})  # they say themselves where their memories came from
_DEFAULTS: Final = {"halflife_days": DEFAULT_HALFLIFE_DAYS, "confidence": 1.0}
_TIMES: Final = (
    *("created_at", "last_accessed", "last_reinforced", "written_at"),
    *("dissolved_at", "observed_at"),
)
EDITABLE: Final = (
    "themes",
    "connections",
    "halflife_days",
    "confidence",
)  # fields that people may edit in a file
_PAST: Final = (*PROVENANCE, *PAST)
_LISTS: Final = ("contradicts", "marked_by_hand", "dismissed", "derived_from", "sources")
_OF_FLAT: Final = ("source", "session", "sources")
_INFORMATIVE: Final = ("state", "conflict_of", "dissolved_at")  # for people; an import ignores them


@dataclass(frozen=True, slots=True)
class ExportedMemory:
    """One memory, as it is written to an export.

    Attributes:
        folder: the folder of its file.
        name: the name from which the file name is made.
        values: all fields except the text.
        text: the text, word for word.
        at: its date for an `ExportFilter`, seconds since 1970.
        event_id: the event that holds it; empty for an entry of the log, which shares its event with others.
    """

    folder: tuple[str, ...]
    name: str
    values: dict[str, Any] = field(repr=False)
    text: str = field(repr=False)
    at: float = 0.0
    event_id: str = ""

    @property
    def path(self) -> str:
        """Its name for an `ExportFilter`."""
        match self.values[KIND_FIELD]:
            case "journal":
                return f"journal/{str(self.values['created_at'])[:10]}"
            case "log":
                return f"mind/conversation/{self.name}" if self.name else "mind/log"
        return str(self.values["path"])

    @property
    def themes(self) -> list[str]:
        """Its themes, or its tags and topics."""
        found = self.values.get("fields", self.values)
        lists = (found.get(name) for name in ("themes", "tags", "topics"))
        return [name for some in lists if isinstance(some, list) for name in some if isinstance(name, str)]


@dataclass(slots=True)
class Exported:
    """The result of a readable export.

    Attributes:
        path: the folder or the file.
        counts: how many memories of each kind were written.
        notes: what may be missing, and why.
        conditions: of the filter, so that the export is only a part; empty if it has everything.
        left_out: how many memories the filter left out.
    """

    path: str
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    conditions: dict[str, object] = field(default_factory=dict)
    left_out: int = 0


# ── Export ──────────────────────────────────────────────────────────────────────────────


async def write_readable(
    store: MemoryStore,
    target: Path,
    *,
    only: ExportFilter = ALL,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Exported:
    """Write the memories of a store as plain text: into a new folder, or into a file whose name ends in `.jsonl`.

    The export contains palace memories, the journal, flat memories, and the mind's blocks, archive, topics, identity,
    objectives, conversations and log. It does not contain earlier versions, drafts, scenes or shares. Files have mode 0600,
    folders 0700.

    Args:
        store: an open store.
        target: the folder, which must not exist or must be empty; or the file.
        only: which memories; by default all. The head of a part says that it is one, and which.
        overwrite: whether to replace an existing file; a folder is never replaced.
        progress: called with the number of memories written to a folder so far.

    Raises:
        InvalidInput: the target exists or cannot be written, or no memory fulfils the filter; nothing was changed.
    """
    exported = Exported(str(target))
    found = await entries(store, exported, only)
    head = {
        KIND_FIELD: _EXPORT,
        "version": _VERSION,
        "npub": store.npub,
        "exported_at": _date_text(store.clock()),
        "counts": dict(exported.counts),
    }
    if only:
        head |= {"is_partial": True, "filter": exported.conditions, "left_out": exported.left_out}
    if target.suffix.lower() == ".jsonl":
        lines = ({**entry.values, "text": entry.text} for entry in found)
        bodies = (orjson.dumps(line) for line in (head, *lines))
        write_export(target, bodies, overwrite=overwrite, progress=None)
    else:
        _write_folder(target, head, found, progress or (lambda _: None))
    return exported


async def entries(store: MemoryStore, exported: Exported, only: ExportFilter = ALL) -> list[ExportedMemory]:
    """The memories of an export; counts, conditions and notes go into `exported`.

    Raises:
        InvalidInput: no memory fulfils the filter.
    """
    everything = await _everything(store, exported)
    found = [entry for entry in everything if only.takes(entry.path, entry.at, entry.themes)]
    exported.counts = Counter(entry.values[KIND_FIELD] for entry in found)
    exported.conditions, exported.left_out = only.conditions(_date_text), len(everything) - len(found)
    if only and not found:
        raise InvalidInput(f"none of {len(everything):,} memories fulfils the filter; nothing was written")
    return found


async def _everything(store: MemoryStore, exported: Exported) -> list[ExportedMemory]:
    async def read_all(what: str, found: Awaitable[list[_T]]) -> list[_T]:
        try:
            return await found
        except NotSynced:
            exported.notes.append(
                f"no relay has shown everything yet, so {what} may be missing; run `sense-memory sync` first"
            )
            return []

    palace = await read_all("palace memories", store.persona_recall(include_forgotten=True))
    whole = [_palace(memory) for memory in sorted(palace, key=lambda memory: memory.path)]
    whole += map(_flat, await read_all("flat memories", store.recall_all()))
    journal = await read_all("journal entries", store.recent(MAX_RECENT_COUNT))
    if len(journal) == MAX_RECENT_COUNT:
        exported.notes.append(f"only the newest {MAX_RECENT_COUNT:,} journal entries were exported")
    whole += map(_journal, reversed(journal))
    records = store.mind.records
    for prefix, named in _TEXTS.items():
        found = records.under(prefix) if prefix.endswith("/") else _single(records, prefix)
        held = await read_all(f"records of the mind ({prefix.rstrip('/').rpartition('/')[2]})", found)
        whole += [_record(await whole_record(store, record), named) for record in held]
    whole += map(_log, await read_all("entries of the log", store.mind.log.entries()))
    return whole


async def whole_record(store: MemoryStore, record: MindRecord) -> MindRecord:
    """A record with the whole text in it, which a block may hold in pieces."""
    return await with_whole_text(store.mind.records, record) if record.path.startswith(BLOCKS) else record


async def _single(records: MindRecords, path: str) -> list[MindRecord]:
    record = await records.read(path)
    return [] if record is None else [record]


def _palace(memory: PersonaMemory) -> ExportedMemory:
    properties = {name: getattr(memory, name) for name in (*EDITABLE, *_PAST, *_INFORMATIVE)}
    values = {KIND_FIELD: "palace", "path": memory.path, "created_at": _date_text(memory.created_at)}
    values |= {
        name: _json_value(name, value) for name, value in properties.items() if value not in {None, "", ()}
    }
    values["exported"] = state_of(memory.value, properties)
    folder = ("palace", memory.domain, memory.facet)
    return ExportedMemory(folder, memory.key, values, memory.value, memory.created_at, memory.event_id)


def _json_value(name: str, value: Any) -> Any:
    return _date_text(value) if name in _TIMES else list(value) if isinstance(value, tuple) else value


def state_of(text: str, properties: Mapping[str, Any]) -> str:
    """A hash of everything of a memory that people may edit in a file, 16 hex digits."""
    lists = [sorted(set(properties.get(name) or ())) for name in ("themes", "connections")]
    numbers = [float(properties.get(name, default)) for name, default in _DEFAULTS.items()]
    return fingerprint("\n".join((text, repr(lists), repr(numbers))))


def _flat(memory: Memory) -> ExportedMemory:
    values = {KIND_FIELD: "flat", "path": memory.key, "created_at": _date_text(memory.created_at)}
    values |= {name: _json_value(name, found) for name in _OF_FLAT if (found := getattr(memory, name))}
    values["exported"] = fingerprint(memory.value)
    return ExportedMemory(("flat",), memory.key, values, memory.value, memory.created_at, memory.event_id)


def _journal(entry: JournalEntry) -> ExportedMemory:
    when = _date_text(entry.created_at)
    day = str(when)[:19].replace("T", " ").replace(":", "")
    values = {KIND_FIELD: "journal", "created_at": when, "id": entry.event_id}
    values |= {name: said for name in ("source", "session") if (said := getattr(entry, name))}
    name = f"{day} {entry.event_id[:8]}"
    folder = ("journal", str(when)[:7])
    return ExportedMemory(folder, name, values, entry.content, entry.created_at, entry.event_id)


def _record(record: MindRecord, named: str) -> ExportedMemory:
    fields = {name: value for name, value in record.fields.items() if name not in _DEVICE_FIELDS}
    is_text = isinstance(fields.get(named), str)
    text = fields.pop(named) if is_text else ""
    values = {KIND_FIELD: "mind", "path": record.path, "text_is": named if is_text else "", "fields": fields}
    values["exported"] = record_state(record.fields)
    *folder, _ = record.path.split("/")
    told = fields.get("ts")
    at = float(told) if isinstance(told, int | float) and told > 0 else float(record.created_at)
    return ExportedMemory(tuple(folder), record.name, values, text, at, record.event_id)


def record_state(fields: Mapping[str, Any]) -> str:
    """A hash of the fields of a record, 16 hex digits."""
    shared = {name: value for name, value in fields.items() if name not in _DEVICE_FIELDS | _TOLD_HERE}
    return fingerprint(orjson.dumps(shared, option=orjson.OPT_SORT_KEYS).decode())


def _log(entry: LogEntry) -> ExportedMemory:
    values = {
        KIND_FIELD: "log",
        "id": entry.id,
        "at": entry.at,
        "kind": entry.kind,
        "actor": entry.actor,
        "turn": entry.turn,
        "conversation": entry.conversation,
        "payload": dict(entry.payload),
    }
    return ExportedMemory(("mind", "log"), entry.conversation or "", values, "", entry.at)


def _date_text(seconds: float) -> str | float:
    """A time in ISO 8601 with microseconds; the number itself if the calendar has no such date."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, OSError, ValueError):
        return seconds


# ── Files of an export ────────────────────────────────────────────────────────────────────────

_RESERVED: Final = frozenset(
    ("con", "prn", "aux", "nul", *(f"{name}{number}" for name in ("com", "lpt") for number in range(10)))
)
_MAX_NAME_BYTES: Final = 100  # of a file name; file systems allow 255, and a number and a suffix may be added
_unsafe = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f-\x9f\ud800-\udfff]').sub


def safe_name(text: str) -> str:
    """A name that every file system allows: no path, no reserved name, not hidden, not too long."""
    name = _unsafe("_", unicodedata.normalize("NFC", text))
    while len(name.encode()) > _MAX_NAME_BYTES:
        name = name[:-1]
    name = name.rstrip(". ").lstrip()
    if not name or name.startswith(".") or name.partition(".")[0].rstrip().casefold() in _RESERVED:
        name = f"_{name}"
    return name


class _Names:
    """Gives each file a path that differs from all others even if case is ignored."""

    def __init__(self) -> None:
        self._taken: set[tuple[str, ...]] = set()
        self._folders: dict[tuple[str, ...], tuple[str, ...]] = {(): ()}

    def file(self, folder: tuple[str, ...], name: str, suffix: str) -> tuple[str, ...]:
        """The parts of the path of a new file."""
        return self._free(self.folder(folder), safe_name(name), suffix)

    def folder(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The parts of the path of a folder; the same names give the same path."""
        if names not in self._folders:
            self._folders[names] = self._free(self.folder(names[:-1]), safe_name(names[-1]), "")
        return self._folders[names]

    def _free(self, above: tuple[str, ...], name: str, suffix: str) -> tuple[str, ...]:
        number, wanted = 1, (*above, name + suffix)
        while _folded(wanted) in self._taken:
            number += 1
            wanted = (*above, f"{name} ({number}){suffix}")
        self._taken.add(_folded(wanted))
        return wanted


def _folded(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(unicodedata.normalize("NFKC", part).casefold() for part in parts)


def _write_folder(
    target: Path, head: Mapping[str, Any], entries: list[ExportedMemory], progress: Callable[[int], None]
) -> None:
    """Write a temporary folder beside the target, and rename it when it is complete."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInput(f"{target} exists and is not empty, and was not touched; give a new folder")
    part = target.parent / f".{target.name}-{secrets.token_hex(4)}.part"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.mkdir(mode=0o700)
        _write_file(part / MANIFEST, orjson.dumps(head, option=orjson.OPT_INDENT_2) + b"\n")
        partial = _PARTIAL if "filter" in head else ""
        _write_file(part / "README.md", f"{_README}{partial}".encode())
        for count, (name, body) in enumerate(_bodies(entries), 1):
            path = part.joinpath(*name)
            for folder in reversed(
                [above for above in path.parents if above != part and part in above.parents]
            ):
                folder.mkdir(mode=0o700, exist_ok=True)
            _write_file(path, body)
            progress(count)
        part.rename(target)
    except OSError as error:
        raise InvalidInput(f"{target} cannot be written ({error.strerror}); nothing was changed") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _bodies(entries: list[ExportedMemory]) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """The files of a folder: one for each memory, and one for each conversation."""
    names, logs = _Names(), dict[str, list[bytes]]()
    for entry in entries:
        if entry.values[KIND_FIELD] == "log":
            logs.setdefault(entry.name, []).append(orjson.dumps(entry.values))
        else:
            body = front_matter.joined(entry.values, entry.text)
            yield names.file(entry.folder, entry.name, ".md"), body.encode()
    for conversation, lines in logs.items():
        folder = ("mind", "conversations") if conversation else ("mind",)
        yield names.file(folder, conversation or "log", ".jsonl"), b"\n".join((*lines, b""))


def _write_file(path: Path, body: bytes) -> None:
    descriptor = create_private(path)
    with os.fdopen(descriptor, "wb") as file:
        file.write(body)


# ── Import ──────────────────────────────────────────────────────────────────────────────


def is_readable_line(found: object) -> bool:
    """Whether a JSON object is a line of a readable export."""
    return isinstance(found, dict) and isinstance(found.get(KIND_FIELD), str)


def read_folder(files: SourceFiles) -> ReaderResult:
    """Read a readable export in a folder or an archive, or single files of an export."""
    reading = ReaderResult(_FORMAT, problems=list(files.problems), left_out=Counter(files.left_out))
    for manifest in files.named(MANIFEST):
        with suppress(orjson.JSONDecodeError):
            _check_version(orjson.loads(read_source(manifest)))
    for source in files.sources:
        if source.name in {MANIFEST, "README.md"} and not files.is_single:
            continue
        try:
            raw = read_source(source)
            if source.path.suffix == ".jsonl":
                reading.add(read_lines(raw, source.shown))
            elif source.path.suffix == ".md":
                reading.items.append(_read_note(source, raw))
            else:
                suffix = source.path.suffix
                reading.left_out[f"{suffix} files" if suffix else "files without an extension"] += 1
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, InvalidInput) else _broken(error)
            reading.problems.append(
                Problem(source.shown, 0 if isinstance(error, InvalidInput) else 1, reason)
            )
    return reading


def _broken(error: Exception) -> str:
    named = f" ({error.args[0]})" if isinstance(error, KeyError) else ""
    return f"the front matter is incomplete or damaged{named}"


def read_lines(raw: bytes, file: str) -> ReaderResult:
    """Read a readable export in JSON lines.

    Raises:
        InvalidInput: a newer program made the export.
    """
    reading = ReaderResult(_FORMAT)
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found = orjson.loads(line)
            if found[KIND_FIELD] == _EXPORT:
                _check_version(found)
            else:
                reading.items.append(_item(found, found.get("text", ""), file, number))
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError):
            reading.problems.append(
                Problem(file, number, "is not a line of a readable export, or is damaged")
            )
    return reading


def _check_version(head: object) -> None:
    """Raise InvalidInput if a newer program made the export."""
    version = head.get("version") if isinstance(head, dict) else None
    if isinstance(version, int) and version > _VERSION:
        raise InvalidInput(f"a newer version made this export (format {version}); update sense-memory first")


def _read_note(source: Source, raw: bytes) -> Item:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = text_of(raw)[0]
    note = front_matter.split(text)
    if KIND_FIELD not in note.values:
        raise InvalidInput("this file is not part of the export; import it alone, with --as notes")
    values = {name: _value(note.lines[name], note.values[name]) for name in note.values}
    text = note.body.removesuffix("\n")
    first, _, _ = raw.partition(b"\n")
    if first.endswith(b"\r"):  # an editor changed all line breaks, including those of the text
        text = note.body.replace("\r\n", "\n").removesuffix("\n")
    return _item(values, text, source.shown, note.body_line)


def _value(lines: str, otherwise: Any) -> Any:
    try:
        return orjson.loads(lines.partition(":")[2])
    except orjson.JSONDecodeError:
        return otherwise


def _item(values: Mapping[str, Any], text: str, file: str, line: int) -> Item:
    """The item of an entry.

    Raises:
        KeyError, TypeError, ValueError: the entry is damaged.
    """
    state = str(values.get("exported") or "-")
    match values[KIND_FIELD]:
        case "palace":
            fields = {name: values[name] for name in (*EDITABLE, *_PAST) if name in values}
            for name in ("themes", "connections", *_LISTS):
                if name in fields:
                    fields[name] = tuple(front_matter.texts(fields[name]))
            for name in ("halflife_days", "confidence", "relevance"):
                if name in fields:
                    fields[name] = float(fields[name])
            for name in ("last_accessed", "last_reinforced", "written_at", "observed_at"):
                if name in fields:
                    fields[name] = _seconds(fields[name])
            at = _seconds(values.get("created_at"))
            path = str(values["path"])
            return Item(ItemKind.PALACE, path, text, file, line, at, "", fields, state, has_name=True)
        case "flat":
            at = _seconds(values.get("created_at"))
            fields = {name: values[name] for name in _OF_FLAT if name in values}
            path = str(values["path"])
            return Item(ItemKind.FLAT, path, text, file, line, at, "", fields, state, has_name=True)
        case "journal":
            at, ident = _seconds(values.get("created_at")), str(values.get("id", "-"))
            told = {name: str(values[name]) for name in ("source", "session") if name in values}
            return Item(ItemKind.JOURNAL, "", text, file, line, at, "", told, ident)
        case "mind":
            named = str(values["text_is"])
            fields = {**values["fields"], **({named: text} if named else {})}
            return Item(
                ItemKind.MIND, _record_path(values["path"]), text, file, line, None, "", fields, state
            )
        case "log":
            names = ("id", "kind", "actor", "turn", "payload")
            fields = {name: values[name] for name in names}
            fields["conversation"] = values["conversation"]
            label = values["conversation"] or ""
            return Item(ItemKind.LOG, str(label), "", file, line, float(values["at"]), "", fields)
    raise ValueError(values[KIND_FIELD])


def _record_path(path: object) -> str:
    """A path of a record that an export may contain; keys of scenes are never imported from a file.

    Raises:
        ValueError: any other path.
    """
    roots = {root.rstrip("/") for root in _TEXTS}
    folder, slash, _ = str(path).rpartition("/")
    if not slash or roots.isdisjoint({str(path), folder}):
        raise ValueError(path)
    return str(path)


def _seconds(given: object) -> float | None:
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    if not isinstance(given, str):
        return None
    moment = datetime.fromisoformat(given)
    return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()


def edited_state(item: Item) -> str:
    """The hash of an item (`state_of`, `record_state` or `fingerprint`), to compare with the store and the export."""
    if item.kind is ItemKind.PALACE:
        return state_of(item.text, item.fields)
    return record_state(item.fields) if item.kind is ItemKind.MIND else items.fingerprint(item.text)
