"""A process that dies at a step: every call of the file system, of the ledger and of the mirror's own state is one."""

from __future__ import annotations

import os
from contextlib import contextmanager

from sense_memory.ledger.ledger import Ledger
from sense_memory.mirror.state import MirrorState


CALLS = ("open", "link", "replace", "rename", "unlink", "mkdir", "rmdir", "fsync", "chmod")


class Killed(BaseException):
    """The process is dead: it does nothing more, not even tidying up."""


@contextmanager
def dying(step):
    """Die before the call of that number, counted from 1; yields a list with the names of the calls so far.

    A killed process runs no `finally`: here these run, and every call in them fails.
    """
    calls = []

    def mortal(name, call):
        def counted(*args, **named):
            calls.append(name)
            if len(calls) >= step:
                if name == "state" and len(calls) == step:
                    _cut_off(args[0])
                raise Killed
            return call(*args, **named)

        return counted

    before = {name: getattr(os, name) for name in CALLS}
    ledger, state = Ledger.append_versions, MirrorState._append
    try:
        for name, call in before.items():
            setattr(os, name, mortal(name, call))
        Ledger.append_versions, MirrorState._append = mortal("ledger", ledger), mortal("state", state)
        yield calls
    finally:
        for name, call in before.items():
            setattr(os, name, call)
        Ledger.append_versions, MirrorState._append = ledger, state


def _cut_off(state):
    """Half a line in the file of a mirror's state."""
    if state.path is not None:
        with state.path.open("ab") as file:
            file.write(b'{"name": "MEM')
