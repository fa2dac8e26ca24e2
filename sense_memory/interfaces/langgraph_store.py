"""`SenseMemoryStore`: LangGraph's long-term memory (`BaseStore`) in an agent's palace.

Items are palace memories: the command line finds what a graph puts, and a graph finds what the command line writes.
`nested_names` maps namespaces to domains and facets; docs/langgraph.md says what differs from other stores.

A value that has only a text, in the field that `text_field` names, is kept as that text. Every other value is kept as
JSON. If an item says how to index it, or has a time to live that no half-life can express, the JSON object has one more member,
`langgraph`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from sense_memory.errors import InvalidAddress, InvalidInput, MissingExtra
from sense_memory.interfaces.nested_names import nested_name, palace_domain, palace_name
from sense_memory.interfaces.store_calls import StoreCalls
from sense_memory.limits import (
    FORGOTTEN_FROM,
    MAX_FOUND_COUNT,
    MAX_HALFLIFE_DAYS,
    MIN_HALFLIFE_DAYS,
)
from sense_memory.models import LANGGRAPH, State
from sense_memory.palace.lifecycle import state_at
from sense_memory.search.tokens import stemmer, words


try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        PutOp,
        SearchItem,
        SearchOp,
        get_text_at_path,
        validate_op_namespace,
    )
except ImportError as error:
    raise MissingExtra("langgraph") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langgraph.store.base import Op, Result, TTLConfig

    from sense_memory.arguments import MemoryFields
    from sense_memory.models import PersonaMemory
    from sense_memory.search.hits import Hit
    from sense_memory.store import MemoryStore
    from sense_memory.sync_store import SyncMemoryStore

SOURCE: Final = LANGGRAPH  # the source of memories written by this store
_MARK: Final = "langgraph"
_DAY_MINUTES: Final = 1_440.0
_MINUTE_SECONDS: Final = 60.0
_HALFLIVES_TO_DISSOLVE: Final = math.log2(1 / FORGOTTEN_FROM)  # 6.64
_HITS_FOR_EACH: Final = 4  # hits to ask for first, for each wanted item
_MIN_NEAR: Final = 0.2  # the cosine from which a memory may answer a query
_USED_SHARE: Final = 0.5  # of the best score of a search by words, as of `MemoryStore.mark_used`
_SEARCHED_STATES: Final = (State.ACTIVE, State.FADING, State.FORGOTTEN)


class SenseMemoryStore(BaseStore):  # type: ignore[misc]  # mypy reads no framework
    """LangGraph's store on a `MemoryStore` or a `SyncMemoryStore`, which stays open as long as this is used.

    The asynchronous methods may be awaited in any event loop, the others called in any thread except that of the
    store's own loop. Reads of a batch see the state before its writes; the last of several writes of one item
    counts; all values are checked before the first is written.

    A namespace may be a list wherever it may be a tuple; what is returned has tuples.

    Args:
        store: an open store; a `MemoryStore` in the event loop in which it was opened.
        text_field: the field of an item's value that holds the text of a memory that was not written here.
        fields: which fields of values a query searches, as paths like those of `index`; by default everything.
        ttl: LangGraph's settings for expiry: `default_ttl` in minutes, and `refresh_on_read`. Expired items are
            always left out, and `persona_prune` deletes them; the other two settings have no effect.
        fill: a query returns as many items as its limit asks for, as in LangGraph's own stores: the nearest first, the rest by
            recency without a score. False for only the items that the palace's search finds, in its order.

    Raises:
        InvalidInput: the object is not a store, or is a `MemoryStore` outside its event loop.
    """

    supports_ttl = True

    def __init__(
        self,
        store: MemoryStore | SyncMemoryStore,
        *,
        text_field: str = "content",
        fields: Sequence[str] | None = None,
        ttl: TTLConfig | None = None,
        fill: bool = True,
    ) -> None:
        self._calls = StoreCalls(store)
        self._store = self._calls.store
        self._text_field = text_field
        self._fields = None if fields is None or "$" in fields else list(fields)
        self.ttl_config = ttl
        self._fill = fill

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in order, and wait for their results; see the class.

        Raises:
            asyncio.InvalidStateError: called in the thread of the store's own event loop.
        """
        return self._calls.wait(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in order; see the class.

        Raises:
            InvalidNamespaceError: a namespace is not valid.
            InvalidInput: a value, a number, a time to live or a filter cannot be used, or a namespace is neither a tuple
                nor a list; nothing was written.
            TooLargeError: a value is too long for a memory; nothing was written.
            NotSynced: nothing was found, and no relay ever answered completely.
        """
        return await self._calls.run(self._batch(list(ops)))

    async def _batch(self, given: Sequence[Op]) -> list[Result]:
        ops = [_checked(op) for op in given]
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        written = [self._memory(op) for op in puts.values() if op.value is not None]
        results = [await self._read(op) for op in ops]
        if written:
            await self._store.persona_remember_many(written, contradictions="off")
        gone = [name for name, op in puts.items() if op.value is None and op.namespace]
        await self._delete([palace_name(*name) for name in gone])
        return results

    async def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return await self._get(op)
        if isinstance(op, SearchOp):
            return await self._search(op)
        return await self._namespaces(op) if isinstance(op, ListNamespacesOp) else None

    # ── Writing ─────────────────────────────────────────────────────────────────────────

    def _memory(self, op: PutOp) -> MemoryFields:
        """The fields of the palace memory of one item."""
        if not op.namespace:
            raise InvalidInput("a namespace cannot be empty")
        domain, facet, key = palace_name(op.namespace, op.key)
        half_life = MAX_HALFLIFE_DAYS if op.ttl is None else halflife_days(op.ttl)
        ttl = op.ttl if half_life == MIN_HALFLIFE_DAYS else None
        value = _text_of(dict(op.value or {}), op.index, self._text_field, ttl)
        return {
            "domain": domain,
            "facet": facet,
            "key": key,
            "value": value,
            "halflife_days": half_life,
            "source": SOURCE,
        }

    async def _delete(self, places: Sequence[tuple[str, str, str]]) -> None:
        is_certain = self._store.relays.were_ever_complete()  # else a relay may hold what is not here
        gone = [place for place in places if not is_certain or await self._at(place) is not None]
        if gone:
            await self._store.persona_forget_many("/".join(place) for place in gone)

    # ── Reading ─────────────────────────────────────────────────────────────────────────

    async def _at(self, place: tuple[str, str, str], *, revive: bool = False) -> PersonaMemory | None:
        try:
            found = await self._store.persona_recall(*place, revive=revive)
        except InvalidAddress:  # no item can have this name
            return None
        return found[0] if found else None

    async def _get(self, op: GetOp) -> Item | None:
        memory = await self._at(palace_name(op.namespace, op.key)) if op.namespace else None
        entry = None if memory is None else self._entry(memory)
        if entry is not None and op.refresh_ttl:
            await self._at((entry.memory.domain, entry.memory.facet, entry.memory.key), revive=True)
        return None if entry is None else Item(**entry.item())

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        ranked, least = await self._ranked(op)
        shown = ranked[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            await self._refresh([entry.memory for entry, _ in shown])
        used = [entry.memory for entry, score in shown if score is not None and score >= least]
        # items written here have a time to live instead
        await self._store.mark_used([memory for memory in used if memory.source != SOURCE])
        return [SearchItem(**entry.item(), score=score) for entry, score in shown]

    async def _ranked(self, op: SearchOp) -> tuple[list[_Scored], float]:
        """Items with their scores, the best first; and the score from which on an item answers the query."""
        if not op.query:
            return [(entry, None) for entry in await self._newest(op)], 0.0
        if self._fill and (found := await self._nearest(op)) is not None:
            return found
        end = max(1, op.offset + op.limit)
        ranked = await self._found(op, min(MAX_FOUND_COUNT, _HITS_FOR_EACH * end))
        if len(ranked) < end:  # the filter removed many
            ranked = await self._found(op, MAX_FOUND_COUNT)
        if self._fill and len(ranked) < end:
            there = {entry.memory.path for entry, _ in ranked}
            ranked += [(entry, None) for entry in await self._newest(op) if entry.memory.path not in there]
        return ranked, _USED_SHARE * max((score for _, score in ranked if score is not None), default=0.0)

    async def _nearest(self, op: SearchOp) -> tuple[list[_Scored], float] | None:
        """As `_ranked`, by meaning: the scores are cosines. None without an embedder, or if it failed."""
        opened = self._store.mind.records.store
        if await opened.embedding() is None:
            return None
        entries = await self._newest(op)
        texts = {
            entry.memory.path: [text for path in fields or () for text in get_text_at_path(entry.value, path)]
            for entry in entries
            if (fields := self._searched_fields(entry)) is not None
        }
        near = await (await opened.search()).cosines(op.query or "", texts)
        if near is None:
            return None
        ranked = [(entry, near.get(entry.memory.path)) for entry in entries]
        ranked.sort(key=lambda one: -math.inf if one[1] is None else one[1], reverse=True)
        scores = [score for _, score in ranked if score is not None] or [0.0]
        return ranked, max(_MIN_NEAR, (scores[0] + sum(scores) / len(scores)) / 2)

    async def _newest(self, op: SearchOp) -> list[_StoredItem]:
        """The items that pass the filter, the newest first."""
        there = await self._entries(op.namespace_prefix)
        entries = [entry for entry in there if _passes(entry.value, op.filter)]
        return sorted(entries, key=lambda entry: (-entry.updated, entry.memory.path))

    async def _found(self, op: SearchOp, count: int) -> list[_Scored]:
        """The items that the palace's search finds, the best first."""
        prefix = op.namespace_prefix
        found: list[_Scored] = []
        for hit in await self._hits(op, count):
            name = _name_of(*hit.path.split("/"))
            if name is None or name[0][: len(prefix)] != prefix:
                continue
            memory = await self._at(palace_name(*name))
            entry = None if memory is None else self._entry(memory)
            if entry is not None and _passes(entry.value, op.filter) and self._is_meant(entry, hit):
                found.append((entry, hit.score))
        return found

    async def _hits(self, op: SearchOp, count: int) -> list[Hit]:
        """The best hits in every state except dissolved, which means expired; each state is searched separately."""
        domain = palace_domain(op.namespace_prefix[0]) if op.namespace_prefix else None
        hits: list[Hit] = []
        for state in _SEARCHED_STATES:
            hits += await self._store.search(
                op.query or "", count, within=("palace",), domain=domain, state=state, relevance_floor=1.0
            )
        return sorted(hits, key=lambda hit: (-hit.score, hit.path))

    def _searched_fields(self, entry: _StoredItem) -> Sequence[str] | Literal[False] | None:
        """The fields by which a query finds an item; None for the whole value, False for none."""
        return self._fields if entry.index is None else entry.index

    def _is_meant(self, entry: _StoredItem, hit: Hit) -> bool:
        """Whether an indexed field, or the meaning, found the item."""
        fields = self._searched_fields(entry)
        if fields is None:
            return True
        if fields is False:
            return False
        text = " ".join(part for path in fields for part in get_text_at_path(entry.value, path))
        stem, there = stemmer("english"), words(text)
        stems = {stem(word) for word in there}
        return any(
            item.kind == "meaning"
            or (item.kind in {"word", "phrase"} and stems.issuperset(map(stem, words(item.detail))))
            or (item.kind == "prefix" and any(word.startswith(item.detail.rstrip("*")) for word in there))
            for item in hit.why.evidence
        )

    async def _refresh(self, memories: Iterable[PersonaMemory]) -> None:
        """Revive items written here with a time to live; other memories are revived only by their exact key."""
        for memory in memories:
            if memory.source == SOURCE and memory.halflife_days < MAX_HALFLIFE_DAYS:
                await self._at((memory.domain, memory.facet, memory.key), revive=True)

    async def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        there = {entry.namespace for entry in await self._entries(())}
        kept = {name[: op.max_depth] for name in there if all(_matches(item, name) for item in conditions)}
        return sorted(kept)[op.offset : op.offset + op.limit]

    async def _entries(self, prefix: tuple[str, ...]) -> list[_StoredItem]:
        """The items below a namespace that have not expired."""
        domain = palace_domain(prefix[0]) if prefix else None
        memories = await self._store.persona_recall(domain, include_forgotten=True)
        below = (memory for memory in memories if _is_below(prefix, memory))
        return [entry for memory in below if (entry := self._entry(memory)) is not None]

    def _entry(self, memory: PersonaMemory) -> _StoredItem | None:
        """A memory as an item; None if the memory has expired, or has no namespace."""
        name = _name_of(memory.domain, memory.facet, memory.key)
        if name is None or state_at(memory.current_relevance or 0.0) is State.DISSOLVED:
            return None
        value, index, ttl = _value_of(memory.value, self._text_field)
        if ttl is not None and self._store.clock() >= memory.last_accessed + ttl * _MINUTE_SECONDS:
            return None
        return _StoredItem(memory, *name, value, index)


@dataclass(frozen=True, slots=True)
class _StoredItem:
    """A memory as an item.

    Attributes:
        memory: the memory.
        namespace, key, value: of the item.
        index: what the item was put with.
    """

    memory: PersonaMemory
    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    index: list[str] | Literal[False] | None

    @property
    def updated(self) -> float:
        """When the memory was last written or connected, seconds since 1970."""
        return self.memory.last_reinforced

    def item(self) -> dict[str, Any]:
        """The arguments of an `Item`."""
        return {
            "namespace": self.namespace,
            "key": self.key,
            "value": self.value,
            "created_at": datetime.fromtimestamp(self.memory.created_at, UTC),
            "updated_at": datetime.fromtimestamp(self.updated, UTC),
        }


_Scored = tuple[_StoredItem, "float | None"]


# ── Operations ──────────────────────────────────────────────────────────────────────────


def _checked(op: Op) -> Op:
    """An operation with tuples as namespaces. Raises InvalidInput or InvalidNamespaceError for what cannot be done."""
    if isinstance(op, GetOp | PutOp):
        op = op._replace(namespace=_labels(op.namespace))
        if not isinstance(op.key, str):
            raise InvalidInput(f"a key must be text, not {type(op.key).__name__}")
        if isinstance(op, PutOp) and not isinstance(op.value, dict | None):
            raise InvalidInput(f"a value must be a dict, not {type(op.value).__name__}")
    elif isinstance(op, SearchOp):
        op = op._replace(namespace_prefix=_labels(op.namespace_prefix))
        if not isinstance(op.filter, dict | None):
            raise InvalidInput(f"a filter must be a dict, not {type(op.filter).__name__}")
    elif isinstance(op, ListNamespacesOp):
        op = op._replace(match_conditions=_conditions(op.match_conditions))
        if op.max_depth is not None:
            _check_count("max_depth", op.max_depth, least=1)
    else:
        raise InvalidInput(f"a {type(op).__name__} is not an operation of a store")
    if isinstance(op, SearchOp | ListNamespacesOp):
        _check_count("limit", op.limit)
        _check_count("offset", op.offset)
    validate_op_namespace(op)
    return op


def _labels(given: object) -> tuple[Any, ...]:
    if not isinstance(given, tuple | list):
        raise InvalidInput(f"a namespace must be a tuple or a list of labels, not {type(given).__name__}")
    return tuple(given)


def _conditions(given: object) -> tuple[MatchCondition, ...]:
    conditions = () if given is None else given
    if not isinstance(conditions, tuple | list) or not all(
        isinstance(one, MatchCondition) for one in conditions
    ):
        raise InvalidInput("match_conditions must be a tuple or a list of MatchCondition")
    return tuple(one._replace(path=_labels(one.path)) for one in conditions)


def _check_count(name: str, given: object, least: int = 0) -> None:
    if type(given) is not int or given < least:
        raise InvalidInput(f"{name} must be a whole number, {least} or more")


def halflife_days(ttl: object) -> float:
    """The half-life (days) with which a memory dissolves at the end of its time to live (minutes): 1/6.64 of it.

    It is at least `MIN_HALFLIFE_DAYS`, which is that of 5.7 seconds; a shorter time to live is kept beside the value.

    >>> round(halflife_days(60 * 24 * 6.643856), 3)
    1.0

    Raises:
        InvalidInput: the time to live is not a number of minutes above 0, up to about 665 years.
    """
    longest = MAX_HALFLIFE_DAYS * _HALFLIVES_TO_DISSOLVE * _DAY_MINUTES
    if type(ttl) not in {int, float} or not 0 < ttl <= longest:  # type: ignore[operator]
        raise InvalidInput(f"ttl must be a number of minutes above 0, up to {longest:,.0f}, or None")
    return max(MIN_HALFLIFE_DAYS, ttl / _DAY_MINUTES / _HALFLIVES_TO_DISSOLVE)  # type: ignore[operator]


def _is_below(prefix: tuple[str, ...], memory: PersonaMemory) -> bool:
    name = _name_of(memory.domain, memory.facet, memory.key)
    return name is not None and name[0][: len(prefix)] == prefix


@lru_cache(maxsize=2**15)  # it is asked for every item at every listing
def _name_of(domain: str, facet: str, key: str) -> tuple[tuple[str, ...], str] | None:
    """The namespace and key of a memory; None if there is none, for example for a label with a dot."""
    name = nested_name(domain, facet, key)
    return None if name is None or any("." in label or "\0" in label for label in name[0]) else name


# ── Values ──────────────────────────────────────────────────────────────────────────────


def _text_of(value: dict[str, Any], index: object, text_field: str, ttl: float | None) -> str:
    """The text that keeps a value; the inverse of `_value_of`."""
    if index is None and ttl is None and value.keys() == {text_field}:
        text = value[text_field]
        if isinstance(text, str) and text.strip() and _parsed(text) is None and _is_encodable(text):
            return text
    if index is not None and index is not False and not _is_list_of_texts(index):
        raise InvalidInput("index must be False, or a list of paths of fields")
    mark = {"index": index} | ({} if ttl is None else {"ttl": ttl})
    is_plain = index is None and ttl is None and _MARK not in value
    whole = value if is_plain else {_MARK: mark, "value": value}
    try:
        text = json.dumps(_plain(whole), ensure_ascii=False, allow_nan=False)
        return text if _is_encodable(text) else json.dumps(whole, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(
            "a value must be JSON: texts as keys; texts, finite numbers, booleans, None, lists and mappings as values"
        ) from None


def _value_of(
    text: str, text_field: str
) -> tuple[dict[str, Any], list[str] | Literal[False] | None, float | None]:
    """The value of an item, how it is indexed, and its minutes to live if they are few, from the text of a memory."""
    parsed = _parsed(text)
    if parsed is None:
        return {text_field: text}, None, None
    mark = parsed.get(_MARK)
    if parsed.keys() == {_MARK, "value"} and isinstance(mark, dict) and isinstance(parsed["value"], dict):
        index = mark.get("index")
        is_index = index is False or _is_list_of_texts(index)
        return parsed["value"], index if is_index else None, _minutes(mark.get("ttl"))
    return parsed, None, None


def _minutes(given: object) -> float | None:
    """A time to live as this store writes it; None for anything else, which another door may have written."""
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 < given < _DAY_MINUTES:
        return None
    return given


def _parsed(text: str) -> dict[str, Any] | None:
    """The object in a text that is JSON; None for any other text."""
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _plain(value: Any) -> Any:
    """A JSON value; raises TypeError for a value that JSON would change."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _is_list_of_texts(given: object) -> bool:
    return isinstance(given, list) and all(isinstance(item, str) for item in given)


def _is_encodable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


# ── Filters and conditions ──────────────────────────────────────────────────────────────


def _passes(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    return not wanted or all(_holds(value.get(key), given) for key, given in wanted.items())


def _holds(value: Any, given: Any) -> bool:
    """Whether a value passes a filter; an object passes if it has the wanted members."""
    if isinstance(given, dict):
        if any(str(key).startswith("$") for key in given):
            return all(_compares(value, operator, than) for operator, than in given.items())
        return isinstance(value, dict) and all(_holds(value.get(key), item) for key, item in given.items())
    if isinstance(given, list | tuple):
        is_list = isinstance(value, list) and len(value) == len(given)
        return is_list and all(_holds(item, than) for item, than in zip(value, given, strict=True))
    return bool(value == given)


_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": lambda value, than: value > than,
    "$gte": lambda value, than: value >= than,
    "$lt": lambda value, than: value < than,
    "$lte": lambda value, than: value <= than,
}


def _compares(value: Any, operator: str, than: Any) -> bool:
    """Whether a value passes one operator. Numbers compare with numbers, texts with texts, nothing else."""
    if operator in {"$eq", "$ne"}:
        return bool(value == than) == (operator == "$eq")
    if operator not in _ORDER:
        raise InvalidInput(f"a filter may have $eq, $ne, {', '.join(_ORDER)}, and not {operator!r}")
    if isinstance(value, str) == isinstance(than, str):
        try:
            return bool(_ORDER[operator](value, than))
        except TypeError:  # None, a list, an object
            return False
    return False


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    """Whether a namespace begins or ends with a path, in which `*` stands for any label."""
    path = condition.path
    if condition.match_type not in {"prefix", "suffix"}:
        raise InvalidInput(f"a namespace matches a prefix or a suffix, not a {condition.match_type!r}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(wanted in {"*", label} for wanted, label in zip(path, part, strict=False))
