"""What the page is told: calls of the store as JSON, in answers below a megabyte."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.interfaces.web.api import Api
from sense_memory.interfaces.web.server import EDIT_HEADER, PAGE_HEADER, ServerSecrets, application


QUOTED = "my text that an exception quotes"


class Client:
    """Asks the application itself, without a socket, as the browser that has the cookie."""

    def __init__(self, store, clock, *, edits=True) -> None:
        self.access = ServerSecrets(7, edits)
        self.cookie = self.access.exchange(self.access.token)
        self._app = application(self.access, Api(store, self.access, clock=clock).routes())

    async def __call__(self, path, method="GET", data=b""):
        status, content = await self.raw(path, method, data)
        assert len(content) < 1_000_000
        return status, json.loads(content)

    async def raw(self, path, method, data):
        path, _, query = path.partition("?")
        headers = [(b"host", b"127.0.0.1:7"), (b"cookie", f"sense-memory-7={self.cookie}".encode())]
        headers += [
            (PAGE_HEADER.encode(), self.access.page_token.encode()),
            (EDIT_HEADER.encode(), self.access.edit_token.encode()),
            (b"content-type", b"application/json"),
        ]
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "scheme": "http",
            "server": ("127.0.0.1", 7),
            "root_path": "",
        }
        sent = []

        async def receive():
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message):
            sent.append(message)

        await self._app(scope, receive, send)
        return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])

    async def act(self, action, *names):
        return await self("/api/act", "POST", json.dumps({"action": action, "names": names}).encode())


# ── Reading ─────────────────────────────────────────────────────────────────────────────


async def test_the_palace_comes_in_pieces_below_a_megabyte(opened, clock):
    """Rows are of one picture, whatever is written meanwhile."""
    async with opened() as store:
        await store.persona_remember_many(
            [
                {"domain": "world", "facet": "facts", "key": f"{number:04}-{'k' * 200}", "value": "語" * 200}
                for number in range(1_000)
            ],
            contradictions="off",
        )
        client = Client(store, clock)
        _, first = await client("/api/palace")
        await store.persona_forget("world", "facts", f"0000-{'k' * 200}")
        rows, following = first["rows"], first["next"]
        while following is not None:
            _, piece = await client(f"/api/palace?picture={first['picture']}&start={following}")
            rows, following = rows + piece["rows"], piece["next"]

        assert first["next"] is not None
        assert [f"world/facts/{number:04}-{'k' * 200}" for number in range(1_000)] == [row[0] for row in rows]
        assert 1_000 == first["total"]


async def test_the_past_is_what_the_ledger_saw(opened, clock):
    async with opened() as store:
        await store.persona_remember("people", "facts", "lisa", "artist")
        clock.advance(1_000)
        then = clock()
        clock.advance(1_000)
        await store.persona_remember("people", "facts", "lisa", "printmaker")
        await store.persona_remember("people", "facts", "emil", "seven")

        _, past = await Client(store, clock)(f"/api/palace?at={then}")

        assert [("people/facts/lisa", "artist")] == [tuple(row[:2]) for row in past["rows"]]


async def test_the_past_has_the_flat_memories_that_it_had(opened, clock):
    async with opened() as store:
        client, before = Client(store, clock), clock()
        clock.advance(1_000)
        await store.remember("editor", "vim")
        then = clock()
        clock.advance(1_000)
        await store.remember("editor", "emacs")
        await store.remember("timezone", "America/Vancouver")

        none, past, today = [
            (await client(f"/api/flat{when}"))[1] for when in (f"?at={before}", f"?at={then}", "")
        ]

        assert (0, []) == (none["total"], none["rows"])
        assert (1, [("editor", "vim")]) == (
            past["total"],
            [(row["path"], row["value"]) for row in past["rows"]],
        )
        assert (2, ["editor", "timezone"]) == (today["total"], [row["path"] for row in today["rows"]])


async def test_a_search_says_whether_there_are_more_hits_than_it_shows(opened, clock):
    async with opened() as store:
        client = Client(store, clock)
        for number in range(30):
            await store.journal(f"the press, day {number}")
        _, told = await client("/api/search?q=press")
        assert (30, False) == (len(told["hits"]), told["has_more"])

        await store.remember("tool", "the press")
        _, told = await client("/api/search?q=press")
        assert (30, True) == (len(told["hits"]), told["has_more"])


async def test_the_review_counts_the_contradictions_that_are_decided(opened, clock):
    async with opened() as store:
        for key in ("one", "two", "three", "four"):
            await store.persona_remember("people", "facts", key, f"text of {key}", contradictions="off")
        await store.persona_contradict("one", "two")
        await store.persona_contradict("three", "four")

        _, told = await Client(store, clock)("/api/introspection")

        assert ([], 2, 2) == (told["contradictions"], told["counts"]["contradictions"], told["decided"])


@pytest.mark.parametrize(
    "path",
    [
        *("palace", "flat", "graph", "introspection", "journal", "search?q=press"),
        *("mind", "conversation?id=talk"),
    ],
)
async def test_where_no_relay_ever_answered_nothing_here_is_not_nothing_anywhere(clock, path):
    signer = LocalSigner.generate()
    async with (
        MemoryStore(signer, ["ws://127.0.0.1:9"], ledger=":memory:", background=False, clock=clock) as store,
        MemoryStore(signer, ledger=":memory:", background=False, clock=clock) as alone,
    ):
        assert (200, False) == (
            (found := await Client(store, clock)(f"/api/{path}"))[0],
            found[1]["is_whole"],
        )
        assert (await Client(alone, clock)(f"/api/{path}"))[1]["is_whole"]


async def test_a_graph_that_is_too_large_says_how_large_it_is(opened, clock):
    async with opened() as store:
        rows = [
            {
                "domain": "people",
                "facet": "facts",
                "key": f"p{n}",
                "value": f"text {n}",
                "connections": ["hub"],
            }
            for n in range(170)
        ]
        await store.persona_remember("people", "facts", "hub", "the hub", contradictions="off")
        await store.persona_remember_many(rows, contradictions="off")
        client = Client(store, clock)

        for query in ("", "?path=people/facts/hub"):
            _, told = await client(f"/api/graph{query}")
            assert (160, 171, 159) == (len(told["rows"]), told["reachable"], len(told["edges"])), query


async def test_looking_writes_nothing_and_revives_nothing(opened, clock, tmp_path):
    async with opened() as store:
        await store.persona_remember(
            "people", "facts", "lisa", "printmaker", created_at=clock() - 40 * 86_400
        )
        client, before = Client(store, clock), (store.status().counts, await store.persona_recall())
        for path in (
            "palace",
            "memory?path=people/facts/lisa",
            "graph",
            "search?q=printmaker",
            "introspection",
            "relays",
            "journal",
            "mind",
            "flat",
        ):
            assert 200 == (await client(f"/api/{path}"))[0], path

        assert before == (store.status().counts, await store.persona_recall())


async def test_a_memory_comes_with_its_versions_and_holders(opened, clock):
    async with opened() as store:
        await store.persona_remember("people", "facts", "lisa", "artist")
        clock.advance(5)
        await store.persona_remember("people", "facts", "lisa", "printmaker")
        client = Client(store, clock)

        _, told = await client("/api/memory?path=people/facts/lisa")

        assert ["printmaker", "artist"] == [version["value"] for version in told["versions"]]
        assert ({}, [], 1.0) == (told["holders"], told["relays"], told["memory"]["current_relevance"])
        assert (400, "there is no such memory") == _error(
            await client("/api/memory?path=people/facts/nobody")
        )


async def test_a_hit_says_why(opened, clock):
    async with opened() as store:
        await store.persona_remember("people", "facts", "lisa", "teaches printmaking")

        _, told = await Client(store, clock)(f"/api/search?q={quote('printmaking')}")

        (hit,) = told["hits"]
        assert "people/facts/lisa" == hit["path"]
        assert ("word", ["value"]) == (hit["why"]["evidence"][0]["kind"], hit["why"]["evidence"][0]["fields"])


async def test_a_search_shows_the_forgotten_memories_that_it_counts_apart_and_revives_none(opened, clock):
    async with opened() as store:
        client = Client(store, clock)
        await store.persona_remember("people", "facts", "bo", "Bo plays the accordion")
        clock.advance(130 * 86_400)
        for _ in range(2):
            _, told = await client("/api/search?q=accordion")
            assert (told["hits"], told["forgotten"]) == ([], 1)
            assert told["forgotten_note"].startswith("1 forgotten memory matches; ")
            assert [hit["state"] for hit in told["forgotten_hits"]] == ["forgotten"]


async def test_a_search_also_asks_the_mind_whose_hits_stand_apart(opened, clock):
    async with opened() as store:
        client = Client(store, clock)
        assert {"hits": [], "in_mind": []} == (await client("/api/search?q="))[1]
        await store.mind.conversation("talk").add(
            "user", "The press arrives on Friday." + "x" * 500, name="Lisa"
        )

        _, told = await client(f"/api/search?q={quote('when does the press arrive')}")

        (hit,) = told["in_mind"]
        assert [] == told["hits"]
        assert ("conversation", "talk", "Lisa", True) == tuple(
            hit[name] for name in ("place", "conversation", "actor", "is_cut")
        )
        assert ("The press", 400, True) == (
            hit["text"][:9],
            len(hit["text"]),
            "press" in [reason["detail"] for reason in hit["why"]],
        )


async def test_a_prompt_is_what_an_agent_gets_with_its_report_and_uses_nothing(opened, clock):
    async with opened() as store:
        await store.persona_remember("home", "facts", "felt", "The felt is 3 mm thick.")
        chat = store.mind.conversation("chat")
        await chat.add("user", "How thick is the felt?", name="Lisa")
        browser = Client(store, clock)
        clock.advance(9 * 86_400)
        before = await store.persona_recall(revive=False)
        status, told = await browser("/api/prompt?conversation=chat&budget=300")
        mine = await store.mind.prompt("chat", budget=300, revive=False)
        assert 200 == status
        assert [said["content"] for said in told["messages"]] == [said.content for said in mine.messages]
        assert [said["is_said"] for said in told["messages"]] == [False, True]
        assert told["report"] == mine.report.model_dump(mode="json")
        assert told["system"] == mine.system
        assert before == await store.persona_recall(revive=False)
        _, told = await browser("/api/prompt?q=felt")
        assert 2_000 == told["report"]["budget"]
        assert "3 mm" in told["messages"][0]["content"]
        assert 32_000 == (await browser("/api/prompt?budget=900000"))[1]["report"]["budget"]
        assert 400 == (await browser("/api/prompt?budget=5"))[0]


async def test_a_search_without_a_relay_shows_the_memories_of_this_machine(clock):
    """Passages of the mind may lie on the relay, so the mind alone refuses to say what it has."""
    relays, signer = ["ws://127.0.0.1:9"], LocalSigner.generate()
    async with MemoryStore(signer, relays, ledger=":memory:", background=False, clock=clock) as store:
        await store.remember("press", "The press arrives on Friday.")
        await store.mind.log.append("agent.spoke", {"text": "The press is here."}, actor="me")

        status, told = await Client(store, clock)("/api/search?q=press")

        assert (200, ["press"]) == (status, [hit["path"] for hit in told["hits"]])


async def test_mirrored_folders_are_shown_with_what_is_not_in_step_and_why(opened, clock, tmp_path):
    here, gone = tmp_path / "notes", tmp_path / "gone"
    for folder in (here, gone):
        folder.mkdir()
    (here / "MEMORY.md").write_text("heron\n")
    async with opened() as store:
        ask = Client(store, clock)
        assert {"mirrors": []} == (await ask("/api/mirrors"))[1]
        await store.mirror.add(here, project="github.com/ada/engine")
        await store.mirror.sync(here, seconds=0)
        (here / "new.md").write_text("egret\n")
        (here / "login.md").write_text("password = hunter2-but-longer-9X\n")
        await store.mirror.add(gone, project="old")
        gone.rmdir()
        told = {one["project"]: one for one in (await ask("/api/mirrors"))[1]["mirrors"]}

        engine = told["github.com/ada/engine"]
        assert (1, {"new.md": "keep", "login.md": "left"}) == (
            engine["in_step"],
            {step["name"]: step["what"] for step in engine["steps"]},
        )
        assert "is not a folder" in told["old"]["problem"]
        assert ["MEMORY.md"] == [file.name for file in await store.mind.files.all()]  # nothing was done


async def test_links_join_the_memories_of_the_graph(opened, clock):
    async with opened() as store:
        for key in ("lisa", "emil", "jonas", "alone"):
            await store.persona_remember("people", "facts", key, f"this is {key}", contradictions="off")
        await store.persona_connect("lisa", "emil")
        await store.persona_contradict("emil", "jonas")

        _, told = await Client(store, clock)("/api/graph")
        names = [row[0].rpartition("/")[2] for row in told["rows"]]
        edges = {(*sorted((names[one], names[other])), kind) for one, other, kind in told["edges"]}

        assert {"lisa", "emil", "jonas"} == set(names)
        assert {("emil", "lisa", "connection"), ("emil", "jonas", "contradiction")} == edges


@pytest.mark.parametrize(
    "path", ["palace?start=-1", "palace?at=nan", "palace?at=soon", "palace?picture=9", "conversation?id=a/b"]
)
async def test_what_cannot_be_asked_is_an_error_and_no_crash(opened, clock, path):
    async with opened() as store:
        assert 400 == (await Client(store, clock)(f"/api/{path}"))[0]


@pytest.mark.parametrize(
    "path",
    [
        "palace?start",
        "palace?picture",
        "palace?at",
        "flat?start",
        "flat?at",
        "journal?start",
        "conversation?id=talk&start",
    ],
)
async def test_a_number_that_is_none_is_refused_with_a_sentence_that_names_it(opened, clock, path):
    name = path.replace("&", "?").split("?")[-1]
    async with opened() as store:
        await store.mind.conversation("talk").add("user", "hello")
        client = Client(store, clock)
        for value in ("-1", "nan", "inf", "-inf", "1e30", "many", "", "1.5"):
            status, answer = await client(f"/api/{path}={value}")
            if (name, value) == ("at", "1.5"):  # a time has fractions
                assert 200 == status
            else:
                assert 400 == status, value
                assert re.match(rf"{name} must be a (whole )?number", answer["error"]["message"]), value


async def test_a_journal_that_is_asked_for_its_far_end_has_an_end(opened, clock):
    async with opened() as store:
        await store.journal("one entry")
        _, told = await Client(store, clock)("/api/journal?start=1000000")

    assert ([], None, 1) == (told["rows"], told["next"], told["total"])


# ── Editing ─────────────────────────────────────────────────────────────────────────────


async def test_decisions_are_those_of_the_store(opened, clock):
    async with opened() as store:
        for key in ("one", "two"):
            await store.persona_remember("people", "facts", key, f"text of {key}", contradictions="off")
        client = Client(store, clock)

        async def memory(key):
            return next(found for found in await store.persona_recall("people", "facts") if found.key == key)

        assert 200 == (await client.act("connect", "people/facts/one", "people/facts/two"))[0]
        assert ("people/facts/two",) == (await memory("one")).connections
        assert 200 == (await client.act("contradict", "people/facts/one", "people/facts/two"))[0]
        assert "people/facts/two" == (await memory("one")).superseded_by
        _, told = await client("/api/introspection")
        assert (told["counts"]["contradictions"], told["decided"], told["contradictions"]) == (1, 1, [])
        assert 200 == (await client.act("reconcile", "people/facts/one", "people/facts/two"))[0]
        assert (await memory("one")).superseded_by is None

        # Links are no text: an undo leaves them, and says that nothing was undone.
        assert (await client("/api/memory?path=people/facts/one"))[1]["can_undo"] is False
        assert {"done": "undo", "changed": False} == (await client.act("undo", "people/facts/one"))[1]
        assert 200 == (await client.act("disconnect", "people/facts/one", "people/facts/two"))[0]
        assert () == (await memory("one")).connections == (await memory("two")).connections
        await store.persona_remember("people", "facts", "one", "another text", contradictions="off")
        assert (await client("/api/memory?path=people/facts/one"))[1]["can_undo"] is True
        assert {"done": "undo", "changed": True} == (await client.act("undo", "people/facts/one"))[1]
        assert "text of one" == (await memory("one")).value


async def test_what_sessions_proposed_is_listed_and_decided_about(opened, clock):
    async with opened() as store:
        await store.mind.proposals.propose(["From now on always answer in German. I live in Graz."])
        client = Client(store, clock)
        german, home = (await client("/api/proposals"))[1]["proposals"]

        assert 200 == (await client.act("accept-proposal", german["id"]))[0]
        assert 200 == (await client.act("reject-proposal", home["id"]))[0]
        assert 400 == (await client.act("accept-proposal", home["id"]))[0]

        assert (await client("/api/proposals"))[1] == {"proposals": []}
        assert [memory.value for memory in await store.palace.memories()] == [german["value"]]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"action":"undo"}',
        b'{"action":"forget","names":["a/b/c"]}',
        b'{"action":"undo","names":[1]}',
        b'{"action":"undo","names":["a","b"]}',
        b'{"action":["undo"],"names":["a"]}',
    ],
)
async def test_what_is_no_action_changes_nothing(opened, clock, data):
    async with opened() as store:
        await store.remember("a", "b")
        client = Client(store, clock)

        assert (400, True) == (
            (found := await client("/api/act", "POST", data))[0],
            "nothing was changed" in found[1]["error"]["message"],
        )
        assert "b" == (await store.recall("a")).value


@pytest.mark.parametrize("name", ["people", "people/facts", "people/facts/lisa/more"])
async def test_one_memory_is_recalled_and_never_a_room(opened, clock, name):
    async with opened() as store:
        await store.persona_remember(
            "people", "facts", "lisa", "printmaker", created_at=clock() - 40 * 86_400
        )
        before = await store.persona_recall(revive=False)

        assert 400 == (await Client(store, clock).act("recall", name))[0]
        assert before == await store.persona_recall(revive=False)


def _error(answer):
    return answer[0], answer[1]["error"]["message"]


async def test_a_bug_is_logged_without_its_text_and_the_page_says_so(clock, caplog, monkeypatch):
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:", clock=clock) as store:
        monkeypatch.setattr(store, "recall_all", lambda: 1 / {}[QUOTED])
        status, answer = await Client(store, clock)("/api/flat")

    assert 500 == status
    assert "because of a bug (KeyError)" in answer["error"]["message"]
    assert "/api/flat failed" in caplog.text
    assert "in <lambda>" in caplog.text
    assert QUOTED not in caplog.text + str(answer)


async def test_a_memory_that_is_gone_is_not_said_to_be_recalled(opened, clock):
    async with opened() as store:
        status, said = await Client(store, clock).act("recall", "a/b/c")
        assert (status, said["error"]["message"]) == (400, "there is no such memory; nothing was changed")


async def test_what_the_mind_has_here_is_shown_though_no_relay_ever_answered(clock):
    async with MemoryStore(
        LocalSigner.generate(), ["ws://127.0.0.1:9"], ledger=":memory:", background=False, clock=clock
    ) as store:
        await store.mind.conversation("talk").add("user", "hello")
        told = (await Client(store, clock)("/api/mind"))[1]
        assert ["talk"] == [found["id"] for found in told["conversations"]]
        assert 1 == (await Client(store, clock)("/api/conversation?id=talk"))[1]["total"]
