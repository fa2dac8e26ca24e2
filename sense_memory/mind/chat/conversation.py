"""Recall memory: every message of a conversation, and the messages in the context window (four-tier memory, tier 2).

Messages are entries of the log, of the kinds `message.user`, `message.assistant`, `message.system` and `message.tool`.
The only record is the state of the context: a summary, the last message that it covers, and the messages in context.
Messages that came after the state was written are in context too.

Compaction replaces older messages in context by a summary. Guaranteed: no message is lost, because all stay in the log,
where `search` finds them; the newest messages stay verbatim; and a tool call is never separated from its result. Safe to
repeat, because the state names the last message that the summary covers, and each summary includes the one before. It
always ends, see `chat.compaction`. The cost is one question to the model for each part of what is summarised.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape

from sense_memory import arguments
from sense_memory.errors import InvalidInput
from sense_memory.mind.call_checks import checked
from sense_memory.mind.chat import formats
from sense_memory.mind.chat.compaction import COMPACTION_SHARE, Compaction, ContextState
from sense_memory.mind.chat.message_index import MessageIndex
from sense_memory.mind.chat.messages import (
    KIND_PREFIX,
    ROLES,
    Message,
    ToolCall,
    as_openai,
    message,
    of_openai,
)
from sense_memory.mind.log import NewEntry
from sense_memory.nostr import address
from sense_memory.plain_text import one_line


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from sense_memory.mind.chat.message_index import MessageList
    from sense_memory.mind.log import Log, LogEntry
    from sense_memory.mind.model import LanguageModel
    from sense_memory.mind.records import MindRecord, MindRecords

SEEN_COUNT: Final = 200  # ids in a state, some 5 KB; they show which messages of another device arrived later
# The kind of the entry with the title that a conversation had elsewhere.
IMPORTED: Final = "conversation.imported"


@checked
class Conversation:
    """One conversation of an agent.

    Args:
        log: holds the messages.
        records: holds the state.
        ident: the conversation's id.
        count_tokens: counts the tokens of a text.
        window: the size of the model's context window in tokens.
        index: the messages of the log; by default an index of its own.

    Raises:
        InvalidAddress: the id cannot be part of an address.
        InvalidInput: `window` is not a number of at least 1, or `count_tokens` is not a function.
    """

    def __init__(
        self,
        log: Log,
        records: MindRecords,
        ident: str,
        *,
        count_tokens: Callable[[str], int],
        window: int,
        index: MessageIndex | None = None,
    ) -> None:
        self._path = address.mind_path("conversation", ident)
        arguments.function(count_tokens, "count_tokens")
        if type(window) not in {int, float} or not isfinite(window) or window < 1:
            raise InvalidInput("window must be a number of tokens, at least 1")
        self.id, self.window = ident, window
        self._log, self._records, self.count_tokens = log, records, count_tokens
        self._index = index or MessageIndex(log)

    # ── Messages ────────────────────────────────────────────────────────────────────────

    async def add(
        self,
        role: str,
        content: str,
        *,
        name: str = "",
        tool_calls: Iterable[str | ToolCall | Mapping[str, Any]] = (),
        tool_call_id: str = "",
        at: float | None = None,
    ) -> Message:
        """Append a message. Durable on return.

        Args:
            role: user, assistant, system or tool.
            content: the text; may be empty.
            name: the speaker or the tool.
            tool_calls: the calls that the message makes: `ToolCall`s, or calls as OpenAI writes them. Of a call that is
                given as an id, the model will not see the name and the arguments.
            tool_call_id: the id of the call that the message answers.
            at: when it was said, seconds since 1970; now by default.

        Raises:
            InvalidInput: the role is unknown, the content is not text, or a call has no id; nothing was appended.
            TooLargeError: the message does not fit an event; nothing was appended.
        """
        if role not in ROLES or not isinstance(content, str):
            raise InvalidInput(f"a message needs text and a role of {', '.join(ROLES)}")
        payload: dict[str, Any] = {"content": content}
        if made := [_call(given) for given in tool_calls]:
            payload["tool_calls"] = [ident for ident, _ in made]
            if full := [call for _, call in made if call is not None]:
                payload["calls"] = full
        if tool_call_id:
            payload["tool_call_id"] = tool_call_id
        return await self._append(role, payload, name, at)

    async def add_openai(self, given: Mapping[str, Any] | object, *, at: float | None = None) -> Message:
        """Append a message of OpenAI's chat completions, which `as_messages` gives back as it came. Durable on return.

        Args:
            given: a mapping, or a message of the SDK, such as `completion.choices[0].message`.
            at: when it was said, seconds since 1970; now by default.

        Raises:
            InvalidInput: the value is not such a message; nothing was appended.
            TooLargeError: the message does not fit an event; nothing was appended.
        """
        role, payload = formats.from_openai(given)
        name = payload.get("more", {}).get("name")
        return await self._append(role, payload, name if isinstance(name, str) else "", at)

    async def add_anthropic(self, given: Mapping[str, Any] | object, *, at: float | None = None) -> Message:
        """Append a message of Anthropic's API, which `as_anthropic` gives back as it came. Durable on return.

        Args:
            given: a mapping, or a response of the SDK, of which only role and content are kept.
            at: when it was said, seconds since 1970; now by default.

        Raises:
            InvalidInput: the value is not such a message; nothing was appended.
            TooLargeError: the message does not fit an event; nothing was appended.
        """
        return await self._append(*formats.from_anthropic(given), "", at)

    async def _append(self, role: str, payload: Mapping[str, Any], name: str, at: float | None) -> Message:
        new = NewEntry(f"{KIND_PREFIX}{role}", payload, name or role, conversation=self.id, at=at)
        (entry,) = await self._log.append_many([new])
        return message(entry)

    async def messages(self, limit: int | None = None) -> list[Message]:
        """All messages, or the newest `limit` messages, oldest first.

        Raises:
            InvalidInput: `limit` is negative, or not a whole number.
        """
        return list(map(message, (await self._index.of(self.id)).newest(limit)))

    # ── The context ─────────────────────────────────────────────────────────────────────

    async def state(self) -> ContextState:
        """The state of the context as it was last written; an empty state at first."""
        return _state(await self._records.read(self._path))

    async def in_context(self) -> list[Message]:
        """The messages in context, oldest first; the summary of the others is in `state`."""
        return list(map(message, (await self.context())[1]))

    async def as_messages(self, system: str = "") -> list[dict[str, Any]]:
        """The messages for OpenAI's chat completions: the system prompt with the summary, then the messages in context.

        Tool calls and results are complete; see `chat.formats`. The summary is data: it is one line, escaped as XML text,
        so that it cannot close an element or begin a block.

        Args:
            system: the system prompt, such as `MemoryManager.system_prompt()`.
        """
        state, context = await self.context()
        return formats.to_openai(context, _prompt(system, state.summary), is_cut=bool(state.covers))

    async def as_anthropic(self, system: str = "") -> tuple[str, list[dict[str, Any]]]:
        """The system prompt with the summary, and the messages in context, for Anthropic's API; see `as_messages`."""
        state, context = await self.context()
        return formats.to_anthropic(context, _prompt(system, state.summary), is_cut=bool(state.covers))

    async def context(self) -> tuple[ContextState, Sequence[LogEntry]]:
        """The state, and the entries of the messages in context, oldest first."""
        state = await self.state()
        return state, _in_context(await self._index.of(self.id), state)

    async def message_ids(self) -> list[str]:
        """The ids of the messages in context, oldest first."""
        return [message.id for message in await self.in_context()]

    async def set_message_ids(self, ids: Sequence[str]) -> None:
        """Choose the messages in context; later messages are in context too.

        Raises:
            InvalidInput: no message of this conversation has one of the ids; nothing was changed.
            TooLargeError: the ids do not fit an event, which has room for some 1,400; nothing was changed.
        """
        wanted = list(ids)

        async def chosen(state: ContextState, found: MessageList) -> ContextState:
            if unknown := [ident for ident in wanted if ident not in found.entries]:
                raise InvalidInput(f"{len(unknown)} of the ids belong to no message of this conversation")
            return replace(state, message_ids=tuple(wanted))

        await self._change(chosen)

    async def tokens(self) -> int:
        """The tokens of the summary and of the messages in context, with their tool calls."""
        state = await self.state()
        found = await self._index.of(self.id)
        counted = sum(await found.costs(_in_context(found, state), self.count_tokens))
        return self.count_tokens(state.summary) + counted

    def needs_compaction(self, current_tokens: int) -> bool:
        """Whether a context with this number of tokens takes 80 % of the window or more."""
        return current_tokens >= COMPACTION_SHARE * self.window

    async def compact(self, model: LanguageModel) -> ContextState:
        """Replace the older messages in context by a summary; returns the new state.

        The newest messages stay, up to 30 % of the window, and at least the last one, unless it fills the context alone.
        Afterwards the context needs no compaction, whatever the model answers: `ContextState.problem` says why the rules
        wrote the summary instead, and `dropped_count` how many messages no summary covers. Nothing is written if there is
        nothing to summarise.
        """

        async def compacted(state: ContextState, found: MessageList) -> ContextState:
            context = _in_context(found, state)
            costs = await found.costs(context, self.count_tokens)
            return await Compaction(self.window, self.count_tokens, model).compacted(state, context, costs)

        await self._change(compacted)
        return await self.state()

    async def _change(self, edit: Callable[[ContextState, MessageList], Awaitable[ContextState]]) -> None:
        """Edit the current state, again if it changes meanwhile; an edit that changes nothing writes nothing."""

        async def edited(held: Mapping[str, MindRecord]) -> Mapping[str, Mapping[str, Any]]:
            before, found = _state(held.get(self._path)), await self._index.of(self.id)
            seen = found.greatest_ids(SEEN_COUNT)  # before the edit: what arrives meanwhile is in context
            after = await edit(before, found)
            if after is before:
                return {}
            return {self._path: _fields(replace(after, upto=seen[-1] if seen else "", seen=tuple(seen)))}

        await self._records.change([self._path], edited)


def _call(given: object) -> tuple[str, dict[str, Any] | None]:
    """The id of a call, and the call as OpenAI writes it, unless only the id is known."""
    if isinstance(given, str):
        return given, None
    plain = as_openai(given) if isinstance(given, ToolCall) else formats.plain(given)
    found = of_openai(plain)
    if found is None:
        raise InvalidInput("a tool call needs an id")
    return found.id, plain


def _prompt(system: str, summary: str) -> str:
    """A system prompt with the summary, which is data."""
    quoted = escape(one_line(summary))
    return "\n\n".join(filter(None, (system, summary and f"Summary of the conversation so far: {quoted}")))


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
        record.whole("dropped_count"),
        record.text("problem"),
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
        "dropped_count": state.dropped_count,
        "problem": state.problem,
    }


def _in_context(found: MessageList, state: ContextState) -> Sequence[LogEntry]:
    """The messages in context: those that were chosen, and those that came later."""
    if not state.upto:
        return found.newest()
    seen = set(state.seen)
    # A message that arrived late and is older than this looks like a message that was seen.
    oldest = min(seen, default=state.upto) if len(seen) >= SEEN_COUNT or not seen else ""
    chosen = {ident: found.entries[ident] for ident in state.message_ids if ident in found.entries}
    for entry in found.after(oldest):
        if entry.id > state.upto or entry.id not in seen:
            chosen[entry.id] = entry
    return sorted(chosen.values(), key=attrgetter("at", "id"))
