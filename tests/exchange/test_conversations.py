"""Conversations of ChatGPT, Claude and others: who said what when, in order, once."""

from __future__ import annotations

import json
import zipfile

import pytest

from sense_memory.exchange import ItemKind, plan_import, read
from sense_memory.interfaces.harness.hooks import pre_compact


def node(ident, parent, said, at=None, *, role="user", **content):
    content = {"content_type": "text", "parts": [said]} if said is not None else content
    message = {"id": ident, "author": {"role": role}, "create_time": at, "content": content}
    return {"id": ident, "parent": parent, "children": [], "message": message}


CHATGPT = [
    {
        "title": "Trip",
        "create_time": 1_700_000_000.5,
        "conversation_id": "c/1",
        "current_node": "d",
        "mapping": {
            "root": {"id": "root", "message": None, "parent": None, "children": ["s"]},
            "s": node("s", "root", "", role="system"),
            "a": node("a", "s", "Where to?", 1_700_000_001),
            "x": node("x", "a", "an older answer", 1_700_000_002, role="assistant"),
            "b": node("b", "a", "Lisbon.", 1_700_000_003, role="assistant"),
            "t": node("t", "b", None, 1_700_000_004, role="assistant", content_type="thoughts"),
            "c": node("c", "t", None, 1_700_000_002.5, role="tool", content_type="code", text="print(1)"),
            "d": node(
                "d",
                "c",
                None,
                content_type="multimodal_text",
                parts=[{"content_type": "image_x"}, "this one"],
            ),
        },
    }
]
CLAUDE = [
    {
        "uuid": "u-1",
        "name": "Plan",
        "created_at": "2024-01-01T00:00:00.000000Z",
        "chat_messages": [
            {
                "uuid": "m1",
                "sender": "human",
                "text": "see file",
                "content": [],
                "created_at": "2024-01-01T00:00:01Z",
                "attachments": [{"file_name": "a.txt", "extracted_content": "inside"}],
                "files": [{"file_name": "p.png"}],
            },
            {
                "uuid": "m2",
                "sender": "assistant",
                "text": "This block is not supported",
                "created_at": "2024-01-01T00:00:02Z",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "Done."},
                    {"type": "tool_use"},
                ],
            },
        ],
    }
]


@pytest.fixture
def export(tmp_path):
    """An export as it is downloaded: a zip archive with conversations.json and other files."""

    def export(conversations, **others):
        path = tmp_path / "export.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("conversations.json", json.dumps(conversations))
            for name, value in {"user": {"email": "x@y.example"}, "message_feedback": [], **others}.items():
                archive.writestr(f"{name}.json", json.dumps(value))
        return path

    return export


async def said(store, conversation):
    return [
        (message.role, message.content, message.at)
        for message in await store.mind.conversation(conversation).messages()
    ]


async def test_the_shown_branch_of_a_conversation_of_chatgpt(open_store, bring, export):
    path = export(CHATGPT)
    async with open_store() as store:
        made = await bring(store, path)

        assert await store.mind.conversations() == {"chatgpt-c-1": 4}
        assert await said(store, "chatgpt-c-1") == [
            ("user", "Where to?", 1_700_000_001),
            ("assistant", "Lisbon.", 1_700_000_003),
            ("tool", "print(1)", pytest.approx(1_700_000_003.000001)),
            ("user", "[image]\nthis one", pytest.approx(1_700_000_003.000002)),
        ]
        (title,) = await store.mind.log.entries(kind="conversation.imported")
        assert (title.text, title.payload["file"]) == ("Trip", "export.zip/conversations.json")
        assert dict(made.left_out) == {
            "account data": 1,
            "feedback on messages": 1,
            "messages of other branches": 1,
            "thoughts of the model": 1,
        }
        assert made.format == "conversations of ChatGPT"


async def test_a_system_message_that_is_dated_late_moves_no_other(open_store, bring, export):
    """As in real exports: its date is that of the last visit."""
    mapping = {
        "s": node("s", None, "Be brief.", 1_700_000_900, role="system"),
        "a": node("a", "s", "Where to?", 1_700_000_001),
        "b": node("b", "a", "Lisbon.", 1_700_000_003, role="assistant"),
    }
    async with open_store() as store:
        await bring(store, export([CHATGPT[0] | {"mapping": mapping, "current_node": "b"}]))
        found = await said(store, "chatgpt-c-1")

    assert [text for _, text, _ in found] == ["Be brief.", "Where to?", "Lisbon."]
    assert [at for *_, at in found] == [
        pytest.approx(then, abs=1e-3) for then in (1_700_000_001, 1_700_000_001, 1_700_000_003)
    ]


async def test_a_conversation_that_went_on_gets_what_is_new(open_store, bring, export, fates):
    async with open_store() as store:
        await bring(store, export(CHATGPT))
        assert fates(await bring(store, export(CHATGPT))) == {"known": 5}
        longer = json.loads(json.dumps(CHATGPT))
        longer[0]["mapping"]["e"] = node("e", "d", "Nice.", 1_700_000_009, role="assistant")
        longer[0]["current_node"] = "e"
        assert fates(await bring(store, export(longer))) == {"known": 5, "new": 1}
        assert (await said(store, "chatgpt-c-1"))[-1] == ("assistant", "Nice.", 1_700_000_009)


async def test_conversations_projects_and_memories_of_claude(open_store, bring, export):
    projects = [{"uuid": "p", "name": "Shop", "created_at": "2024-02-01", "prompt_template": "Be brief.",
                 "docs": [{"filename": "a.md", "content": "# A", "created_at": "2024-02-02"}]}]  # fmt: skip
    told = (
        "Likes tea.\n\nLives in Porto.\n\n**Work context**\n\nPrints.\n\nSells.\n\n## Brief history\nMoved."
    )
    memories = [{"conversations_memory": told, "project_memories": {"p": "A shop.", "q": "Another."}}]
    async with open_store() as store:
        made = await bring(store, export(CLAUDE, projects=projects, memories=memories))

        assert [(role, text) for role, text, _ in await said(store, "claude-u-1")] == [
            ("user", "see file"),
            ("user", "[a.txt]\ninside"),
            ("assistant", "Done."),
        ]
        passages = {
            passage.title: (passage.content, passage.tags) for passage in await store.mind.archive.all()
        }
        assert passages == {"instructions": ("Be brief.", ("Shop",)), "a.md": ("# A", ("Shop",))}
        paths = {memory.path: memory.value for memory in await store.persona_recall()}
        assert paths == {
            "people/claude/likes-tea": "Likes tea.",
            "people/claude/lives-in-porto": "Lives in Porto.",
            "people/claude/work-context": "Prints.\n\nSells.",
            "people/claude/brief-history": "Moved.",
            "projects/shop/a-shop": "A shop.",
            "projects/q/another": "Another.",
        }
        assert made.left_out["attachments without text"] == 1


async def test_messages_of_any_program(open_store, bring, tmp_path):
    lines = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
    ]
    (tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, lines)))
    async with open_store() as store:
        await bring(store, tmp_path / "chat.jsonl")
        (name,) = await store.mind.conversations()
        assert [text for _, text, _ in await said(store, name)] == ["hi", "hello"]


async def test_a_session_of_claude_code(open_store, bring, tmp_path):
    def turn(role, content, **more):
        second = 0 if role == "user" else 1
        told = {
            "uuid": f"u{role}",
            "timestamp": f"2026-01-01T10:00:0{second}.000Z",
            "sessionId": "s-1",
            "cwd": "/x",
        }
        return {"type": role, "message": {"role": role, "content": content}} | told | more

    lines = [
        {"type": "file-history-snapshot", "sessionId": "s-1"},
        turn("user", "hi"),
        turn("assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hello"}]),
        turn("user", [{"type": "tool_result", "content": "done"}], uuid="u3"),
    ]
    (tmp_path / "session.jsonl").write_text("\n".join(map(json.dumps, lines)))
    async with open_store() as store:
        made = await bring(store, tmp_path / "session.jsonl")
        assert [text for _, text, _ in await said(store, "s-1")] == ["hi", "hello"]
        assert dict(made.left_out) == {"thoughts of the model": 1, "tool calls": 1}


async def test_what_the_hook_before_a_compaction_kept_is_not_imported_again(open_store, bring, tmp_path):
    texts = ["hi", "My key is nsec1" + "q" * 58, "é\n" * 40_000]
    lines = [
        {
            "type": "user",
            "message": {"role": "user", "content": text},
            "uuid": f"u{number}",
            "timestamp": f"2026-01-01T10:00:0{number}.000Z",
            "sessionId": "s-1",
        }
        for number, text in enumerate(texts)
    ]
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    async with open_store() as store:
        kept = await pre_compact(store, {"transcript_path": str(path), "session_id": "s-1"})
        await bring(store, path)
        assert [text for _, text, _ in await said(store, "s-1")][:2] == ["hi", "My key is nsec1…"]
        assert len(await said(store, "s-1")) == kept


async def test_a_message_too_long_for_an_event_is_taken_in_parts(open_store, bring, export):
    text = "Ein Absatz mit Umlauten: äöü.\n\n" * 4_000
    long = [CHATGPT[0] | {"current_node": "a", "mapping": {"a": node("a", None, text, 1_700_000_001)}}]
    async with open_store() as store:
        await bring(store, export(long))
        parts = [part for _, part, _ in await said(store, "chatgpt-c-1")]
        assert len(parts) > 2
        assert "".join(parts) == text


@pytest.mark.parametrize(
    "broken",
    [
        {
            "mapping": {
                "a": {"parent": "a", "message": {"author": {"role": "user"}, "content": {"parts": ["x"]}}}
            },
            "current_node": "a",
        },
        {"mapping": {"a": None, "b": {"message": []}, "c": {"message": {"author": 3, "content": "x"}}}},
        {"mapping": {}},
        {"chat_messages": [None, {"sender": 3}, {"sender": "human", "content": "x", "text": None}]},
        {"messages": [{"role": "user", "content": None}]},
        "text",
        None,
    ],
)
async def test_a_damaged_conversation_does_not_stop_the_others(open_store, export, broken):
    async with open_store() as store:
        made = await plan_import(store, read(export([broken, *CHATGPT])))
        assert sum(step.item.kind is ItemKind.LOG for step in made.steps) >= 5


@pytest.mark.parametrize(
    ("limit", "taken", "problem"),
    [
        (("_SMALL_BYTES", 1_000), 0, "this file unpacks to more than 100 times its size"),
        (("MAX_TOTAL_BYTES", 700_000), 3, "together they have more than 700,000 bytes"),
    ],
)
def test_many_files_do_not_fill_the_memory(tmp_path, monkeypatch, limit, taken, problem):
    monkeypatch.setattr(f"sense_memory.exchange.import_files.{limit[0]}", limit[1])
    with zipfile.ZipFile(tmp_path / "notes.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(4):
            archive.writestr(f"notes/{number}.md", b"a memory " * 25_000)
    reading = read(tmp_path / "notes.zip")

    assert len({item.file for item in reading.items}) == taken
    assert len(reading.problems) == 4 - taken
    assert all(problem in each.reason for each in reading.problems)


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sense_memory.exchange.import_files.MAX_FILE_BYTES", 1_000_000)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" + b" " * 5_000_000)
    raw = bytearray(path.read_bytes())
    for place in (raw.find(b"PK\x01\x02") + 24, 22):  # what the archive says of the size
        raw[place : place + 4] = (9).to_bytes(4, "little")
    (tmp_path / "liar.zip").write_bytes(raw)

    for name in ("bomb.zip", "liar.zip"):
        reading = read(tmp_path / name)
        assert (reading.items, len(reading.problems)) == ([], 1)
