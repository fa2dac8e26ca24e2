"""The plan of an import: which item becomes which memory, and what is skipped or left out and why. Nothing is written.

What is guaranteed: no memory of the store is replaced silently. An unchanged text is skipped. A text that was imported
from the same line or object before is updated, and its earlier version stays in the history; if the memory had the file's
text before, it was changed here, and stays. If another memory has the
name, the new memory gets a name of its own. So a second run changes nothing, and after an interruption the next run
completes the import.

How an edited line is recognised: a line is matched with the memories that were imported from the same file (origin
`document:FILE#L…`), first by text, then by name, then by the similarity of the texts within one facet.

What it costs: one read of all memories of the kinds that are imported; for each edited line, at most 50 comparisons of
texts of 1,000 characters.
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
from sense_memory.exchange.readable import EDITABLE, edited_state, record_state, state_of, whole_record
from sense_memory.limits import (
    DAY_SECONDS,
    DEFAULT_HALFLIFE_DAYS,
    MAX_HALFLIFE_DAYS,
    MAX_RECENT_COUNT,
    MAX_THEMES_COUNT,
    MIN_HALFLIFE_DAYS,
)
from sense_memory.models import State
from sense_memory.nostr import address
from sense_memory.palace.lifecycle import current_state, opponents, state_at
from sense_memory.plain_text import is_unicode


if TYPE_CHECKING:
    from collections.abc import Awaitable, Container, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.store import MemoryStore

_MIN_LIKENESS: Final = 0.6  # of 1: texts of one facet and file at least this similar are edits of each other
_COMPARED_CHARS: Final = 1_000
_MAX_NEAR_COUNT: Final = 2_000  # memories of one facet and file; among more, only names are compared
_MAX_COMPARED_COUNT: Final = 50  # memories of one facet and file that a text is compared with
_CHANGED_HERE: Final = "changed here since the export"
_NEWER: Final = "its text here is newer than the file's; --replace uses the file's text"
_MARKED: Final = "a mark of contradiction is here; --replace adds the file's themes, and removes the mark"
_DIFFERS: Final = "differs here; --replace uses the file's text"


class Fate(StrEnum):
    """What an import does with an item."""

    NEW = "new"  # writes a new memory
    CHANGED = "changed"  # writes the text as a new version of the memory that has it
    KNOWN = "known"  # skips the item, because the store has it already
    KEPT = "kept"  # skips the item, because the store's memory differs and is not replaced


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan.

    Attributes:
        item: the item, with its path in the store.
        fate: what the import does with the item.
        reason: why, if that is not obvious; otherwise empty.
    """

    item: Item
    fate: Fate
    reason: str = ""


@dataclass(slots=True)
class ImportPlan:
    """The plan of an import.

    Attributes:
        format: the format of what is imported, for people.
        steps: one step for each item.
        problems: what could not be read, each with the reason.
        left_out: what is not a memory, counted by reason.
        notes: further sentences for people.
        gone: paths of memories that were imported from these files and are no longer in them; the memories stay.
        states: how many new palace memories arrive in each state.
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
    """Compare what was read with the memories of a store; nothing is written.

    Args:
        store: an open store.
        reading: the result of `read`.
        into: `domain` or `domain/facet` of all palace memories; empty leaves the place to the reader.
        replaces: whether to replace a memory that differs under the same name; its earlier version stays in the history.
        halflife_days: the half-life of palace memories whose file gives none, including those of an earlier import;
            None means 30. A memory that would arrive forgotten gets half its age as half-life, and so arrives fading.

    Raises:
        InvalidInput: `into` is no place in the palace, or `halflife_days` is out of range.
    """
    plan = ImportPlan(
        reading.format, [], list(reading.problems), Counter(reading.left_out), list(reading.notes)
    )
    if halflife_days is not None and not MIN_HALFLIFE_DAYS <= halflife_days <= MAX_HALFLIFE_DAYS:
        raise InvalidInput(
            f"the half-life must be between {MIN_HALFLIFE_DAYS:g} and {MAX_HALFLIFE_DAYS:,.0f} days; nothing was written"
        )
    now = store.clock()
    wanted = _storable(
        names.split_long_texts(_without_future_dates(_relocated(reading.items, into), now, plan)), plan, now
    )
    kinds = {item.kind for item in wanted}
    for kind, planner in (
        (
            ItemKind.PALACE,
            _PalaceComparison(store, plan, replaces=replaces, halflife_days=halflife_days, now=now).steps,
        ),
        (ItemKind.FLAT, partial(_plan_flat, store, plan, replaces)),
        (ItemKind.JOURNAL, partial(_plan_journal, store, plan)),
        (ItemKind.LOG, partial(_plan_log, store, plan)),
        (ItemKind.MIND, partial(_plan_mind, store, plan, replaces)),
    ):
        if kind in kinds:
            plan.steps += await planner([item for item in wanted if item.kind is kind])
    return plan


async def _stored(plan: ImportPlan, found: Awaitable[Any]) -> Any:
    """The stored memories; if no relay has shown everything yet, an empty list, and a note in the plan."""
    try:
        return await found
    except NotSynced:
        note = "no relay has shown everything yet; run `sense-memory sync` first, so that memories on relays are compared too"
        if note not in plan.notes:
            plan.notes.append(note)
        return []


# ── Preparing items ─────────────────────────────────────────────────────────────────────


def _relocated(found: Sequence[Item], into: str) -> list[Item]:
    """The items, with palace memories and the links between them moved to another domain, or domain and facet."""
    if not into:
        return list(found)
    domain, _, facet = into.partition("/")
    address.persona_path(domain, facet or "facet", "key")
    paths: dict[str, str] = {}
    taken: set[str] = set()
    for item in found:
        if item.kind is ItemKind.PALACE:
            _, its_facet, key = item.path.split("/", 2)
            paths[item.path] = _free_path(f"{domain}/{facet or its_facet}/{key}", taken)
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


def _free_path(path: str, *taken: Container[str]) -> str:
    number, wanted = 1, path
    while any(wanted in paths for paths in taken):
        number += 1
        wanted = f"{path}-{number}"
    return wanted


_USE_TIMES: Final = ("last_accessed", "last_reinforced")


def _without_future_dates(found: Sequence[Item], now: float, plan: ImportPlan) -> list[Item]:
    """The items without dates in the future; entries of the log without a date get the current time, in their order."""
    dated = []
    ahead = 0
    for number, item in enumerate(found):
        at, fields = item.at, item.fields
        if item.kind is ItemKind.LOG:
            at = now + number * 1e-6 if at is None else at
        elif any(then is not None and then > now for then in (at, *map(fields.get, _USE_TIMES))):
            ahead += 1
            at = None if at is None or at > now else at
            fields = {name: value for name, value in fields.items() if name not in _USE_TIMES or value <= now}
        dated.append(item if (at, fields) == (item.at, item.fields) else replace(item, at=at, fields=fields))
    if ahead:
        plan.notes.append(f"memories with a date in the future: {ahead:,}; they count as written now")
    return dated


def _storable(found: Sequence[Item], plan: ImportPlan, now: float) -> list[Item]:
    """The items that a store accepts; all others become problems of the plan."""
    good = []
    for item in found:
        try:
            _check(item, now)
        except InvalidInput as error:
            plan.problems.append(Problem(item.file, item.line, str(error).partition(";")[0]))
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
    if not is_unicode(item.text):
        raise InvalidInput("the text is not valid Unicode (lone surrogates)")


# ── The palace ──────────────────────────────────────────────────────────────────────────


class _PalaceComparison:
    """The comparison of items with the palace memories of a store."""

    def __init__(
        self, store: MemoryStore, plan: ImportPlan, *, replaces: bool, halflife_days: float | None, now: float
    ) -> None:
        self._store, self._plan, self._replaces, self._now = store, plan, replaces, now
        self._halflife, self._has_halflives = halflife_days, store.mind.store.options.plan.has_halflives
        self._prolonged = 0  # memories that would arrive forgotten without a longer half-life
        self._forgotten_since = 0  # unchanged memories that are forgotten by now
        self._stored: dict[str, PersonaMemory] = {}
        self._by_origin: dict[str, list[PersonaMemory]] = defaultdict(list)  # parts of a long text share one
        self._by_text: dict[tuple[str, str], list[PersonaMemory]] = defaultdict(list)  # by file and text
        self._by_place: dict[tuple[str, str], list[PersonaMemory]] = defaultdict(list)  # by file and facet
        self._earlier: dict[str, set[str]] = {}  # texts of the memories whose items have another text
        self._claimed: set[str] = set()  # paths of memories that were matched with an item
        self._new: set[str] = set()  # paths of new memories

    async def steps(self, found: Sequence[Item]) -> list[Step]:
        """The steps of the palace memories among the items, in their order."""
        recalled = await _stored(self._plan, self._store.persona_recall(include_forgotten=True))
        self._stored = {memory.path: memory for memory in recalled}
        for memory in recalled:
            if memory.source.startswith("tool:"):
                self._by_origin[memory.source].append(memory)
            elif document := names.document_of(memory.source):
                self._by_text[document, memory.value].append(memory)
                self._by_place[document, _place(memory.path)].append(memory)
        matches = [self._match(item) for item in found]
        for find in (self._match_by_name, self._match_by_likeness):
            for place, item in enumerate(found):
                matches[place] = matches[place] or self._claim(find(item))
        final = [
            memory.path if memory else self._path_of_new(item)
            for item, memory in zip(found, matches, strict=True)
        ]
        for item, memory in zip(found, matches, strict=True):
            if memory is not None and memory.value != item.text and not item.exported:
                versions = await _stored(self._plan, self._store.history(memory.path))
                self._earlier[memory.path] = {version.value for version in versions}
        links = {item.path: path for item, path in zip(found, final, strict=True)}
        steps = [self._step(*each, links) for each in zip(found, matches, final, strict=True)]
        self._plan.notes[:0] = self._age_notes()
        documents = {names.document_of(item.origin) for item in found} - {""}
        of_files = (some for (document, _), some in self._by_place.items() if document in documents)
        gone = (memory.path for some in of_files for memory in some)
        self._plan.gone += sorted(path for path in gone if path not in self._claimed)
        return steps

    def _match(self, item: Item) -> PersonaMemory | None:
        """The memory that an item was before: by its path in our export, by its origin, or by its text."""
        found = None
        if item.exported:
            found = self._stored.get(item.path)
        else:
            is_object = item.origin.startswith("tool:")
            by_text = self._by_text.get((names.document_of(item.origin), item.text), [])
            same = self._by_origin.get(item.origin, []) if is_object else by_text
            free = (memory for memory in same if memory.path not in self._claimed)
            found = max(free, key=partial(_kinship, item), default=None)
        if found is None:
            other = self._stored.get(item.path)
            found = other if other is not None and other.value == item.text else None
        return self._claim(found)

    def _claim(self, memory: PersonaMemory | None) -> PersonaMemory | None:
        if memory is not None:
            self._claimed.add(memory.path)
        return memory

    def _unclaimed_of_place(self, item: Item) -> list[PersonaMemory]:
        """The memories of the same file and facet that no item was matched with."""
        some = self._by_place.get((names.document_of(item.origin), _place(item.path)), [])
        if len(some) > _MAX_NEAR_COUNT:
            return []
        return [each for each in some if each.path not in self._claimed]

    def _match_by_name(self, item: Item) -> PersonaMemory | None:
        """The memory of the same file with the item's path: the line was edited and kept its name."""
        memory = self._stored.get(item.path)
        is_of_file = (
            memory is not None and names.document_of(memory.source) == names.document_of(item.origin) != ""
        )
        return memory if is_of_file and item.path not in self._claimed else None

    def _match_by_likeness(self, item: Item) -> PersonaMemory | None:
        """The memory of the same file and facet with the most similar text: the line was edited."""
        best, most = None, _MIN_LIKENESS
        matcher = difflib.SequenceMatcher(b=item.text[:_COMPARED_CHARS], autojunk=False)
        for memory in self._unclaimed_of_place(item)[:_MAX_COMPARED_COUNT]:
            matcher.set_seq1(memory.value[:_COMPARED_CHARS])
            if (
                matcher.real_quick_ratio() >= most
                and matcher.quick_ratio() >= most
                and matcher.ratio() >= most
            ):
                best, most = memory, matcher.ratio()
        return best

    def _path_of_new(self, item: Item) -> str:
        """The path of an item that matches no memory: its own, with a number appended if another memory has the path.

        If the file itself names the item, a memory with this name may be replaced, so the path stays.
        """
        if item.has_name and (item.exported or self._replaces):
            return item.path
        path = _free_path(item.path, self._stored, self._new)
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
            memory = self._stored.get(wanted)
        if memory is None:
            placed = self._with_halflife(replace(item, path=wanted, fields=fields))
            self._plan.states[self._state(placed)] += 1
            reason = "" if wanted == item.path else f"{item.path} is another memory"
            return Step(placed, Fate.NEW, reason)
        if item.exported:
            return self._step_of_export(replace(item, path=wanted, fields=fields), memory)
        added = {name: self._merged(name, memory, fields[name]) for name in _LISTS if fields.get(name)}
        placed = replace(item, path=memory.path, fields={**fields, **added})
        if item.text in self._earlier.get(memory.path, ()) and not self._replaces:
            return Step(placed, Fate.KEPT, _NEWER)
        if memory.value != item.text:
            return Step(self._with_halflife(placed, memory.halflife_days), Fate.CHANGED)
        return self._step_of_same_text(placed, memory)

    def _merged(self, name: str, memory: PersonaMemory, given: Sequence[str]) -> tuple[str, ...]:
        """The themes or connections of a memory, then those of its item, as many themes as fit."""
        merged = tuple(dict.fromkeys((*getattr(memory, name), *given)))
        if name == "themes" and len(merged) > MAX_THEMES_COUNT:
            left = "; ".join(merged[MAX_THEMES_COUNT:])
            self._plan.notes.append(f"{memory.path} has {MAX_THEMES_COUNT} themes; these did not fit: {left}")
            return merged[:MAX_THEMES_COUNT]
        return merged

    def _step_of_same_text(self, item: Item, memory: PersonaMemory) -> Step:
        """The step of an item whose text the store has: it may add themes, links or a half-life.

        Writing a text again would confirm it: the memory would count as used, and its marks would go. So the memory
        keeps its date, and one that is marked or forgotten stays as it is.
        """
        if (lasting := self._halflife_update(item, memory)) is not None:
            return Step(lasting, Fate.CHANGED, "gets the half-life")
        adds = any(len(item.fields.get(name, ())) > len(getattr(memory, name)) for name in _LISTS)
        if current_state(memory, self._now) in _HIDDEN_STATES:
            self._forgotten_since += 1
        elif adds and opponents(memory) and not self._replaces:
            return Step(item, Fate.KEPT, _MARKED)
        elif adds:
            return Step(replace(item, at=memory.created_at), Fate.CHANGED)
        return Step(item, Fate.KNOWN)

    def _step_of_export(self, item: Item, memory: PersonaMemory) -> Step:
        """The step of an item of our export that matches a memory."""
        here = state_of(memory.value, {name: getattr(memory, name) for name in EDITABLE})
        step = _compared(item, here, edited_state(item), self._replaces)
        if step.fate is Fate.CHANGED:
            return Step(replace(item, fields={**_NO_LINKS, **item.fields}), Fate.CHANGED)
        return step

    def _with_halflife(self, item: Item, otherwise: float = DEFAULT_HALFLIFE_DAYS) -> Item:
        """An item with its half-life, or with half its age as half-life if it would arrive forgotten.

        An item of our own export keeps its dates. If the store has one half-life for all memories, an item that would
        arrive forgotten counts as last used now instead.
        """
        fields = dict(item.fields)
        if self._halflife is not None:
            fields.setdefault("halflife_days", self._halflife)
        wanted = replace(item, fields=fields)
        days = fields.get("halflife_days", otherwise)
        if (
            item.exported
            or self._state(replace(item, fields={**fields, "halflife_days": days})) not in _HIDDEN_STATES
        ):
            return wanted
        self._prolonged += 1
        since = fields.get("last_accessed") or item.at or self._now
        lasting = (
            {"halflife_days": self._half_of_age(since)}
            if self._has_halflives
            else dict.fromkeys(_USE_TIMES, self._now)
        )
        return replace(wanted, fields={**fields, **lasting})

    def _halflife_update(self, item: Item, memory: PersonaMemory) -> Item | None:
        """The item that gives a memory of an earlier import the wanted half-life; None if nothing has to change."""
        is_imported = memory.source == item.origin or bool(
            names.document_of(memory.source)
            and names.document_of(memory.source) == names.document_of(item.origin)
        )
        if self._halflife is None or "halflife_days" in item.fields or not is_imported:
            return None
        wanted = self._halflife
        if current_state(memory.changed(halflife_days=wanted), self._now) in _HIDDEN_STATES:
            if current_state(memory, self._now) not in _HIDDEN_STATES:
                return None  # its own half-life is longer; with the wanted one it would be forgotten
            wanted = max(wanted, self._half_of_age(memory.last_accessed))
        if memory.halflife_days == wanted:
            return None
        return replace(item, at=memory.created_at, fields={**item.fields, "halflife_days": wanted})

    def _age_notes(self) -> list[str]:
        """Notes about memories that are so old that they are forgotten."""
        sentences = []
        if self._prolonged:
            lasting = "get half their age as half-life" if self._has_halflives else "count as last used now"
            sentences.append(
                f"memories so old that they would arrive forgotten: {self._prolonged:,}; they {lasting}"
            )
        if forgotten := self._plan.states["forgotten"] + self._plan.states["dissolved"]:
            sentences.append(f"memories that were already forgotten when they were exported: {forgotten:,}")
        if self._forgotten_since:
            sentences.append(
                f"memories that are already here and forgotten by now: {self._forgotten_since:,}; repeat the command "
                "with --halflife 365 to bring them back"
            )
        return sentences

    def _half_of_age(self, since: float) -> float:
        return min(max((self._now - since) / DAY_SECONDS / 2, MIN_HALFLIFE_DAYS), MAX_HALFLIFE_DAYS)

    def _state(self, item: Item) -> str:
        halflife = item.fields.get("halflife_days", DEFAULT_HALFLIFE_DAYS)
        since = item.fields.get("last_accessed") or item.at
        days = 0.0 if since is None else max(0.0, self._now - since) / DAY_SECONDS
        return state_at(float(item.fields.get("relevance", 1.0)) * 0.5 ** (days / halflife)).value


def _place(path: str) -> str:
    return path.rpartition("/")[0]


def _kinship(item: Item, memory: PersonaMemory) -> tuple[bool, bool, int, bool]:
    """How well a memory matches an item: by text, by facet, by headings and tags, by name."""
    shared = set(item.fields.get("themes", ())) & set(memory.themes)
    is_same = memory.value == item.text
    return is_same, _place(memory.path) == _place(item.path), len(shared), memory.path == item.path


_HIDDEN_STATES: Final = frozenset({State.FORGOTTEN, State.DISSOLVED})
_LISTS: Final = ("themes", "connections")
_NO_LINKS: Final = {"connections": ()}  # links that were deleted from the file are removed


# ── The other kinds ─────────────────────────────────────────────────────────────────────


def _compared(item: Item, here: str, in_file: str, replaces: bool) -> Step:
    """The step of an item whose name the store has: the file was edited since its export, or the memory, or both.

    Args:
        item: the item; its state when it was exported is `exported`.
        here: the state of the memory, as `edited_state` gives it.
        in_file: the state of the item.
        replaces: whether a memory that differs is replaced.
    """
    if here == in_file:
        return Step(item, Fate.KNOWN)
    if replaces or here == item.exported:
        return Step(item, Fate.CHANGED)
    return Step(item, Fate.KEPT, _CHANGED_HERE if in_file == item.exported else _DIFFERS)


async def _plan_flat(
    store: MemoryStore, plan: ImportPlan, replaces: bool, found: Sequence[Item]
) -> list[Step]:
    here = {memory.key: memory.value for memory in await _stored(plan, store.recall_all())}
    return [
        _compared(item, fingerprint(here[item.path]), fingerprint(item.text), replaces)
        if item.path in here
        else Step(item, Fate.NEW)
        for item in found
    ]


async def _plan_journal(store: MemoryStore, plan: ImportPlan, found: Sequence[Item]) -> list[Step]:
    """The steps of journal entries.

    An entry of our export is recognised by its text and time, any other entry by its text and day. If text was appended
    to an entry, only the new text becomes an entry.
    """
    entries = await _stored(plan, store.recent(MAX_RECENT_COUNT))
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
        if item.exported and item.at is not None:
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


async def _plan_log(store: MemoryStore, plan: ImportPlan, found: Sequence[Item]) -> list[Step]:
    here = {entry.id for entry in await _stored(plan, store.mind.log.entries())}
    return [Step(item, Fate.KNOWN if item.fields["id"] in here else Fate.NEW) for item in found]


async def _plan_mind(
    store: MemoryStore, plan: ImportPlan, replaces: bool, found: Sequence[Item]
) -> list[Step]:
    steps = []
    for item in found:
        record = await _stored(plan, store.mind.records.read(item.path))
        if record:
            here = (await whole_record(store, record)).fields
            steps.append(_compared(item, record_state(here), edited_state(item), replaces))
        else:
            steps.append(Step(item, Fate.NEW))
    return steps
