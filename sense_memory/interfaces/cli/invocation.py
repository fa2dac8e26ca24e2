"""One invocation of the command line: its global options, how it opens a store, and how it ends.

Only this module of the command line makes a store from settings. Warnings of the settings go to stderr
as one line each. Heavy modules are imported when a command needs them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import textwrap
import warnings
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import typer

from sense_memory.errors import InvalidInput, InvalidSetting, KeyMissing, SenseMemoryError
from sense_memory.interfaces.text import quantity, safe, word, wrap


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from pathlib import Path

    from sense_memory.config.settings import Settings
    from sense_memory.nostr.keys import Secret
    from sense_memory.nostr.signer import Signer
    from sense_memory.store import MemoryStore

_T = TypeVar("_T")
_ECHOED_COUNT: Final = 500  # texts that are written at a time
_MIN_COLUMNS: Final = 30
_OPTIONS: Final = {"agent": "--agent", "relays": "--relay", "env_file": "--env-file"}
_CHOOSING: Final = {
    "agent": "--agent",
    "ledger": "--ledger",
    "env_file": "--env-file",
}  # the memory that is meant

_commands = re.compile(r"`sense-memory (?=([^`]*))")


class ExitCode(IntEnum):
    """The exit codes of commands; `--help` lists them."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_REPLICATED = 3
    NOT_FOUND = 4
    INTERRUPTED = 130  # as shells have it for Ctrl-C


class CommandFailed(Exception):
    """A command ends early, for a reason that is not an error of the package.

    Attributes:
        code: the exit code.
        name: the name of the error in `--json`.
        message: one sentence.
    """

    def __init__(self, code: ExitCode, name: str, message: str) -> None:
        self.code, self.name, self.message = code, name, message
        super().__init__(message)


@dataclass(slots=True)
class Invocation:
    """The global options.

    Attributes:
        agent: a named agent, or None for the configured one.
        relays: URLs that replace the configured relays, or None.
        ledger: a ledger file, or None for the agent's own.
        env_file: a file that replaces the data folder's `.env`, or None.
        as_json: whether results and errors are printed as JSON.
    """

    agent: str | None = None
    relays: tuple[str, ...] | None = None
    ledger: Path | None = None
    env_file: Path | None = None
    as_json: bool = False

    def settings(self) -> Settings:
        """The settings under these options.

        Raises:
            InvalidSetting: a value that cannot be used.
        """
        with warnings_as_lines():
            return self.load()

    def load(self) -> Settings:
        """As `settings`; warnings stay those of Python."""
        from sense_memory.config.settings import Settings
        from sense_memory.config.sources import ARGUMENT

        try:
            return Settings.load(
                agent=self.agent, relays=self.relays, ledger=self.ledger, env_file=self.env_file
            )
        except InvalidSetting as error:
            if error.origin != ARGUMENT or error.name not in _OPTIONS:
                raise
            problem = str(error).partition(": ")[2]
            raise InvalidSetting(_OPTIONS[error.name], "the command line", problem) from None

    def run(
        self,
        work: Callable[[MemoryStore], Awaitable[_T]],
        *,
        creates: bool = False,
        background: bool = False,
    ) -> _T:
        """Call `work` with the agent's open store.

        Args:
            work: what to do.
            background: whether the store follows relays by itself meanwhile.
            creates: whether a ledger that was named and does not exist is made, with a message. Commands that write
                make it; for commands that read, a missing ledger is an error, most likely of spelling.

        Raises:
            SenseMemoryError: no usable key, ledger or setting; and whatever the work raises.
        """
        import asyncio  # late: a help page needs none

        settings = self.settings()
        if not creates:
            check_ledger(settings)
        is_new = _is_new(settings.ledger)

        async def told(store: MemoryStore) -> _T:
            if is_new:
                typer.echo(f"made a new ledger at {safe(str(settings.ledger))}", err=True)
            try:
                return await work(store)
            finally:
                await warn_if_given_up(store, settings)

        return asyncio.run(with_store(settings, signer_of(settings), told, background=background))


def check_ledger(settings: Settings) -> None:
    """Check that a ledger that was named exists.

    Raises:
        InvalidInput: the ledger does not exist.
    """
    path = settings.ledger
    if _is_new(path):
        raise InvalidInput(
            f"there is no ledger {path}; check --ledger. Commands that write (remember, journal, forget, import) and sync make a new one"
        )


def _is_new(path: Path | None) -> bool:
    """Whether a ledger was named that does not exist yet. The default ledger is made silently."""
    return path is not None and str(path) != ":memory:" and not path.exists()


async def warn_if_given_up(store: MemoryStore, settings: Settings) -> None:
    """Say so if the key of a store was given up for another, on this device or elsewhere."""
    from sense_memory.config.rotated_keys import RotatedKeys, RotationStage
    from sense_memory.store.rotation import rotation_notice

    with suppress(SenseMemoryError):
        if not (notice := await rotation_notice(store)):
            return
        if RotatedKeys(settings.key_file).stage is not RotationStage.NONE:
            notice = f"a rotation of this key was interrupted; finish it with `{program()} rotate`"
        say("warning", with_options(notice))


async def with_store(
    settings: Settings,
    signer: Signer,
    work: Callable[[MemoryStore], Awaitable[_T]],
    *,
    background: bool = False,
) -> _T:
    """As `Invocation.run`, with a signer's store."""
    async with store_of(settings, signer, background=background) as store:
        return await work(store)


def store_of(settings: Settings, signer: Signer, **options: Any) -> MemoryStore:
    """A store under these settings, not yet open; `options` are those of `MemoryStore`."""
    from sense_memory.config.settings import find_embedder, find_model, ledger_path
    from sense_memory.store import MemoryStore

    path = settings.ledger or ledger_path(settings.home, signer.public_key)
    options |= {"ledger": path, "plan": settings.plan, "share_embeddings": settings.share_embeddings}
    options |= {"contradictions": settings.contradictions, "revive": settings.revive}
    options |= {"search_forgotten": settings.search_forgotten, "addresses": settings.addresses}
    options |= {"pad_sizes": settings.pad_sizes, "send_jitter": settings.send_jitter}
    if settings.wants_embedder:
        options |= {"embedder": partial(find_embedder, settings)}
    if settings.model is not None:
        options |= {"model": partial(find_model, settings)}
    return MemoryStore(signer, settings.relays, **options)


def signer_of(settings: Settings) -> Signer:
    """The agent's signer, its key or its bunker; raises as `secret_of`."""
    from sense_memory.signers.agent_signer import find_signer

    with warnings_as_lines():
        return find_signer(settings, ask_password=password_prompt(), on_auth_url=ask_to_approve)[0]


def ask_to_approve(url: str) -> None:
    """Tell the person at the terminal that the bunker waits for approval."""
    where = f"open {url}" if url else "look there"
    note(f"The bunker waits until a person approves: {where}")


def secret_of(settings: Settings) -> Secret:
    """The agent's key.

    Raises:
        KeyMissing, BadKey, UnsafeFile: no usable key.
        InvalidInput: the key is in a bunker.
    """
    from sense_memory.config.settings import find_secret
    from sense_memory.signers.agent_signer import bunker_path

    try:
        with warnings_as_lines():
            return find_secret(settings, ask_password=password_prompt())[0]
    except KeyMissing as missing:
        if missing.locked is None and bunker_path(settings).exists():
            raise InvalidInput(
                "the key is in a bunker, which gives it to nobody; back it up there, and the memories with "
                f"`{program()} export`"
            ) from None
        raise


def password_prompt() -> Callable[[str], str] | None:
    """A function that asks for the password of an encrypted key, unseen, on the terminal; None without a terminal."""
    from getpass import getpass

    return (lambda prompt: getpass(f"{prompt}: ")) if sys.stderr.isatty() else None


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show the settings' warnings as one line each on stderr, instead of Python's two with source code."""
    from sense_memory.config.settings import SettingsWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SettingsWarning)
        try:
            yield
        finally:
            for warning in caught:
                say("warning", str(warning.message))


def confirm(question: str) -> bool:
    """Ask a question on the terminal; returns whether the answer is yes.

    Raises:
        typer.Abort: Ctrl-C or Ctrl-D. (asyncio's own handler would only cancel a task, and the question wait on.)
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return typer.confirm(question, err=True)
    finally:
        signal.signal(signal.SIGINT, before)


def say(kind: str, message: str) -> None:
    """A line of our own on stderr, such as an error: wrapped on a terminal, one line elsewhere."""
    note(f"{kind}: {message}")


def note(message: str) -> None:
    """As `say`, without a prefix."""
    line = safe(message)
    if sys.stderr.isatty():
        width = max(_MIN_COLUMNS, _columns_of_stderr() - 1)
        line = textwrap.fill(
            line, width, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
        )
    typer.echo(line, err=True)


def _columns_of_stderr() -> int:
    """The width of the terminal that shows stderr, wherever stdout goes."""
    if "COLUMNS" not in os.environ:
        with suppress(OSError):
            return os.get_terminal_size(sys.stderr.fileno()).columns
    return shutil.get_terminal_size().columns


def echo_all(pieces: Iterable[str], ending: str = "\n") -> None:
    """Write many texts to stdout, each with an ending, some hundred at a time, because single writes take longer."""
    waiting = iter(pieces)
    while some := list(islice(waiting, _ECHOED_COUNT)):
        typer.echo(ending.join((*some, "")), nl=False)


def tell(text: str, indent: int = 2) -> None:
    """Lines of our own on stdout: wrapped on a terminal, with indented continuations; whole elsewhere."""
    is_terminal = sys.stdout.isatty()
    typer.echo(wrap(text, shutil.get_terminal_size().columns, indent) if is_terminal else text)


@contextmanager
def named(**options: str) -> Iterator[None]:
    """Replace an argument's name in an error of the store by the option that was typed.

    Args:
        options: by the name of an argument in the store, the option; the errors begin with that name.
    """
    try:
        yield
    except InvalidInput as error:
        name, _, rest = str(error).partition(" ")
        if name not in options:
            raise
        raise InvalidInput(f"{options[name]} {rest}") from None


_current: ContextVar[typer.Context] = ContextVar("_current")


@contextmanager
def known_to_program(context: Any) -> Iterator[None]:
    """Until the end of this block, `program` knows the global options of this invocation, as soon as they are parsed."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def program(agent: str | None = None, command: str = "") -> str:
    """How every command to copy begins, so that it acts on the memory that is meant: the program's name, and the global
    options that chose the memory. What the environment says is not repeated, nor is --relay, which is for one command.

    Args:
        agent: named where the command line names none, except `default`.
        command: the rest of the command, where it may have some of the options.
    """
    context = _current.get(None)
    given = (context and context.obj) or Invocation()
    words = ["sense-memory"]
    for name, option in _CHOOSING.items():
        value = getattr(given, name)
        if name == "agent" and value is None and agent != "default":
            value = agent
        if value and f"{option} " not in command:
            words.append(f"{option} {word(str(value))}")
    return " ".join(words)


def with_options(text: object, agent: str | None = None) -> str:
    """A text of the library, such as an error; its commands in backticks begin as `program` says."""
    return _commands.sub(lambda found: f"`{program(agent, found[1])} ", str(text))


def of(context: typer.Context) -> Invocation:
    """The invocation that a command belongs to."""
    return cast("Invocation", context.find_root().obj)


def no_relays() -> CommandFailed:
    """The error of a command that needs a relay if none is configured."""
    return CommandFailed(
        ExitCode.USAGE,
        "NoRelays",
        f"no relays are configured, so everything stays on this machine; add a relay with `{program()} relays add wss://relay.example`, or start one with `{program()} relay`",
    )


def unknown(what: str) -> CommandFailed:
    """The error for a name that is not in the ledger if no relay ever showed everything; `what` includes its verb."""
    problem = f"{what} not in the local ledger, but no relay ever showed everything, so a relay may have it"
    return CommandFailed(ExitCode.ERROR, "NotSynced", f"{problem}; run `{program()} sync`, then try again")


def too_few(wanted: int, acks: int, what: str) -> str:
    """The sentence when fewer relays acknowledged than were asked for."""
    return f"{quantity(acks, 'relay')} acknowledged {what}, but --require-acks asked for {wanted}; the write is kept here"
