"""Recall memory: every message of a conversation, and the messages in the context window (four-tier memory, tier 2).

Messages are entries of the log, of the kinds `message.user`, `message.assistant`, `message.system` and `message.tool`.
The only record is the state of the context: a summary, the last message that it covers, and the messages in context.
Messages that came after the state was written are in context too.

Compaction replaces older messages in context by a summary. Guaranteed: no message is lost, because all stay in the log,
where `search` finds them; the newest messages stay verbatim; and a tool call is never separated from its result. Safe to
repeat, because the state names the last message that the summary covers, and each summary includes the one before. The
cost is one question to the model; nothing is written if the model fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape

from sense_memory.errors import InvalidInput
from sense_memory.mind.log import NewEntry
from sense_memory.mind.model import MAX_SUMMARY_WORDS, SummarizeConversation
from sense_memory.nostr import address
from sense_memory.plain_text import one_line


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from sense_memory.mind.log import Log, LogEntry
    from sense_memory.mind.model import LanguageModel
    from sense_memory.mind.records import MindRecord, MindRecords

ROLES: Final = ("user", "assistant", "system", "tool")
COMPACTION_SHARE: Final = 0.8  # of the context window: a fuller context needs compaction
SUMMARY_SHARE: Final = 0.25  # of the context window, for the summary
_LEAST_WORDS: Final = 12  # a summary may always have so many words
KEPT_SHARE: Final = 0.3  # of the context window, for messages that stay verbatim
SEEN_COUNT: Final = 200  # ids in a state, some 5 KB; they show which messages of another device arrived later
IMPORTED: Final = (
    "conversation.imported"  # the kind of the entry with the title that a conversation had elsewhere
)
_KIND: Final = "message."


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
        id: the id of the message's entry in the log.
        role: user, assistant, system or tool.
        content: the text.
        at: when it was said, seconds since 1970.
        name: the speaker or the tool; empty if unknown.
        tool_calls: the ids of the calls that an assistant's message makes.
        tool_call_id: the id of the call that a tool's message answers.
    """

    id: str
    role: str
    content: str = field(repr=False)
    at: float
    name: str = ""
    tool_calls: tuple[str, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class ContextState:
    """The state of the context when it was last written; later messages are in context too.

    Attributes:
        summary: the summary of the messages that are no longer in context; empty before the first compaction.
        covers: the id of the last message that the summary covers; empty for none.
        covered_count: the number of messages that the summary covers.
        message_ids: the messages in context when the state was written.
        upto: the greatest message id at that time; ids grow with time, so a message with a greater id is later.
        is_by_rule: whether rules wrote the summary, and not a language model.
        seen: the newest message ids at that time, at most `SEEN_COUNT`. A message in their range with another id arrived
            late, and is in context.
    """

    summary: str = field(default="", repr=False)
    covers: str = ""
    covered_count: int = 0
    message_ids: tuple[str, ...] = ()
    upto: str = ""
    is_by_rule: bool = False
    seen: tuple[str, ...] = ()


class Conversation:
    """One conversation of an agent.

    Args:
        log: holds the messages.
        records: holds the state.
        ident: the conversation's id.
        count_tokens: counts the tokens of a text.
        window: the size of the model's context window in tokens.
    """

    def __init__(
        self, log: Log, records: MindRecords, ident: str, *, count_tokens: Callable[[str], int], window: int
    ) -> None:
        self.id, self.window = ident, window
        self._path = address.mind_path("conversation", ident)
        self._log, self._records, self._count = log, records, count_tokens

    # ── Messages ────────────────────────────────────────────────────────────────────────

    async def add(
        self,
        role: str,
        content: str,
        *,
        name: str = "",
        tool_calls: Iterable[str] = (),
        tool_call_id: str = "",
        at: float | None = None,
    ) -> Message:
        """Append a message. Durable on return.

        Args:
            role: user, assistant, system or tool.
            content: the text; may be empty.
            name: the speaker or the tool.
            tool_calls: the ids of the calls that the message makes.
            tool_call_id: the id of the call that the message answers.
            at: when it was said, seconds since 1970; now by default.

        Raises:
            InvalidInput: the role is unknown, or the content is not text; nothing was appended.
            TooLargeError: the message does not fit an event; nothing was appended.
        """
        if role not in ROLES or not isinstance(content, str):
            raise InvalidInput(f"a message needs text and a role of {', '.join(ROLES)}; nothing was appended")
        payload: dict[str, Any] = {"content": content}
        if calls := list(tool_calls):
            payload["tool_calls"] = calls
        if tool_call_id:
            payload["tool_call_id"] = tool_call_id
        new = NewEntry(f"{_KIND}{role}", payload, name or role, conversation=self.id, at=at)
        (entry,) = await self._log.append_many([new])
        return _message(entry)

    async def messages(self, limit: int | None = None) -> list[Message]:
        """All messages, or the newest `limit` messages, oldest first."""
        found = [entry for entry in await self._log.entries(conversation=self.id) if _is_message(entry)]
        return [
            _message(entry) for entry in (found if limit is None else found[max(0, len(found) - limit) :])
        ]

    # ── The context ─────────────────────────────────────────────────────────────────────

    async def state(self) -> ContextState:
        """The state of the context as it was last written; an empty state at first."""
        return _state(await self._records.read(self._path))

    async def in_context(self) -> list[Message]:
        """The messages in context, oldest first; the summary of the others is in `state`."""
        return _in_context(await self.messages(), await self.state())

    async def as_messages(self, system: str = "") -> list[dict[str, str]]:
        """The messages for a chat model: the system prompt with the summary, then the messages in context, oldest first.

        The summary is data: it is one line, escaped as XML text, so that it cannot close an element or begin a block.

        Args:
            system: the system prompt, such as `MemoryManager.system_prompt()`.

        Returns:
            Mappings with `role` and `content`. The caller adds tool calls and results, whose form depends on the model.
        """
        summary = (await self.state()).summary
        quoted = escape(one_line(summary))
        so_far = f"Summary of the conversation so far: {quoted}" if summary else ""
        first = "\n\n".join(filter(None, (system, so_far)))
        head = [{"role": "system", "content": first}] if first else []
        return head + [{"role": item.role, "content": item.content} for item in await self.in_context()]

    async def message_ids(self) -> list[str]:
        """The ids of the messages in context, oldest first."""
        return [message.id for message in await self.in_context()]

    async def set_message_ids(self, ids: Sequence[str]) -> None:
        """Choose the messages in context; later messages are in context too.

        Raises:
            InvalidInput: no message of this conversation has one of the ids; nothing was changed.
        """

        async def chosen(state: ContextState, messages: Sequence[Message]) -> ContextState:
            known = {message.id for message in messages}
            if unknown := [ident for ident in ids if ident not in known]:
                raise InvalidInput(
                    f"{len(unknown)} of the ids belong to no message of this conversation; nothing was changed"
                )
            return replace(state, message_ids=tuple(ids))

        await self._change(chosen)

    async def tokens(self) -> int:
        """The tokens of the summary and of the messages in context."""
        summary = (await self.state()).summary
        return self._count(summary) + sum(self._tokens(message) for message in await self.in_context())

    def needs_compaction(self, current_tokens: int) -> bool:
        """Whether a context with this number of tokens takes 80 % of the window or more."""
        return current_tokens >= COMPACTION_SHARE * self.window

    async def compact(self, model: LanguageModel) -> ContextState:
        """Replace the older messages in context by a summary; returns the new state.

        The newest messages stay, up to 30 % of the window, and at least the last one. Nothing is written if there is
        nothing to summarise.

        Raises:
            ModelError: the model gave no valid summary; nothing was changed.
        """

        async def compacted(state: ContextState, messages: Sequence[Message]) -> ContextState:
            context = _in_context(messages, state)
            place = self._first_kept(context)
            old, kept = context[:place], context[place:]
            if not old:
                return state
            text = transcript(old)
            task = SummarizeConversation(
                conversation_history=text, previous_summary=state.summary, max_words=self._summary_words(text)
            )
            found = await model.answer(task)
            return replace(
                state,
                summary=found.summary,
                is_by_rule=found.is_by_rule,
                covers=old[-1].id,
                covered_count=state.covered_count + len(old),
                message_ids=tuple(message.id for message in kept),
            )

        await self._change(compacted)
        return await self.state()

    def _summary_words(self, text: str) -> int:
        """The largest number of words of a summary, by the tokens for each word of this conversation."""
        share = SUMMARY_SHARE * self.window * len(text.split()) / max(1, self._count(text))
        return max(_LEAST_WORDS, min(MAX_SUMMARY_WORDS - 1, int(share)))

    def _first_kept(self, context: Sequence[Message]) -> int:
        """The place of the first message that stays verbatim, never between a tool call and its result."""
        left = KEPT_SHARE * self.window
        place = len(context)
        while place > 0 and (place == len(context) or self._tokens(context[place - 1]) <= left):
            place -= 1
            left -= self._tokens(context[place])
        calls = {call: number for number, message in enumerate(context) for call in message.tool_calls}
        while place < len(context):
            cut = [
                calls[message.tool_call_id]
                for message in context[place:]
                if message.tool_call_id in calls and calls[message.tool_call_id] < place
            ]
            if not cut:
                break
            place = min(cut)
        return place

    def _tokens(self, message: Message) -> int:
        return self._count(f"{message.role}: {message.content}")

    async def _change(
        self, edit: Callable[[ContextState, Sequence[Message]], Awaitable[ContextState]]
    ) -> None:
        """Edit the current state, again if it changes meanwhile; an edit that changes nothing writes nothing."""

        async def edited(found: Mapping[str, MindRecord]) -> Mapping[str, Mapping[str, Any]]:
            before, messages = _state(found.get(self._path)), await self.messages()
            after = await edit(before, messages)
            if after is before:
                return {}
            seen = sorted(message.id for message in messages)[-SEEN_COUNT:]
            return {self._path: _fields(replace(after, upto=seen[-1] if seen else "", seen=tuple(seen)))}

        await self._records.change([self._path], edited)


def _state(record: MindRecord | None) -> ContextState:
    if record is None:
        return ContextState()
    return ContextState(
        record.text("summary"),
        record.text("covers"),
        record.whole("covered_count"),
        record.texts("message_ids"),
        record.text("upto"),
        record.is_true("is_by_rule"),
        record.texts("seen"),
    )


def _fields(state: ContextState) -> dict[str, Any]:
    return {
        "summary": state.summary,
        "covers": state.covers,
        "covered_count": state.covered_count,
        "message_ids": list(state.message_ids),
        "upto": state.upto,
        "is_by_rule": state.is_by_rule,
        "seen": list(state.seen),
    }


def transcript(messages: Iterable[Message]) -> str:
    """Messages as text for a model: each is one line, after its role and its name in parentheses.

    A line begins with the role, so that no name speaks as another role. Hidden characters are escaped.
    """
    return "\n".join(f"{_speaker(message)}: {one_line(message.content)}" for message in messages)


def _speaker(message: Message) -> str:
    return f"{message.role} ({one_line(message.name)})" if message.name else message.role


def _in_context(messages: Sequence[Message], state: ContextState) -> list[Message]:
    if not state.upto:
        return list(messages)
    chosen, seen = set(state.message_ids), set(state.seen)
    # A message that arrived late and is older than this looks like a message that was seen.
    oldest = min(seen, default=state.upto) if len(seen) >= SEEN_COUNT or not seen else ""

    def is_new(ident: str) -> bool:
        return ident > state.upto or (ident > oldest and ident not in seen)

    return [message for message in messages if message.id in chosen or is_new(message.id)]


def _is_message(entry: LogEntry) -> bool:
    return entry.kind.startswith(_KIND) and entry.kind.removeprefix(_KIND) in ROLES


def _message(entry: LogEntry) -> Message:
    role = entry.kind.removeprefix(_KIND)
    calls = entry.payload.get("tool_calls")
    return Message(
        entry.id,
        role,
        str(entry.payload.get("content", "")),
        entry.at,
        "" if entry.actor == role else entry.actor,
        tuple(map(str, calls)) if isinstance(calls, list) else (),
        str(entry.payload.get("tool_call_id", "")),
    )
