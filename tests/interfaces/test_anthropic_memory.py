"""Claude's memory tool on memories: the SDK's own types and runner, and the SDK's own files as the model of behaviour."""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory import LocalSigner, MemoryStore, StoreClosed, SyncMemoryStore
from sense_memory.errors import InvalidInput
from tests.late import Late, needs


pytestmark = needs("anthropic", "the extra `anthropic` is not installed")
anthropic = Late("anthropic")
lib, tools = Late("anthropic.lib.tools"), Late("anthropic.tools")
memory_tool = Late("sense_memory.interfaces.anthropic_memory")

KEY = LocalSigner.generate()
NOTES, LISA = "/memories/notes.md", "/memories/people/facts/lisa"


@asynccontextmanager
async def opened(**options):
    async with MemoryStore(KEY, ledger=":memory:") as store:
        tool = memory_tool.AsyncSenseMemoryTool(store, **options)

        async def run(command, path=None, **fields):
            where = {} if path is None else {"path": path}
            return await tool.call({"command": command, **where, **fields})

        yield run, store


async def refused(call):
    with pytest.raises(lib.ToolError) as raised:
        await call
    return raised.value.content


# ── The commands, in the sentences of the documentation ─────────────────────────────────


async def test_a_file_is_created_viewed_edited_renamed_and_deleted():
    async with opened() as (run, _):
        assert f"File created successfully at: {NOTES}" == await run(
            "create", NOTES, file_text="one\ntwo\nthree\n"
        )
        assert (
            f"Here's the content of {NOTES} with line numbers:\n     1\tone\n     2\ttwo\n     3\tthree\n     4\t"
            == await run("view", NOTES)
        )
        assert (await run("view", NOTES, view_range=[0, 1])).endswith("numbers:\n     1\tone")
        assert "     2\ttwo\n     3\tthree" in (await run("view", NOTES, view_range=[2, 3]))
        assert (await run("view", NOTES, view_range=[3, -1])).endswith("     3\tthree\n     4\t")
        edited = await run("str_replace", NOTES, old_str="two", new_str="2a\n2b")
        assert edited.startswith("The memory file has been edited.")
        assert edited.endswith("     1\tone\n     2\t2a\n     3\t2b\n     4\tthree")
        assert f"The file {NOTES} has been edited." == await run(
            "insert", NOTES, insert_line=0, insert_text="zero"
        )
        renamed = await run("rename", old_path=NOTES, new_path="/memories/old/notes.md")
        assert f"Successfully renamed {NOTES} to /memories/old/notes.md" == renamed
        assert "     1\tzero\n     2\tone" in await run("view", "/memories/old/notes.md")
        assert "Successfully deleted /memories/old" == await run("delete", "/memories/old")
        assert "0B\t/memories" == (await run("view", "/memories")).splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("view", "/memories/no"), "The path /memories/no does not exist. Please provide a valid path."),
        (("create", NOTES, {"file_text": "x"}), f"File {NOTES} already exists"),
        (
            ("str_replace", "/memories/no", {"old_str": "a", "new_str": "b"}),
            "The path /memories/no does not exist. Please provide a valid path.",
        ),
        (
            ("str_replace", "/memories/people", {"old_str": "a", "new_str": "b"}),
            "The path /memories/people is not a file.",
        ),
        (
            ("str_replace", NOTES, {"old_str": "four", "new_str": "4"}),
            f"No replacement was performed, old_str `four` did not appear verbatim in {NOTES}.",
        ),
        (
            ("str_replace", NOTES, {"old_str": "", "new_str": "4"}),
            f"No replacement was performed, old_str `` did not appear verbatim in {NOTES}.",
        ),
        (
            ("str_replace", NOTES, {"old_str": "aa", "new_str": "b"}),
            "No replacement was performed. Multiple occurrences of old_str `aa` in lines: 2, 2, 4. Please ensure it is unique",
        ),
        (
            ("insert", "/memories/no", {"insert_line": 0, "insert_text": "x"}),
            "The path /memories/no does not exist. Please provide a valid path.",
        ),
        (
            ("insert", "/memories/people", {"insert_line": 0, "insert_text": "x"}),
            "The path /memories/people is not a file.",
        ),
        (
            ("insert", NOTES, {"insert_line": 5, "insert_text": "x"}),
            "Invalid `insert_line` parameter: 5. It should be within the range [0, 4].",
        ),
        (("delete", "/memories/no"), "The path /memories/no does not exist"),
        (("delete", "/memories"), "Cannot delete the /memories directory itself"),
        (
            ("rename", None, {"old_path": "/memories/no", "new_path": "/memories/x"}),
            "The path /memories/no does not exist",
        ),
        (
            ("rename", None, {"old_path": NOTES, "new_path": LISA}),
            f"The destination {LISA} already exists",
        ),
        (
            ("rename", None, {"old_path": NOTES, "new_path": "/memories/people"}),
            "The destination /memories/people already exists",
        ),
        (
            ("rename", None, {"old_path": NOTES, "new_path": NOTES}),
            f"The destination {NOTES} already exists",
        ),
        (
            ("rename", None, {"old_path": "/memories/no", "new_path": LISA}),
            f"The destination {LISA} already exists",
        ),
        (("create", "/memories/people", {"file_text": "x"}), "File /memories/people already exists"),
        (
            ("rename", None, {"old_path": "/memories/people", "new_path": "/memories/people/a/b/c"}),
            "/memories/people/a/b/c lies within /memories/people",
        ),
        (
            ("rename", None, {"old_path": "/memories", "new_path": "/memories/x"}),
            "Cannot rename the /memories directory itself",
        ),
        (
            ("rename", None, {"old_path": NOTES, "new_path": "/memories"}),
            "The destination /memories already exists",
        ),
        (
            ("create", "/memories/x/", {"file_text": "x"}),
            "/memories/x/ is a directory; give the path of a file",
        ),
        (
            ("create", "/memories/x", {"file_text": " \n"}),
            "Write some text, or delete the file: an empty file cannot be kept",
        ),
        (
            ("str_replace", LISA, {"old_str": "Lisa."}),
            "Write some text, or delete the file: an empty file cannot be kept",
        ),
        (("create", "/memories/x"), "`file_text` must be text"),
        (("view", None), "`path` must be text"),
        (("format", NOTES), "Unknown command: 'format'"),
    ],
)
async def test_what_cannot_be_done_is_said_and_changes_nothing(command, sentence):
    async with opened() as (run, store):
        await run("create", NOTES, file_text="one\naaa\nthree\naa\n")
        await run("create", LISA, file_text="Lisa.")
        name, path, *fields = command

        assert sentence == await refused(run(name, path, **(fields[0] if fields else {})))

        assert ["one\naaa\nthree\naa\n"] == [memory.value for memory in await store.recall_all()]
        assert ["Lisa."] == [memory.value for memory in await store.persona_recall()]


@pytest.mark.parametrize(
    ("before", "line", "added", "after"),
    [
        ("one", 0, "zero", "zero\none\n"),
        ("one", 1, "two", "one\ntwo\n"),
        ("one\n", 1, "two\n\n", "one\ntwo\n"),
        ("one\n\n", 2, "two", "one\n\ntwo\n"),
        ("one\r\n", 1, "two", "one\r\ntwo\n"),
    ],
)
async def test_after_an_insert_a_file_ends_with_one_newline(before, line, added, after):
    async with opened() as (run, store):
        await run("create", NOTES, file_text=before)
        await run("insert", NOTES, insert_line=line, insert_text=added)

        assert after == (await store.recall("notes.md")).value


async def test_a_text_that_overlaps_itself_is_one_occurrence():
    async with opened() as (run, store):
        await run("create", NOTES, file_text="aaa")
        await run("str_replace", NOTES, old_str="aa", new_str="b")

        assert "ba" == (await store.recall("notes.md")).value


@pytest.mark.parametrize("wanted", [[2, 1], [9, 9], [1], [1, 2, 3], [1, -2], "1-2"])
async def test_a_range_that_is_none_is_refused(wanted):
    async with opened() as (run, _):
        await run("create", NOTES, file_text="one\ntwo")
        assert "Invalid `view_range` parameter" in await refused(run("view", NOTES, view_range=wanted))


@pytest.mark.parametrize(
    "path",
    [
        "/memories/../etc/passwd",
        "/memories/..",
        "/memories/a/../../b",
        "/memories/./a",
        "/memories/%2e%2e/a",
        "/memories/%2E%2E%2Fa",
        "/memories/%252e%252e/a",
        "/memories/..%c0%af",
        "/memories/..\\a",
        "/memories/a%5cb",
        "/memories/a\x00b",
        "/memories/a%00b",
        "/memories/a\nb",
        "/memories/\ud800",
        "/etc/passwd",
        "memories/a",
        "/memoriesx/a",
        "",
        "~/a",
        "file:///memories/a",
    ],
)
async def test_paths_that_lead_elsewhere_are_refused_by_every_command(path):
    async with opened() as (run, store):
        await run("create", NOTES, file_text="one")
        for call in (
            run("view", path),
            run("create", path, file_text="x"),
            run("str_replace", path, old_str="one", new_str="two"),
            run("insert", path, insert_line=0, insert_text="x"),
            run("delete", path),
            run("rename", old_path=path, new_path="/memories/x"),
            run("rename", old_path=NOTES, new_path=path),
        ):
            told = await refused(call)
            assert told.startswith(("Path must start with /memories, got: ", "Path /memories/"))
            assert told.isprintable()

        assert {"notes.md": "one"} == {memory.key: memory.value for memory in await store.recall_all()}
        assert [] == await store.persona_recall()


# ── As files ────────────────────────────────────────────────────────────────────────────

FILES = [
    "/memories/d/b.md",
    "/memories/d/f/k",
    "/memories/d/v1.2/é x/k.txt",
    "/memories/a%20b",
    "/memories/d-e",
]
PATHS = st.sampled_from(
    [*FILES, NOTES, "/memories/.hidden", "/memories/d/f/.hidden", "/memories/d", "/memories/d/f"]
)
TEXTS = st.lists(st.sampled_from(["red", "blue", "red red", "redred", "gr\u00fcn\r", ""]), max_size=4).map(
    "\n".join
)
ENDS = st.sampled_from(["", "\n", "\n\n"])
FILLED = st.tuples(st.sampled_from(["red", "edr"]), TEXTS, ENDS).map("".join)
OPERATIONS = st.one_of(
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": FILLED}),
    st.fixed_dictionaries({"command": st.just("view"), "path": PATHS | st.just("/memories")}),
    st.fixed_dictionaries(
        {"command": st.just("view"), "path": PATHS, "view_range": st.sampled_from([[0, 1], [1, 9], [1, -1]])}
    ),
    st.fixed_dictionaries(
        {"command": st.just("str_replace"), "path": PATHS, "old_str": FILLED, "new_str": FILLED}
    ),
    st.fixed_dictionaries(
        {
            "command": st.just("insert"),
            "path": PATHS,
            "insert_line": st.integers(-1, 4),
            "insert_text": st.tuples(TEXTS, ENDS).map("".join),
        }
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": PATHS | st.just("/memories")}),
    st.fixed_dictionaries(
        {"command": st.just("rename"), "old_path": PATHS, "new_path": PATHS | st.just("/memories")}
    ),
)


def answer(tool, operation):
    """What a model reads, and whether it is an error. A directory has another size on each file system."""
    try:
        told, is_error = tool.call(operation), False
    except lib.ToolError as error:
        told, is_error = error.content, True
    return (told if is_error else without_sizes(told)), is_error


def without_sizes(told):
    head, *lines = told.split("\n")
    if not head.startswith("Here're the files"):
        return told
    return [
        head,
        lines[0].partition("\t")[2],
        *(line.partition("\t")[2] if line.endswith("/") else line for line in lines[1:]),
    ]


def without_empty_directories(folder):
    for path in sorted(Path(folder, "memories").rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


@settings(max_examples=30)
@given(st.lists(OPERATIONS, max_size=15))
def test_it_answers_as_the_tool_of_the_sdk_does_with_files(operations):
    """Any sequence of commands: the same answers, the same refusals, the same texts.

    Left out is what the SDK's tool does not catch itself, and directories without a file in them, which are not there.
    """
    with tempfile.TemporaryDirectory() as folder, SyncMemoryStore(KEY, ledger=":memory:") as store:
        files, memories = tools.BetaLocalFilesystemMemoryTool(folder), memory_tool.SenseMemoryTool(store)
        for operation in operations:
            try:
                wanted = answer(files, operation)
            except OSError:
                continue
            finally:
                without_empty_directories(folder)
            assert wanted == answer(memories, operation)


async def test_a_listing_is_two_levels_deep_with_sizes_and_without_hidden_files():
    async with opened() as (run, _):
        for path in (
            NOTES,
            LISA,
            "/memories/d-e",
            "/memories/d/b.md",
            "/memories/.hidden",
            "/memories/d/node_modules/x",
            "/memories/a/b/c/d.md",
        ):
            await run("create", path, file_text="x" * 1536)

        assert (
            "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n"
            "10.5K\t/memories\n1.5K\t/memories/a/\n1.5K\t/memories/a/b/\n3K\t/memories/d/\n1.5K\t/memories/d/b.md\n"
            "1.5K\t/memories/d/node_modules/\n1.5K\t/memories/d-e\n1.5K\t/memories/notes.md\n1.5K\t/memories/people/\n1.5K\t/memories/people/facts/"
        ) == await run("view", "/memories")
        assert (await run("view", "/memories/people/facts")).endswith(f"1.5K\t{LISA}")
        assert (await run("view", "/memories/.hidden")).endswith("x")


async def test_files_are_memories_and_memories_are_files():
    async with opened() as (run, store):
        await store.remember("user_timezone", "America/Vancouver")
        await store.persona_remember(
            "people", "facts", "lisa", "Teaches printmaking.", source="user", halflife_days=5
        )
        await run("create", "/memories/people/facts/tom.md", file_text="Bakes bread.\n")
        await run("str_replace", LISA, old_str="Teaches", new_str="Loves")

        assert "America/Vancouver" in await run("view", "/memories/user_timezone")
        (tom,) = await store.persona_recall("people", "facts", "tom.md")
        assert ("Bakes bread.\n", "tool:anthropic", 30) == (tom.value, tom.source, tom.halflife_days)
        (lisa,) = await store.persona_recall("people", "facts", "lisa")
        assert ("Loves printmaking.", "user", 5) == (lisa.value, lisa.source, lisa.halflife_days)


async def test_a_forgotten_file_stays_in_the_listing_and_viewing_revives_it(clock):
    async with MemoryStore(KEY, ledger=":memory:", clock=clock) as store:
        tool = memory_tool.AsyncSenseMemoryTool(store, halflife_days=1)
        await tool.call({"command": "create", "path": LISA, "file_text": "Lisa."})
        clock.advance(20 * 86_400)

        assert LISA in await tool.call({"command": "view", "path": "/memories/people/facts"})
        assert [] == await store.persona_recall()
        await tool.call({"command": "view", "path": LISA})
        assert ["lisa"] == [memory.key for memory in await store.persona_recall()]


async def test_a_directory_is_renamed_with_all_that_the_palace_knows_of_its_files():
    async with opened() as (run, store):
        await store.persona_remember(
            "people", "facts", "lisa", "Lisa.", ["art"], halflife_days=5, confidence=0.5
        )
        await store.persona_remember("people", "facts", "tom", "Tom.", connections=["people/facts/lisa"])
        await store.persona_remember("world", "facts", "rome", "Rome.", connections=["people/facts/lisa"])
        await run("rename", old_path="/memories/people/facts", new_path="/memories/friends")

        found = {memory.path: memory for memory in await store.persona_recall()}

        assert {"friends/./lisa", "friends/./tom", "world/facts/rome"} == found.keys()
        lisa = found["friends/./lisa"]
        assert (("art",), 5, 0.5) == (lisa.themes, lisa.halflife_days, lisa.confidence)
        assert {"friends/./tom", "world/facts/rome"} == set(lisa.connections)


async def test_with_a_folder_the_model_sees_and_clears_nothing_else():
    async with opened(folder="claude") as (run, store):
        await store.remember("user_timezone", "America/Vancouver")
        await store.persona_remember("self", "facts", "name", "Nora")
        await run("create", NOTES, file_text="one")
        await run("create", "/memories/a/b", file_text="two")

        assert {"claude/./notes.md", "claude/a/b", "self/facts/name"} == {
            memory.path for memory in await store.persona_recall()
        }
        assert "self" not in await run("view", "/memories")
        tool = memory_tool.AsyncSenseMemoryTool(store, folder="claude")
        assert "All memory cleared" == await tool.clear_all_memory()
        assert ["self/facts/name"] == [memory.path for memory in await store.persona_recall()]
        assert await store.recall("user_timezone") is not None
        assert "All memory cleared" == await memory_tool.AsyncSenseMemoryTool(store).clear_all_memory()
        assert [] == [*await store.persona_recall(), *await store.recall_all()]


async def test_names_that_no_path_can_have_are_no_files():
    async with opened() as (run, store):
        for key in ("a%2Fb", "%2E%2E", ".%2E", "%0A"):
            await store.remember(key, "x")
            await store.persona_remember("d", "f", key, "x")

        assert 1 == (await run("view", "/memories")).count("\t/memories")


@pytest.mark.parametrize("text", ["x" * 50_000, "\ud800"])
async def test_a_text_that_no_memory_can_hold_is_refused_and_the_earlier_one_stays(text):
    async with opened() as (run, store):
        await run("create", NOTES, file_text="one")
        for call in (
            run("create", LISA, file_text=text),
            run("str_replace", NOTES, old_str="one", new_str=text),
            run("insert", NOTES, insert_line=1, insert_text=text),
        ):
            assert await refused(call)

        assert ["one"] == [memory.value for memory in await store.recall_all()]
        assert [] == await store.persona_recall()


async def test_a_long_file_is_cut_in_a_view_and_whole_in_ranges():
    text = "\n".join(f"line {number:05}" for number in range(1, 3_001))
    async with opened() as (run, _):
        await run("create", NOTES, file_text=text)

        told = await run("view", NOTES)

        assert told.endswith("… 1546 more lines; view them with view_range [1455, -1]")
        assert (await run("view", NOTES, view_range=[1455, -1])).endswith("  3000\tline 03000")


async def test_a_hundred_edits_at_once_lose_none():
    async with opened() as (run, store):
        await run("create", NOTES, file_text="start\n")
        other = memory_tool.AsyncSenseMemoryTool(store)
        insert = {"command": "insert", "path": NOTES, "insert_line": 1}
        await asyncio.gather(
            *(run(**insert, insert_text=f"a{n}") for n in range(50)),
            *(other.call({**insert, "insert_text": f"b{n}"}) for n in range(50)),
        )

        assert 101 == (await store.recall("notes.md")).value.count("\n")


@pytest.mark.parametrize("folder", ["..", "a/../b", "a\\b"])
async def test_a_folder_is_a_plain_path(folder):
    async with MemoryStore(KEY, ledger=":memory:") as store:
        with pytest.raises(InvalidInput, match="folder must be"):
            memory_tool.AsyncSenseMemoryTool(store, folder=folder)


def test_a_closed_store_is_said():
    with SyncMemoryStore(KEY, ledger=":memory:") as store:
        tool = memory_tool.SenseMemoryTool(store)
    with pytest.raises(StoreClosed):
        tool.call({"command": "view", "path": "/memories"})


async def test_a_fresh_device_that_reached_no_relay_can_write_and_does_not_say_empty():
    async with MemoryStore(
        KEY, ["ws://127.0.0.1:9"], ledger=":memory:", background=False, close_timeout=0
    ) as store:
        tool = memory_tool.AsyncSenseMemoryTool(store)
        assert "no relay has shown everything" in await refused(
            tool.call({"command": "view", "path": "/memories"})
        )
        await tool.call({"command": "create", "path": LISA, "file_text": "Lisa."})
        await tool.call({"command": "rename", "old_path": LISA, "new_path": NOTES})

        assert "notes.md" in await tool.call({"command": "view", "path": "/memories"})


# ── The runner of the SDK ───────────────────────────────────────────────────────────────


class MessagesApi(BaseHTTPRequestHandler):
    """Speaks the Messages API: each request gets the next tool use of the script, at last a text."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(request)
        step = len(self.server.requests) - 1
        use = {"type": "tool_use", "id": f"toolu_{step}", "name": "memory"}
        is_last = step == len(SCRIPT)
        answer = {
            "id": f"msg_{step}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [{"type": "text", "text": "Done."} if is_last else {**use, "input": SCRIPT[step][0]}],
            "stop_reason": "end_turn" if is_last else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


SCRIPT = [
    ({"command": "view", "path": "/memories"}, False, "0B\t/memories"),
    ({"command": "create", "path": LISA, "file_text": "Teaches art.\n"}, False, "File created successfully"),
    (
        {"command": "str_replace", "path": LISA, "old_str": "art", "new_str": "printmaking"},
        False,
        "has been edited",
    ),
    (
        {"command": "insert", "path": LISA, "insert_line": 1, "insert_text": "Lives in Rome."},
        False,
        "has been edited",
    ),
    ({"command": "view", "path": "/memories/../etc"}, True, "would escape"),
    ({"command": "create", "path": LISA, "file_text": "other"}, True, "already exists"),
    ({"command": "rename", "old_path": LISA, "new_path": NOTES}, False, "Successfully renamed"),
    ({"command": "view", "path": NOTES}, False, "     2\tLives in Rome."),
]
CALL = {"model": "claude", "max_tokens": 100, "messages": [{"role": "user", "content": "Remember Lisa."}]}


@pytest.fixture
def api():
    server = HTTPServer(("127.0.0.1", 0), MessagesApi)
    server.requests = []
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def check(requests):
    """The runner declared the tool, and gave the model what each command answered."""
    assert [{"type": "memory_20250818", "name": "memory"}] == requests[0]["tools"]
    for (_, is_error, told), request in zip(SCRIPT, requests[1:], strict=True):
        (result,) = request["messages"][-1]["content"]
        assert (is_error, True) == (result.get("is_error", False), told in str(result["content"]))


def test_the_runner_of_the_sdk_drives_the_blocking_tool(api):
    options = {"api_key": "none", "base_url": f"http://127.0.0.1:{api.server_port}", "max_retries": 0}
    with SyncMemoryStore(KEY, ledger=":memory:") as store, anthropic.Anthropic(**options) as client:
        last = client.beta.messages.tool_runner(
            **CALL, tools=[memory_tool.SenseMemoryTool(store)]
        ).until_done()

        assert "Done." == last.content[0].text
        assert "Teaches printmaking.\nLives in Rome.\n" == store.recall("notes.md").value
    check(api.requests)


async def test_the_runner_of_the_sdk_drives_the_asynchronous_tool(api):
    options = {"api_key": "none", "base_url": f"http://127.0.0.1:{api.server_port}", "max_retries": 0}
    async with MemoryStore(KEY, ledger=":memory:") as store, anthropic.AsyncAnthropic(**options) as client:
        runner = client.beta.messages.tool_runner(**CALL, tools=[memory_tool.AsyncSenseMemoryTool(store)])
        last = await runner.until_done()

        assert "Done." == last.content[0].text
        assert "Teaches printmaking.\nLives in Rome.\n" == (await store.recall("notes.md")).value
    check(api.requests)
