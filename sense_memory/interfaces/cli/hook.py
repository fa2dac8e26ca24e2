"""`hook`: what agent harnesses run at events of a session. A hook is short, and harms no harness."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
import time
from contextlib import suppress
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from sense_memory.errors import InvalidInput, SenseMemoryError
from sense_memory.interfaces.cli import streams
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import JsonOption
from sense_memory.interfaces.cli.invocation import Invocation, of, say, warnings_as_lines, with_store
from sense_memory.interfaces.cli.program import SETUP, app


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from io import BufferedReader

    from sense_memory.config.settings import Settings
    from sense_memory.store import MemoryStore

    _Work = Callable[[MemoryStore, dict[str, Any], Settings], Awaitable[None]]

_STDIN_SECONDS: Final = 2.0  # that a hook waits for the harness's JSON
_HOOK_SECONDS: Final = 12.0  # that a hook takes at most; harnesses stop it after 15
_SYNC_SECONDS: Final = 8.0  # for the files of a harness's own memory, of which relays get some
BEFORE: Final = (
    "session-start"  # the hook that brings them in step before it answers; the others do it at their end
)
_RELAY_SECONDS: Final = {BEFORE: 3.0, "turn-end": 0.0, "pre-compact": 0.0, "session-end": 2.0}
SyncOption = Annotated[
    str,
    typer.Option(
        "--sync-memory",
        metavar="HARNESS",
        show_default=False,
        help="Also bring the files in which this harness keeps its own memory in step, see `install --sync-memory`.",
    ),
]

hooks = app.group(
    "hook",
    no_args_is_help=True,
    rich_help_panel=SETUP,
    help="Run a hook of an agent harness; `install` adds these commands to its settings.\n\nA hook reads the harness's JSON from "
    "stdin, contacts no relay without `--sync-memory`, and always exits with 0; stderr reports a problem.",
    epilog=ends("sense-memory hook session-start < /dev/null"),
)


@hooks.command(
    "session-start",
    epilog=ends("sense-memory hook session-start < /dev/null", codes={1: "never", 2: "wrong options"}),
)
def session_start(context: typer.Context, *, sync_memory: SyncOption = "", _json: JsonOption = False) -> None:
    """Print the compressed palace and the newest journal entries as JSON, the context of a new session."""

    async def work(store: MemoryStore, _: dict[str, Any], _settings: Settings) -> None:
        from sense_memory.interfaces.harness.hooks import session_start as answer

        told = await answer(store, time.time())
        if told:
            typer.echo(told)

    _run_hook(of(context), "session-start", work, sync_memory)


@hooks.command(
    "turn-end",
    epilog=ends("sense-memory hook turn-end < /dev/null", codes={1: "never", 2: "wrong options"}),
)
def turn_end(context: typer.Context, *, sync_memory: SyncOption = "", _json: JsonOption = False) -> None:
    """Store the new messages of the harness's transcript as a conversation."""
    _run_hook(of(context), "turn-end", _keeping("turn_end"), sync_memory)


@hooks.command(
    "pre-compact",
    epilog=ends("sense-memory hook pre-compact < /dev/null", codes={1: "never", 2: "wrong options"}),
)
def pre_compact(context: typer.Context, *, sync_memory: SyncOption = "", _json: JsonOption = False) -> None:
    """Store the messages of the harness's transcript as a conversation, and note that in the journal."""
    _run_hook(of(context), "pre-compact", _keeping("pre_compact"), sync_memory)


@hooks.command(
    "session-end",
    epilog=ends("sense-memory hook session-end < /dev/null", codes={1: "never", 2: "wrong options"}),
)
def session_end(context: typer.Context, *, sync_memory: SyncOption = "", _json: JsonOption = False) -> None:
    """Store the messages of the harness's transcript as a conversation, and note in the journal what was said last."""
    _run_hook(of(context), "session-end", _keeping("session_end"), sync_memory)


def _keeping(function: str) -> _Work:
    """The work of a hook that keeps messages, silently: Gemini CLI shows stderr to the user."""

    async def work(store: MemoryStore, event: dict[str, Any], settings: Settings) -> None:
        from sense_memory.interfaces.harness import hooks as answers

        await getattr(answers, function)(store, event, settings.proposals)

    return work


def _run_hook(invocation: Invocation, name: str, work: _Work, syncs: str) -> None:
    """Run a hook on the agent's store. No failure may stop the harness, nor may the hook go on for ever."""
    patience = threading.Timer(_HOOK_SECONDS, _give_up, (invocation, name))
    patience.daemon = True
    patience.start()
    problem, told = "", list[str]()
    try:
        event = _event()
        with warnings_as_lines():
            from sense_memory.signers.agent_signer import find_signer

            settings = invocation.load()
            signer, _ = find_signer(settings)  # a hook cannot ask for a password

        async def both(store: MemoryStore) -> None:
            if syncs and name == BEFORE:
                told.extend(await _in_step(store, syncs, event, name))
            try:
                await work(store, event, settings)
            finally:
                if syncs and name != BEFORE:
                    told.extend(await _in_step(store, syncs, event, name))

        asyncio.run(with_store(settings, signer, both))
    except (SenseMemoryError, OSError) as error:
        problem = f"the hook did nothing: {error}"
    except Exception as error:  # a bug of ours must not stop the harness; its text could hold a memory
        if isinstance(error, streams.OutputFailed):
            streams.drop()
        problem = f"the hook failed: {type(error).__name__}"
    finally:
        patience.cancel()
    for line in filter(None, (problem, *told)):
        say("sense-memory", line)
    _note(invocation, name, problem or "; ".join(told))


async def _in_step(store: MemoryStore, harness: str, event: dict[str, Any], name: str) -> list[str]:
    """Bring the files of a harness's own memory in step; returns what was wrong with a folder."""
    from sense_memory.interfaces.harness.memory_sync import sync_memory

    try:
        async with asyncio.timeout(_SYNC_SECONDS):
            return await sync_memory(store, harness, event, seconds=_RELAY_SECONDS[name])
    except TimeoutError:
        return ["the mirrored folders are not in step yet: there was no time; the next hook goes on"]


def _give_up(invocation: Invocation, name: str) -> None:
    """End this process. What it had begun to write is not in the ledger, as after a power cut; the next hook repeats it."""
    _note(
        invocation, name, f"the hook was given up after {_HOOK_SECONDS:.0f} s; the next one repeats its work"
    )
    os._exit(0)


def _note(invocation: Invocation, name: str, problem: str) -> None:
    """Write into the log of hooks what `doctor` shows."""
    from sense_memory.interfaces.harness.hook_log import HookFailure, note_failure, note_success

    with suppress(SenseMemoryError, OSError):  # without settings there is no folder for a log
        home = invocation.load().home
        if problem:
            note_failure(home, HookFailure(time.time(), name, problem))
        else:
            note_success(home, name)


def _event() -> dict[str, Any]:
    from sense_memory.interfaces.harness import hooks as answers

    if sys.stdin.isatty():
        return {}
    text, stdin = bytearray(), cast("BufferedReader", sys.stdin.buffer)
    # Until the object is complete or nothing more comes: a harness may leave stdin open.
    while not answers.is_whole(text) and _has_more(stdin):
        data = stdin.read1(answers.MAX_INPUT_BYTES)
        if not data:
            break
        text += data
        if len(text) > answers.MAX_INPUT_BYTES:
            raise InvalidInput("the harness's JSON is too long")
    return answers.event_of(text)


def _has_more(stdin: BufferedReader) -> bool:
    """Whether stdin has more to read, or its end, within 2 s. A stdin without a file descriptor is always ready."""
    with suppress(UnsupportedOperation):
        return bool(select.select([stdin], [], [], _STDIN_SECONDS)[0])
    return True
