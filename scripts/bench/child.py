"""Parts of the benchmark in a process of their own: `python -m scripts.bench.child WHAT …`, and how to start one.

The relay and the sender do not share an interpreter with the measured client; memory is measured in a fresh process
that did nothing else.
"""

from __future__ import annotations

import asyncio
import os
import resource
import runpy
import socket
import subprocess
import sys
from contextlib import closing, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from sense_memory import LocalSigner, MemoryStore

from .raw_ledger import heads
from .raw_nostr import RawKey
from .stage import secret_of


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
_MODULE = "scripts.bench.child"


@contextmanager
def running(what: str, *arguments: object) -> Iterator[str]:
    """Run a server for the time of a `with`; yields the first line that the server prints."""
    command = (sys.executable, "-m", _MODULE, what, *map(str, arguments))
    child = subprocess.Popen(  # noqa: S603 - this file
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        try:
            yield str(child.stdout and child.stdout.readline()).strip()
        finally:
            child.communicate()  # closes its standard input, which ends the server


def asked(what: str, *arguments: object) -> float:
    """Run a measurement to its end; returns the number that it prints."""
    command = (sys.executable, "-m", _MODULE, what, *map(str, arguments))
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    return float(done.stdout)


async def relay(path: str, port: str) -> None:
    """The embedded relay on a file, until standard input ends."""
    from sense_memory import EmbeddedRelay  # late, so that measurements of memory do not include the relay

    async with EmbeddedRelay(path, int(port)) as served:
        print(served.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def stream(path: str) -> None:
    """A server that answers every request with the bytes of a file, after an HTTP head."""
    await asyncio.to_thread(_stream, Path(path))


def _stream(path: Path) -> None:
    data = path.read_bytes()
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        print(f"ws://127.0.0.1:{server.getsockname()[1]}", flush=True)
        client, _ = server.accept()
        with client:
            client.recv(65_536)
            client.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
            client.recv(65_536)
            client.sendall(data)
            sys.stdin.read()


async def opened(path: str, seed: str) -> None:
    """The memory that an open store takes, in MB, after everything in it was read once."""
    async with MemoryStore(_signer(seed), ledger=path) as store:
        await store.recall_all()
        print(_megabytes("VmRSS:"))


async def searched(path: str, seed: str) -> None:
    """The memory that an open palace takes, in MB, after a first search."""
    async with MemoryStore(_signer(seed), ledger=path) as store:
        await store.persona_search("anything")
        print(_megabytes("VmRSS:"))


async def plain(path: str, seed: str) -> None:
    """The memory that the same texts take in a dict, in MB, in a process that imported the same."""
    key = RawKey(secret_of(int(seed)))
    texts = {}
    for body in heads(Path(path)):
        fields = orjson.loads(key.open(orjson.loads(body)["content"]))
        texts[fields["key"]] = fields["value"]
    print(_megabytes("VmRSS:"))


async def restored(path: str, seed: str, url: str) -> None:
    """The most memory that a restore took, in MB."""
    async with MemoryStore(_signer(seed), [url], ledger=path, background=False) as store:
        await store.sync()
    print(_megabytes("VmHWM:"))


def command(home: str, *arguments: str) -> None:
    """The most memory that a command takes, in MB; its output is discarded."""
    os.environ["SENSE_MEMORY_HOME"] = home
    sys.argv = ["sense-memory", *arguments]
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        suppress(SystemExit),
    ):
        runpy.run_module("sense_memory", run_name="__main__")
    print(_megabytes("VmHWM:"))


def _signer(seed: str) -> LocalSigner:
    return LocalSigner.from_hex(secret_of(int(seed)).hex())


def _megabytes(name: str) -> float:
    """A line of proc(5)'s status in MB, of this process; where there is no such file, the peak (getrusage(2)).

    On Linux a child inherits its parent's peak in getrusage, so getrusage is of no use there.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1_024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1_024 / 1e6


def main() -> None:
    """Run the part that the first argument names."""
    known: dict[str, Callable[..., object]] = {
        function.__name__: function
        for function in (relay, stream, opened, searched, plain, restored, command)
    }
    work = known[sys.argv[1]](*sys.argv[2:])
    if asyncio.iscoroutine(work):
        asyncio.run(work)


if __name__ == "__main__":
    main()
