"""The page "sense-memory v2" as tests: its signatures, its storage, its examples and its bounds, in its order."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from sense_memory import EmbeddedRelay, IntrospectionReport, MemoryStore, PersonaMemory, State
from sense_memory.errors import PlanLimitError
from sense_memory.palace.lifecycle import current_relevance
from sense_memory.store.journal import StoreJournal
from tests.inside import ledger_of, signer_of


DAY = 86_400.0
ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / ".venv" / "published" / "bin" / "python"

LAYOUT = {  # "Event Layout", the line of persona memories, and the JSON type of each field
    "type": str,
    "domain": str,
    "facet": str,
    "key": str,
    "value": str,
    "relevance": (int, float),
    "halflife_days": (int, float),
    "last_accessed": (int, float),
    "access_count": int,
    "connections": list,
    "contradicts": list,
    "superseded_by": (str, type(None)),
    "themes": list,
    "source": str,
    "confidence": (int, float),
    "state": str,
    "created_at": (int, float),
}
VERGEL = ("people", "facts", "vergel-prefers-vanilla-js")


async def events(store):
    """What is stored, decrypted with the key alone: d-tag (or kind) and fields."""
    found = []
    for body in ledger_of(store).bodies():
        event = json.loads(body)
        if event["kind"] != 5:
            tag = next((tag[1] for tag in event["tags"] if tag[0] == "d"), event["kind"])
            found.append(
                (tag, json.loads(await signer_of(store).decrypt(event["content"], store.public_key)))
            )
    return found


async def listed(store, key):
    """A memory, looked at without reviving it."""
    found = await store.persona_recall(include_forgotten=True)
    return next(memory for memory in found if memory.key == key)


# ── API ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("remember", {"key": ..., "value": ...}),
        ("recall", {"key": ...}),
        ("recall_all", {}),
        ("forget", {"key": ...}),
        ("journal", {"content": ...}),
        ("recent", {"limit": 20}),
        (
            "persona_remember",
            {"domain": ..., "facet": ..., "key": ..., "value": ..., "themes": (), "connections": ()},
        ),
        ("persona_recall", {"domain": None, "facet": None, "key": None}),
        ("persona_search", {"query": ..., "limit": 10}),
        ("persona_connect", {"key1": ..., "key2": ...}),
        ("persona_contradict", {"old_key": ..., "new_key": ...}),
        ("persona_introspect", {}),
        ("persona_compress", {"domain": None}),
        ("persona_prune", {}),
        ("persona_domains", {}),
        ("persona_facets", {"domain": ...}),
        ("persona_stats", {}),
    ],
)
def test_every_method_of_the_page_is_there_with_its_arguments(name, signature):
    """In its order and with its defaults (a list of nothing is a tuple here); what we add is keyword-only."""
    method = StoreJournal.__call__ if name == "journal" else getattr(MemoryStore, name)
    assert inspect.iscoroutinefunction(method)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    page = {
        item.name: ... if item.default is item.empty else item.default
        for item in parameters
        if item.kind is item.POSITIONAL_OR_KEYWORD
    }
    assert (list(page), page) == (list(signature), signature)
    for item in parameters:
        if item.kind is not item.POSITIONAL_OR_KEYWORD:
            assert (item.kind, item.default is item.empty) == (item.KEYWORD_ONLY, False)


def test_the_types_have_the_fields_and_defaults_of_the_page():
    now = 1_800_000_000.0
    memory = PersonaMemory(domain="people", facet="facts", key="lisa", value="artist", created_at=now)
    assert (memory.relevance, memory.halflife_days, memory.access_count) == (1.0, 30.0, 0)
    assert (memory.last_accessed, memory.last_reinforced, memory.created_at) == (now, now, now)
    assert (list(memory.connections), list(memory.contradicts), memory.superseded_by) == ([], [], None)
    assert (list(memory.themes), memory.source, memory.confidence, memory.state) == ([], "", 1.0, "active")
    assert {
        "total_memories",
        "active",
        "fading",
        "forgotten",
        "contradictions",
        "stale_beliefs",
        "orphaned",
        "overloaded_facets",
        "suggested_connections",
        "suggested_revisions",
        "suggested_compressions",
    } <= IntrospectionReport.model_fields.keys()


async def test_every_method_returns_what_the_page_says(open_store):
    async with open_store() as store:
        ident = await store.persona_remember(*VERGEL, "Vergel prefers vanilla JS", ["code"])
        await store.persona_remember("people", "facts", "lisa", "artist")
        (found,) = await store.persona_recall(*VERGEL)
        assert (len(ident), type(found)) == (64, PersonaMemory)
        assert all(isinstance(hit, PersonaMemory) for hit in await store.persona_search("vergel"))
        assert await store.persona_connect("lisa", VERGEL[2]) is None
        assert await store.persona_contradict("lisa", VERGEL[2]) is None
        assert type(await store.persona_introspect()) is IntrospectionReport
        assert isinstance(await store.persona_compress(), str)
        assert isinstance(await store.persona_prune(), int)
        assert (await store.persona_domains(), await store.persona_facets("people")) == (
            ["people"],
            ["facts"],
        )
        stats = await store.persona_stats()
        assert (stats["total"], stats["domains"]) == (2, {"people": 2})
        assert set(stats["states"]) == {"active", "fading", "forgotten", "dissolved"}


# ── Storage format ──────────────────────────────────────────────────────────────────────


async def test_a_memory_lies_where_the_page_says_with_the_fields_it_names(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*VERGEL, "Vergel prefers vanilla JS", ["code", "vergel"])
        ((tag, fields),) = await events(store)

        assert tag == "sense-memory/persona/people/facts/vergel-prefers-vanilla-js"
        assert {name: fields[name] for name in LAYOUT if not isinstance(fields[name], LAYOUT[name])} == {}
        assert {name: fields[name] for name in LAYOUT} == {
            "type": "sense-memory:persona",
            "domain": "people",
            "facet": "facts",
            "key": "vergel-prefers-vanilla-js",
            "value": "Vergel prefers vanilla JS",
            "relevance": 1.0,
            "halflife_days": 30.0,
            "last_accessed": clock(),
            "access_count": 0,
            "connections": [],
            "contradicts": [],
            "superseded_by": None,
            "themes": ["code", "vergel"],
            "source": "",
            "confidence": 1.0,
            "state": "active",
            "created_at": clock(),
        }


async def test_nothing_of_a_memory_can_be_seen_from_outside_but_its_address(open_store, clock):
    async with EmbeddedRelay(clock=clock) as relay, open_store(relays=[relay.url]) as store:
        await store.persona_remember(*VERGEL, "zanzibar", ["kilimanjaro"], source="tool:mombasa")
        await store.persona_remember("people", "facts", "lisa", "dodoma", [], [VERGEL[2]])
        await store.persona_introspect()
        await store.sync()
        async with connect(relay.url, compression=None) as socket:
            await socket.send('["REQ","all",{}]')
            seen = []
            while (frame := json.loads(await socket.recv()))[0] != "EOSE":
                seen += [frame[2]] if frame[0] == "EVENT" else []

        assert {event["kind"] for event in seen} == {30078}
        assert sorted(event["tags"] for event in seen) == [
            [["d", f"sense-memory/introspection/{int(clock())}"]],
            [["d", "sense-memory/persona/people/facts/lisa"]],
            [["d", "sense-memory/persona/people/facts/vergel-prefers-vanilla-js"]],
        ]
        for word in ("zanzibar", "kilimanjaro", "mombasa", "dodoma"):
            assert word not in json.dumps(seen)


async def test_v1_is_unchanged_beside_v2(open_store, clock):
    async with open_store() as store:
        await store.remember("lisa", "flat")
        await store.journal("an entry")
        await store.persona_remember("people", "facts", "lisa", "persona")
        stored = dict(await events(store))

        device = ledger_of(store).edits.device
        assert stored["sense-memory/lisa"] == {
            "type": "sense-memory:kv",
            "key": "lisa",
            "value": "flat",
            "ts": clock(),
            "seen": {device: clock()},
            "said": device,
        }
        assert stored[4] == {"type": "sense-memory:journal", "content": "an entry", "ts": clock()}
        assert [memory.value for memory in await store.persona_recall()] == ["persona"]
        assert [memory.value for memory in await store.persona_recall(key="lisa")] == ["persona"]
        assert [memory.value for memory in await store.persona_search("lisa")] == ["persona"]
        assert (await store.recall("lisa")).value == "flat"
        assert [memory.value for memory in await store.recall_all()] == ["flat"]
        assert await store.persona_domains() == ["people"]
        await store.forget("lisa")
        assert [memory.value for memory in await store.persona_recall("people", "facts", "lisa")] == [
            "persona"
        ]
        await store.remember("lisa", "flat again")
        await store.persona_forget("people", "facts", "lisa")
        assert ((await store.recall("lisa")).value, await store.persona_recall()) == ("flat again", [])


async def test_an_introspection_is_logged_where_the_page_says(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*VERGEL, "Vergel prefers vanilla JS")
        await store.persona_introspect()
        fields = dict(await events(store))[f"sense-memory/introspection/{int(clock())}"]

        assert fields["type"] == "sense-memory:introspection"
        assert isinstance(fields["report"], dict)


@pytest.mark.skipif(
    not PUBLISHED.exists(), reason="the environment of sense-memory 0.3.1 is made by `make test`"
)
async def test_the_published_package_makes_its_persona_memory_of_ours_and_we_of_its(
    open_store, written_elsewhere, clock
):
    """0.3.1 has the type and no method that stores it: its dict is what other programs write."""
    program = (
        "import json, sys; from sense_memory import PersonaMemory;"
        "memory = PersonaMemory.from_dict(json.load(sys.stdin));"
        f"now = {clock() + 10 * DAY};"
        "print(json.dumps([memory.d_tag, memory.current_relevance(now), memory.compute_state(now), memory.to_dict()]))"
    )
    async with open_store() as store:
        await store.persona_remember(*VERGEL, "Vergel prefers vanilla JS", ["code"], confidence=0.5)
        await store.persona_remember("people", "facts", "lisa", "artist", [], [VERGEL[2]])
        ours = await listed(store, VERGEL[2])
        fields = dict(await events(store))[f"sense-memory/persona/{ours.path}"]
        process = await asyncio.create_subprocess_exec(
            *(PUBLISHED, "-P", "-c", program), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate(json.dumps(fields).encode())
        tag, relevance, state, theirs = json.loads(out)
        assert tag == f"sense-memory/persona/{ours.path}"
        assert relevance == pytest.approx(current_relevance(ours, clock() + 10 * DAY))
        assert state == "active"
        assert {name: fields[name] for name in theirs} == theirs

    async with open_store("another device") as store:
        await written_elsewhere(store, theirs, clock())
        back = await listed(store, VERGEL[2])
        unlike = {"event_id", "seen"}
        assert back.model_dump(exclude=unlike) == ours.model_dump(exclude=unlike)
        assert back.seen == {}


# ── Knowledge half-life ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("days", "state"),
    [
        (0, "active"),
        (52, "active"),  # 0.5^(52/30) = 0.3008
        (53, "fading"),
        (99, "fading"),  # 0.1015
        (100, "forgotten"),
        (199, "forgotten"),  # 0.01007
        (200, "dissolved"),
    ],
)
async def test_a_memory_goes_through_the_states_of_the_page(open_store, clock, days, state):
    """And with each state: what search, context, listing and exact recall make of it."""
    async with open_store() as store:
        await store.persona_remember(*VERGEL, "Vergel likes plain pages", ["code", "style"])
        clock.advance(days * DAY)
        memory = await listed(store, VERGEL[2])
        assert memory.state == state
        assert memory.relevance == 1.0  # what the last access left; what time made of it is the state

        async def finds(query):
            return [hit.state.value for hit in await store.persona_search(query)]

        active, fading = state == "active", state == "fading"
        assert await finds("plain pages") == [state] * (active or fading)  # all words of the question
        assert await finds("plain bread and honey") == ["active"] * active  # one of them
        assert await finds("style") == [state] * (active or fading)  # a theme: directly relevant
        assert await finds("vergel-prefers-vanilla-js") == [state] * (active or fading)
        assert (
            "plain pages" in await store.persona_compress() or "vergel" in await store.persona_compress()
        ) == active
        assert len(await store.persona_recall("people")) == (active or fading)
        report = await store.persona_introspect()
        assert getattr(report, state) == report.total_memories == 1

        (revived,) = await store.persona_recall(*VERGEL)
        assert (revived.state, revived.relevance, revived.access_count) == ("active", 1.0, 1)
        assert await finds("plain pages") == ["active"]


async def test_connections_lift_contradictions_halve_and_a_superseded_memory_falls_four_times_as_fast(
    open_store, clock
):
    async with open_store() as store:
        for key in ("plain", "linked", "beaten", "victor"):
            await store.persona_remember("world", "facts", key, f"text of {key}")
        await store.persona_connect("linked", "plain")
        await store.persona_connect("linked", "victor")
        await store.persona_contradict("beaten", "victor")
        clock.advance(30 * DAY)
        now = clock()

        assert current_relevance(await listed(store, "plain"), now) == pytest.approx(0.5 * 1.1)
        assert current_relevance(await listed(store, "linked"), now) == pytest.approx(0.5 * 1.2)
        assert current_relevance(await listed(store, "beaten"), now) == pytest.approx(0.5**4 * 0.5)
        assert current_relevance(await listed(store, "victor"), now) == pytest.approx(0.5 * 1.1)


async def test_a_dissolved_memory_is_deleted_thirty_days_after_it_was_seen_so(open_store, clock):
    async with EmbeddedRelay(clock=clock) as relay, open_store(relays=[relay.url]) as store:
        await store.persona_remember(*VERGEL, "Vergel prefers vanilla JS")
        clock.advance(200 * DAY)
        assert await store.persona_prune() == 1
        clock.advance(29.9 * DAY)
        assert await store.persona_prune() == 0
        assert (await listed(store, VERGEL[2])).state is State.DISSOLVED
        clock.advance(0.1 * DAY)
        assert await store.persona_prune() == 1
        assert await store.persona_recall(*VERGEL) == []
        assert (await store.sync()).in_step
        async with connect(relay.url, compression=None) as socket:
            await socket.send('["REQ","all",{"kinds":[30078]}]')
            frames = [json.loads(await socket.recv()) for _ in range(2)]
        assert "EVENT" not in {frame[0] for frame in frames}


# ── Compression ─────────────────────────────────────────────────────────────────────────

EXAMPLE = [
    ("people", "facts", "lisa", "Lisa is an artist. She teaches workshops and is our partner."),
    ("people", "facts", "ruca", "Ruca is a dog, a walking companion and an idea catalyst."),
    (
        *("projects", "decisions", "voxrelay-voice"),
        "We chose Orpheus 3B over Kokoro because of its warmth, 3B params and emotion tags.",
    ),
    ("self", "beliefs", "sovereign-ai", "Every process needs its own Nostr keypair."),
]


async def test_compression_has_the_format_of_the_page(open_store, clock):
    async with open_store() as store:
        await store.persona_remember("world", "facts", "stale", "Nobody needs the old tide tables.")
        clock.advance(60 * DAY)  # that one is fading now
        for place in EXAMPLE:
            await store.persona_remember(*place)
        text = await store.persona_compress()
        sections = {part.split("\n")[0]: part.split("\n")[1:] for part in text.split("\n\n")}

        assert set(sections) == {
            "[domain:people/facet:facts]",
            "[domain:projects/facet:decisions]",
            "[domain:self/facet:beliefs]",
        }
        lines = dict(line.split(": ", 1) for part in sections.values() for line in part)
        assert set(lines) == {"lisa", "ruca", "voxrelay-voice", "sovereign-ai"}
        decision = lines["voxrelay-voice"].lower()
        assert (
            decision.index("orpheus") < decision.index(">") < decision.index("kokoro") < decision.index("(")
        )
        assert decision.index("(") < decision.index("warmth") < decision.index(")")
        assert not any(line.endswith(".") for line in lines.values())
        assert len(text) < sum(len("/".join(place)) for place in EXAMPLE)
        assert await store.persona_compress("self") == "\n".join(
            ["[domain:self/facet:beliefs]", *sections["[domain:self/facet:beliefs]"]]
        )


async def test_an_active_memory_of_hundreds_fits_five_hundred_tokens(open_store):
    """By the usual measure of four characters to a token, and with the most relevant ones in it."""
    async with open_store(ledger=":memory:") as store:
        for number in range(200):
            await store.persona_remember(
                "world", "facts", f"fact-{number}", f"Fact number {number} about river {number}."
            )
        text = await store.persona_compress()
        assert 1_000 < len(text) < 4 * 500


# ── Search ──────────────────────────────────────────────────────────────────────────────


async def test_key_themes_and_value_weigh_three_two_and_one_times_relevance(open_store, clock):
    async with open_store() as store:
        await store.persona_remember("world", "facts", "harbour", "x y z")
        await store.persona_remember("world", "facts", "b", "x y z", ["harbour"])
        await store.persona_remember("world", "facts", "c", "the harbour at noon")
        await store.persona_remember("world", "facts", "all-of-harbour", "a harbour", ["harbour"])
        found = {hit.key: hit.score for hit in await store.persona_search("harbour")}
        assert found == {"all-of-harbour": 6.0, "harbour": 3.0, "b": 2.0, "c": 1.0}
        clock.advance(15 * DAY)
        await store.persona_recall("world", "facts", "c")
        found = {hit.key: hit.score for hit in await store.persona_search("harbour")}
        assert list(found) == ["all-of-harbour", "harbour", "b", "c"]
        assert found["harbour"] == pytest.approx(3 * 0.5**0.5, rel=1e-5)
        assert found["c"] == pytest.approx(1.0)
        clock.advance(15 * DAY)
        await store.persona_recall("world", "facts", "b")
        assert [hit.key for hit in await store.persona_search("harbour", 2)] == ["all-of-harbour", "b"]


# ── Introspection ───────────────────────────────────────────────────────────────────────


async def test_a_new_memory_that_says_the_opposite_supersedes_the_old_one(open_store, clock):
    """ "Contradiction Detection": the old one is marked, the new one starts at full relevance."""
    async with open_store() as store:
        await store.persona_remember(
            "projects", "beliefs", "editor", "Vim is the best editor for this project", ["editor", "vim"]
        )
        clock.advance(DAY)
        await store.persona_remember(
            "projects",
            "beliefs",
            "editor-now",
            "Vim is not the best editor for this project",
            ["editor", "vim"],
        )
        old, new = await listed(store, "editor"), await listed(store, "editor-now")
        assert (old.contradicts, old.superseded_by) == (("projects/beliefs/editor-now",), new.path)
        assert (new.contradicts, new.superseded_by, new.relevance) == ((), None, 1.0)
        report = await store.persona_introspect()
        assert [(a.key, b.key) for a, b in report.contradictions] == [("editor", "editor-now")]


async def test_only_the_same_domain_and_facet_are_looked_at(open_store):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "home", "Lisa lives in Berlin")
        await store.persona_remember("people", "beliefs", "home", "Lisa lives in Lisbon")
        assert [memory.superseded_by for memory in await store.persona_recall()] == [None, None]


async def test_memories_that_share_two_themes_are_suggested_until_they_are_connected(open_store):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa", "artist", ["art", "berlin", "x"])
        await store.persona_remember(
            "projects", "decisions", "poster", "a poster for the fair", ["art", "berlin", "y"]
        )
        await store.persona_remember("world", "facts", "fair", "in May", ["art", "z"])
        report = await store.persona_introspect()
        assert [sorted((a.key, b.key)) for a, b in report.suggested_connections] == [["lisa", "poster"]]
        assert {memory.key for memory in report.orphaned} == {"lisa", "poster", "fair"}
        await store.persona_connect("lisa", "poster")
        assert (await listed(store, "lisa")).connections == ("projects/decisions/poster",)
        assert (await listed(store, "poster")).connections == ("people/facts/lisa",)
        report = await store.persona_introspect()
        assert (report.suggested_connections, [memory.key for memory in report.orphaned]) == ((), ["fair"])


async def test_beliefs_of_low_confidence_and_low_relevance_are_stale(open_store, clock):
    async with open_store() as store:
        await store.persona_remember("self", "beliefs", "doubt", "Perhaps mornings are best", confidence=0.3)
        await store.persona_remember("self", "beliefs", "sure", "Letterpress is worth it", confidence=0.9)
        await store.persona_remember("self", "facts", "fact", "Born in 2026", confidence=0.3)
        assert (await store.persona_introspect()).stale_beliefs == ()
        clock.advance(70 * DAY)
        assert [memory.key for memory in (await store.persona_introspect()).stale_beliefs] == ["doubt"]


# ── Tiers ───────────────────────────────────────────────────────────────────────────────


async def test_the_free_tier_holds_one_domain_one_facet_and_a_hundred_memories(open_store):
    async with open_store(plan="free", ledger=":memory:") as store:

        async def refused(call):
            before = sorted(ledger_of(store).bodies())
            with pytest.raises(PlanLimitError) as caught:
                await call
            assert caught.value.plan == "free"
            assert sorted(ledger_of(store).bodies()) == before
            return caught.value.limit

        await store.remember("flat", "counts too")
        for number in range(99):
            await store.persona_remember("people", "facts", f"p{number}", f"Person number {number}")
        assert await refused(store.persona_remember("people", "facts", "one-more", "x")) == "max_memories"
        assert await refused(store.remember("another", "x")) == "max_memories"
        assert (
            await refused(store.persona_remember("people", "facts", "p1", "x", halflife_days=9)) == "halflife"
        )
        await store.persona_forget("people", "facts", "p0")
        assert await refused(store.persona_remember("world", "facts", "k", "x")) == "max_domains"
        assert await refused(store.persona_remember("people", "beliefs", "k", "x")) == "max_facets"
        await store.persona_remember("people", "facts", "one-more", "now there is room")
        assert len(await store.persona_recall()) == 99


async def test_the_free_plan_has_basic_compression_word_for_word(open_store):
    said = "Lisa is an artist who teaches workshops"
    for plan, shown in (("free", f"lisa: {said}"), ("keep", "lisa: artist who teaches workshops")):
        async with open_store(plan=plan, ledger=":memory:") as store:
            await store.persona_remember("people", "facts", "lisa", said)
            assert await store.persona_compress() == f"[domain:people/facet:facts]\n{shown}"


async def test_a_plan_by_which_another_device_wrote_more_takes_nothing_away(open_on_disk, clock):
    async with open_on_disk() as store:
        for domain in ("people", "world"):
            await store.persona_remember(domain, "facts", "k", f"of {domain}", halflife_days=90)
    async with open_on_disk(plan="free") as store:
        assert await store.persona_domains() == ["people", "world"]
        await store.persona_remember("world", "facts", "k", "changed")
        await store.persona_connect("people/facts/k", "world/facts/k")
        await store.persona_forget("people", "facts", "k")
        (left,) = await store.persona_recall()
        assert (left.value, left.halflife_days) == ("changed", 90)
