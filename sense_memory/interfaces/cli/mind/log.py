"""`mind log`, `mind conversations` and `mind search`: what happened, what was said, and how to find it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.interfaces.cli import inputs
from sense_memory.interfaces.cli.delivery import deliver
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import (
    WAIT_SECONDS,
    JsonOption,
    QueryArgument,
    WaitOption,
    argument,
    flag,
    option,
)
from sense_memory.interfaces.cli.invocation import note, of, program
from sense_memory.interfaces.cli.mind.group import (
    ConversationOption,
    KindOption,
    OnlyConversationOption,
    OnlyKindOption,
    OnlyTopicOption,
    SetLimitOption,
    TextArgument,
    TurnOption,
    commands,
    done,
    group,
    not_found,
    show,
)
from sense_memory.interfaces.cli.output import mind_hit_data
from sense_memory.interfaces.text import age, as_json, iso, local_time, quantity, safe


if TYPE_CHECKING:
    from sense_memory.mind.chat.compaction import ContextState
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
)


def entry_data(entry: LogEntry) -> dict[str, Any]:
    """An entry for JSON."""
    return {
        "id": entry.id,
        "kind": entry.kind,
        "actor": entry.actor,
        "turn": entry.turn,
        "conversation": entry.conversation,
        "text": entry.text,
        "at": iso(entry.at),
    }


def show_entries(context: typer.Context, entries: list[LogEntry], now: float) -> None:
    """Entries of a log."""
    rows = [(entry.id, age(entry.at, now), entry.actor, entry.kind, entry.text) for entry in entries]
    headers = ("id", "age", "actor", "kind", "text")
    show(
        of(context),
        [entry_data(entry) for entry in entries],
        headers,
        rows,
        none="There are no such entries.",
    )


@log.command(
    "append", epilog=ends('sense-memory mind log append "It rains." --kind world.observed --actor world')
)
def append_entry(
    context: typer.Context,
    *,
    text: TextArgument = None,
    kind: KindOption = "agent.spoke",
    actor: Annotated[str, typer.Option(metavar="NAME", help="Who acted.")] = "agent",
    turn: TurnOption = None,
    conversation: ConversationOption = None,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Append an entry. For a message, use `mind conversations add`."""
    content = inputs.text_or_stdin(text, "entry", is_lines=True)
    invocation = of(context)

    async def work(store: MemoryStore) -> LogEntry:
        entry = await store.mind.log.append(
            kind, {"text": content}, actor=actor, turn=turn, conversation=conversation
        )
        await deliver(store, wait)
        return entry

    entry = invocation.run(work, creates=True)
    done(invocation, entry_data(entry), f"appended as {entry.id}")


@log.command(
    "show",
    epilog=ends("sense-memory mind log show", 'sense-memory mind log show --kind agent.spoke --since "1h"'),
)
def show_log(
    context: typer.Context,
    *,
    kind: OnlyKindOption = None,
    actor: Annotated[str | None, option("NAME", "Only entries of this actor.")] = None,
    conversation: OnlyConversationOption = None,
    since: Annotated[
        str | None,
        option("WHEN", "Only entries since this time: a date, a time, yesterday, 3h."),
    ] = None,
    limit: SetLimitOption = 20,
    _json: JsonOption = False,
) -> None:
    """Show the newest entries, oldest first."""
    now = time.time()
    then = None if since is None else inputs.moment(since, now, begins=True)

    async def work(store: MemoryStore) -> list[LogEntry]:
        return await store.mind.log.entries(
            kind=kind, actor=actor, conversation=conversation, since=then, limit=limit
        )

    show_entries(context, of(context).run(work), now)


# ── Conversations ───────────────────────────────────────────────────────────────────────

conversations = group(
    "conversations",
    "Add and show the messages of conversations, and summarise those that no longer fit a context window.",
    'sense-memory mind conversations add chat "Where were we?"',
    "sense-memory mind conversations show chat",
)
ConversationArgument = Annotated[str, argument("CONVERSATION", "The id of the conversation.")]


def message_data(message: Message) -> dict[str, Any]:
    """A message for JSON."""
    return {
        "id": message.id,
        "role": message.role,
        "name": message.name or None,
        "content": message.content,
        "at": iso(message.at),
    }


@conversations.command(
    "add", epilog=ends('sense-memory mind conversations add chat "Where were we?" --role user')
)
def add_message(
    context: typer.Context,
    conversation: ConversationArgument,
    text: TextArgument = None,
    *,
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="The role: user, assistant, system or tool.")
    ] = "user",
    name: Annotated[str, option("NAME", "Who said it, or which tool.")] = "",
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Add a message to a conversation; the first message starts the conversation."""
    content = inputs.text_or_stdin(text, "message", is_lines=True)
    invocation = of(context)

    async def work(store: MemoryStore) -> Message:
        message = await store.mind.conversation(conversation).add(role, content, name=name)
        await deliver(store, wait)
        return message

    message = invocation.run(work, creates=True)
    done(invocation, message_data(message), f"kept as message {message.id}")


@conversations.command("list", epilog=ends("sense-memory mind conversations list"))
def list_conversations(context: typer.Context, _json: JsonOption = False) -> None:
    """List the conversations, newest first, with their number of messages, and titles if they were imported."""
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[dict[str, int], dict[str, str]]:
        return await store.mind.conversations(), await store.mind.conversation_titles()

    found, titles = invocation.run(work)
    data = [{"id": ident, "messages": count, "title": titles.get(ident)} for ident, count in found.items()]
    named = ((ident, str(count), titles.get(ident, "")) for ident, count in found.items())
    rows = [row if row[2] else row[:2] for row in named]
    none = f"There are no conversations yet. Begin with: {program()} mind conversations add CONVERSATION TEXT"
    show(invocation, data, ("conversation", "messages", "title")[: 3 if titles else 2], rows, none=none)


@conversations.command(
    "show",
    epilog=ends("sense-memory mind conversations show chat", codes={4: "there is no such conversation"}),
)
def show_conversation(
    context: typer.Context,
    conversation: ConversationArgument,
    *,
    in_context: Annotated[
        bool, flag("--in-context", text="Show only the summary and the messages that a model would see.")
    ] = False,
    limit: SetLimitOption = 40,
    _json: JsonOption = False,
) -> None:
    """Show a conversation: its summary, if it was compacted, and its newest messages, oldest first."""
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[ContextState, list[Message]]:
        found = await _conversation(store, conversation)
        return await found.state(), await (found.in_context() if in_context else found.messages(limit))

    state, messages = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json(_conversation_data(conversation, state, messages)))
        return
    if state.summary:
        typer.echo(safe(f"[summary of {state.covered_count} messages] {state.summary}\n"))
    for message in messages:
        typer.echo(safe(f"{local_time(message.at)} {message.name or message.role}: {message.content}"))


def _conversation_data(ident: str, state: ContextState, messages: list[Message]) -> dict[str, Any]:
    return {
        "id": ident,
        "summary": state.summary or None,
        "covered_count": state.covered_count,
        "is_by_rule": state.is_by_rule,
        "dropped_count": state.dropped_count,
        "problem": state.problem or None,
        "messages": [message_data(message) for message in messages],
    }


@conversations.command(
    epilog=ends(
        "sense-memory mind conversations compact chat --window 2000",
        codes={4: "there is no such conversation"},
    )
)
def compact(
    context: typer.Context,
    conversation: ConversationArgument,
    *,
    window: Annotated[
        int, typer.Option(metavar="TOKENS", min=1, help="The context window of the model.")
    ] = 256_000,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Replace the older messages in context by a summary, and print the summary.

    The newest messages stay: as many as fill 30 % of the window, at least one. No message is lost; `mind search` finds
    them all.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[ContextState, list[Message]]:
        await _conversation(store, conversation)
        found = store.mind.conversation(conversation, window=window)
        state = await found.compact(store.mind.model)
        await deliver(store, wait)
        return state, await found.in_context()

    state, messages = invocation.run(work)
    if state.problem:
        dropped = quantity(state.dropped_count, "message")
        left_out = f"; {dropped} left the context without a summary" if state.dropped_count else ""
        note(f"the model's summary was not used: {safe(state.problem)}{left_out}; the log has every message")
    if invocation.as_json:
        typer.echo(as_json(_conversation_data(conversation, state, messages)))
    elif state.summary:
        covered = quantity(state.covered_count, "message")
        note(f"{covered} summarised, {len(messages)} in context")
        typer.echo(safe(state.summary))
    else:
        note("there is nothing to summarise yet")


async def _conversation(store: MemoryStore, ident: str) -> Conversation:
    found = store.mind.conversation(ident)
    if not await found.messages(1):
        raise not_found(f"there is no conversation {ident!r}")
    return found


# ── Search ──────────────────────────────────────────────────────────────────────────────


@commands.command(
    epilog=ends(
        "sense-memory mind search what does Lisa paint",
        "sense-memory mind search kiln --within archive,log",
        "sense-memory mind search wood --tag art",
    )
)
def search(
    context: typer.Context,
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
    _json: JsonOption = False,
) -> None:
    """Find messages, passages and other entries of the log, the best first.

    With --tag or --topic, only passages are found; with --conversation, only messages and entries of that conversation.
    """
    words = inputs.question(query)
    places = [part.strip() for part in within.split(",") if part.strip()]
    if not places or not set(places) <= set(_PLACES):
        context.fail(f"--within takes one or more of {', '.join(_PLACES)}, separated by commas")
    invocation = of(context)

    async def work(store: MemoryStore) -> list[MindHit]:
        return await store.mind.search(
            words, limit, within=places, conversation=conversation, tags=tag or (), topic=topic
        )

    found, now = invocation.run(work), time.time()
    rows = [(hit.place.value, age(hit.at, now), hit.actor, hit.text) for hit in found]
    show(
        invocation,
        [mind_hit_data(hit) for hit in found],
        ("place", "age", "actor", "text"),
        rows,
        none="Nothing was found.",
    )
