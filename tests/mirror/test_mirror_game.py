"""Random games of two mirrors over one relay, and an oracle that knows what people wrote and took out.

People edit, rename and delete files on two machines, also during a run. Their processes are killed at any step, are offline, have
wrong clocks, and their folders vanish for a while. Every line is unique. When both have met until it is quiet:

* both folders hold the same files, byte for byte, and nothing that the mirror made for itself;
* a line that nobody took out stands in a file;
* a line that somebody took out stands in a file or in a history, unless no run had ever read it.

`make soak OPTIONS="--game mirrors"` plays as many as there is time for.
"""

from __future__ import annotations

import os
import random
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.errors import ClockSkewError
from tests.mirror.deaths import Killed, dying


if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("MEMORY.md", "notes.md", "sub/topic.md", "sub/deep/rules.yaml", "data.json", "über.md")
START = 1_750_000_000.0
OLD = 1_700_000_000  # when files were written: long ago, so none seems to be half written
PROJECT = "game"
SETTLE_ROUNDS = 10
QUIET_COUNT = 4  # runs in a row that find nothing to do, two on each machine
JUMPS = (-86_400.0, -600.0, -5.0, 5.0, 600.0, 86_400.0)
OPENINGS = ("- {}", "- {}", "{}\n", "## {}\n", "note: {}", "> {}", "```\n{}\n```")


@dataclass
class Machine:
    """One machine: its folder, its ledger and its clock."""

    place: Path
    store: MemoryStore
    skew: float = 0.0

    @property
    def folder(self):
        return self.place / "folder"

    def files(self):
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not path.name.startswith(".sense-memory-")
        }

    def left_over(self):
        return [path.name for path in self.folder.rglob(".*")]


@dataclass
class MirrorGame:
    """One game.

    Args:
        seed: decides everything.
        moves: how many.
        place: an empty folder.
    """

    seed: int
    moves: int
    place: Path
    log: list[str] = field(default_factory=list)
    now: float = START
    count: int = 0
    written: set[str] = field(default_factory=set)
    taken_out: set[str] = field(default_factory=set)  # lines that somebody took out
    unread: set[str] = field(default_factory=set)  # of these, the ones that no run had read
    read: set[str] = field(default_factory=set)  # lines that a finished run has read

    async def play(self):
        """Play; returns what went wrong."""
        self.random = random.Random(self.seed)
        self.signer = LocalSigner.generate()
        async with EmbeddedRelay(clock=lambda: self.now) as self.relay:
            self.machines = [await self.machine(name) for name in ("a", "b")]
            try:
                for _ in range(self.moves):
                    self.now += self.random.choice((0.2, 1.0, 5.0, 600.0))
                    machine = self.random.choice(self.machines)
                    await self.move(machine)
                return await self.judged()
            finally:
                for machine in self.machines:
                    await machine.store.close()

    async def machine(self, name):
        place = self.place / name
        (place / "folder").mkdir(parents=True)
        machine = Machine(place, None)
        await self.open(machine)
        await machine.store.mirror.add(machine.folder, project=PROJECT)
        return machine

    async def open(self, machine):
        machine.store = MemoryStore(
            self.signer,
            [self.relay.url],
            ledger=machine.place / "memory.db",
            background=False,
            clock=lambda: self.now + machine.skew,
        )
        await machine.store.__aenter__()

    # ── Moves ───────────────────────────────────────────────────────────────────────────

    async def move(self, machine):
        kinds = (
            *(self.edit,) * 6,
            self.create,
            self.rename,
            self.delete,
            self.undo,
            *(self.sync,) * 4,
            *(self.offline,) * 2,
            *(self.kill,) * 3,
            *(self.edit_during_a_run,) * 2,
            self.unmount,
            self.jump,
            self.restart,
        )
        kind = self.random.choice(kinds)
        self.log.append(f"{machine.place.name} {kind.__name__}")
        await kind(machine)

    def line(self):
        self.count += 1
        return f"L{self.count:04d}"

    def take_out(self, lines):
        self.taken_out |= lines
        self.unread |= lines - self.read

    def put(self, machine, name, text):
        """Write a file as an editor does: in place, or by a rename."""
        self.written |= tokens(text)
        path = machine.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.random.random() < 0.5:
            path.write_bytes(text.encode())
        else:
            other = path.with_name(f"{path.name}.tmp")
            other.write_bytes(text.encode())
            other.replace(path)
        os.utime(path, (OLD, OLD))

    def chosen(self, machine):
        found = sorted(name for name, data in machine.files().items())
        return self.random.choice(found) if found else None

    async def edit(self, machine):
        name = self.chosen(machine)
        if name is None:
            await self.create(machine)
            return
        text = machine.files()[name].decode()
        lines = text.split("\n")
        place = self.random.randrange(len(lines) + 1)
        new = self.random.choice(OPENINGS).format(self.line()).split("\n")
        match self.random.randrange(4):
            case 0:
                lines[place:place] = new
            case 1:
                lines[place : place + 1] = new
            case 2:
                lines[place : place + self.random.randrange(1, 3)] = []
            case _:
                lines += new
        after = "\n".join(lines)
        self.log[-1] += f" {name}"
        self.take_out(tokens(text) - tokens(after))
        self.put(machine, name, after)

    async def edit_during_a_run(self, machine):
        """Somebody edits just as the run makes something durable."""
        real, left = os.fsync, [self.random.randrange(1, 4)]
        editing = []

        def meanwhile(descriptor):
            left[0] -= 1
            if left[0] == 0:
                editing.append(self.edit(machine))
                with suppress(StopIteration):
                    editing[0].send(None)  # an edit waits for nothing
            real(descriptor)

        os.fsync = meanwhile
        try:
            await self.sync(machine, seconds=self.random.choice((0, 30.0)))
        finally:
            os.fsync = real

    async def create(self, machine):
        name = self.random.choice(NAMES)
        if not (machine.folder / name).exists():
            front = self.random.choice(("", f"---\nname: {self.line()}\ntags: [x]\n---\n"))
            text = f"{front}# {self.line()}\n\n- {self.line()}\n- {self.line()}\n"
            self.put(machine, name, text)
            self.log[-1] += f" {name}"

    async def rename(self, machine):
        name, other = self.chosen(machine), self.random.choice(NAMES)
        if name is not None and not (machine.folder / other).exists():
            (machine.folder / other).parent.mkdir(parents=True, exist_ok=True)
            (machine.folder / name).rename(machine.folder / other)
            self.log[-1] += f" {name} {other}"

    async def delete(self, machine):
        name = self.chosen(machine)
        if name is not None:
            self.take_out(tokens((machine.folder / name).read_text(encoding="utf-8")))
            (machine.folder / name).unlink()
            self.log[-1] += f" {name}"

    async def undo(self, machine):
        name = self.chosen(machine)
        if name is None:
            return
        before = await machine.store.mind.files.get(f"{PROJECT}:{name}")
        after = None
        if before is not None:
            with suppress(ClockSkewError):
                after = await machine.store.mind.files.undo(before.full_name)
        if after is not None:
            self.taken_out |= tokens(before.text) - tokens(after.text)
            self.log[-1] += f" {name}"

    async def sync(self, machine, seconds=30.0):
        before = machine.files()
        (report,) = await machine.store.mirror.sync(machine.folder, seconds=seconds)
        left = {step.name for step in report.steps if step.what == "left"}
        if not report.problem:
            read = (tokens(data.decode()) for name, data in before.items() if name not in left)
            self.read |= set().union(*read)
        self.log[-1] += f" {report.problem} {[(str(step.what), step.name) for step in report.steps]}"

    async def offline(self, machine):
        await self.sync(machine, seconds=0)

    async def kill(self, machine):
        step = self.random.choice((1, 2, 3, 5, 8, 13, 21, 34))
        with dying(step) as calls, suppress(Killed):
            await machine.store.mirror.sync(machine.folder, seconds=0)
        self.log[-1] += f" at {calls[step - 1 : step]}"
        await self.restart(machine)

    async def unmount(self, machine):
        aside = machine.place / "aside"
        machine.folder.rename(aside)
        if self.random.random() < 0.5:
            machine.folder.mkdir()
        await self.sync(machine)
        if machine.folder.exists():
            for path in sorted(machine.folder.rglob("*"), reverse=True):
                path.unlink() if path.is_file() else path.rmdir()
            machine.folder.rmdir()
        aside.rename(machine.folder)

    async def jump(self, machine):
        machine.skew = self.random.choice((0.0, *JUMPS))
        self.log[-1] += f" {machine.skew}"

    async def restart(self, machine):
        await machine.store.close()
        await self.open(machine)

    # ── The end ─────────────────────────────────────────────────────────────────────────

    async def judged(self):
        self.now += 10 * 86_400.0
        for machine in self.machines:
            machine.skew = 0.0
        quiet = 0
        for _ in range(SETTLE_ROUNDS):
            for machine in self.machines:
                self.now += 4_000.0
                (report,) = await machine.store.mirror.sync(machine.folder, seconds=60, empty="delete")
                self.log.append(f"{machine.place.name} settle {report}")
                quiet = 0 if report.steps or report.problem else quiet + 1
            if quiet >= QUIET_COUNT:
                break
        one, two = (machine.files() for machine in self.machines)
        objections = [] if quiet >= QUIET_COUNT else ["it never becomes quiet"]
        if one != two:
            objections.append(f"the folders differ: {one} and {two}")
        left = [name for machine in self.machines for name in machine.left_over()]
        objections += [f"{name} is left over" for name in left]
        visible = {token for data in one.values() for token in tokens(data.decode())}
        known = visible | await self.histories()
        lost = self.written - self.taken_out - visible
        gone = self.written - self.unread - known
        objections += [f"{line} was taken out by nobody, and is in no file" for line in sorted(lost)]
        objections += [f"{line} is in no file and in no history" for line in sorted(gone)]
        return objections

    async def histories(self):
        found = set()
        for machine in self.machines:
            files = machine.store.mind.files
            for deleted in (False, True):
                for one in await files.all(deleted=deleted):
                    found |= tokens(one.text)
                    for version in await files.history(one.full_name):
                        found |= tokens(version.value or "")
        return found


def tokens(text):
    """The lines of the game that stand in a text."""
    return {*re.findall(r"L\d{4}", text)}


@pytest.mark.parametrize("seed", range(4))
async def test_no_line_is_lost_unnamed_and_both_folders_become_the_same(seed, tmp_path):
    game = MirrorGame(seed, 40, tmp_path)

    assert await game.play() == [], "\n".join(game.log)
