"""`mind log`, `mind conversations` and `mind search`: what happened, what was said, and how to find it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.interfaces.cli import inputs
from sense_memory.interfaces.cli.inputs import QueryArgument, argument, flag, option
from sense_memory.interfaces.cli.invocation import note
from sense_memory.interfaces.cli.mind import commands
from sense_memory.interfaces.cli.mind.group import (
    TEXT,
    ConversationOption,
    KindOption,
    OnlyConversationOption,
    OnlyKindOption,
    OnlyTopicOption,
    SetLimitOption,
    TurnOption,
    group,
    not_found,
)
from sense_memory.interfaces.cli.operations import FromStdin, as_sentence, as_table, operation
from sense_memory.interfaces.shapes.views import StoredConversation
from sense_memory.interfaces.text import age, local_time, quantity, safe


if TYPE_CHECKING:
    from sense_memory.mind.chat.conversation import Conversation
    from sense_memory.mind.chat.messages import Message
    from sense_memory.mind.log import LogEntry
    from sense_memory.mind.search.hits import MindHit
    from sense_memory.store import MemoryStore

_PLACES: Final = ("conversation", "archive", "log")  # where `mind search` looks


# ── Log ─────────────────────────────────────────────────────────────────────────────────

log = group(
    "log",
    "Append to the log of what happened, or show the log. Entries are never changed.",
    'sense-memory mind log append "It rains." --kind world.observed --actor world',
    "sense-memory mind log show",
    default="show",
)


ENTRIES: Final = as_table(
    ("id", "age", "actor", "kind", "text"),
    lambda entry, now: (entry.id, age(entry.at, now), entry.actor, entry.kind, entry.text),
    none="There are no such entries.",
)
APPENDED: Final = as_sentence(lambda entry: f"appended as {entry.id}")
_of_log = partial(operation, log)


@_of_log(
    "append",
    'sense-memory mind log append "It rains." --kind world.observed --actor world',
    writes=True,
    shows=APPENDED,
)
async def append_entry(
    store: MemoryStore,
    *,
    text: Annotated[str, TEXT, FromStdin("entry")] = "-",
    kind: KindOption = "agent.spoke",
    actor: Annotated[str, typer.Option(metavar="NAME", help="Who acted.")] = "agent",
    turn: TurnOption = None,
    conversation: ConversationOption = None,
) -> LogEntry:
    """Append an entry. For a message, use `mind conversations add`."""
    return await store.mind.log.append(
        kind, {"text": text}, actor=actor, turn=turn, conversation=conversation
    )


@_of_log(
    "show",
    "sense-memory mind log show",
    'sense-memory mind log show --kind agent.spoke --since "1h"',
    shows=ENTRIES,
)
async def show_log(
    store: MemoryStore,
    *,
    kind: OnlyKindOption = None,
    actor: Annotated[str | None, option("NAME", "Only entries of this actor.")] = None,
    conversation: OnlyConversationOption = None,
    since: Annotated[
        str | None, option("WHEN", "Only entries since this time: a date, a time, yesterday, 3h.")
    ] = None,
    limit: SetLimitOption = 20,
) -> list[LogEntry]:
    """Show the newest entries, oldest first."""
    then = None if since is None else inputs.moment(since, time.time(), begins=True)
    return await store.mind.log.entries(
        kind=kind, actor=actor, conversation=conversation, since=then, limit=limit
    )


# ── Conversations ───────────────────────────────────────────────────────────────────────

conversations = group(
    "conversations",
    "Add and show the messages of conversations, and summarise those that no longer fit a context window.",
    'sense-memory mind conversations add chat "Where were we?"',
    "sense-memory mind conversations show chat",
)
ConversationArgument = Annotated[str, argument("CONVERSATION", "The id of the conversation.")]


@dataclass(frozen=True, slots=True)
class _Titled:
    """A conversation in a list; its title is empty unless it was imported."""

    id: str
    messages: int
    title: str

    def data(self) -> dict[str, Any]:
        return {"id": self.id, "messages": self.messages, "title": self.title or None}


async def _conversation(store: MemoryStore, ident: str) -> Conversation:
    found = store.mind.conversation(ident)
    if not await found.messages(1):
        raise not_found(f"there is no conversation {ident!r}")
    return found


@operation(
    conversations,
    "add",
    'sense-memory mind conversations add chat "Where were we?" --role user',
    writes=True,
    shows=as_sentence(lambda message: f"kept as message {message.id}"),
)
async def add_message(
    store: MemoryStore,
    conversation: ConversationArgument,
    text: Annotated[str, TEXT, FromStdin("message")] = "-",
    *,
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="The role: user, assistant, system or tool.")
    ] = "user",
    name: Annotated[str, option("NAME", "Who said it, or which tool.")] = "",
) -> Message:
    """Add a message to a conversation; the first message starts the conversation."""
    return await store.mind.conversation(conversation).add(role, text, name=name)


def _show_titled(found: list[_Titled], given: Any) -> None:
    headers = (
        ("conversation", "messages", "title")
        if any(one.title for one in found)
        else ("conversation", "messages")
    )
    as_table(
        headers,
        lambda one, _: (one.id, str(one.messages), *([one.title] if one.title else [])),
        none="There are no conversations yet. Begin with: {program} mind conversations add CONVERSATION TEXT",
    )(found, given)


@operation(
    conversations, "list", "sense-memory mind conversations list", json=_Titled.data, shows=_show_titled
)
async def list_conversations(store: MemoryStore) -> list[_Titled]:
    """List the conversations, newest first, with their number of messages, and titles if they were imported."""
    titles = await store.mind.conversation_titles()
    return [
        _Titled(ident, count, titles.get(ident, ""))
        for ident, count in (await store.mind.conversations()).items()
    ]


def _show_messages(found: StoredConversation, _: Any) -> None:
    if found.state.summary:
        typer.echo(safe(f"[summary of {found.state.covered_count} messages] {found.state.summary}\n"))
    for message in found.messages:
        typer.echo(safe(f"{local_time(message.at)} {message.name or message.role}: {message.content}"))


@operation(
    conversations,
    "show",
    "sense-memory mind conversations show chat",
    codes={4: "there is no such conversation"},
    shows=_show_messages,
)
async def show_conversation(
    store: MemoryStore,
    conversation: ConversationArgument,
    *,
    in_context: Annotated[
        bool, flag("--in-context", text="Show only the summary and the messages that a model would see.")
    ] = False,
    limit: SetLimitOption = 40,
) -> StoredConversation:
    """Show a conversation: its summary, if it was compacted, and its newest messages, oldest first."""
    found = await _conversation(store, conversation)
    messages = await (found.in_context() if in_context else found.messages(limit))
    return StoredConversation(conversation, await found.state(), messages)


def _show_summary(found: StoredConversation, _: Any) -> None:
    if found.state.summary:
        covered = quantity(found.state.covered_count, "message")
        note(f"{covered} summarised, {len(found.messages)} in context")
        typer.echo(safe(found.state.summary))
    else:
        note("there is nothing to summarise yet")


@operation(
    conversations,
    "compact",
    "sense-memory mind conversations compact chat --window 2000",
    codes={4: "there is no such conversation"},
    writes=True,
    creates=False,
    shows=_show_summary,
)
async def compact(
    store: MemoryStore,
    conversation: ConversationArgument,
    *,
    window: Annotated[
        int, typer.Option(metavar="TOKENS", min=1, help="The context window of the model.")
    ] = 256_000,
) -> StoredConversation:
    """Replace the older messages in context by a summary, and print the summary.

    The newest messages stay: as many as fill 30 % of the window, at least one. No message is lost; `mind search` finds
    them all.
    """
    await _conversation(store, conversation)
    found = store.mind.conversation(conversation, window=window)
    state = await found.compact(store.mind.model)
    if state.problem:
        dropped = quantity(state.dropped_count, "message")
        left_out = f"; {dropped} left the context without a summary" if state.dropped_count else ""
        note(f"the model's summary was not used: {safe(state.problem)}{left_out}; the log has every message")
    return StoredConversation(conversation, state, await found.in_context())


# ── Search ──────────────────────────────────────────────────────────────────────────────

_HITS = as_table(
    ("place", "age", "actor", "text"),
    lambda hit, now: (hit.place.value, age(hit.at, now), hit.actor, hit.text),
    none="Nothing was found.",
)


def _places(within: str) -> list[str]:
    return [part.strip() for part in within.split(",") if part.strip()]


def _names_no_place(given: Any) -> str:
    places = _places(given.within)
    if places and set(places) <= set(_PLACES):
        return ""
    return f"--within takes one or more of {', '.join(_PLACES)}, separated by commas"


@operation(
    commands,
    "search",
    "sense-memory mind search what does Lisa paint",
    "sense-memory mind search kiln --within archive,log",
    "sense-memory mind search wood --tag art",
    refuses=_names_no_place,
    shows=_HITS,
)
async def search(
    store: MemoryStore,
    query: QueryArgument,
    *,
    within: Annotated[
        str,
        typer.Option(
            metavar="PLACES", help="Where to look, separated by commas: conversation, archive, log."
        ),
    ] = "conversation,archive,log",
    tag: Annotated[
        list[str] | None, option("WORD", "Only passages with this tag. May be repeated: any of the tags.")
    ] = None,
    topic: OnlyTopicOption = None,
    conversation: OnlyConversationOption = None,
    limit: SetLimitOption = 5,
) -> list[MindHit]:
    """Find messages, passages and other entries of the log, the best first.

    With --tag or --topic, only passages are found; with --conversation, only messages and entries of that conversation.
    """
    words, places = inputs.question(query), _places(within)
    return await store.mind.search(
        words, limit, within=places, conversation=conversation, tags=tag or (), topic=topic
    )
