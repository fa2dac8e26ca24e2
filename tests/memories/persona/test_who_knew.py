"""Random games of devices that edit, forget, prune, link, recall and sync, against an oracle of who knew what when.

Nothing of the program's own judgement is in the oracle: it notes which device had which text at hand when it wrote
or forgot. A text that nobody replaced or forgot knowingly is there, or is a draft where it was written; a text that
somebody forgot knowingly is nowhere; what a pruner did not know keeps a memory alive; and whoever loses an edit is
told once.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from tests.in_step import sync_until_quiet
from tests.inside import ledger_of, signer_of


FACT = ("people", "facts")
PERSONA = "sense-memory/persona/people/facts/"
KEYS = ("a", "b")
DAY = 86_400
GAMES = range(2)


@dataclass
class Text:
    """Something that a device said.

    Attributes:
        key: where.
        device: who.
        at: the event's second.
        knew: texts that the device had there.
    """

    key: str
    device: int
    at: int
    knew: frozenset[str]


@dataclass
class Told:
    """What was done, by whom, in knowledge of what."""

    texts: dict[str, Text] = field(default_factory=dict)
    forgotten: list[tuple[str, int, frozenset[str], frozenset[str]]] = field(default_factory=list)
    discarded: set[tuple[int, str]] = field(default_factory=set)  # texts that a device forgot as drafts

    def replaced(self):
        return {known for text in self.texts.values() for known in text.knew}

    def forgotten_knowingly(self):
        return {name for _, _, knew, _ in self.forgotten for name in knew}

    def forgotten_by_date(self, name):
        text = self.texts[name]
        return any(key == text.key and at >= text.at for key, at, _, _ in self.forgotten)


async def held(store, key):
    """The texts of a memory that a device has."""
    found = set()
    for stored in ledger_of(store).versions(PERSONA + key):
        fields = json.loads(await signer_of(store).decrypt(stored.event().content, store.public_key))
        found.add(fields["value"])
    return frozenset(found - {""})


async def copies(store, key):
    found = await store.persona_recall(include_forgotten=True)
    return frozenset(memory.value for memory in found if memory.conflict_of == f"people/facts/{key}")


async def shown(store):
    return {memory.path: memory.value for memory in await store.persona_recall(include_forgotten=True)}


async def settled(stores, clock):
    await sync_until_quiet(stores, 5, lambda: clock.advance(2 * DAY))


@pytest.mark.parametrize("seed", GAMES)
@pytest.mark.parametrize("count", [2, 3])
async def test_what_is_forgotten_and_what_is_not(devices, clock, seed, count):
    chance, told = random.Random(seed), Told()
    async with devices(count) as stores:
        await settled(stores, clock)
        for step in range(40):
            clock.advance(chance.choice((1, 5, 100, 400)))
            number, key = chance.randrange(count), chance.choice(KEYS)
            store = stores[number]
            match chance.choice(("edit",) * 5 + ("forget", "link", "recall") + ("sync",) * 4):
                case "edit":
                    name, knew = f"text {step}", await held(store, key)
                    ident = await store.persona_remember(*FACT, key, name)
                    at = ledger_of(store).by_id(ident).created_at
                    told.texts[name] = Text(key, number, at, knew)
                case "forget":
                    kept = await copies(store, key)
                    knew = await held(store, key) - kept
                    told.discarded |= {
                        (number, draft.value)
                        for draft in await store.drafts()
                        if draft.key == f"people/facts/{key}"
                    }
                    await store.persona_forget(*FACT, key)
                    told.forgotten.append((key, ledger_of(store).mark(PERSONA + key), knew, kept))
                case "link" if len({*(await shown(store))} & {f"people/facts/{name}" for name in KEYS}) == 2:
                    await store.persona_connect("people/facts/a", "people/facts/b")
                case "recall":
                    await store.persona_recall(*FACT, key)
                case "sync":
                    await store.sync()
        await settled(stores, clock)
        await _check(stores, told)


async def _check(stores, told):
    views = [await shown(store) for store in stores]
    assert all(view == views[0] for view in views), views
    visible = set(views[0].values())
    assert not visible & told.forgotten_knowingly()
    drafts = [{draft.value for draft in await store.drafts()} for store in stores]
    for name, text in told.texts.items():
        if name in told.replaced() | told.forgotten_knowingly():
            continue
        if not told.forgotten_by_date(name):
            assert name in visible, name
        elif (text.device, name) not in told.discarded:
            assert name in visible | drafts[text.device], name
    for number, values in enumerate(drafts):
        assert not values & told.forgotten_knowingly()
        assert {told.texts[value].device for value in values} <= {number}


@pytest.mark.parametrize("seed", GAMES)
async def test_what_a_pruner_did_not_know_keeps_a_memory(devices, clock, seed):
    """Knowledge travels with syncs: of each thing done to a memory it is known who may have heard of it."""
    chance = random.Random(seed)
    async with devices(3) as stores:
        await stores[0].persona_remember(*FACT, "bob", "painter", halflife_days=36_000)
        heard = [set() for _ in stores]
        relay, done, pruned = set(), {}, []

        def meets(number):
            relay.update(heard[number])
            heard[number] |= relay

        for step in range(30):
            clock.advance(chance.choice((DAY, 31 * DAY, 120 * DAY)))
            number, key = chance.randrange(3), chance.choice(KEYS)
            store, is_there = stores[number], f"people/facts/{key}" in await shown(stores[number])
            what = chance.choice(("edit", "link", "recall", "prune", "prune", "sync", "sync"))
            if what in {"link", "recall"} and not is_there:
                continue
            match what:
                case "edit":
                    await store.persona_remember(*FACT, key, f"text {step}", halflife_days=2)
                case "link" if "people/facts/bob" in await shown(store):
                    await store.persona_disconnect(f"people/facts/{key}", "people/facts/bob")
                    await store.persona_connect(f"people/facts/{key}", "people/facts/bob")
                case "recall":
                    await store.persona_recall(*FACT, key)
                case "prune":
                    meets(number)
                    report = (await store.persona_prune()).report
                    gone = {line.path for line in report.lines if line.action == "delete"}
                    pruned += [(path.rpartition("/")[2], frozenset(heard[number])) for path in gone]
                case "sync":
                    await store.sync()
                    meets(number)
            if what in {"edit", "link", "recall"}:
                done[step] = key
                heard[number].add(step)
        await sync_until_quiet(stores, 4, lambda: clock.advance(60))

        views = [await shown(store) for store in stores]
        assert all(view == views[0] for view in views), views
        for step, key in done.items():
            if not any(key == where and step in knew for where, knew in pruned):
                assert f"people/facts/{key}" in views[0], (step, key)


@pytest.mark.parametrize("seed", GAMES)
@pytest.mark.parametrize("count", [2, 3])
async def test_whoever_loses_an_edit_of_a_flat_memory_is_told(devices, clock, seed, count):
    chance = random.Random(seed)
    async with devices(count) as stores:
        await settled(stores, clock)
        parents, author, told = {}, {}, Counter()

        async def sync(number):
            for name in (await stores[number].sync()).overruled:
                told[number, name] += 1

        for step in range(40):
            clock.advance(chance.choice((1, 5, 100)))
            number, key = chance.randrange(count), chance.choice(KEYS)
            if chance.random() < 0.5:
                await sync(number)
                continue
            before = (
                (await stores[number].recall(key)).event_id if key in await _keys(stores[number]) else None
            )
            ident = await stores[number].remember(key, f"text {step}")
            parents[ident], author[ident] = before, (number, key)
        for _ in range(3):
            clock.advance(DAY)
            for number in range(count):
                await sync(number)

        heads = {memory.event_id for memory in await stores[0].recall_all()}
        known = set()
        for head in heads:
            ident = head
            while ident is not None:
                known.add(ident)
                ident = parents[ident]
        leaves = parents.keys() - set(parents.values()) - heads
        lost = Counter(author[ident] for ident in leaves)
        for where, times in lost.items():
            assert 1 <= told[where] <= times + sum(author[ident] == where for ident in parents.keys() - known)
        for where in told:
            assert any(author[ident] == where for ident in parents.keys() - known), where


async def _keys(store):
    return {memory.key for memory in await store.recall_all()}
