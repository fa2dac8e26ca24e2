"""The HTTP API on a real store: what requests get, who gets an answer, and that each answer is what the OpenAPI document says."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager

import pytest

from scripts.generate_json_docs import OPENAPI, openapi
from sense_memory import LocalSigner, MemoryStore
from sense_memory.errors import LedgerBusy
from sense_memory.interfaces.http_api.openapi import document
from sense_memory.interfaces.http_api.server import MAX_BODY_BYTES, application
from sense_memory.interfaces.live import LiveChanges
from tests.interfaces.http_api.conftest import TOKEN, serving
from tests.interfaces.mcp.conftest import asgi_client
from tests.late import Late


HERE = "http://127.0.0.1:8766"
DAY = 86_400
LISA = "people/facts/lisa"
MAY_FORGET = {"allow_destructive": True}


@asynccontextmanager
async def api(clock=None, relays=(), **rights):
    """A client of the API of a new store, and the store."""
    options = {} if clock is None else {"clock": clock}
    signer = LocalSigner.from_hex("01" * 32)
    async with MemoryStore(signer, relays, ledger=":memory:", background=False, **options) as store:
        app = application(store, TOKEN, 8766, LiveChanges(store, with_texts=True), **rights)
        async with asgi_client(app, HERE) as client:
            client.headers["authorization"] = f"Bearer {TOKEN}"
            yield client, store


async def written(client, path=LISA, value="Lisa paints", **more):
    answer = await client.put("/v1/memory", json={"path": path, "value": value, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_memory_is_written_found_rewritten_and_taken_back():
    async with api(**MAY_FORGET) as (client, _):
        await written(client, themes=["art"], confidence=0.8, source="user")
        await written(client, value="Lisa teaches watercolour")
        found = (await client.get("/v1/search", params={"query": "Who teaches?"})).json()
        history = (await client.get("/v1/memory/history", params={"path": LISA})).json()["versions"]
        undone = (await client.post("/v1/memory/undo", json={"path": LISA})).json()
        forgotten = await client.delete("/v1/memory", params={"path": LISA})
        gone = await client.get("/v1/memory", params={"path": LISA})

    assert [hit["path"] for hit in found["hits"]] == [LISA]
    assert [one["value"] for one in history] == ["Lisa teaches watercolour", "Lisa paints"]
    assert {one["path"] for one in history} == {LISA}
    assert (undone["value"], undone["themes"], undone["source"]) == ("Lisa paints", ["art"], "user")
    assert (forgotten.status_code, gone.status_code) == (200, 404)
    assert gone.json() == {"error": {"type": "NotFound", "message": f"there is no memory at '{LISA}'"}}


async def test_a_flat_memory_and_the_journal_have_the_same_ways():
    async with api() as (client, _):
        await written(client, "user_timezone", "America/Vancouver")
        await client.post("/v1/journal", json={"text": "Lisa called."})
        flat = (await client.get("/v1/memories", params={"kind": "flat"})).json()
        entries = (await client.get("/v1/journal")).json()["entries"]
        refused = await client.put("/v1/memory", json={"path": "k", "value": "v", "confidence": 0.5})

    assert [one["value"] for one in flat["memories"]] == ["America/Vancouver"]
    assert [one["value"] for one in entries] == ["Lisa called."]
    assert refused.status_code == 400
    assert "'k' is a flat key" in refused.json()["error"]["message"]


async def test_a_long_list_comes_in_pieces_that_miss_and_repeat_nothing():
    async with api() as (client, store):
        for number in range(25):
            await store.palace.remember(f"a/b/k{number:02}", f"text {number}")
        start, seen = 0, []
        while start is not None:
            piece = (await client.get("/v1/memories", params={"start": start, "limit": 10})).json()
            seen += [one["key"] for one in piece["memories"]]
            start = piece["next"]
            assert piece["total"] == 25

    assert seen == [f"k{number:02}" for number in range(25)]


async def test_what_a_new_text_contradicts_is_told():
    async with api() as (client, _):
        await written(client, "people/facts/lisa-home", "Lisa lives in Porto.")
        told = await written(client, "people/facts/lisa-moved", "Lisa lives in Lisbon.")

    assert [*told["superseded"], *told["suspected"]] == ["people/facts/lisa-home"]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("way", "asked"),
    [("/v1/search", {"query": "Who paints?"}), ("/v1/context", {"question": "Who paints?"})],
)
async def test_what_is_found_counts_as_used_unless_the_server_is_read_only(clock, read_only, way, asked):
    async with api(clock, read_only=read_only) as (client, store):
        await store.palace.remember(LISA, "Lisa paints")
        clock.now += 35 * DAY
        (before,) = await store.persona_recall(revive=False)
        await client.get("/v1/memory", params={"path": LISA})
        assert (await store.persona_recall(revive=False)) == [before]
        await client.get(way, params=asked)
        (after,) = await store.persona_recall(revive=False)

    assert (after.last_accessed > before.last_accessed) is not read_only


async def test_nothing_here_is_not_nothing_anywhere_before_a_relay_was_heard():
    """Incomplete is not empty."""
    async with api(relays=["ws://127.0.0.1:1"]) as (client, _):
        for path in (LISA, "user_timezone"):
            answer = await client.get("/v1/memory", params={"path": path})
            assert (answer.status_code, answer.json()["error"]["type"]) == (503, "NotSynced")
            assert answer.headers["retry-after"]


async def test_an_edit_of_what_was_seen_replaces_nothing_that_was_written_meanwhile():
    async with api(**MAY_FORGET) as (client, store):
        for path in (LISA, "user_timezone"):
            first = await written(client, path, "one", seen="")
            seen = first["event_id"]
            assert (await client.get("/v1/memory", params={"path": path})).json()["event_id"] == seen
            await store.remember(path, "two, from elsewhere")
            body = {"path": path, "value": "three", "seen": seen}
            for answer in (
                await client.put("/v1/memory", json=body),
                await client.put("/v1/memory", json=body | {"seen": ""}),
                await client.post("/v1/memory/undo", json={"path": path, "seen": seen}),
                await client.delete("/v1/memory", params={"path": path, "seen": seen}),
            ):
                assert (answer.status_code, answer.json()["error"]["type"]) == (409, "EditConflict")
            now = (await client.get("/v1/memory", params={"path": path})).json()
            assert now["value"] == "two, from elsewhere"
            await written(client, path, "three", seen=now["event_id"])
        refused = await client.put(
            "/v1/memory", json={"path": LISA, "value": "x", "seen": "", "confidence": 1}
        )
        assert refused.status_code == 400


async def test_of_writers_who_saw_the_same_one_wins_and_the_others_learn_it():
    async with api(**MAY_FORGET) as (client, store):
        for path in (LISA, "user_timezone"):
            seen = ""
            for turn in range(3):
                bodies = [
                    {"path": path, "value": f"text {turn}.{number}", "seen": seen} for number in range(6)
                ]
                answers = await asyncio.gather(*(client.put("/v1/memory", json=one) for one in bodies))
                (won,) = [number for number, answer in enumerate(answers) if answer.status_code == 200]
                assert [409] * 5 == sorted(one.status_code for one in answers)[1:]
                now = (await client.get("/v1/memory", params={"path": path})).json()
                assert now["value"] == f"text {turn}.{won}"
                seen = now["event_id"]
            assert len(await store.history(path)) == 3
            both = await asyncio.gather(
                client.put("/v1/memory", json={"path": path, "value": "kept", "seen": seen}),
                client.delete("/v1/memory", params={"path": path, "seen": seen}),
            )
            assert sorted(one.status_code for one in both) == [200, 409]


async def test_changes_arrive_as_they_are_made():
    http = Late("httpx2")
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with (
        serving() as (url, store),
        http.AsyncClient() as client,
        client.stream("GET", f"{url}/v1/events", headers=headers) as answer,
    ):
        frames = server_sent(answer)
        assert await anext(frames) == ("hello", {})
        calls = {"headers": headers, "params": {"path": LISA}}
        await client.put(f"{url}/v1/memory", headers=headers, json={"path": LISA, "value": "Lisa\n\npaints"})
        await client.post(f"{url}/v1/journal", headers=headers, json={"text": "Lisa called."})
        await client.request("DELETE", f"{url}/v1/memory", **calls)
        found = [await anext(frames) for _ in range(3)]
        event_id = (await store.recent(1))[0].event_id

    assert [(name, change["kind"], change["path"], change["value"]) for name, change in found] == [
        ("change", "remembered", LISA, "Lisa\n\npaints"),
        ("change", "journal", f"journal/{event_id}", "Lisa called."),
        ("change", "forgotten", LISA, None),
    ]


async def server_sent(answer):
    """The events of a stream: their names and data."""
    name = ""
    async for line in answer.aiter_lines():
        kind, _, rest = line.partition(": ")
        if kind == "event":
            name = rest
        elif kind == "data":
            yield name, json.loads(rest)


# ── Requests that cannot be used ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "path", "given", "status", "says"),
    [
        ("GET", "/v1/search", {}, 400, "`query` is missing"),
        ("GET", "/v1/search", {"params": {"query": "x", "limit": "many"}}, 400, "`limit` must be"),
        ("GET", "/v1/search", {"params": {"query": "x", "limit": "1e1"}}, 400, "`limit` must be"),
        ("GET", "/v1/search", {"params": {"query": "x", "mind": "yes"}}, 400, "`mind` must be"),
        ("GET", "/v1/search", {"params": {"query": "x", "other": "1"}}, 400, "`other` is not an argument"),
        ("GET", "/v1/search", {"params": {"query": ["x", "y"]}}, 400, "`query` is there 2 times"),
        ("GET", "/v1/search", {"params": {"query": "x", "within": "attic"}}, 400, "`within.0` must be"),
        ("GET", "/v1/memory", {"params": {"path": "a/b"}}, 400, "is neither a key nor a path"),
        ("GET", "/v1/memories", {"params": {"facet": "facts"}}, 400, "give the domain"),
        ("PUT", "/v1/memory", {"content": b"{"}, 400, "must be a JSON object"),
        ("PUT", "/v1/memory", {"json": ["a"]}, 400, "must be a JSON object"),
        ("PUT", "/v1/memory", {"json": {"path": 1, "value": "v"}}, 400, "`path` must be"),
        ("PUT", "/v1/memory", {"json": {"path": "k", "value": "x" * 50_000}}, 400, "nothing was written"),
        ("PUT", "/v1/memory", {"content": b'{"path":"k","value":"\\ud800"}'}, 400, "must be a JSON object"),
        ("PUT", "/v1/memory", {"content": b"x" * (MAX_BODY_BYTES + 1)}, 413, "too large"),
        ("POST", "/v1/memory/recall", {"json": {"path": "nothing"}}, 404, "no memory at 'nothing'"),
        ("POST", "/v1/memory", {}, 405, "not for this address"),
        ("POST", "/v1/events", {}, 405, "not for this address"),
        ("GET", "/v1/memory/", {}, 404, "nothing at this address"),
        ("GET", "/v1/nothing", {}, 404, "nothing at this address"),
        ("DELETE", "/v1/memory", {"params": {"path": LISA}}, 403, "--allow-destructive"),
        ("GET", "/v1/search", {"params": {"query": "x" * 20_000}}, 414, "too long"),
    ],
    ids=lambda value: str(value)[:50],
)
async def test_a_request_that_cannot_be_used_says_why_and_changes_nothing(method, path, given, status, says):
    async with api() as (client, store):
        answer = await client.request(method, path, **given)
        assert store.status().counts["heads"] == 0

    assert answer.status_code == status
    assert says in answer.json()["error"]["message"]


async def test_a_read_only_server_writes_nothing():
    async with api(read_only=True) as (client, store):
        for method, path in (
            ("PUT", "/v1/memory"),
            ("POST", "/v1/memory/recall"),
            ("POST", "/v1/memory/undo"),
            ("POST", "/v1/connections"),
            ("POST", "/v1/journal"),
            ("DELETE", "/v1/memory"),
        ):
            assert (await client.request(method, path)).status_code == 403
        assert store.status().counts["events"] == 0


async def test_a_ledger_that_is_locked_is_worth_another_try(monkeypatch):
    async with api() as (client, store):

        def locked(*_args, **_options):
            raise LedgerBusy("palace.db")

        monkeypatch.setattr(store, "recent", locked)
        answer = await client.get("/v1/journal")

    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "LedgerBusy")
    assert answer.headers["retry-after"]


async def test_a_bug_is_an_answer_that_quotes_no_memory(caplog, monkeypatch):
    async with api() as (client, store):
        text = "the text of a memory"

        def fails(*_args, **_options):
            raise RuntimeError(text)

        monkeypatch.setattr(store, "recent", fails)
        answer = await client.get("/v1/journal")

    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "Bug")
    assert text not in answer.text + caplog.text
    assert "RuntimeError" in caplog.text


# ── Who gets an answer ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8766"}, 200),
        ({"origin": HERE}, 200),
        ({"host": "evil.com"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"host": "127.0.0.1:8766.evil.com"}, 421),
        ({"origin": "https://evil.com"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"authorization": ""}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
    ],
    ids=str,
)
async def test_only_programs_of_this_machine_with_the_token_get_an_answer(headers, status):
    async with api() as (client, _):
        answer = await client.get("/v1/status", headers=headers)

    assert answer.status_code == status
    assert TOKEN not in answer.text


# ── The document ────────────────────────────────────────────────────────────────────────


def test_the_document_in_docs_is_that_of_the_code():
    assert OPENAPI.read_text(encoding="utf-8") == openapi(), "run `make json-docs`"


async def test_the_document_is_served_without_the_token_and_names_what_exists():
    async with api() as (client, _):
        del client.headers["authorization"]
        served = (await client.get("/v1/openapi.json")).json()
        for path, methods in served["paths"].items():
            for method in methods:
                assert (await client.request(method, path)).status_code == 401, (method, path)

    assert served == document()
    text = json.dumps(served)
    names = set(re.findall(r"#/components/(\w+)/(\w+)", text))
    assert not {(kind, name) for kind, name in names if name not in served["components"][kind]}


async def test_every_answer_is_what_the_document_says():
    """All fields that are promised are there, and no others; errors too."""
    told = document()
    schemas = {"components": told["components"]}
    checked = set()

    def check(answer, method, path):
        responses = told["paths"][path][method.lower()]["responses"]
        named = responses[str(answer.status_code)]
        if "$ref" in named:
            named = told["components"]["responses"][named["$ref"].rpartition("/")[2]]
        schema = named["content"]["application/json"]["schema"]
        Late("jsonschema").Draft202012Validator({**schemas, **schema}).validate(answer.json())
        checked.add((method.lower(), path, answer.status_code))
        return answer.json()

    async with api(relays=["ws://127.0.0.1:1"]) as (client, _):  # for the shape of a relay
        assert check(await client.get("/v1/status"), "GET", "/v1/status")["relays"]
        check(await client.get("/v1/memory", params={"path": LISA}), "GET", "/v1/memory")
    async with api(**MAY_FORGET) as (client, store):
        await store.mind.log.append("world.observed", {"text": "It rains."}, actor="world")
        for method, path, given in (
            ("PUT", "/v1/memory", {"json": {"path": LISA, "value": "Lisa paints", "themes": ["art"]}}),
            ("PUT", "/v1/memory", {"json": {"path": "people/facts/kim", "value": "Kim knows Lisa"}}),
            ("PUT", "/v1/memory", {"json": {"path": "zone", "value": "Europe/Lisbon"}}),
            ("POST", "/v1/journal", {"json": {"text": "Lisa called."}}),
            ("POST", "/v1/connections", {"json": {"first": LISA, "second": "people/facts/kim"}}),
            ("PUT", "/v1/memory", {"json": {"path": LISA, "value": "Lisa draws"}}),
            ("GET", "/v1/search", {"params": {"query": "Lisa rains zone", "mind": "true"}}),
            ("GET", "/v1/context", {"params": {"question": "Lisa", "style": "bracketed"}}),
            ("GET", "/v1/memory", {"params": {"path": LISA}}),
            ("GET", "/v1/memory", {"params": {"path": "zone"}}),
            ("GET", "/v1/memories", {}),
            ("GET", "/v1/memories", {"params": {"kind": "flat"}}),
            ("GET", "/v1/memory/history", {"params": {"path": LISA}}),
            ("GET", "/v1/journal", {}),
            ("GET", "/v1/status", {}),
            ("POST", "/v1/memory/recall", {"json": {"path": LISA}}),
            ("POST", "/v1/memory/undo", {"json": {"path": LISA}}),
            ("DELETE", "/v1/memory", {"params": {"path": "zone"}}),
            ("GET", "/v1/memory", {"params": {"path": "a/b"}}),
            ("GET", "/v1/memory/history", {"params": {"path": "a/b/c"}}),
        ):
            found = check(await client.request(method, path, **given), method, path)
            assert found

    del told["paths"]["/v1/events"]  # it does not end
    answered = {(method, path) for method, path, status in checked if status == 200}
    assert answered == {(method, path) for path, methods in told["paths"].items() for method in methods}
    assert {status for _, _, status in checked} == {200, 400, 404, 503}
