"""Services that embed: the two honest shapes, and those that lie, stall, flood, or repeat the key."""

from __future__ import annotations

import socket
import threading
import traceback
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import orjson
import pytest

from sense_memory.errors import EmbedderError, InvalidInput
from sense_memory.search.documents import SearchItem
from sense_memory.search.embedders import endpoint
from sense_memory.search.embedders.choice import open_embedder
from sense_memory.search.embedders.embedder import KEY_VARIABLE
from sense_memory.search.embedders.endpoint import EndpointEmbedder
from sense_memory.search.index import SearchIndex
from tests.time_unit import SECOND


KEY = "sk-very-secret-key"
PRIVATE = "the safe is behind the painting"


def vector_of(text):
    """What the honest service answers: something of each text, not of length 1."""
    return [float(len(text)), float(text.count("a")), 1.0]


class Service(BaseHTTPRequestHandler):
    """An honest service of both shapes; `server.answer` may replace what it does."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, dict(self.headers), body))
        if self.server.answer is not None:
            self.server.answer(self, body)
            return
        rows = [vector_of(text) for text in body["input"]]
        if self.path.endswith("/api/embed"):
            self.give({"model": body["model"], "embeddings": rows})
        else:
            data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)]
            self.give({"object": "list", "data": data[::-1]})

    def give(self, answer, status=200, kind="application/json"):
        raw = answer if isinstance(answer, bytes) else orjson.dumps(answer)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.daemon_threads = True
    server.seen, server.answer = [], None
    server.handle_error = lambda *_: None  # clients hang up on liars, which is no news
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5 * SECOND)


@pytest.fixture
def openai(service):
    return EndpointEmbedder("openai", "tiny", f"{service.url}/v1", key=KEY, timeout=5 * SECOND)


@pytest.fixture
def ollama(service):
    return EndpointEmbedder("ollama", "tiny", service.url, timeout=5 * SECOND)


@contextmanager
def failing(problem):
    """Something has to fail, with a sentence that says so and holds no key, no text and no traceback of either."""
    with pytest.raises(EmbedderError, match=problem) as failed:
        yield failed
    shown = "".join(traceback.format_exception(failed.value))
    assert KEY not in shown
    assert PRIVATE not in shown
    assert "EVIL" not in shown
    assert "memories are still found by their words" in str(failed.value)


# ── Honest services ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shape", ["openai", "ollama"])
def test_texts_become_rows_in_their_order(shape, request):
    embedder = request.getfixturevalue(shape)
    texts = ["a", "", "banana", "   ", "xyz"]
    rows = embedder.embed(texts)
    expected = np.array([vector_of(text) if text.strip() else [0, 0, 0] for text in texts])
    expected /= np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-9)
    assert rows == pytest.approx(expected, abs=1e-6)
    assert rows.dtype == np.float32
    assert embedder.dimension == 3
    assert embedder.embed([]).shape == (0, 3)


def test_the_requests_are_those_of_the_two_interfaces(service, openai, ollama):
    openai.embed(["one"])
    ollama.embed(["two"])
    (path, headers, body), (other_path, other_headers, other_body) = service.seen
    assert (path, body) == ("/v1/embeddings", {"model": "tiny", "input": ["one"], "encoding_format": "float"})
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert (other_path, other_body) == ("/api/embed", {"model": "tiny", "input": ["two"], "truncate": True})
    assert "Authorization" not in other_headers


def test_a_setting_opens_it_with_the_key_of_the_environment(service):
    embedder = open_embedder(f"openai:tiny@{service.url}", {KEY_VARIABLE: f" {KEY}\n"})
    embedder.embed(["x"])
    assert service.seen[0][0] == "/v1/embeddings"
    assert service.seen[0][1]["Authorization"] == f"Bearer {KEY}"
    assert embedder.name == f"openai:tiny@{service.url}"
    assert KEY not in repr(embedder)


def test_many_texts_go_in_bounded_requests_and_long_ones_are_cut(service, ollama):
    rows = ollama.embed([f"text {n}" for n in range(150)] + ["b" * 20_000, "\ud800"])
    assert [len(body["input"]) for _, _, body in service.seen] == [64, 64, 24]
    assert service.seen[2][2]["input"][-2] == "b" * endpoint.MAX_TEXT_CHARS
    assert rows.shape == (152, 3)


def test_an_answer_without_numbered_places_is_taken_in_order(service, openai):
    service.answer = lambda handler, body: handler.give(
        {"data": [{"embedding": vector_of(t)} for t in body["input"]]}
    )
    assert openai.embed(["aa", "b"])[0] == pytest.approx(np.array([2, 2, 1]) / 3)


# ── Services that lie ───────────────────────────────────────────────────────────────────


def openai_rows(rows):
    return {"data": [{"index": n, "embedding": row} for n, row in enumerate(rows)]}


LIES = [
    (openai_rows([[1, 2]]), "with 2 vectors"),
    (openai_rows([[1, 2], [1, 2], [3, 4]]), "with 2 vectors"),
    (openai_rows([[1, 2], [1, 2, 3]]), "different dimensions"),
    (openai_rows([[], []]), "impossible or different dimensions"),
    (openai_rows([[1.0] * 9_000, [1.0] * 9_000]), "impossible or different dimensions"),
    (openai_rows([[1, None], [1, 2]]), "not a number"),
    (openai_rows([[1, True], [1, 2]]), "not a number"),
    (openai_rows([["EVIL", "2"], ["1", "2"]]), "not a number"),
    (openai_rows([[1, [2]], [1, 2]]), "not a number"),
    (openai_rows([[1e300, 2], [1, 2]]), "NaN or infinity"),
    (b'{"data":[{"index":0,"embedding":[NaN,1]},{"index":1,"embedding":[1,2]}]}', "with 2 vectors"),
    (b'{"data":[{"index":0,"embedding":[1e999,1]},{"index":1,"embedding":[1,2]}]}', "with 2 vectors|none"),
    ({"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [2]}]}, "with 2 vectors"),
    ({"data": [{"index": [], "embedding": [1]}] * 2}, "with 2 vectors"),
    ({"data": "EVIL"}, "with 2 vectors"),
    ({"data": ["EVIL", "EVIL"]}, "with 2 vectors"),
    ({"embeddings": [[1, 2], [1, 2]]}, "with 2 vectors"),
    ({"error": f"EVIL {KEY} {PRIVATE}"}, "with 2 vectors"),
    ([], "with 2 vectors"),
    (b"", "with 2 vectors"),
    (b"\xff\xfe", "with 2 vectors"),
    (b"[" * 200_000, "with 2 vectors"),
    (b"<html>EVIL login page</html>", "with 2 vectors"),
]


@pytest.mark.parametrize(("answer", "problem"), LIES)
def test_no_nonsense_becomes_a_vector(service, openai, answer, problem):
    service.answer = lambda handler, body: handler.give(answer)
    with failing(problem):
        openai.embed([PRIVATE, "more"])


@pytest.mark.parametrize(
    "answer",
    [{"embeddings": [1, 2]}, {"embeddings": [[1, 2]]}, {"embeddings": None}, openai_rows([[1], [2]])],
)
def test_no_nonsense_of_the_other_shape_either(service, ollama, answer):
    service.answer = lambda handler, body: handler.give(answer)
    with failing("with 2 vectors"):
        ollama.embed([PRIVATE, "more"])


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (400, r"HTTP 400\). Is the model an embedding model"),
        (401, r"refused the key \(HTTP 401\). Check SENSE_MEMORY_EMBEDDER_KEY"),
        (403, "refused the key"),
        (404, "does not know this path or this model"),
        (429, "is busy"),
        (500, r"failed \(HTTP 500\)"),
        (204, r"failed \(HTTP 204\)"),
    ],
)
def test_a_refusal_is_told_without_its_words(service, openai, status, problem):
    service.answer = lambda handler, body: handler.give(f"EVIL {KEY} {body['input']}".encode(), status)
    with failing(problem):
        openai.embed([PRIVATE])


def test_nobody_is_followed_to_another_address(service, openai):
    def elsewhere(handler, body):
        handler.send_response(307)
        handler.send_header("Location", f"{service.url}/v1/embeddings?stolen")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    service.answer = elsewhere
    with failing("HTTP 307"):
        openai.embed([PRIVATE])
    assert len(service.seen) == 1


def test_a_proxy_of_the_environment_is_not_asked(service, ollama, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert ollama.embed(["x"]).shape == (1, 3)


def test_a_flood_is_cut_off(service, openai, monkeypatch):
    """A hundred megabytes, of which a little more than the bound is read."""
    monkeypatch.setattr(endpoint, "MAX_RESPONSE_BYTES", 1_000_000)
    stopped = threading.Event()

    def flood(handler, body):
        handler.send_response(200)
        handler.send_header("Content-Length", "100000000")
        handler.end_headers()
        try:
            for _ in range(100):
                handler.wfile.write(b" " * 1_000_000)
        except OSError:
            stopped.set()
        handler.close_connection = True

    service.answer = flood
    with failing("more than 1,000,000 bytes"):
        openai.embed([PRIVATE])
    assert stopped.wait(5 * SECOND)


@pytest.mark.parametrize("way", ["silent", "before the body", "byte by byte", "never ends its headers"])
def test_a_service_that_stalls_is_left_in_time(service, way):
    """A byte now and then would never be late by itself: the whole request has one bound."""
    released = threading.Event()

    def stall(handler, body):
        handler.close_connection = True
        if way == "never ends its headers":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        elif way != "silent":
            handler.send_response(200)
            handler.send_header("Content-Length", "5000000")
            handler.end_headers()
        beat = 0.02 if way in {"byte by byte", "never ends its headers"} else 10
        try:
            while not released.wait(beat):
                handler.wfile.write(b"X: y\r\n" if way == "never ends its headers" else b" ")
        except OSError:
            return

    service.answer = stall
    embedder = EndpointEmbedder("openai", "tiny", service.url, key=KEY, timeout=0.3)
    try:
        with failing(r"did not answer within 0.3 s"):
            embedder.embed([PRIVATE])
    finally:
        released.set()


def test_a_service_that_hangs_up_or_is_not_there_is_an_error(service, openai):
    def hang_up(handler, body):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
        handler.close_connection = True

    service.answer = hang_up
    with failing("the service at 127.0.0.1 closed the connection without an answer|with 1 vectors"):
        openai.embed([PRIVATE])
    service.answer = lambda handler, body: handler.wfile.write(b"EVIL not http\r\n\r\n")
    with failing("the service at 127.0.0.1 did not answer in HTTP. Is the address right?"):
        openai.embed([PRIVATE])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = EndpointEmbedder(
            "ollama", "tiny", f"http://127.0.0.1:{free.getsockname()[1]}", timeout=5 * SECOND
        )
        with failing(r"the service at 127.0.0.1 did not answer\. Is it running\? Nothing was lost"):
            nobody.embed([PRIVATE])


def test_what_keeps_a_service_from_answering_is_said_in_words(service, monkeypatch):
    with failing(r"the service at 127.0.0.1 does not speak TLS properly"):
        EndpointEmbedder("openai", "tiny", service.url.replace("http:", "https:"), timeout=5 * SECOND).embed(
            [PRIVATE]
        )

    def unknown(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with failing(r"the service at nowhere.example was not found: the name has no address"):
        EndpointEmbedder("openai", "tiny", "https://nowhere.example", timeout=5 * SECOND).embed([PRIVATE])


def test_a_model_that_changes_its_dimension_is_noticed(service, ollama):
    ollama.embed(["x"])
    service.answer = lambda handler, body: handler.give({"embeddings": [[1.0] * 5]})
    with failing("5 dimensions instead of 3: the model behind it has changed"):
        ollama.embed([PRIVATE])


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel", "nsec1" + "q" * 58])
def test_what_can_not_be_a_key_is_never_sent(service, key):
    with pytest.raises(InvalidInput) as refused:
        EndpointEmbedder("openai", "tiny", service.url, key=key)
    assert key not in str(refused.value)


# ── Searching goes on ───────────────────────────────────────────────────────────────────


def test_a_search_goes_on_by_words_and_says_why(service, ollama):
    index = SearchIndex(embedder=ollama)
    index.put(SearchItem("1", "a banana"))
    assert index.trouble is None
    service.answer = lambda handler, body: handler.give(b"EVIL", 500)
    index.put_many([SearchItem("2", "a cherry"), SearchItem("3", "an apple")])
    assert [hit.id for hit in index.search("cherry")] == ["2"]
    assert "HTTP 500" in str(index.trouble)
    assert index.without_meaning() == ["2", "3"]
    service.answer = None
    index.put(SearchItem("2", "a cherry"))
    assert (index.trouble, index.without_meaning()) == (None, ["3"])
    assert "meaning" in {reason.kind for reason in index.search("cherry")[0].why}


def test_a_service_that_is_down_from_the_start_stops_nothing(service, ollama):
    service.answer = lambda handler, body: handler.give(b"EVIL", 503)
    index = SearchIndex(embedder=ollama)
    index.put(SearchItem("1", "a banana"))
    assert [hit.id for hit in index.search("banana")] == ["1"]
    loaded = SearchIndex.load(b"".join(index.dump()), embedder=ollama)
    assert loaded.without_meaning() == ["1"]
    service.answer = None
    loaded.put(SearchItem("2", "a cherry"))
    assert loaded.without_meaning() == ["1"]
    assert {hit.id for hit in loaded.search("fig")} <= {"2"}
