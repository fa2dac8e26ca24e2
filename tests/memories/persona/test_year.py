"""A year of an agent's life on two devices and one relay, by a clock that only moves when it is told.

Beside the stores stands a ledger kept by hand: of every memory only what the specification's decay function
takes, and that function, word for word. Every month both are compared, and at the end of the year the two
devices with each other, and with what the relay serves.
"""

from __future__ import annotations

import json
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest
from websockets.asyncio.client import connect

from sense_memory import EmbeddedRelay, State


DAY = 86_400.0
START = 1_800_000_000.0
MONTH = 30  # days between two prunings
NOTE_EVERY = 5  # days
PLACES = ("harbour", "studio", "workshop", "market", "library", "station")
DOINGS = ("sketched a poster", "repaired the press", "sorted old prints", "bound a notebook", "mixed inks")
WEATHERS = ("while it rained", "before breakfast", "with Ruca", "until dusk")


# ── The specification, by hand ──────────────────────────────────────────────────────────


@dataclass
class Life:
    """What decay depends on, and what the store last wrote of it."""

    accessed: float
    halflife: float = 30.0
    links: set[str] = field(default_factory=set)
    superseded: bool = False
    stored: str = "active"
    dissolved_at: float | None = None

    def relevance(self, now):
        """sense-memory v2, "Decay Function"; who is superseded is contradicted once."""
        days_since_access = (now - self.accessed) / 86400
        decay = 0.5 ** (days_since_access / self.halflife)
        connection_boost = 1.0 + (len(self.links) * 0.1)
        contradiction_penalty = 0.5 ** (1 if self.superseded else 0)
        if self.superseded:
            decay = decay**4
        return decay * connection_boost * contradiction_penalty

    def state(self, now):
        """sense-memory v2, "State Transitions"."""
        relevance = self.relevance(now)
        if relevance > 0.3:
            return "active"
        if relevance >= 0.1:
            return "fading"
        return "forgotten" if relevance >= 0.01 else "dissolved"


class Book:
    """Everybody who lives, by path, and everybody who was deleted."""

    def __init__(self):
        self.lives: dict[str, Life] = {}
        self.gone: set[str] = set()

    def written(self, path, now, **fields):
        known = self.lives.get(path)
        self.lives[path] = Life(now, **fields) if known is None else known
        self.recalled(path, now)

    def recalled(self, path, now):
        life = self.lives[path]
        life.accessed, life.stored, life.dissolved_at = now, "active", None

    def linked(self, one, other):
        self.lives[one].links.add(other)
        self.lives[other].links.add(one)

    def pruned(self, now):
        """What pruning has to count: states that changed, and deletions."""
        count = 0
        for path, life in list(self.lives.items()):
            state = life.state(now)
            if state == "dissolved" and life.dissolved_at is not None and now - life.dissolved_at >= 30 * DAY:
                del self.lives[path]
                self.gone.add(path)
                count += 1
                continue
            if state == "dissolved" and life.dissolved_at is None:
                life.dissolved_at = now
            count += state != life.stored
            life.stored = state
        return count

    def states(self, now):
        return {path: life.state(now) for path, life in self.lives.items()}


# ── What is asked of stores and relay ───────────────────────────────────────────────────


async def states(store):
    found = await store.persona_recall(include_forgotten=True)
    return {memory.path: memory.state.value for memory in found}


async def everything(store):
    """Every field of every memory, but for the event that says so."""
    found = await store.persona_recall(include_forgotten=True)
    return {memory.path: memory.model_dump(mode="json", exclude={"event_id"}) for memory in found}


async def served(url, **wanted):
    """What a relay answers, asked without sense-memory."""
    async with connect(url, compression=None) as socket:
        await socket.send(json.dumps(["REQ", "all", wanted]))
        found = []
        while (frame := json.loads(await socket.recv()))[0] != "EOSE":
            if frame[0] == "EVENT":
                found.append(frame[2])
        return found


async def in_step(*stores):
    for _ in range(4):
        reports = [await store.sync() for store in stores]
        assert all(report.in_step for report in reports)
        if not any(relay.sent or relay.served.get("new") for report in reports for relay in report.relays):
            return
    raise AssertionError("the devices never came to rest")


# ── The year ────────────────────────────────────────────────────────────────────────────


class Year:
    """The agent: writes on the laptop, looks at things on the phone, and keeps the book."""

    def __init__(self, laptop, phone, relay, clock):
        self.laptop, self.phone, self.relay, self.clock = laptop, phone, relay, clock
        self.book = Book()
        self.chance = random.Random(2027)
        self.is_offline = False

    async def live(self):
        await self.begin()
        for day in range(1, 366):
            self.clock.now = START + day * DAY
            if day % NOTE_EVERY == 0:
                await self.note(day)
            if day % 7 == 0:
                await self.recall(self.laptop, "people", "facts", "lisa-is-an-artist")
            special = getattr(self, f"day_{day}", None)
            if special is not None:
                await special()
            if day % 20 == 0 and not self.is_offline:
                await self.meet()
            if day % MONTH == 0:
                await self.month()

    async def begin(self):
        remember = self.remember
        await remember(
            "people", "facts", "lisa-is-an-artist", "Lisa teaches letterpress.", themes=["lisa", "art"]
        )
        await remember("people", "facts", "ruca", "Ruca is a grey lurcher.", themes=["ruca", "walks"])
        await remember(
            "self", "beliefs", "never-small", "Never make people feel small.", halflife_days=1_000.0
        )
        await remember(
            "projects",
            "facts",
            "office",
            "The office of Voxrelay is in Berlin.",
            themes=["voxrelay", "office"],
        )
        await remember(
            "projects", "facts", "twin", "The invoices go out on Fridays.", themes=["voxrelay", "invoices"]
        )
        await remember("skills", "procedures", "deploy", "Deploy: npm run build, then wrangler deploy.")
        await remember("world", "facts", "left-alone", "Nobody asks about the ferry timetable.")
        await in_step(self.laptop, self.phone)

    async def remember(self, domain, facet, key, value, **fields):
        await self.laptop.persona_remember(domain, facet, key, value, **fields)
        self.book.written(f"{domain}/{facet}/{key}", self.clock(), halflife=fields.get("halflife_days", 30.0))

    async def recall(self, store, domain, facet, key):
        (memory,) = await store.persona_recall(domain, facet, key)
        self.book.recalled(memory.path, self.clock())
        assert memory.state is State.ACTIVE
        assert (memory.relevance, memory.last_accessed) == (1.0, self.clock())
        return memory

    async def note(self, day):
        """A note of a day: three in four of them nobody ever reads again."""
        text = f"Day {day}: {self.chance.choice(DOINGS)} at the {self.chance.choice(PLACES)} {self.chance.choice(WEATHERS)}."
        themes = [f"week {day // 7}", *self.chance.sample(PLACES, 2)]
        await self.remember("self", "emotions", f"day-{day:03}", text, themes=themes)

    async def meet(self):
        """Both devices come to the relay, and the phone reads something first."""
        await in_step(self.laptop, self.phone)
        path = self.chance.choice(sorted(self.book.lives))
        await self.recall(self.phone, *path.split("/"))
        await self.phone.flush()
        await in_step(self.laptop, self.phone)

    async def month(self):
        now = self.clock()
        assert await states(self.laptop) == self.book.states(now)
        planned = await self.laptop.persona_prune(dry_run=True)
        before = set(self.book.lives)
        expected = self.book.pruned(now)
        done = await self.laptop.persona_prune()
        assert (planned, done) == (expected, expected)
        deleted = before - set(self.book.lives)
        assert {line.path for line in done.report.lines if line.action == "delete"} == deleted
        assert await self.laptop.persona_prune() == 0
        assert await states(self.laptop) == self.book.states(now)
        await self.laptop.sync()
        for path in deleted:
            assert (
                await served(self.relay.url, kinds=[30078], **{"#d": [f"sense-memory/persona/{path}"]}) == []
            )
        report = await self.laptop.persona_introspect()
        counts = [life.state(now) for life in self.book.lives.values()]
        assert report.total_memories == len(self.book.lives)
        assert [report.active, report.fading, report.forgotten, report.dissolved] == [
            counts.count(state) for state in ("active", "fading", "forgotten", "dissolved")
        ]

    # ── Days that are not like the others ───────────────────────────────────────────────

    async def day_40(self):
        """Two memories are linked, and live a little longer for it."""
        await self.laptop.persona_connect("ruca", "deploy")
        self.book.linked("people/facts/ruca", "skills/procedures/deploy")

    async def day_53(self):
        """A fading memory is left out of a prompt and found only if it is meant; nothing of that is an access."""
        assert (await states(self.laptop))["projects/facts/twin"] == "fading"
        assert "invoices" not in await self.laptop.persona_compress("projects")
        assert [hit.key for hit in await self.laptop.persona_search("twin")] == ["twin"]
        (hit,) = await self.laptop.persona_search("go out on Fridays")  # most of what it says
        assert (hit.key, hit.state) == ("twin", "fading")
        assert await self.laptop.persona_search("go out with the cat in winter") == []
        assert await states(self.laptop) == self.book.states(self.clock())

    async def day_55(self):
        """A new fact contradicts an old one of the same age as its twin: it falls faster, with no word said."""
        await self.recall(self.laptop, "projects", "facts", "office")
        await self.recall(self.laptop, "projects", "facts", "twin")
        await self.remember(
            "projects",
            "facts",
            "new-office",
            "The office of Voxrelay is in Hamburg.",
            themes=["voxrelay", "office"],
        )
        self.book.lives["projects/facts/office"].superseded = True
        (office,) = [
            memory
            for memory in await self.laptop.persona_recall("projects", "facts")
            if memory.key == "office"
        ]
        assert office.superseded_by == "projects/facts/new-office"
        assert office.contradicts == ("projects/facts/new-office",)

    async def day_65(self):
        """Ten days: 0.5 · 0.5^(4 · 10/30) is fading, and 0.5^(10/30) is not."""
        found = await states(self.laptop)
        assert (found["projects/facts/office"], found["projects/facts/twin"]) == ("fading", "active")

    async def day_115(self):
        """A forgotten memory is in no listing and no search; its exact key brings it back."""
        forgotten = [path for path, state in self.book.states(self.clock()).items() if state == "forgotten"]
        path = next(path for path in forgotten if "/day-" in path)
        key = path.rpartition("/")[2]
        assert path not in {memory.path for memory in await self.laptop.persona_recall()}
        assert key not in {hit.key for hit in await self.laptop.persona_search(key, limit=1_000)}
        memory = await self.recall(self.laptop, *path.split("/"))
        assert memory.access_count == 1
        assert key in {hit.key for hit in await self.laptop.persona_search(key)}

    async def day_201(self):
        """Both devices go their ways for three weeks."""
        await in_step(self.laptop, self.phone)
        self.is_offline = True

    async def day_203(self):
        await self.laptop.persona_remember("people", "facts", "lisa-is-an-artist", "Lisa teaches in Faro.")
        self.book.recalled("people/facts/lisa-is-an-artist", self.clock())

    async def day_204(self):
        """The phone says something else of Lisa, and links what the laptop will edit."""
        await self.phone.persona_remember("people", "facts", "lisa-is-an-artist", "Lisa teaches in Porto.")
        self.book.recalled("people/facts/lisa-is-an-artist", self.clock())
        await self.phone.persona_connect("never-small", "new-office")
        self.book.linked("self/beliefs/never-small", "projects/facts/new-office")

    async def day_205(self):
        await self.laptop.persona_remember(
            "self", "beliefs", "never-small", "Never make anybody feel small.", themes=["kindness"]
        )
        self.book.recalled("self/beliefs/never-small", self.clock())

    async def day_206(self):
        """They meet again: both texts are there, and the link, and the edit."""
        self.is_offline = False
        await in_step(self.laptop, self.phone)
        for store in (self.laptop, self.phone):
            found = await everything(store)
            (sibling,) = (path for path, fields in found.items() if fields["conflict_of"])
            assert found[sibling]["value"] == "Lisa teaches in Faro."
            assert found["people/facts/lisa-is-an-artist"]["value"] == "Lisa teaches in Porto."
            assert found["self/beliefs/never-small"]["value"] == "Never make anybody feel small."
            assert found["self/beliefs/never-small"]["connections"] == ["projects/facts/new-office"]
        self.book.lives[sibling] = Life(found[sibling]["last_accessed"])

    async def day_210(self):
        """A key that was deleted is free again, and what is written there is a new memory."""
        assert "world/facts/left-alone" in self.book.lives  # marked a moment ago, not deleted yet

    async def day_300(self):
        assert "world/facts/left-alone" in self.book.gone
        await self.remember("world", "facts", "left-alone", "The ferry sails at noon again.")
        ((memory,), past) = (
            await self.laptop.persona_recall("world", "facts", "left-alone"),
            await self.laptop.history("world/facts/left-alone"),
        )
        self.book.gone.discard(memory.path)
        assert (memory.created_at, memory.access_count) == (self.clock(), 1)
        assert "timetable" not in json.dumps([version.value for version in past])


@pytest.fixture
def year(open_store, clock):
    """The year, lived to its end; both devices have met."""

    async def lived(stack):
        clock.now = START
        relay = await stack.enter_async_context(EmbeddedRelay(clock=clock))
        laptop = await stack.enter_async_context(open_store("laptop", [relay.url], revive="recall"))
        phone = await stack.enter_async_context(open_store("phone", [relay.url], revive="recall"))
        year = Year(laptop, phone, relay, clock)
        await year.live()
        for store in (laptop, phone):
            await store.flush()
        await in_step(laptop, phone)
        return year

    return lived


async def test_a_year_of_life_goes_by_the_specification_and_ends_alike_on_both_devices(year):
    async with AsyncExitStack() as stack:
        lived = await year(stack)
        laptop, phone, book, now = lived.laptop, lived.phone, lived.book, lived.clock()

        # Everybody is where the specification says; those deleted are nowhere.
        assert await states(laptop) == book.states(now)
        assert set(book.states(now).values()) == {"active", "fading", "forgotten", "dissolved"}
        assert len(book.gone) > 20

        # Both devices say the same, field for field, and so do all views.
        assert await everything(laptop) == await everything(phone)
        assert await laptop.persona_stats() == await phone.persona_stats()
        for query in (
            "lisa",
            "make anybody small",
            "sketched a poster at the harbour",
            "day-36*",
            "zeppelin",
        ):
            found = [
                [(hit.path, round(hit.score, 9), hit.state) for hit in await store.persona_search(query, 50)]
                for store in (laptop, phone)
            ]
            assert found[0] == found[1]
            assert bool(found[0]) == (query != "zeppelin")
        assert await laptop.persona_compress() == await phone.persona_compress()
        reports = [await store.persona_introspect() for store in (laptop, phone)]
        first, second = (report.model_dump(mode="json") for report in reports)
        assert first == second

        # The relay serves one event for each memory that lives, and nothing of those that are gone.
        tags = {
            event["tags"][0][1]: event
            for event in await served(lived.relay.url, kinds=[30078])
            if event["tags"][0][1].startswith("sense-memory/persona/")
        }
        assert set(tags) == {f"sense-memory/persona/{path}" for path in book.lives}
        ledgers = [
            {memory.path: memory.event_id for memory in await store.persona_recall(include_forgotten=True)}
            for store in (laptop, phone)
        ]
        assert (
            ledgers[0]
            == ledgers[1]
            == {path: tags[f"sense-memory/persona/{path}"]["id"] for path in book.lives}
        )
        for store in (laptop, phone):
            assert store.integrity() == []
            for path in sorted(book.gone)[:5]:
                assert await store.persona_recall(*path.split("/")) == []
                assert [version.value for version in await store.history(path)] in ([], [None])
