"""The program `sense-memory mcp`: it opens the store when needed, serves, and closes the store however it ends.

`initialize` is answered while the store opens in the background. A missing key is made only if the user allowed that,
and only when a tool is used. Relays are followed while the store is open. A read that finds nothing waits for relays,
for a second at most; no other call waits for them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from sense_memory.errors import KeyMissing, SenseMemoryError, UnsafeFile
from sense_memory.interfaces.loopback import listener_at
from sense_memory.interfaces.mcp.http import (
    PATH,
    RemoteAccess,
    bearer_token,
    public_origin,
    serve_http,
)
from sense_memory.interfaces.mcp.oauth.access_file import AccessFile, code_command
from sense_memory.interfaces.mcp.sdk import sdk_server
from sense_memory.interfaces.mcp.server import MemoryServer
from sense_memory.interfaces.mcp.stdio import serve_stdio
from sense_memory.interfaces.tools import Profile
from sense_memory.operating_system import on_end


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory.config.settings import Settings
    from sense_memory.nostr.signer import Signer
    from sense_memory.store import MemoryStore

READ_SECONDS: Final = 1.0  # how long a read that finds nothing waits for relays
CLOSE_SECONDS: Final = 1.5  # for relays to accept the queue: clients kill a server after about two seconds


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What the user allowed.

    Attributes:
        listen: HOST:PORT for HTTP; None for stdio.
        public_url: the address of a reverse proxy, for clients elsewhere; None for none.
        profile: which tools.
        read_only: only tools that read.
        allow_destructive: also tools whose effect cannot be undone.
        allow_plain_export: also the tool that writes memories as plain text.
        create_key: make a key if there is none.
        debug: log more to stderr.
    """

    listen: str | None = None
    public_url: str | None = None
    profile: Profile = Profile.PALACE
    read_only: bool = False
    allow_destructive: bool = False
    allow_plain_export: bool = False
    create_key: bool = False
    debug: bool = False

    @property
    def reach(self) -> str:
        """What the tools can do to the memory, in words."""
        if self.read_only:
            return "read"
        return "read, change and delete" if self.allow_destructive else "read and change"


class CannotOpen(SenseMemoryError):
    """The store cannot be opened; the message says what the user has to do."""


async def serve(
    settings: Settings,
    options: ServerOptions,
    make: Callable[[Signer], MemoryStore],
    say: Callable[[str], None],
) -> None:
    """Serve until the client leaves, or the process is told to end.

    Args:
        settings: of the agent.
        options: what the user allowed.
        make: a store, not yet open, for a signer.
        say: shows a line to the user; never on stdout.

    Raises:
        SenseMemoryError: the server cannot begin.
    """
    listener = token = remote = None
    origin = None if options.public_url is None else public_origin(options.public_url)
    if options.listen is not None:
        listener = listener_at(options.listen)
        token, place = bearer_token(settings.home, os.environ)
    _log_to_stderr(debug=options.debug)
    store = LazyStore(settings, make, say, create_key=options.create_key)
    exports = settings.home / "exports"
    exports_are_allowed = options.allow_destructive or options.allow_plain_export
    if exports_are_allowed:
        exports.mkdir(mode=0o700, parents=True, exist_ok=True)
    offers = MemoryServer(
        store.open,
        profile=options.profile,
        read_only=options.read_only,
        allow_destructive=options.allow_destructive,
        allow_plain_export=options.allow_plain_export,
        export_folder=exports if exports_are_allowed else None,
        hidden=[path for path in (settings.home, settings.key_file, settings.ledger) if path is not None],
    )
    server = sdk_server(offers)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    on_end(loop, partial(_end, stop, store))
    opening = asyncio.create_task(store.open_early())
    if origin is not None:
        file = AccessFile(settings.home, settings.agent)
        remote = RemoteAccess(origin, file, settings.agent, options.reach)
    try:
        if listener is not None and token is not None:
            where = "" if place.startswith("SENSE") else f" in {place}"
            told = f"clients send the token{where}: Authorization: Bearer TOKEN"
            if remote is not None:
                told += f". Clients elsewhere use {remote.origin}{PATH}; `{code_command(settings.agent)}` shows the code that their page asks for"
            await serve_http(
                server,
                listener,
                token,
                remote=remote,
                stop=stop,
                ready=lambda url: say(f"serving at {url}; {told}"),
            )
        else:
            if sys.stdin.isatty():
                say("an MCP client starts this command and writes to it; Ctrl-D ends it")
            await _until(stop, asyncio.create_task(serve_stdio(server, offers.idle)))
    finally:
        opening.cancel()
        await store.close()
        if remote is not None:
            remote.file.close()


def _end(stop: asyncio.Event, store: LazyStore) -> None:
    """The first signal ends the server; the second ends the wait for relays too."""
    if stop.is_set():
        store.hurry()
    stop.set()


async def _until(stop: asyncio.Event, serving: asyncio.Task[None]) -> None:
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not serving.done():
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        return
    serving.result()


class LazyStore:
    """A store that is opened when it is first needed, once.

    Args:
        settings: of the agent.
        make: a store, not yet open, for a signer.
        say: shows a line to the user.
        create_key: make a key if there is none.
    """

    def __init__(
        self,
        settings: Settings,
        make: Callable[[Signer], MemoryStore],
        say: Callable[[str], None],
        *,
        create_key: bool,
    ) -> None:
        self._settings, self._make, self._say, self._creates_key = settings, make, say, create_key
        self._turn = asyncio.Lock()
        self._store: MemoryStore | None = None
        self._told = ""
        self._hurrying: asyncio.Task[None] | None = None
        self._mirroring: asyncio.Task[None] | None = None

    async def open_early(self) -> None:
        """Open the store if there is a key; a problem is reported when a tool is used."""
        with suppress(SenseMemoryError):
            async with self._turn:
                if self._store is None:
                    await self._open(create_key=False)

    async def open(self) -> MemoryStore:
        """The open store.

        Raises:
            CannotOpen: says what the user has to do; the reason, which may name files, goes to stderr.
        """
        if self._store is not None:
            return self._store
        async with self._turn:
            if self._store is None:
                try:
                    await self._open(create_key=self._creates_key)
                except SenseMemoryError as error:
                    self._tell(str(error))
                    raise CannotOpen(self._remedy(error)) from None
            assert self._store is not None  # noqa: S101 - for the type checker
            return self._store

    async def _open(self, *, create_key: bool) -> None:
        from sense_memory.store.rotation import rotation_notice

        signer = await asyncio.to_thread(_signer, self._settings, create=create_key)
        self._store = await self._make(signer).__aenter__()
        self._mirroring = asyncio.create_task(self._store.mirror.follow())
        if notice := await rotation_notice(self._store):
            self._tell(notice)

    def _remedy(self, error: SenseMemoryError) -> str:
        agent = "" if self._settings.agent == "default" else f" --agent {self._settings.agent}"
        if isinstance(error, KeyMissing) and error.locked is None:
            return (
                f"there is no key yet, and so no memory. Ask the user to run `sense-memory{agent} init`, or to start this "
                "server with --create-key"
            )
        if isinstance(error, KeyMissing):
            return "the key is encrypted, and this server cannot ask for its password. Ask the user for a key file without a password"
        return f"the memory cannot be opened ({type(error).__name__}). Ask the user to run `sense-memory{agent} doctor`"

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            self._told = problem
            self._say(problem)

    def hurry(self) -> None:
        """Close at once, without waiting for relays."""
        if self._store is not None:
            self._hurrying = asyncio.create_task(self._store.close())

    async def close(self) -> None:
        """Close the store if it is open; queued events have `CLOSE_SECONDS` to be sent."""
        async with self._turn:
            if self._store is not None:
                await self._end_mirroring(self._store)
                await self._store.close()
        if self._hurrying is not None:
            await self._hurrying

    async def _end_mirroring(self, store: MemoryStore) -> None:
        """Follow the mirrored folders no longer; what an agent wrote last is kept, and relays get it as the store closes."""
        if self._mirroring is not None:
            self._mirroring.cancel()
            with suppress(asyncio.CancelledError, SenseMemoryError):
                await self._mirroring
        if self._hurrying is None:
            with suppress(SenseMemoryError):
                await store.mirror.sync(seconds=0)


def _signer(settings: Settings, *, create: bool) -> Signer:
    """The agent's signer; its key is made if there is none and `create` allows it."""
    from sense_memory.config.key_file import write_secret
    from sense_memory.nostr.keys import Secret
    from sense_memory.signers.agent_signer import find_signer

    try:
        return find_signer(settings)[0]
    except KeyMissing as missing:
        if not create or missing.locked is not None:
            raise
    with suppress(UnsafeFile):  # another server has just made it
        write_secret(settings.key_file, Secret.generate())
    return find_signer(settings)[0]


def _log_to_stderr(*, debug: bool) -> None:
    """Send sense-memory's own log to stderr, and no other: the SDK logs messages, which have memories in them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(logging.Filter("sense_memory"))
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if debug else logging.WARNING)
    if debug:
        logging.getLogger("sense_memory.relay").setLevel(logging.DEBUG)
