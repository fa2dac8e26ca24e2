"""The hooks of a harness's session: they read the harness's JSON, and answer as the harness expects.

At the start of a session, the compressed palace and the newest journal entries are printed as context. At the end of a
turn, before a harness compacts its context, and at the end of a session, the new messages of the transcript are added to
the mind as a conversation: no word is lost, and `sense-memory mind search` finds the messages. A compaction and the end
of a session are noted in the journal, each part of a session once. What the user said in the new messages goes through
the gate of `sense_memory.mind.proposals`. All hooks work offline and may be repeated and overlap: a message has the same
id whenever it is read, so known messages are skipped.

The answer is the JSON that Claude Code, Codex and Gemini CLI understand alike: `hookSpecificOutput.additionalContext`.
The other hooks print nothing: Claude Code would take it as instructions for its summary, or go on working.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidInput, NotSynced
from sense_memory.exchange.transcript import (
    conversation_of,
    messages_among,
    messages_of,
    without_keys,
    without_tags,
)
from sense_memory.interfaces.text import age, quantity
from sense_memory.interfaces.tools.results import DATA_NOTE
from sense_memory.memories.trust import of_entry
from sense_memory.mind.log import NewEntry
from sense_memory.plain_text import one_line, printed


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.exchange.transcript import TranscriptMessage
    from sense_memory.mind.log import LogEntry
    from sense_memory.models import JournalEntry
    from sense_memory.store import MemoryStore

MAX_INPUT_BYTES: Final = 16_000_000  # of the harness's JSON
CONTEXT_TOKENS: Final = 1_000
_END_BYTES: Final = 100  # that are looked at before a text is parsed
_JOURNAL_COUNT: Final = 3
_READ_COUNT: Final = 50  # entries, of which some may be from elsewhere
_JOURNAL_CHARS: Final = 400
_QUOTED_CHARS: Final = 300  # of the last words of each side, in the journal
_PROPOSED_MESSAGES: Final = 200  # of the user that are searched for what lasts, the newest
_PROJECT_CHARS: Final = 60
_FACT_COUNT: Final = 5
NOTED: Final = "session.noted"  # the kind of the entry that says up to which time the journal has a note


def event_of(text: bytes | bytearray) -> dict[str, Any]:
    """The JSON object that a harness writes to a hook's stdin; empty for no input.

    Raises:
        InvalidInput: stdin has something else.
    """
    if not text.strip():
        return {}
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise InvalidInput("a hook expects one JSON object on stdin")
    return event


def is_whole(text: bytes | bytearray) -> bool:
    """Whether this is a complete JSON text, so that nothing more is awaited."""
    if not text[-_END_BYTES:].rstrip().endswith(b"}"):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


async def session_start(store: MemoryStore, now: float) -> str:
    """The answer at the start of a session: context as JSON, or an empty text if there is no context."""
    palace = await store.persona_compress(max_tokens=CONTEXT_TOKENS, style="plain")
    entries: list[JournalEntry] = []
    with suppress(NotSynced):  # a relay may hide the journal, and the palace is here
        judge = await store.mind.store.trust().judge()
        newest = await store.recent(_READ_COUNT)
        entries = [entry for entry in newest if judge.may_speak(of_entry(entry))][:_JOURNAL_COUNT]
    blocks = [f"# Memory (sense-memory)\n{DATA_NOTE}"]
    if palace.included:
        left = f"\n({quantity(len(palace.left_out), 'memory', 'memories')} more)" if palace.left_out else ""
        blocks.append(f"## Palace\n{palace}{left}")
    if entries:
        lines = (
            f"- {age(entry.created_at, now)}: {_brief(entry.content, _JOURNAL_CHARS)}" for entry in entries
        )
        blocks.append("\n".join(("## Journal, newest first", *lines)))
    if len(blocks) == 1:
        return ""
    context = printed(without_tags(without_keys("\n\n".join(blocks))))
    answer = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": context}}
    return json.dumps(answer, ensure_ascii=False)


async def turn_end(store: MemoryStore, event: Mapping[str, Any], proposals: str = "review") -> int:
    """Keep the messages of the turn that has ended; returns how many were new. Arguments and errors as `pre_compact`."""
    return len((await _kept(store, event, proposals)).new)


async def pre_compact(store: MemoryStore, event: Mapping[str, Any], proposals: str = "review") -> int:
    """Keep the messages that a compaction is about to summarize; returns how many were new.

    Args:
        store: of the agent.
        event: the harness's JSON, with `session_id` and `transcript_path`, or the `records` of a transcript.
        proposals: what becomes of what the new messages propose for the palace: review, accept or off; see `Settings`.

    Raises:
        InvalidInput: there is no transcript, or it is not a plain file of this user.
        OSError: the transcript cannot be read.
        SenseMemoryError: the memory could not be written.
    """
    kept = await _kept(store, event, proposals)
    if not _is_each_turn(event):
        await _note(store, event, kept, "A conversation in {} reached a compaction.")
    return len(kept.new)


async def session_end(store: MemoryStore, event: Mapping[str, Any], proposals: str = "review") -> int:
    """Keep the messages of a session that has ended; returns how many were new. Arguments and errors as `pre_compact`."""
    kept = await _kept(store, event, proposals)
    await _note(store, event, kept, "A session in {} ended.")
    return len(kept.new)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The messages of a transcript, all of which are kept.

    Attributes:
        conversation: its name.
        known: the entries of the conversation that were kept before.
        said: the messages of the transcript.
        new: those that were not known.
    """

    conversation: str
    known: list[LogEntry]
    said: list[TranscriptMessage]
    new: list[TranscriptMessage]


async def _kept(store: MemoryStore, event: Mapping[str, Any], proposals: str) -> _Kept:
    """Add the new messages of the harness's transcript to the log, and propose for the palace what they are worth."""
    session = str(event.get("session_id") or "unknown")
    said = _messages(event, session)
    conversation = conversation_of(session)
    known = await store.mind.log.entries(conversation=conversation)
    ids = {entry.id for entry in known}
    new = [message for message in said if message.id not in ids]
    entries = [
        NewEntry(
            f"message.{message.role}",
            {"content": message.content},
            message.role,
            None,
            conversation,
            message.at,
            message.id,
        )
        for message in new
    ]
    if entries:
        await store.mind.log.append_many(entries)
        await _propose(store, event, conversation, new, proposals)
    return _Kept(conversation, known, said, new)


def _messages(event: Mapping[str, Any], session: str) -> list[TranscriptMessage]:
    """The messages of the transcript that the event names, or of its `records`, which our own plugins send."""
    path, records = event.get("transcript_path"), event.get("records")
    if isinstance(records, list):
        return messages_among(records, session)
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidInput("the harness named no transcript")
    return messages_of(Path(path), session)


async def _propose(
    store: MemoryStore,
    event: Mapping[str, Any],
    conversation: str,
    new: Sequence[TranscriptMessage],
    mode: str,
) -> None:
    """Propose what the user's new messages are worth, of which the newest count."""
    if mode == "off":
        return
    said = [message.content for message in new if message.role == "user"][-_PROPOSED_MESSAGES:]
    made = await store.mind.proposals.propose(said, conversation=conversation, project=_project(event))
    if mode == "accept":
        for one in made:
            await store.mind.proposals.accept(one.id)


def _project(event: Mapping[str, Any]) -> str:
    """The name of the folder in which the harness runs; empty for a home folder, which is no project."""
    folder = event.get("cwd")
    path = Path(folder) if isinstance(folder, str) and "\0" not in folder else Path()
    return "" if path == Path.home() else one_line(path.name)[:_PROJECT_CHARS]


async def _note(store: MemoryStore, event: Mapping[str, Any], kept: _Kept, happened: str) -> None:
    """Note in the journal what was said since the last note of this session, if anything was."""
    marks = [entry.payload.get("through") for entry in kept.known if entry.kind == NOTED]
    through = max((mark for mark in marks if isinstance(mark, int | float)), default=0.0)
    since = [message for message in kept.said if message.at > through]
    if not since:
        return
    await store.journal(await _journal_text(store, event, kept.conversation, since, happened))
    mark = {"through": max(message.at for message in since)}
    await store.mind.log.append(NOTED, mark, actor="harness", conversation=kept.conversation)


def _is_each_turn(event: Mapping[str, Any]) -> bool:
    """Gemini CLI (0.61) announces an automatic compression before each turn, and then usually does not compress."""
    return event.get("hook_event_name") == "PreCompress" and event.get("trigger") == "auto"


async def _journal_text(
    store: MemoryStore,
    event: Mapping[str, Any],
    conversation: str,
    new: Sequence[TranscriptMessage],
    happened: str,
) -> str:
    """One entry: what happened, where the messages are, the last question and answer, and facts that the user told."""
    folder = _brief(str(event.get("cwd") or "an unknown folder"), _QUOTED_CHARS)
    count = quantity(len(new), "message")
    lines = [f"{happened.format(folder)} Kept word for word: {count} of conversation {conversation}."]
    for role, what in (("user", "Last request"), ("assistant", "Last answer")):
        message = next((message for message in reversed(new) if message.role == role), None)
        if message is not None:
            lines.append(f"{what}: {_brief(message.content, _QUOTED_CHARS)}")
    waiting = [one.value for one in await store.mind.proposals.open() if one.conversation == conversation]
    facts = waiting[-_FACT_COUNT:]
    lines += [f"The user said, perhaps worth remembering: {_brief(fact, _QUOTED_CHARS)}" for fact in facts]
    return "\n".join(lines)


def _brief(text: str, limit: int) -> str:
    """A text on one line, cut."""
    plain = one_line(text)
    return plain if len(plain) <= limit else plain[:limit].rstrip() + "…"
