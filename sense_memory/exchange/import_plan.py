"""The plan of an import: what becomes what, what is there already, what is left out and why. Nothing is written.

Guaranteed: nothing that is here is replaced silently. A text that is here word for word is left alone; a text that came
from the same line or the same object before is updated, and its earlier version stays in the history; where another
memory has the name, the new one gets a name of its own. So a second run changes nothing, and a run that was interrupted
is completed by the next one.

How an edited line is known again: the memories with the origin `document:FILE#L…` of the same file are first matched by
their text, then by their name, then by how alike their texts are within one facet.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sense_memory import arguments
from sense_memory.errors import InvalidInput, NotSynced
from sense_memory.exchange import items as names
from sense_memory.exchange.items import Item, ItemKind, Problem, ReaderResult, fingerprint
from sense_memory.exchange.readable import EDITED, edited_state, record_state, state_of
from sense_memory.limits import (
    DAY_SECONDS,
    DEFAULT_HALFLIFE_DAYS,
    MAX_HALFLIFE_DAYS,
    MAX_RECENT_COUNT,
    MIN_HALFLIFE_DAYS,
)
from sense_memory.models import State
from sense_memory.nostr import address
from sense_memory.palace.lifecycle import current_state, state_at


if TYPE_CHECKING:
    from collections.abc import Awaitable, Container, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.store import MemoryStore

_ALIKE: Final = 0.6  # of 1: texts of one facet and file that are at least so alike are edits of each other
_COMPARED_CHARS: Final = 1_000
_MOST_NEAR: Final = 2_000  # memories of one facet and file; among more, names alone tell edited lines
_COMPARED: Final = 50  # memories of one facet and file that a text is compared with


class Fate(StrEnum):
    """What becomes of an item."""

    NEW = "new"
    CHANGED = "changed"  # the memory that it became before gets the new text
    KNOWN = "known"  # here already
    KEPT = "kept"  # differs from what is here under its name, which stays as it is


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of one item.

    Attributes:
        item: with the path that it gets here.
        fate: what becomes of it.
        reason: why, where that needs a word; else empty.
    """

    item: Item
    fate: Fate
    reason: str = ""


@dataclass(slots=True)
class ImportPlan:
    """What an import will do.

    Attributes:
        format: of what is imported.
        steps: one for each item.
        problems: what could not be read.
        left_out: what is not a memory, counted by reason.
        notes: sentences for people.
        gone: paths of memories that came from the same files and are no longer there; they stay.
        states: in which state new memories of the palace arrive, counted.
    """

    format: str
    steps: list[Step] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)

    def counts(self) -> Counter[tuple[ItemKind, Fate]]:
        """How many items of each kind have each fate."""
        return Counter((step.item.kind, step.fate) for step in self.steps)

    @property
    def to_write(self) -> list[Item]:
        """The items that will be written."""
        return [step.item for step in self.steps if step.fate in {Fate.NEW, Fate.CHANGED}]


async def plan_import(
    store: MemoryStore,
    reading: ReaderResult,
    *,
    into: str = "",
    replaces: bool = False,
    halflife_days: float | None = None,
) -> ImportPlan:
    """Compare what was read with what is here; nothing is written.

    Args:
        store: an open store.
        reading: from `read`.
        into: `domain` or `domain/facet`, for all memories of the palace instead of where they would go.
        replaces: whether a memory that differs under the same name is replaced; its earlier version stays in the history.
        halflife_days: of memories that bring none, those of an earlier import too; 30 by default. A memory that would
            arrive forgotten gets half its age instead, with which it arrives fading.

    Raises:
        InvalidInput: `into` or `halflife_days` cannot be used.
    """
    made = ImportPlan(
        reading.format, [], list(reading.problems), Counter(reading.left_out), list(reading.notes)
    )
    if halflife_days is not None and not MIN_HALFLIFE_DAYS <= halflife_days <= MAX_HALFLIFE_DAYS:
        raise InvalidInput(
            f"the half-life must lie between {MIN_HALFLIFE_DAYS:g} and {MAX_HALFLIFE_DAYS:,.0f} days; nothing was written"
        )
    now = store.mind.store.options.clock()
    wanted = _checked(_split(_dated(_moved(reading.items, into), now, made)), made, now)
    kinds = {item.kind for item in wanted}
    for kind, planner in (
        (ItemKind.PALACE, _Palace(store, made, replaces=replaces, halflife_days=halflife_days, now=now).plan),
        (ItemKind.FLAT, partial(_plan_flat, store, made, replaces)),
        (ItemKind.JOURNAL, partial(_plan_journal, store, made)),
        (ItemKind.LOG, partial(_plan_log, store, made)),
        (ItemKind.MIND, partial(_plan_mind, store, made, replaces)),
    ):
        if kind in kinds:
            made.steps += await planner([item for item in wanted if item.kind is kind])
    return made


async def _here(made: ImportPlan, found: Awaitable[Any]) -> Any:
    """What a store holds; nothing, with a note, where no relay was ever asked."""
    try:
        return await found
    except NotSynced:
        note = "no relay ever showed everything: run `sense-memory sync` first, so that what relays hold is compared too"
        if note not in made.notes:
            made.notes.append(note)
        return []


# ── Preparing items ─────────────────────────────────────────────────────────────────────


def _moved(found: Sequence[Item], into: str) -> list[Item]:
    """Items of the palace at another place, with the links between them."""
    if not into:
        return list(found)
    domain, _, facet = into.partition("/")
    address.persona_path(domain, facet or "facet", "key")
    paths: dict[str, str] = {}
    taken: set[str] = set()
    for item in found:
        if item.kind is ItemKind.PALACE:
            _, its_facet, key = item.path.split("/", 2)
            paths[item.path] = _free(f"{domain}/{facet or its_facet}/{key}", taken)
            taken.add(paths[item.path])
    return [
        replace(item, path=paths[item.path], fields=_relinked(item.fields, paths))
        if item.kind is ItemKind.PALACE
        else item
        for item in found
    ]


def _relinked(fields: Any, paths: dict[str, str]) -> dict[str, Any]:
    linked = dict(fields)
    if "connections" in linked:
        linked["connections"] = tuple(paths.get(path, path) for path in linked["connections"])
    return linked


def _free(path: str, *taken: Container[str]) -> str:
    number, wanted = 1, path
    while any(wanted in paths for paths in taken):
        number += 1
        wanted = f"{path}-{number}"
    return wanted


_THEN: Final = ("last_accessed", "last_reinforced")


def _dated(found: Sequence[Item], now: float, made: ImportPlan) -> list[Item]:
    """Items with a date in the future get none; entries of the log without a date get now, in their order."""
    dated = []
    ahead = 0
    for number, item in enumerate(found):
        at, fields = item.at, item.fields
        if item.kind is ItemKind.LOG:
            at = now + number * 1e-6 if at is None else at
        elif any(then is not None and then > now for then in (at, *map(fields.get, _THEN))):
            ahead += 1
            at = None if at is None or at > now else at
            fields = {name: value for name, value in fields.items() if name not in _THEN or value <= now}
        dated.append(item if (at, fields) == (item.at, item.fields) else replace(item, at=at, fields=fields))
    if ahead:
        made.notes.append(f"{ahead:,} dates lie in the future; those memories count as written now")
    return dated


def _split(found: Sequence[Item]) -> list[Item]:
    """Texts of foreign formats that are too long for an event, in parts that are linked with the first."""
    whole: list[Item] = []
    for item in found:
        parts = (
            names.parts_of(item.text)
            if not item.seen and item.kind in {ItemKind.PALACE, ItemKind.FLAT}
            else [item.text]
        )
        whole.append(replace(item, text=parts[0]) if len(parts) > 1 else item)
        for number, part in enumerate(parts[1:], 2):
            path, fields = f"{item.path} part {number}", {**item.fields, "connections": (item.path,)}
            whole.append(
                replace(item, path=path, text=part, fields=fields if item.kind is ItemKind.PALACE else {})
            )
    return whole


def _checked(found: Sequence[Item], made: ImportPlan, now: float) -> list[Item]:
    """The items that a store can take; the others become problems."""
    good = []
    for item in found:
        try:
            _check(item, now)
        except InvalidInput as error:
            made.problems.append(Problem(item.file, item.line, str(error).partition(";")[0]))
        else:
            good.append(item)
    return good


def _check(item: Item, now: float) -> None:
    if item.kind is ItemKind.PALACE:
        if item.path.count("/") != 2:
            raise InvalidInput("its path is not domain/facet/key")
        address.persona_path(*item.path.split("/"))
    elif item.kind is ItemKind.FLAT:
        address.flat_path(item.path)
    if item.kind in {ItemKind.PALACE, ItemKind.FLAT, ItemKind.JOURNAL}:
        arguments.value(item.text)
        arguments.written_at(item.at, now)
    try:
        item.text.encode()
    except UnicodeEncodeError:
        raise InvalidInput("the text is not valid Unicode (lone surrogates)") from None


# ── The palace ──────────────────────────────────────────────────────────────────────────


class _Palace:
    """Compares items with the memories of a palace."""

    def __init__(
        self, store: MemoryStore, made: ImportPlan, *, replaces: bool, halflife_days: float | None, now: float
    ) -> None:
        self._store, self._made, self._replaces, self._now = store, made, replaces, now
        self._halflife, self._has_halflives = halflife_days, store.mind.store.options.plan.has_halflives
        self._prolonged = 0  # memories that would arrive forgotten, and do not
        self._faded = 0  # memories that are here word for word, and are forgotten by now
        self._here: dict[str, PersonaMemory] = {}
        self._by_origin: dict[str, PersonaMemory] = {}
        self._by_text: dict[tuple[str, str], list[PersonaMemory]] = defaultdict(list)  # of a file
        self._by_place: dict[tuple[str, str], list[PersonaMemory]] = defaultdict(list)  # of a file
        self._claimed: set[str] = set()  # paths of memories that an item is
        self._new: set[str] = set()  # paths that items get

    async def plan(self, found: Sequence[Item]) -> list[Step]:
        """The steps of the items of the palace, in their order."""
        recalled = await _here(self._made, self._store.persona_recall(include_forgotten=True))
        self._here = {memory.path: memory for memory in recalled}
        for memory in recalled:
            if memory.source.startswith("tool:"):
                self._by_origin[memory.source] = memory
            elif document := names.document_of(memory.source):
                self._by_text[document, memory.value].append(memory)
                self._by_place[document, _place(memory.path)].append(memory)
        met = [self._met(item) for item in found]
        for find in (self._named, self._alike):
            for place, item in enumerate(found):
                met[place] = met[place] or self._claim(find(item))
        final = [
            memory.path if memory else self._path_of_new(item)
            for item, memory in zip(found, met, strict=True)
        ]
        links = {item.path: path for item, path in zip(found, final, strict=True)}
        steps = [self._step(*each, links) for each in zip(found, met, final, strict=True)]
        self._made.notes[:0] = self._ages()
        documents = {names.document_of(item.origin) for item in found} - {""}
        of_files = (some for (document, _), some in self._by_place.items() if document in documents)
        gone = (memory.path for some in of_files for memory in some)
        self._made.gone += sorted(path for path in gone if path not in self._claimed)
        return steps

    def _met(self, item: Item) -> PersonaMemory | None:
        """The memory that an item is: by its name where the file names it, by its origin, or by its text."""
        found = None
        if item.seen:
            found = self._here.get(item.path)
        elif item.origin.startswith("tool:"):
            found = self._by_origin.get(item.origin)
        else:
            same = self._by_text.get((names.document_of(item.origin), item.text), [])
            free = [memory for memory in same if memory.path not in self._claimed]
            found = next((memory for memory in free if memory.path == item.path), next(iter(free), None))
        if found is None:
            other = self._here.get(item.path)
            found = other if other is not None and other.value == item.text else None
        return self._claim(found)

    def _claim(self, memory: PersonaMemory | None) -> PersonaMemory | None:
        if memory is not None:
            self._claimed.add(memory.path)
        return memory

    def _near(self, item: Item) -> list[PersonaMemory]:
        """The memories of the same file and facet that no item is yet."""
        some = self._by_place.get((names.document_of(item.origin), _place(item.path)), [])
        return [] if len(some) > _MOST_NEAR else [each for each in some if each.path not in self._claimed]

    def _named(self, item: Item) -> PersonaMemory | None:
        """The memory that an edited line was, by its name."""
        memory = self._here.get(item.path)
        is_of_file = (
            memory is not None and names.document_of(memory.source) == names.document_of(item.origin) != ""
        )
        return memory if is_of_file and item.path not in self._claimed else None

    def _alike(self, item: Item) -> PersonaMemory | None:
        """The memory that an edited line was: the most alike."""
        best, most = None, _ALIKE
        matcher = difflib.SequenceMatcher(b=item.text[:_COMPARED_CHARS], autojunk=False)
        for memory in self._near(item)[:_COMPARED]:
            matcher.set_seq1(memory.value[:_COMPARED_CHARS])
            if (
                matcher.real_quick_ratio() >= most
                and matcher.quick_ratio() >= most
                and matcher.ratio() >= most
            ):
                best, most = memory, matcher.ratio()
        return best

    def _path_of_new(self, item: Item) -> str:
        """Its own path, or one with a number where another memory has it; a file that names it is asked to replace."""
        if item.has_name and (item.seen or self._replaces):
            return item.path
        path = _free(item.path, self._here, self._new)
        self._new.add(path)
        return path

    def _step(self, item: Item, memory: PersonaMemory | None, wanted: str, paths: dict[str, str]) -> Step:
        fields = {
            name: value for name, value in _relinked(item.fields, paths).items() if value not in ((), None)
        }
        links = [path for path in fields.get("connections", ()) if path != wanted]
        if links:
            fields["connections"] = tuple(dict.fromkeys(links))
        else:
            fields.pop("connections", None)
        if memory is None and item.has_name and self._replaces:
            memory = self._here.get(wanted)
        if memory is None:
            placed = self._lasting(replace(item, path=wanted, fields=fields))
            self._made.states[self._state(placed)] += 1
            reason = "" if wanted == item.path else f"{item.path} is another memory"
            return Step(placed, Fate.NEW, reason)
        if item.seen:
            return self._step_of_export(replace(item, path=wanted, fields=fields), memory)
        merged = {
            name: tuple(dict.fromkeys((*getattr(memory, name), *fields.get(name, ())))) for name in _LISTS
        }
        is_same = memory.value == item.text and all(
            len(merged[name]) == len(getattr(memory, name)) for name in _LISTS
        )
        added = {name: value for name, value in merged.items() if fields.get(name)}
        placed = replace(item, path=memory.path, fields={**fields, **added})
        if is_same and (lasting := self._lasting_known(placed, memory)) is not None:
            return Step(lasting, Fate.CHANGED, "gets the half-life")
        if is_same and current_state(memory, self._now) in _UNSEEN:
            self._faded += 1
        if is_same:
            return Step(placed, Fate.KNOWN)
        return Step(self._lasting(placed, memory.halflife_days), Fate.CHANGED)

    def _step_of_export(self, item: Item, memory: PersonaMemory) -> Step:
        """Whether the file was edited since it was exported, or the memory here, or both."""
        here = state_of(memory.value, {name: getattr(memory, name) for name in EDITED})
        in_file = edited_state(item)
        if here == in_file:
            return Step(item, Fate.KNOWN)
        if here == item.seen or self._replaces:
            return Step(replace(item, fields={**_EMPTY, **item.fields}), Fate.CHANGED)
        if in_file == item.seen:
            return Step(item, Fate.KEPT, "changed here since the export")
        return Step(item, Fate.KEPT, "differs here; --replace takes the file's text")

    def _lasting(self, item: Item, otherwise: float = DEFAULT_HALFLIFE_DAYS) -> Item:
        """An item with its half-life; with half its age, if it would arrive forgotten. Our export brings its past.

        Where the plan of the store has one half-life for all, the memory counts as last used now instead.
        """
        fields = dict(item.fields)
        if self._halflife is not None:
            fields.setdefault("halflife_days", self._halflife)
        wanted = replace(item, fields=fields)
        days = fields.get("halflife_days", otherwise)
        if item.seen or self._state(replace(item, fields={**fields, "halflife_days": days})) not in _UNSEEN:
            return wanted
        self._prolonged += 1
        since = fields.get("last_accessed") or item.at or self._now
        lasting = (
            {"halflife_days": self._half_of_age(since)}
            if self._has_halflives
            else dict.fromkeys(_THEN, self._now)
        )
        return replace(wanted, fields={**fields, **lasting})

    def _lasting_known(self, item: Item, memory: PersonaMemory) -> Item | None:
        """The write that gives a memory of an earlier import the half-life that was asked for; None where it has it."""
        is_imported = memory.source == item.origin or bool(
            names.document_of(memory.source)
            and names.document_of(memory.source) == names.document_of(item.origin)
        )
        if self._halflife is None or "halflife_days" in item.fields or not is_imported:
            return None
        wanted = self._halflife
        if current_state(memory.changed(halflife_days=wanted), self._now) in _UNSEEN:
            if current_state(memory, self._now) not in _UNSEEN:
                return None  # it has a longer one already, and would be forgotten with this one
            wanted = max(wanted, self._half_of_age(memory.last_accessed))
        if memory.halflife_days == wanted:
            return None
        return replace(item, at=memory.created_at, fields={**item.fields, "halflife_days": wanted})

    def _ages(self) -> list[str]:
        """Notes about memories that are too old to be seen."""
        told = []
        if self._prolonged:
            lasting = "get half their age as half-life" if self._has_halflives else "count as last used now"
            told.append(
                f"memories that would arrive forgotten, as old as they are: {self._prolonged:,}; they {lasting}"
            )
        if forgotten := self._made.states["forgotten"] + self._made.states["dissolved"]:
            told.append(f"memories that were forgotten when they were exported, and arrive so: {forgotten:,}")
        if self._faded:
            told.append(
                f"memories that are here and forgotten by now: {self._faded:,}; the same command with --halflife 365 "
                "brings them back"
            )
        return told

    def _half_of_age(self, since: float) -> float:
        return min(max((self._now - since) / DAY_SECONDS / 2, MIN_HALFLIFE_DAYS), MAX_HALFLIFE_DAYS)

    def _state(self, item: Item) -> str:
        halflife = item.fields.get("halflife_days", DEFAULT_HALFLIFE_DAYS)
        since = item.fields.get("last_accessed") or item.at
        days = 0.0 if since is None else max(0.0, self._now - since) / DAY_SECONDS
        return state_at(float(item.fields.get("relevance", 1.0)) * 0.5 ** (days / halflife)).value


def _place(path: str) -> str:
    return path.rpartition("/")[0]


_UNSEEN: Final = frozenset({State.FORGOTTEN, State.DISSOLVED})
_LISTS: Final = ("themes", "connections")
_EMPTY: Final = {"connections": ()}  # a link that was taken out of a file is taken away


# ── The others ──────────────────────────────────────────────────────────────────────────


async def _plan_flat(
    store: MemoryStore, made: ImportPlan, replaces: bool, found: Sequence[Item]
) -> list[Step]:
    here = {memory.key: memory.value for memory in await _here(made, store.recall_all())}
    steps = []
    for item in found:
        value = here.get(item.path)
        if value == item.text:
            steps.append(Step(item, Fate.KNOWN))
        elif value is None:
            steps.append(Step(item, Fate.NEW))
        elif replaces or fingerprint(value) == item.seen:
            steps.append(Step(item, Fate.CHANGED))
        elif item.seen and fingerprint(item.text) == item.seen:
            steps.append(Step(item, Fate.KEPT, "changed here since the export"))
        else:
            steps.append(Step(item, Fate.KEPT, "differs here; --replace takes the file's text"))
    return steps


async def _plan_journal(store: MemoryStore, made: ImportPlan, found: Sequence[Item]) -> list[Step]:
    """An entry of our export is known by its text and its time, any other by its text and its day.

    Of an entry of a day that grew, what was added becomes an entry.
    """
    entries = await _here(made, store.recent(MAX_RECENT_COUNT))
    exact = {(entry.content, round(entry.created_at, 4)) for entry in entries}
    days: dict[float | None, set[str]] = defaultdict(set)
    for entry in entries:
        days[entry.created_at // DAY_SECONDS].add(entry.content)
        days[None].add(entry.content)
    steps = []
    for item in found:
        here = days[None if item.at is None else item.at // DAY_SECONDS]
        begun = max((text for text in here if item.text.startswith(text)), key=len, default="")
        rest = item.text[len(begun) :]
        if item.seen and item.at is not None:
            steps.append(Step(item, Fate.KNOWN if (item.text, round(item.at, 4)) in exact else Fate.NEW))
        elif item.text in here or (begun and not rest.strip()):
            steps.append(Step(item, Fate.KNOWN))
        elif begun and rest.startswith("\n"):
            is_there = rest.strip("\n") in here
            steps.append(Step(replace(item, text=rest.strip("\n")), Fate.KNOWN if is_there else Fate.NEW))
        else:
            steps.append(Step(item, Fate.NEW))
            here.add(item.text)
    return steps


async def _plan_log(store: MemoryStore, made: ImportPlan, found: Sequence[Item]) -> list[Step]:
    here = {entry.id for entry in await _here(made, store.mind.log.entries())}
    return [Step(item, Fate.KNOWN if item.fields["id"] in here else Fate.NEW) for item in found]


async def _plan_mind(
    store: MemoryStore, made: ImportPlan, replaces: bool, found: Sequence[Item]
) -> list[Step]:
    steps = []
    for item in found:
        record = await _here(made, store.mind.records.read(item.path))
        state = record_state(record.fields) if record else ""
        if not record:
            steps.append(Step(item, Fate.NEW))
        elif state == edited_state(item):
            steps.append(Step(item, Fate.KNOWN))
        elif replaces or state == item.seen:
            steps.append(Step(item, Fate.CHANGED))
        else:
            is_newer = edited_state(item) == item.seen
            reason = (
                "changed here since the export"
                if is_newer
                else "differs here; --replace takes the file's text"
            )
            steps.append(Step(item, Fate.KEPT, reason))
    return steps
