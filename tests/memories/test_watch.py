"""Live changes, through the store: two devices of one agent, relays that come and go, and whoever watches."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect

from relays.faults import HANGUP, Fault, FaultyRelay, Record
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore, StoreClosed, SyncMemoryStore
from sense_memory.errors import ChangesMissed, LedgerError
from sense_memory.memories import watch as watching_module
from sense_memory.models import Change
from sense_memory.nostr.event import KIND_DELETION, Unsigned
from sense_memory.relay.client import dialler
from sense_memory.relay.sync import agenda
from sense_memory.relay.sync import live as listening
from tests.inside import parts_of
from tests.time_unit import SECOND


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Back-off and looks at the ledger in hundredths of the real time."""
    monkeypatch.setattr(dialler, "RECONNECT_FIRST_SECONDS", 0.02)
    monkeypatch.setattr(watching_module, "WATCH_SECONDS", 0.02)


@pytest.fixture
def hurried(monkeypatch):
    """Rounds of pulling follow each other at once."""
    monkeypatch.setattr(agenda, "BACKGROUND_SECONDS", 0.05)
    monkeypatch.setattr(agenda, "POLL_SECONDS", 0.02)


@pytest.fixture
def device(signer, clock):
    """A device of the agent: a store of its own that follows its relays only when told, or while it watches."""

    def make(*relays, **options):
        urls = [relay if isinstance(relay, str) else relay.url for relay in relays]
        options = {"ledger": ":memory:", "background": False, "clock": clock, **options}
        return MemoryStore(signer, urls, **options)

    return make


class Watcher:
    """Somebody who watches a store, and remembers."""

    def __init__(self, store):
        self.changes, self.states, self._news = [], [], asyncio.Event()
        self.watch = store.watch(on_relay=self._hear)
        self.task = asyncio.create_task(self._read())

    async def _read(self):
        async for change in self.watch:
            self.changes.append(change)
            self._news.set()

    def _hear(self, url, problem):
        self.states.append((url, problem))
        self._news.set()

    @property
    def told(self):
        """What was told so far: kind, path and text."""
        return [(change.kind, change.path, change.value) for change in self.changes]

    async def until(self, happened):
        async with asyncio.timeout(5 * SECOND):
            while not happened():
                self._news.clear()
                await self._news.wait()

    async def heard(self, *problems, relay=None):
        """Wait until these states were told, in this order; "" is a relay that tells what comes in."""
        await self.until(
            lambda: [problem for url, problem in self.states if relay in {None, url}] == [*problems]
        )

    async def gets(self, *told):
        """Wait for as many changes, which have to be these."""
        await self.until(lambda: len(self.changes) >= len(told))
        assert self.told == [*told]


@asynccontextmanager
async def watching(store):
    watcher = Watcher(store)
    try:
        yield watcher
    finally:
        watcher.task.cancel()
        await asyncio.wait([watcher.task])
        await watcher.watch.aclose()


async def writes(store, key, value):
    """Remember something on a device, and have it on the relays."""
    ident = await store.remember(key, value)
    assert (await store.sync()).in_step
    return ident


async def publish(url, *events):
    """Put events on a relay without any store."""
    async with connect(url, compression=None) as socket:
        for event in events:
            await socket.send(json.dumps(["EVENT", event.as_json()]))
        for event in events:
            while (frame := json.loads(await socket.recv()))[0] != "OK":
                pass
            assert frame[1:3] == [event.id, True]


def is_live(frame):
    """Whether a REQ opens a live subscription, apart from its second REQ, for the journal."""
    return frame[0] == "REQ" and frame[2].get("limit") == 1 and 30078 in frame[2]["kinds"]


# ── What is told ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("background", [True, False])
async def test_what_another_device_remembers_is_told_while_it_happens(device, clock, background):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        device(relay) as one,
        device(relay, background=background) as two,
        watching(two) as watcher,
    ):
        await watcher.heard("")
        clock.advance(60)
        ident = await writes(one, "city", "Lisbon")
        await watcher.gets(("remembered", "city", "Lisbon"))

        (change,) = watcher.changes
        assert change == Change(
            kind="remembered",
            path="city",
            key="city",
            value="Lisbon",
            created_at=clock(),
            event_id=ident,
            relay=relay.url,
        )
        assert "Lisbon" not in repr(change)
        assert (await two.recall("city")).value == "Lisbon"


async def test_forgetting_is_told_once_and_only_of_what_was_here(device, clock):
    async with EmbeddedRelay(clock=clock) as relay, device(relay) as one, device(relay) as two:
        await writes(one, "city", "Lisbon")
        await two.sync()
        async with watching(two) as watcher:
            await watcher.heard("")
            await one.forget("city")
            await one.forget("never heard of")
            clock.advance(1)  # what is forgotten in the second in which it was sent waits for the next
            await writes(one, "last", "word")
            await watcher.gets(("forgotten", "city", None), ("remembered", "last", "word"))
            assert await two.recall("city") is None


async def test_journal_entries_are_told_and_so_is_their_removal(device, clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        device(relay) as one,
        device(relay) as two,
        watching(two) as watcher,
    ):
        await watcher.heard("")
        ident = await one.journal("Met Lisa.")
        await one.sync()
        await watcher.gets(("journal", f"journal/{ident}", "Met Lisa."))
        await one.journal.forget(ident)
        await one.sync()
        await watcher.until(lambda: len(watcher.changes) == 2)
        assert watcher.told[1] == ("forgotten", f"journal/{ident}", None)
        assert watcher.changes[1].key == ident == (watcher.changes[0]).event_id


async def test_persona_memories_are_told_by_their_path(device, clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        device(relay) as one,
        device(relay) as two,
        watching(two) as watcher,
    ):
        await watcher.heard("")
        await one.persona_remember("people", "facts", "lisa", "teaches printmaking")
        await one.sync()
        path = "persona/people/facts/lisa"
        await watcher.gets(("remembered", path, "teaches printmaking"))
        assert watcher.changes[0].key == "lisa"
        await one.persona_forget("people", "facts", "lisa")
        await one.sync()
        await watcher.until(lambda: len(watcher.changes) == 2)
        assert watcher.told[1][1:] == (path, None)


async def test_what_is_no_memory_is_not_told(device, clock):
    """What the mind keeps and the log of an introspection arrive unheard before a memory that is told."""
    async with (
        EmbeddedRelay(clock=clock) as relay,
        device(relay) as one,
        device(relay) as two,
        watching(two) as watcher,
    ):
        await watcher.heard("")
        await one.mind.blocks.create("human", "Lives in Porto.")
        await one.palace.introspect()
        await one.sync()
        await writes(one, "k", "v")
        await watcher.gets(("remembered", "k", "v"))
        assert two.status().counts["mind"] == 1
        assert two.status().counts["logs"] == 1


async def test_a_link_and_an_access_are_told_apart_from_a_new_text(device, clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        device(relay) as one,
        device(relay) as two,
        watching(two) as watcher,
    ):
        await watcher.heard("")
        for key in ("lisa", "studio"):
            await one.persona_remember("people", "facts", key, "the same text")
            await one.sync()
        await watcher.until(lambda: len(watcher.changes) == 2)
        await one.persona_connect("lisa", "studio")
        await one.sync()
        await watcher.until(lambda: len(watcher.changes) == 4)
        await one.persona_recall("people", "facts", "lisa")
        await one.flush()
        await watcher.until(lambda: len(watcher.changes) == 5)
        await one.persona_remember("people", "facts", "lisa", "another text")
        await one.sync()
        await watcher.until(lambda: len(watcher.changes) == 6)

        kinds = [change.kind for change in watcher.changes]
        assert kinds == ["remembered", "remembered", "linked", "linked", "changed", "remembered"]
        assert [change.key for change in watcher.changes[4:]] == ["lisa", "lisa"]


async def test_a_new_text_that_was_linked_at_once_is_told_as_a_new_text(device):
    """Of versions that come together the last is told; what it says may be new though the one before said it too."""
    before, after = io.BytesIO(), io.BytesIO()
    async with device() as one, device() as two:
        for key in ("lisa", "studio"):
            await one.persona_remember("people", "facts", key, "old")
        one.export(before)
        await one.persona_remember("people", "facts", "lisa", "new")
        await one.persona_connect("lisa", "studio")
        one.export(after)
        before.seek(0), after.seek(0)
        await two.import_(before)
        async with watching(two) as watcher:
            await two.import_(after)
            await watcher.until(lambda: len(watcher.changes) == 2)
            assert [(change.kind, change.key) for change in watcher.changes] == [
                ("remembered", "lisa"),
                ("linked", "studio"),
            ]


async def test_a_memory_that_was_superseded_elsewhere_says_by_what(device):
    before, after = io.BytesIO(), io.BytesIO()
    async with device() as one, device() as two:
        await one.persona_remember("people", "facts", "home", "Lisa lives in Berlin")
        one.export(before)
        await one.persona_remember("people", "facts", "moved", "Lisa lives in Lisbon")
        one.export(after)
        before.seek(0), after.seek(0)
        await two.import_(before)
        async with watching(two) as watcher:
            await two.import_(after)
            await watcher.until(lambda: len(watcher.changes) == 2)
            assert {(change.kind, change.key, change.superseded_by) for change in watcher.changes} == {
                ("linked", "home", "people/facts/moved"),
                ("remembered", "moved", None),
            }


async def test_what_this_store_writes_is_not_told(device, clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        device(relay) as one,
        device(relay) as two,
        watching(two) as watcher,
    ):
        await watcher.heard("")
        await two.remember("mine", "1")
        await two.journal("mine")
        await writes(two, "mine", "2")
        await two.forget("mine")
        await two.sync()
        await one.sync()
        await writes(one, "theirs", "3")
        await watcher.gets(("remembered", "theirs", "3"))


async def test_what_is_stale_or_known_is_not_told(device, clock):
    """An old version that comes late goes into the history."""
    old, new = io.BytesIO(), io.BytesIO()
    async with device() as one, device() as two:
        await one.remember("city", "Porto")
        one.export(old)
        await one.remember("city", "Lisbon")
        one.export(new)
        async with watching(two) as watcher:
            for file in (new, old, new):
                file.seek(0)
                await two.import_(file)
            await one.remember("end", "now")
            new.seek(0)
            one.export(new)
            new.seek(0)
            await two.import_(new)
            await watcher.gets(("remembered", "city", "Lisbon"), ("remembered", "end", "now"))
            assert watcher.changes[0].relay is None
        assert len(await two.history("city")) == 2


async def test_only_what_comes_after_the_call_is_told(device, clock):
    async with EmbeddedRelay(clock=clock) as relay, device(relay) as one, device(relay) as two:
        await writes(one, "before", "1")
        await two.sync()
        async with watching(two) as first:
            await first.heard("")
            await writes(one, "between", "2")
            await first.gets(("remembered", "between", "2"))
            async with watching(two) as second:
                await second.heard("")
                await writes(one, "after", "3")
                await second.gets(("remembered", "after", "3"))
                await first.gets(("remembered", "between", "2"), ("remembered", "after", "3"))


async def test_what_was_missed_while_nobody_listened_is_told_first(device, clock):
    async with EmbeddedRelay(clock=clock) as relay, device(relay) as one, device(relay) as two:
        await two.sync()
        for number in range(3):
            await writes(one, f"missed{number}", "v")
            clock.advance(1)
        async with watching(two) as watcher:
            await watcher.gets(*(("remembered", f"missed{number}", "v") for number in range(3)))


async def test_what_was_dated_days_ago_is_told_as_well(device, clock):
    """A device that was offline sends what it wrote then; a pull from the cursor on would not show it."""
    async with EmbeddedRelay(clock=clock) as relay, device(relay) as one, device(relay) as two:
        await writes(one, "recent", "1")
        await two.sync()
        async with watching(two) as watcher:
            await watcher.heard("")
            clock.advance(-3 * 86_400)
            await one.remember("old", "2")
            clock.advance(3 * 86_400)
            await one.sync()
            await watcher.gets(("remembered", "old", "2"))


async def test_what_was_dated_days_ago_and_came_while_the_line_was_cut_is_told_by_a_relay_that_compares(
    device, clock
):
    """Dated before the cursor: whoever begins to listen compares everything first (NIP-77)."""
    async with EmbeddedRelay(clock=clock) as relay, device(relay) as one:
        await writes(one, "recent", "1")
        line = FaultyRelay(relay.url, negentropy=True)
        async with line:
            pass
        async with device(line) as two, watching(two) as watcher:
            async with line:
                await watcher.gets(("remembered", "recent", "1"))
                await watcher.until(lambda: watcher.states[-1:] == [(line.url, "")])
            await watcher.until(lambda: watcher.states[-1][1])
            clock.advance(-3 * 86_400)
            await one.remember("old", "2")
            clock.advance(3 * 86_400)
            await one.sync()
            async with line:
                await watcher.gets(("remembered", "recent", "1"), ("remembered", "old", "2"))


async def test_a_long_name_is_told_even_when_only_its_deletion_is_left(device, clock, signer):
    """Its address is a hash, and an honest relay has dropped the tombstone that says the name."""
    name = "n" * 200
    async with EmbeddedRelay(clock=clock) as relay, device(relay) as one, device(relay) as two:
        await writes(one, name, "1")
        await two.sync()
        await one.forget(name)
        await one.sync()
        async with watching(two) as watcher:
            await watcher.gets(("forgotten", name, None))


async def test_a_version_that_another_client_deletes_by_its_id_is_told(device, clock, signer):
    async with EmbeddedRelay(clock=clock) as relay, device(relay) as one, device(relay) as two:
        ident = await writes(one, "city", "Lisbon")
        await two.sync()
        async with watching(two) as watcher:
            await watcher.heard("")
            await publish(
                relay.url, await signer.sign(Unsigned(int(clock()), KIND_DELETION, (("e", ident),), ""))
            )
            await watcher.gets(("forgotten", "city", None))


async def test_another_process_on_the_same_ledger_is_told_of(device, clock, tmp_path):
    """Also where a relay brings the same events, and where there is no relay at all."""
    file = tmp_path / "shared.db"
    async with (
        EmbeddedRelay(clock=clock) as relay,
        device(relay, ledger=file) as other,
        device(relay, ledger=file) as two,
        watching(two) as watcher,
    ):
        await watcher.heard("")
        await writes(other, "city", "Lisbon")
        await watcher.gets(("remembered", "city", "Lisbon"))
        await other.journal("entry")
        await other.forget("city")
        await other.sync()
        await watcher.until(lambda: len(watcher.changes) == 3)
        assert [kind for kind, _, _ in watcher.told[1:]] == ["journal", "forgotten"]
    async with device(ledger=file) as other, device(ledger=file) as two, watching(two) as watcher:
        await other.remember("city", "Porto")
        await watcher.gets(("remembered", "city", "Porto"))
        assert watcher.changes[0].relay is None


# ── Relays that come and go ─────────────────────────────────────────────────────────────


async def test_two_relays_bring_the_same_event_and_it_is_told_once(device, clock):
    async with (
        EmbeddedRelay(clock=clock) as here,
        EmbeddedRelay(clock=clock) as there,
        device(here, there) as one,
        device(here, there) as two,
        watching(two) as watcher,
    ):
        await watcher.heard("", relay=here.url)
        await watcher.heard("", relay=there.url)
        for number in range(5):
            await writes(one, f"k{number}", "v")
        await watcher.gets(*(("remembered", f"k{number}", "v") for number in range(5)))


async def test_what_is_written_while_the_line_is_cut_is_told_exactly_once(device, clock):
    record = Record()
    async with EmbeddedRelay(clock=clock) as relay, device(relay) as one:
        line = FaultyRelay(relay.url, record)
        async with line:
            pass
        async with device(line) as two, watching(two) as watcher:
            for number in range(3):
                async with line:
                    await watcher.until(lambda: watcher.states[-1:] == [(line.url, "")])
                    await writes(one, f"live{number}", "v")
                    await watcher.until(lambda number=number: len(watcher.changes) == 2 * number + 1)
                await watcher.until(lambda: watcher.states[-1][1])
                await writes(one, f"cut{number}", "v")
            async with line:
                await watcher.gets(
                    *(("remembered", f"{how}{number}", "v") for number in range(3) for how in ("live", "cut"))
                )

    asked = [frame for _, frame in record.frames if frame[0] == "REQ"]
    assert sum(map(is_live, asked)) == 4, "each connection has one live subscription"
    assert is_live(asked[0]), "and it is opened before anything is pulled"


async def test_a_relay_that_was_restarted_is_listened_to_again(device, clock):
    relay = EmbeddedRelay(clock=clock)
    async with relay, device(relay) as one:
        await writes(one, "before", "1")
    async with device(relay) as two, watching(two) as watcher:
        await watcher.heard("refused the connection")
        async with relay, device(relay) as one:
            await watcher.heard("refused the connection", "")
            await writes(one, "after", "2")
            await watcher.gets(("remembered", "before", "1"), ("remembered", "after", "2"))


class Hears(Fault):
    """Answers the nth live REQ, and all from there on, in its own way."""

    def __init__(self, *answer, first=1):
        super().__init__()
        self.answer, self.left = answer, first

    def from_client(self, frame, talk):
        if is_live(frame):
            self.left -= 1
            if self.left <= 0:
                talk.answer(*([*reply[:1], frame[1], *reply[1:]] for reply in self.answer))
                return
        yield frame


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([["CLOSED", "blocked: no live subscriptions here"]], "blocked; asked every 30 s"),
        ([["CLOSED", "error: \x1b[31mtoo many subscriptions"]], "relay error; asked every 30 s"),
        ([["EOSE"], ["CLOSED", "restricted: paying members"]], "restricted; asked every 30 s"),
    ],
    ids=["refused", "closed", "closed later"],
)
async def test_a_relay_that_will_not_tell_is_asked_now_and_then(device, clock, answer, reason):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        FaultyRelay(relay.url, Hears(*answer)) as liar,
        device(relay) as one,
        device(liar) as two,
        watching(two) as watcher,
    ):
        await watcher.until(lambda: (liar.url, reason) in watcher.states)
        await writes(one, "city", "Lisbon")
        await watcher.gets(("remembered", "city", "Lisbon"))
        assert liar.url in {change.relay for change in watcher.changes}


class ClosesAfterEach(Fault):
    """Closes a live subscription with every event it sends on it, and swallows the next one."""

    def __init__(self):
        super().__init__()
        self.closed = set()

    def from_relay(self, frame, talk):
        live = frame[0] == "EVENT" and is_live(["REQ", frame[1], *talk.filters[frame[1]]])
        if not live or frame[1] not in self.closed:
            yield frame
        if live and frame[1] not in self.closed:
            self.closed.add(frame[1])
            yield ["CLOSED", frame[1], "error: subscription timed out"]


@pytest.mark.usefixtures("hurried")
async def test_nothing_is_lost_where_the_relay_ends_the_subscription_again_and_again(device, clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        FaultyRelay(relay.url, ClosesAfterEach()) as liar,
        device(relay) as one,
        device(liar) as two,
        watching(two) as watcher,
    ):
        await watcher.until(lambda: (liar.url, "") in watcher.states)
        for number in range(6):
            await writes(one, f"k{number}", "v")
        await watcher.until(lambda: len(watcher.changes) >= 6)
        assert sorted(path for _, path, _ in watcher.told) == [f"k{number}" for number in range(6)]


class HangsUpOnNews(Fault):
    """Cuts the line instead of delivering a live event, the first few times."""

    def __init__(self, times):
        super().__init__()
        self.left = times

    def from_relay(self, frame, talk):
        if self.left and frame[0] == "EVENT" and is_live(["REQ", frame[1], *talk.filters[frame[1]]]):
            self.left -= 1
            yield HANGUP
        yield frame


async def test_a_line_that_is_cut_with_every_event_loses_none(device, clock):
    """Reconnecting is bounded: so often at once in an hour, then with the next regular round."""
    lie = HangsUpOnNews(10)
    async with (
        EmbeddedRelay(clock=clock) as relay,
        FaultyRelay(relay.url, lie) as liar,
        device(relay) as one,
        device(liar) as two,
        watching(two) as watcher,
    ):
        await watcher.until(lambda: (liar.url, "") in watcher.states)
        for number in range(4):
            await writes(one, f"k{number}", "v")
            await watcher.until(lambda number=number: len(watcher.changes) == number + 1)
        assert {path for _, path, _ in watcher.told} == {"k0", "k1", "k2", "k3"}
        assert len(liar.upgrades) <= 12


class Forges(Fault):
    """Before each live event, sends false ones: forged, foreign, of another kind, moved, and repeated ones."""

    def __init__(self, *events):
        super().__init__()
        self.events = events

    def from_relay(self, frame, talk):
        if frame[0] == "EVENT" and is_live(["REQ", frame[1], *talk.filters[frame[1]]]):
            event = frame[2]
            false = [
                {**event, "sig": "00" * 64},
                {**event, "content": "A" + event["content"][1:]},
                {},
                7,
                {"id": "no id"},
                {"id": 7},
                *self.events,
            ]
            yield from (["EVENT", frame[1], value] for value in false)
            yield frame
        yield frame


async def test_false_events_of_a_live_subscription_are_not_believed(device, clock, signer):
    """What comes live is verified as everything else: signature, author, kind, key and address."""
    stranger = LocalSigner.generate()
    tags = (("d", "sense-memory/stolen"),)
    content = await signer.encrypt(
        json.dumps({"type": "sense-memory:kv", "key": "elsewhere", "value": "x", "ts": 1}).encode(),
        signer.public_key,
    )
    lies = [
        await stranger.sign(Unsigned(int(clock()), 30078, tags, content)),
        await signer.sign(Unsigned(int(clock()), 1, tags, content)),
        await signer.sign(Unsigned(int(clock()), 30078, tags, content)),
        await signer.sign(Unsigned(int(clock()), 30078, tags, "not encrypted")),
        await signer.sign(Unsigned(int(clock()), 30078, (("d", "another app"),), content)),
    ]
    forges = Forges(*(event.as_json() for event in lies))
    async with (
        EmbeddedRelay(clock=clock) as relay,
        FaultyRelay(relay.url, forges) as liar,
        device(relay) as one,
        device(liar) as two,
        watching(two) as watcher,
    ):
        await watcher.heard("")
        await writes(one, "city", "Lisbon")
        await writes(one, "food", "bread")
        await watcher.gets(("remembered", "city", "Lisbon"), ("remembered", "food", "bread"))
        assert [memory.key for memory in await two.recall_all()] == ["city", "food"]


async def test_more_than_can_be_filed_at_once_is_pulled_instead(device, clock, monkeypatch, hurried):
    monkeypatch.setattr(listening, "MAX_LIVE_WAITING_COUNT", 3)
    async with (
        EmbeddedRelay(clock=clock) as relay,
        device(relay) as one,
        device(relay) as two,
        watching(two) as watcher,
    ):
        await watcher.heard("")
        await one.remember_many((f"k{number}", "v") for number in range(200))
        await one.sync()
        await watcher.until(lambda: len(watcher.changes) >= 200)
        assert (relay.url, "sends events faster than they can be stored; asked every 30 s") in watcher.states
        assert sorted(path for _, path, _ in watcher.told) == sorted(f"k{number}" for number in range(200))


async def test_a_subscription_is_kept_only_while_somebody_watches(device, clock):
    record = Record()
    async with (
        EmbeddedRelay(clock=clock) as relay,
        FaultyRelay(relay.url, record) as line,
        device(line, background=True) as two,
    ):
        await two.sync()
        assert not any(map(is_live, record.said("REQ")))
        for _ in range(2):
            record.frames.clear()
            async with watching(two) as first, watching(two) as second:
                await first.heard("")
                await second.heard("")
            (opened,) = filter(is_live, record.said("REQ"))
            async with asyncio.timeout(5 * SECOND):
                await record.until(lambda it, opened=opened: ["CLOSE", opened[1]] in it.said("CLOSE"))


async def test_with_the_last_watch_a_store_that_follows_no_relays_stops_following_them(
    device, clock, hurried
):
    record = Record()
    async with (
        EmbeddedRelay(clock=clock) as relay,
        FaultyRelay(relay.url, record) as line,
        device(line) as two,
    ):
        async with watching(two) as watcher:
            await watcher.heard("")
        async with asyncio.timeout(5 * SECOND):
            await record.until(lambda it: it.said("CLOSE"))
            while parts_of(two).replication.pool()._background is not None:  # noqa: ASYNC110 - it has no event of its own
                await asyncio.sleep(0)
            await asyncio.wait(parts_of(two).replication.pool()._stopped)
        await two.remember("waits", "here")
        await asyncio.wait_for(two.flush(), 5 * SECOND)
        assert len(record.published) == 1


# ── Those who watch ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_watch_of_a_ledger_file_that_is_gone_ends_and_says_so(device, tmp_path, is_replaced):
    path = tmp_path / "palace.db"
    async with device(ledger=path) as two:
        watch = two.watch()
        path.rename(tmp_path / "elsewhere")
        if is_replaced:
            path.write_bytes((tmp_path / "elsewhere").read_bytes())

        async with asyncio.timeout(5 * SECOND):
            with pytest.raises(LedgerError, match="deleted or replaced while it was open, so changes"):
                await anext(watch)
        with pytest.raises(StopAsyncIteration):
            await anext(watch)


async def test_a_slow_watch_is_told_that_it_missed_something_and_others_go_on(device, clock, monkeypatch):
    monkeypatch.setattr(watching_module, "MAX_CHANGES_COUNT", 3)
    async with EmbeddedRelay(clock=clock) as relay, device(relay) as one, device(relay) as two:
        slow = two.watch()
        async with watching(two) as watcher:
            await watcher.heard("")
            for number in range(5):
                await writes(one, f"k{number}", "v")
                await watcher.until(lambda number=number: len(watcher.changes) == number + 1)

            with pytest.raises(ChangesMissed, match="recall_all"):
                await anext(slow)
            with pytest.raises(StopAsyncIteration):
                await anext(slow)
            assert len(await two.recall_all()) == 5

            slow = two.watch()
            await writes(one, "last", "v")
            assert (await anext(slow)).path == "last"


async def test_a_watch_that_has_just_begun_does_not_hold_up_the_end_of_its_store(device):
    """Its task was cancelled before its first step, and the store waited for ever, with a processor at work."""
    async with device() as store:
        waits = asyncio.create_task(store.watch().next())
        await asyncio.sleep(0)

    assert await waits is None


async def test_closing_the_store_ends_every_watch(device, clock):
    async with EmbeddedRelay(clock=clock) as relay, device(relay) as one:
        two = device(relay)
        async with two:
            watchers = [Watcher(two) for _ in range(3)]
            await watchers[0].heard("")
            idle = two.watch()
            await writes(one, "city", "Lisbon")
            await watchers[0].gets(("remembered", "city", "Lisbon"))
        async with asyncio.timeout(5 * SECOND):
            await asyncio.gather(*(watcher.task for watcher in watchers))
            assert [change.path async for change in idle] == ["city"], "what had come is still told"
        with pytest.raises(StoreClosed):
            two.watch()


async def test_cancelling_or_ending_one_watch_leaves_the_others_alone(device, clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        device(relay) as one,
        device(relay) as two,
        watching(two) as watcher,
    ):
        await watcher.heard("")
        cancelled = asyncio.create_task(anext(two.watch()))
        async with two.watch() as ended:
            await asyncio.sleep(0)
            cancelled.cancel()
        await asyncio.wait([cancelled])
        with pytest.raises(StopAsyncIteration):
            await anext(ended)
        await writes(one, "city", "Lisbon")
        await watcher.gets(("remembered", "city", "Lisbon"))


async def test_a_loop_that_is_left_can_be_begun_again(device, clock):
    async with EmbeddedRelay(clock=clock) as relay, device(relay) as one, device(relay) as two:
        for number in range(3):
            watch = two.watch()
            await writes(one, f"k{number}", "v")
            async with asyncio.timeout(5 * SECOND):
                async for change in watch:
                    assert change.path == f"k{number}"
                    break
            await watch.aclose()


async def test_what_goes_wrong_in_a_callback_reaches_whoever_watches(device, clock):
    def fails(url, problem):
        raise ZeroDivisionError

    async with EmbeddedRelay(clock=clock) as relay, device(relay) as two, watching(two) as watcher:
        with pytest.raises(ZeroDivisionError):
            async with asyncio.timeout(5 * SECOND):
                await anext(two.watch(on_relay=fails))
        await watcher.heard("")


def test_the_blocking_store_watches_too(signer, clock, tmp_path):
    options = {"clock": clock, "ledger": tmp_path / "a.db"}
    with SyncMemoryStore(signer, **options) as one, SyncMemoryStore(signer, **options) as two:
        with two.watch() as changes:
            one.remember("city", "Lisbon")
            assert next(changes).value == "Lisbon"
        assert list(changes) == []

        waiting, found = two.watch(), []
        thread = threading.Thread(target=lambda: found.extend(waiting))
        thread.start()
        one.remember("food", "bread")
        two.close()
        thread.join(5 * SECOND)
        assert not thread.is_alive()
        assert {change.path for change in found} <= {"food"}
        assert list(waiting) == []
