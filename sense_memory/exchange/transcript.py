"""The transcript of a session that an agent harness wrote: one JSON object per line.

Each line shows which of three harnesses wrote it: Claude Code (`message` with a role, and a `uuid`), Codex (a `payload` of
type `message`) or Gemini CLI (`type` is user or gemini, and `content`). The words of the user and the assistant are read
unchanged; tool calls and their results, thoughts, side chains and text of the harness itself are skipped. Hooks and imports
use the same rules and make the same ids, so a session that both of them read has no message twice.

A transcript is not trusted: it must be a regular file of this user, links are refused, and its size, the length of its
lines and the number of messages are bounded. Any other line is skipped.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.exchange.items import parts_of, time_of
from sense_memory.operating_system import open_plain, user_number


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MAX_BYTES: Final = 16_000_000  # of a transcript, counted from its end; read in a tenth of a second
MAX_LINE_BYTES: Final = 2_000_000
MAX_MESSAGES: Final = 2_000  # the newest messages
_is_plain_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}").fullmatch
_SECRET_KEY: Final = re.compile(r"\bn(?:crypt)?sec1[02-9ac-hj-np-z]{20,}", re.IGNORECASE)
_TAGS: Final = (  # of blocks that harnesses put before the user's words
    r"(?:command|local-command|bash)-[a-z]+|system-reminder|user_instructions|environment_context|turn_aborted|"
    r"INSTRUCTIONS|session_context|hook_context"
)
_block = re.compile(rf"\s*<({_TAGS})\b[^>]*>.*?</\1>", re.DOTALL).match
_tag = re.compile(rf"<(?=\s*/?\s*(?:{_TAGS})\b)", re.IGNORECASE)
_begins_block = re.compile(rf"\s*(?:<(?:{_TAGS})\b|# AGENTS\.md instructions)").match


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """One message of a transcript, or a part of a message that is too long for an entry of the log.

    Attributes:
        role: user or assistant.
        content: the text, without secret keys.
        at: seconds since 1970.
        id: 20 hex digits, which are the same whenever the same transcript is read.
    """

    role: str
    content: str = field(repr=False)
    at: float
    id: str


def messages_of(path: Path, session: str) -> list[TranscriptMessage]:
    """The newest `MAX_MESSAGES` messages of a transcript, oldest first.

    Args:
        path: the file.
        session: the id of the session; the ids of the messages depend on it.

    Raises:
        InvalidInput: the path is not absolute, or not a regular file of this user.
        OSError: the file cannot be read.
    """
    return messages_among(_records(path), session)


def messages_among(records: Iterable[Any], session: str) -> list[TranscriptMessage]:
    """The newest `MAX_MESSAGES` messages of records, which are what the lines of a transcript hold."""
    found: deque[TranscriptMessage] = deque(maxlen=MAX_MESSAGES)
    for record in records:
        found.extend(messages_in(record, session))
    return list({message.id: message for message in found}.values())


def _records(path: Path) -> Iterator[Any]:
    for line in _lines(path):
        with suppress(orjson.JSONDecodeError):
            yield orjson.loads(line)


def conversation_of(session: str) -> str:
    """The name of a session's conversation: the id of the session, or its hash if the id cannot be a name."""
    return (
        session
        if _is_plain_name(session)
        else hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:32]
    )


def messages_in(record: Any, session: str) -> list[TranscriptMessage]:
    """The message in one line of a transcript, split into parts if it is long; empty if the line has no message."""
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
    """A text in which Nostr secret keys are replaced by "nsec1…"."""
    return _SECRET_KEY.sub("nsec1…", text)


def without_tags(text: str) -> str:
    """A text in which the tags of harness blocks begin with "&lt;", so that it can neither begin nor end such a block."""
    return _tag.sub("&lt;", text)


def _lines(path: Path) -> Iterator[bytes]:
    """The lines in the last `MAX_BYTES` of a file. Opening does not block if the path is a named pipe."""
    if not path.is_absolute():
        raise InvalidInput("the path of the transcript is not absolute")
    descriptor = open_plain(path)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != user_number():
            raise InvalidInput("the transcript must be a regular file of this user")
        if status.st_size > MAX_BYTES:
            file.seek(status.st_size - MAX_BYTES)
            file.readline(MAX_BYTES)
        data = file.read(MAX_BYTES)  # bounded, because the file may grow meanwhile
    return (line for line in data.split(b"\n") if 2 < len(line) <= MAX_LINE_BYTES)


def _role_and_content(record: dict[str, Any]) -> tuple[Any, Any]:
    """The role and the content of a message, by the shape of the record; (None, None) for any other record."""
    payload = record.get("payload")
    if isinstance(payload, dict):  # Codex
        return (
            (payload.get("role"), payload.get("content"))
            if payload.get("type") == "message"
            else (None, None)
        )
    message = record.get("message")
    if isinstance(message, dict):  # Claude Code
        is_internal = any(record.get(name) for name in ("isSidechain", "isMeta", "isCompactSummary"))
        return (None, None) if is_internal else (message.get("role"), message.get("content"))
    role = {"user": "user", "gemini": "assistant"}.get(str(record.get("type")))  # Gemini CLI
    return role, record.get("content")


def _text(content: Any) -> str:
    """The text of a message's content, which is a text or a list of parts."""
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
    """A user's message without the blocks that the harness put before it."""
    start = 0
    while found := _block(text, start):
        start = found.end()
    return "" if _begins_block(text, start) else text[start:]
