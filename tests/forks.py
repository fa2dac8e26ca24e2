"""Plays programs as forks of itself, so that imports, and the making of all commands, are paid for once.

An order is a JSON line on stdin: what would follow `python`, the environment, the folder, and the files that
are to be stdin, stdout and stderr, or `CLOSED`, or `UNREAD`, a pipe that nobody reads. The answer is a line with the
exit code. The programs that others start come by a socket, whose number is the argument: each hands over its own
stdin, stdout and stderr, is told the number of its fork's process, and ends as that does. What is played is a process
of its own with all that belongs to one, but for the start of an interpreter: what that does is tested elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import importlib
import itertools
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import rich.console
import rich.progress
import rich.table
import typer
import typer.testing

import sense_memory
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.errors import MissingExtra
from sense_memory.interfaces.cli import app


assert rich.console
assert rich.progress
assert rich.table
LARGE = (
    "anthropic",
    "langgraph",
    "openai",
    "pydantic_ai",
)  # seconds to import, for the few programs that ask for them
sys.modules.update(dict.fromkeys(LARGE))  # not to be had
for module in pkgutil.walk_packages(sense_memory.__path__, "sense_memory."):
    if not module.name.endswith("__main__"):
        with contextlib.suppress(MissingExtra):
            importlib.import_module(module.name)
for module in LARGE:
    del sys.modules[module]
# One tree of commands, for programs and rehearsals; how a value is read is worked out for an option when first asked.
typer.main.get_command = typer.testing._get_command = functools.cache(typer.main.get_command)


def prepare(command) -> None:
    for param in command.params:
        param.get_runtime_param()
    for child in getattr(command, "commands", {}).values():
        prepare(child)


CLOSED, UNREAD = "closed", "unread"
# The interpreter adapts code that has run eight times; each fork would begin with that, and copy what it changes.
REHEARSALS = 9


def opened(path) -> int:
    """A file that is to be a stream."""
    if path != UNREAD:
        return os.open(path, os.O_RDWR | os.O_NOCTTY)
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def dress(order) -> None:
    """Streams, environment and folder as ordered, and what an interpreter makes of them when it starts."""
    for number, path in enumerate(order["streams"]):
        if path == CLOSED:
            os.close(number)
            continue
        file = path if isinstance(path, int) else opened(path)
        if file != number:
            os.dup2(file, number)
            os.close(file)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    time.tzset()
    tempfile.tempdir = None
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, buffer, encoding, errors, "\n", closefd=False)  # noqa: SIM115
        if order["streams"][number] != CLOSED
        else None
        for number, mode, buffer, errors in (
            (0, "r", -1, "strict"),
            (1, "w", 1 if os.isatty(1) else -1, "strict"),
            (2, "w", 1, "backslashreplace"),
        )
    )


def run(arguments) -> None:
    """As `python` runs a module, a text or a file."""
    match arguments:
        case ["-c", text, *rest]:
            sys.argv = ["-c", *rest]
            sys.path.insert(0, "")
            exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            sys.path.insert(0, "")
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [path, *rest]:
            sys.argv = [path, *rest]
            runpy.run_path(path, run_name="__main__")


def play(order) -> None:
    """In the fork: never returns."""
    code = 1
    try:
        dress(order)
        run(order["arguments"])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:
        traceback.print_exc()
    threading._shutdown()  # an interpreter waits for its threads
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def begun(order) -> int:
    """The process of what is ordered."""
    fork = os.fork()
    if not fork:
        play(order)
    return fork


def code_of(fork) -> int:
    """Its exit code, when it has ended."""
    _, status = os.waitpid(fork, 0)
    return os.waitstatus_to_exitcode(status)


def listen(server) -> None:
    """Serve those whom others start, several at once; never returns."""
    while True:
        line, _ = server.accept()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # those who have served
                pass
        if not os.fork():
            order, streams, *_ = socket.recv_fds(line, 1 << 20, 3)
            fork = begun(json.loads(order) | {"streams": streams})
            line.send(b"%d\n" % fork)
            line.send(b"%d\n" % code_of(fork))
            os._exit(0)
        line.close()


async def rehearse() -> None:
    """What most programs do."""
    async with (
        EmbeddedRelay() as relay,
        MemoryStore(LocalSigner.generate(), [relay.url], ledger=":memory:", background=False) as store,
    ):
        await store.remember("key", "value")
        await store.sync()


COMMANDS = (
    "init",
    "remember k v",
    "recall k",
    "list",
    "status",
    "palace remember a/b/c v",
    "palace list",
    "forget k",
)


def rehearse_commands() -> None:
    """What the first run of a command prepares and later ones find, in a home that goes again."""
    with tempfile.TemporaryDirectory() as home:
        Path(home, ".env").touch()
        for form, command in itertools.product(([], ["--json"]), COMMANDS):
            typer.testing.CliRunner().invoke(app, [*form, *command.split()], env={"SENSE_MEMORY_HOME": home})


def main() -> None:
    for _ in range(REHEARSALS):
        asyncio.run(rehearse())
    prepare(typer.main.get_command(app))
    rehearse_commands()
    gc.collect()
    gc.set_threshold(50_000, 20)
    gc.freeze()  # what is here stays, and no fork has to look at it
    listener = os.fork()
    if not listener:
        listen(socket.socket(fileno=int(sys.argv[1])))
    for line in sys.stdin:
        sys.stdout.write(f"{code_of(begun(json.loads(line)))}\n")
        sys.stdout.flush()
    os.kill(listener, signal.SIGKILL)
    os.waitpid(listener, 0)


if __name__ == "__main__":
    main()
