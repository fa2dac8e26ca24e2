"""The session of an agent harness, as the harness wrote it: one JSON object a line.

The shapes of three harnesses are known by their lines: Claude Code (`message` with a role, beside a `uuid`), Codex (a
`payload` of type `message`) and Gemini CLI (`type` is user or gemini, beside `content`). What a person and the
assistant said is taken, word for word; tool calls and their results, thoughts, side chains and what the harness itself
put in are not. A hook and an import read by the same rules and make the same ids, so a session that came in by one of
them comes in by the other without a message twice. A transcript is not trusted: it must be a plain file of this user, links are refused, and its size,
lines and messages are bounded; a line that is anything else is skipped.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.exchange.items import parts_of, time_of


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_BYTES: Final = 16_000_000  # of a transcript, from its end; a tenth of a second
MAX_LINE_BYTES: Final = 2_000_000
MAX_MESSAGES: Final = 2_000  # the newest
_is_plain_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}").fullmatch
_SECRET_KEY: Final = re.compile(r"\bn(?:crypt)?sec1[02-9ac-hj-np-z]{20,}", re.IGNORECASE)
_TAGS: Final = (  # of what harnesses put before a user's words
    r"(?:command|local-command|bash)-[a-z]+|system-reminder|user_instructions|environment_context|turn_aborted|"
    r"INSTRUCTIONS|session_context|hook_context"
)
_block = re.compile(rf"\s*<({_TAGS})\b[^>]*>.*?</\1>", re.DOTALL).match
_tag = re.compile(rf"<(?=\s*/?\s*(?:{_TAGS})\b)", re.IGNORECASE)
_begins_block = re.compile(rf"\s*(?:<(?:{_TAGS})\b|# AGENTS\.md instructions)").match


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """One message of a transcript, or a part of one that is too long for an entry of the log.

    Attributes:
        role: user or assistant.
        content: the text, without secret keys.
        at: seconds since 1970.
        id: 20 hex digits, the same each time the same transcript is read.
    """

    role: str
    content: str = field(repr=False)
    at: float
    id: str


def messages_of(path: Path, session: str) -> list[TranscriptMessage]:
    """The newest messages of a transcript, oldest first.

    Args:
        path: of the file.
        session: the id of the session, which the ids of the messages depend on.

    Raises:
        InvalidInput: it is not a plain file of this user.
        OSError: it cannot be read.
    """
    found: deque[TranscriptMessage] = deque(maxlen=MAX_MESSAGES)
    for line in _lines(path):
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        found.extend(messages_in(record, session))
    return list({message.id: message for message in found}.values())


def conversation_of(session: str) -> str:
    """The conversation that holds a session: the session's id, or a hash of an id that cannot be a name."""
    return (
        session
        if _is_plain_name(session)
        else hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:32]
    )


def messages_in(record: Any, session: str) -> list[TranscriptMessage]:
    """The message in one object of a transcript, in parts where it is long; empty where nobody says anything."""
    if not isinstance(record, dict):
        return []
    role, content = _role_and_content(record)
    text = without_keys(_text(content))
    text = (_own_words(text) if role == "user" else text).strip()
    at = time_of(record.get("timestamp"))
    if role not in ("user", "assistant") or not text or at is None:
        return []
    found = []
    for number, part in enumerate(parts_of(text)):
        then = at + number * 1e-6  # parts stay in order
        digest = hashlib.sha256(f"{session}\0{role}\0{at}\0{number}\0{part}".encode()).hexdigest()
        found.append(
            TranscriptMessage(role, part, then, f"{int(then * 1e6) & (1 << 52) - 1:013x}{digest[:7]}")
        )
    return found


def without_keys(text: str) -> str:
    """A text whose Nostr secret keys are replaced by "nsec1…"."""
    return _SECRET_KEY.sub("nsec1…", text)


def without_tags(text: str) -> str:
    """A text that cannot end or begin a block of a harness's own: the tags of such blocks begin with "&lt;"."""
    return _tag.sub("&lt;", text)


def _lines(path: Path) -> Iterator[bytes]:
    """The last lines of a file. Opening does not wait, because a named pipe may be there."""
    if not path.is_absolute():
        raise InvalidInput("the path of a transcript must be absolute")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            raise InvalidInput("a transcript must be a plain file of this user")
        if status.st_size > MAX_BYTES:
            file.seek(status.st_size - MAX_BYTES)
            file.readline(MAX_BYTES)
        data = file.read(MAX_BYTES)  # not more, if it grows meanwhile
    return (line for line in data.split(b"\n") if 2 < len(line) <= MAX_LINE_BYTES)


def _role_and_content(record: dict[str, Any]) -> tuple[Any, Any]:
    """Who said what, by the shape of the record; (None, None) for any other record."""
    payload = record.get("payload")
    if isinstance(payload, dict):  # Codex
        return (
            (payload.get("role"), payload.get("content"))
            if payload.get("type") == "message"
            else (None, None)
        )
    message = record.get("message")
    if isinstance(message, dict):  # Claude Code
        is_said = not any(record.get(name) for name in ("isSidechain", "isMeta", "isCompactSummary"))
        return (message.get("role"), message.get("content")) if is_said else (None, None)
    role = {"user": "user", "gemini": "assistant"}.get(str(record.get("type")))  # Gemini CLI
    return role, record.get("content")


def _text(content: Any) -> str:
    """The text of a message's content: a text, or a list of parts of which some have text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = (
        part if isinstance(part, str) else part.get("text", "")
        for part in parts
        if isinstance(part, str)
        or (isinstance(part, dict) and part.get("type", "text") in {"text", "input_text", "output_text"})
    )
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _own_words(text: str) -> str:
    """A user's message without the blocks that a harness put before it."""
    start = 0
    while found := _block(text, start):
        start = found.end()
    return "" if _begins_block(text, start) else text[start:]
