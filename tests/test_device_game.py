"""A random game of several devices of one key, and an oracle that knows who knew what when.

The devices write, forget, recall, connect and prune, with clocks up to seconds apart, restart, lose their machine,
are copied and set back, and meet one relay or two now and then. They also say things to the log and take them back,
sometimes while their clock is far ahead. The oracle never looks into a store: it only keeps, for every operation, which
operations its device had heard of when it was made (causality). When all have met until it is quiet, it compares what
the stores show with what that history allows:

* all devices show the same memories;
* a text that nobody who knew it replaced or forgot is visible somewhere, or the device that wrote it was told
  (`overruled`, or what is true since: `prevailed`, `unclaimed`), and holds it as a draft where it was forgotten;
* a text that was forgotten by somebody who saw it is nowhere: not visible, not in a history, not in a draft;
* a text that was replaced by somebody who knew it is not visible;
* an automatic deletion never took a memory that was recalled or edited without the pruning device's knowledge;
* every entry of the log is shown everywhere, and none that was removed.

Every text is unique, so a text names its operation.
"""

from __future__ import annotations

import random
import shutil
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore


if TYPE_CHECKING:
    from pathlib import Path


FLAT = ("k0", "k1")
PALACE = ("people/facts/p0", "people/facts/p1", "self/beliefs/p2")
STEPS = (0.3, 1.0, 1.0, 2.0, 5.0, 60.0, 600.0, 600.0, 3_600.0, 90_000.0)
LEAPS = (20 * 86_400.0, 45 * 86_400.0)
JUMPS = (200.0, 600.0, 2 * 86_400.0, 400 * 86_400.0)  # of a clock that is set right afterwards
LOG = "log"  # the path of what is said
START = 1_750_000_000.0
SETTLE_ROUNDS = 5
SETTLE_SECONDS = 4_000.0  # past the hour after which a relay is healed again
# No memory is deleted sooner after it was last used (the specification's 30 days).
SAFE_SECONDS = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Operation:
    """What one device did.

    Attributes:
        number: in the order of the game.
        kind: write, forget, touch, prune, say or unsay.
        path: of the memory.
        device: who did it.
        at: by the true clock, seconds since 1970.
        knew: the numbers of the operations that the device had heard of.
        text: what was written.
        saw: the texts that the device showed at this path.
    """

    number: int
    kind: str
    path: str
    device: int
    at: float
    knew: frozenset[int]
    text: str = ""
    saw: frozenset[str] = frozenset()


@dataclass
class Game:
    """One game.

    Args:
        seed: decides everything.
        folder: where ledgers lie.
        devices: how many.
        moves: how many.
        relays: how many; of two, each device may know both or only one, but every relay is known to device 0.
    """

    seed: int
    folder: Path
    devices: int = 3
    moves: int = 60
    relays: int = 1
    now: float = START
    operations: list[Operation] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    @classmethod
    def dealt(cls, seed: int, moves: int, folder: Path) -> Game:
        """The game of a seed: two or three devices, one relay or two."""
        return cls(seed, folder, devices=2 + seed % 2, moves=moves, relays=1 + seed // 2 % 2)

    async def play(self) -> list[str]:
        """Play it to the end; returns what the oracle objects to."""
        self._chance = random.Random(self.seed)
        self._key = LocalSigner.from_hex(self._chance.randbytes(32).hex())
        self._skews = [self._chance.choice((0.0, 0.0, 0.0, 1.5, -1.5)) for _ in range(self.devices)]
        # What the image of a device's ledger knew, and whether it had never asked a relay.
        self._images: dict[int, tuple[frozenset[int], bool]] = {}
        self._known: list[set[int]] = [set() for _ in range(self.devices)]
        self._relay_knows: list[set[int]] = [set() for _ in range(self.relays)]
        self._lost: set[int] = set()
        self._wiped: set[int] = set()  # known to relays, but whoever wrote them can be told nothing any more
        self._reach = [self._pick_relays(device) for device in range(self.devices)]
        self._told: list[set[str]] = [set() for _ in range(self.devices)]
        self._stores: dict[int, MemoryStore] = {}
        self._unasked = set(range(self.devices))  # who asks the relays when it reads, because it never did
        self._problems: list[str] = []
        async with AsyncExitStack() as stack:
            self._servers = [
                await stack.enter_async_context(EmbeddedRelay(clock=lambda: self.now))
                for _ in range(self.relays)
            ]
            for device in range(self.devices):
                await self._open(device)
            try:
                for _ in range(self.moves):
                    await self._move()
                await self._settle()
                await self._judge()
            finally:
                for store in self._stores.values():
                    await store.close()
        return self._problems

    def _pick_relays(self, device: int) -> list[int]:
        every = list(range(self.relays))
        return every if device == 0 or self._chance.random() < 0.4 else [self._chance.choice(every)]

    async def _open(self, device: int) -> None:
        store = MemoryStore(
            self._key,
            [self._servers[relay].url for relay in self._reach[device]],
            ledger=self.folder / f"{device}.db",
            background=False,
            clock=lambda: self.now + self._skews[device],
        )
        self._stores[device] = await store.__aenter__()

    # ── Moves ───────────────────────────────────────────────────────────────────────────

    async def _move(self) -> None:
        chance = self._chance
        self.now += chance.choice(LEAPS) if chance.random() < 0.06 else chance.choice(STEPS)
        device = chance.randrange(self.devices)
        (kind,) = chance.choices(
            (
                *("write", "burst", "forget", "touch", "link", "prune", "sync", "restart", "wipe"),
                *("say", "jump", "unsay", "copy", "image", "back"),
            ),
            (30, 3, 9, 12, 4, 7, 30, 3, 1, 8, 3, 3, 2, 3, 2),
        )
        await getattr(self, f"_{kind}")(device)

    async def _write(self, device: int, path: str | None = None) -> None:
        path = path or self._chance.choice(FLAT + PALACE)
        text = f"text{len(self.operations)}of{device}"
        store, saw = self._stores[device], await self._texts(device, path)
        if "/" in path:
            halflife = self._chance.choice((None, 1.0, 7.0))
            await store.persona_remember(*path.split("/"), text, halflife_days=halflife)
        else:
            await store.remember(path, text)
        self._record("write", path, device, text=text, saw=saw)

    async def _burst(self, device: int) -> None:
        path = self._chance.choice(FLAT + PALACE)
        for _ in range(self._chance.randrange(2, 15)):
            await self._write(device, path)

    async def _forget(self, device: int) -> None:
        path = self._chance.choice(FLAT + PALACE)
        saw = await self._texts(device, path)
        store = self._stores[device]
        if "/" in path:
            await store.persona_forget(*path.split("/"))
        else:
            await store.forget(path)
        self._record("forget", path, device, saw=saw)

    async def _touch(self, device: int) -> None:
        path = self._chance.choice(PALACE)
        await self._palace(device)
        if await self._stores[device].persona_recall(*path.split("/")):
            self._record("touch", path, device)

    async def _link(self, device: int) -> None:
        one, other = self._chance.sample(PALACE, 2)
        shown = {memory.path for memory in await self._palace(device)}
        if {one, other} <= shown:
            await self._stores[device].persona_connect(one, other)
            self._record("touch", one, device)
            self._record("touch", other, device)

    async def _prune(self, device: int) -> None:
        await self._sync(
            device
        )  # pruning asks every relay before it deletes, so this changes only what we know of it
        done = await self._stores[device].persona_prune()
        for line in done.report.lines:
            if line.outcome.value == "done" and line.action.value == "delete":
                self._record("prune", line.path, device)

    async def _sync(self, device: int) -> None:
        report = await self._stores[device].sync()
        if not report.complete:
            self._problems.append(
                f"device {device}: an honest relay was not read completely: {report.problems}"
            )
        self._heard(device)
        self._sent(device, {relay.url for relay in report.relays if relay.waiting})
        told = (*report.overruled, *report.prevailed, *report.unclaimed)
        self._told[device] |= set(told)
        self._note(f"sync {device} told={told}")

    async def _restart(self, device: int) -> None:
        await self._stores[device].close()
        await self._open(device)
        self._note(f"restart {device}")

    async def _wipe(self, device: int) -> None:
        """The machine is lost, and what no relay had with it; a new one starts from relays."""
        if self._chance.random() < 0.5:
            await self._sync(device)
        await self._lose(device)
        self._known[device] = set().union(*(self._relay_knows[relay] for relay in self._reach[device]))
        self._unasked.add(device)
        await self._open(device)
        await self._sync(device)
        self._note(f"wipe {device}")

    async def _lose(self, device: int) -> None:
        """A ledger is gone, with what nobody else has."""
        await self._stores.pop(device).close()
        for file in self.folder.glob(f"{device}.db*"):
            file.unlink()
        others = [known for other, known in enumerate(self._known) if other != device]
        self._lost |= self._known[device].difference(*self._relay_knows, *others)
        self._wiped |= {one.number for one in self.operations if one.device == device and one.kind == "write"}
        self._told[device] = set()

    def _put(self, source: str, target: str) -> None:
        for file in self.folder.glob(f"{source}*"):
            shutil.copy(file, self.folder / file.name.replace(source, target, 1))

    async def _copy(self, device: int) -> None:
        """Another device gives way to a copy of this one; both go on, sometimes this one without a restart."""
        other = self._chance.choice([number for number in range(self.devices) if number != device])
        is_running = self._chance.random() < 0.5
        if not is_running:
            await self._stores[device].close()
        await self._lose(other)
        self._put(f"{device}.db", f"{other}.db")
        self._known[other] = set(self._known[device])
        (self._unasked.add if device in self._unasked else self._unasked.discard)(other)
        if not is_running:
            await self._open(device)
        await self._open(other)
        self._note(f"copy {device} to {other} running={is_running}")

    async def _image(self, device: int) -> None:
        for file in self.folder.glob(f"image{device}.db*"):
            file.unlink()
        self._put(f"{device}.db", f"image{device}.db")
        self._images[device] = frozenset(self._known[device]), device in self._unasked
        self._note(f"image {device}")

    async def _back(self, device: int) -> None:
        """The image of a ledger is brought back."""
        if device in self._images:
            await self._lose(device)
            self._put(f"image{device}.db", f"{device}.db")
            known, is_unasked = self._images[device]
            self._known[device] = set(known)
            (self._unasked.add if is_unasked else self._unasked.discard)(device)
            self._lost -= self._known[device]
            await self._open(device)
            self._note(f"back {device}")

    # ── The log ─────────────────────────────────────────────────────────────────────────

    async def _say(self, device: int) -> None:
        text = f"said{len(self.operations)}by{device}"
        mind = self._stores[device].mind
        await mind.log.append("agent.spoke", {"text": text}, actor="me")
        self._record("say", LOG, device, text=text)
        if self._chance.random() < 0.5:
            await mind.flush()

    async def _jump(self, device: int) -> None:
        """The clock is ahead for a moment."""
        jump = self._chance.choice(JUMPS)
        self._skews[device] += jump
        await self._say(device)
        self._skews[device] -= jump

    async def _unsay(self, device: int) -> None:
        log = self._stores[device].mind.log
        if device not in self._unasked and (entries := await log.entries()):
            entry = self._chance.choice(entries)
            await log.remove(entry.id)
            self._record("unsay", LOG, device, text=entry.text)

    def _heard(self, device: int) -> None:
        self._unasked.discard(device)
        for relay in self._reach[device]:
            self._known[device] |= self._relay_knows[relay]

    def _sent(self, device: int, waiting: set[str]) -> None:
        """The relays have what a device knows, but perhaps not its log where events wait.

        A page that was written while the clock was ahead waits for its date, as the report says.
        """
        logged = {one.number for one in self.operations if one.path == LOG}
        for relay in self._reach[device]:
            kept = logged if self._servers[relay].url in waiting else set()
            self._relay_knows[relay] |= self._known[device] - kept

    def _record(
        self, kind: str, path: str, device: int, *, text: str = "", saw: frozenset[str] = frozenset()
    ) -> None:
        number = len(self.operations)
        knew = frozenset(self._known[device])
        at = self.now + self._skews[device]
        self.operations.append(Operation(number, kind, path, device, at, knew, text, saw))
        self._known[device].add(number)
        self._note(f"{number} {kind} {path} by {device} {text}")

    def _note(self, line: str) -> None:
        self.log.append(f"{self.now - START:12.1f} {line}")

    # ── What stores show ────────────────────────────────────────────────────────────────

    async def _palace(self, device: int) -> list:
        memories = await self._stores[device].persona_recall(include_forgotten=True)
        if device in self._unasked and not self._stores[device].status().never_complete:
            self._heard(device)  # reading asks the relays, and does not flush the log
        return memories

    async def _texts(self, device: int, path: str) -> frozenset[str]:
        shown = await self._shown(device)
        return frozenset(text for place, text in shown.items() if place == path)

    async def _shown(self, device: int) -> dict[str, str]:
        shown = {memory.key: memory.value for memory in await self._stores[device].recall_all()}
        return shown | {memory.path: memory.value for memory in await self._palace(device)}

    # ── The end ─────────────────────────────────────────────────────────────────────────

    async def _settle(self) -> None:
        for _ in range(SETTLE_ROUNDS):
            for device in range(self.devices):
                self.now += SETTLE_SECONDS
                await self._sync(device)

    async def _judge(self) -> None:
        shown = [await self._shown(device) for device in range(self.devices)]
        for device in range(1, self.devices):
            if shown[device] != shown[0]:
                differ = set(shown[device].items()) ^ set(shown[0].items())
                self._object(f"devices 0 and {device} show different memories: {sorted(differ)}")
        drafts = [
            {draft.value for draft in await self._stores[device].drafts()} for device in range(self.devices)
        ]
        visible = {text for memories in shown for text in memories.values()}
        held = [await self._held(device, shown[device]) for device in range(self.devices)]
        await self._judge_log()
        for write in self._lasting():
            if write.kind == "write" and write.number not in self._wiped:
                self._judge_text(write, visible, held, drafts)

    async def _judge_log(self) -> None:
        kept = [one for one in self._lasting() if one.path == LOG]
        removed = {one.text for one in kept if one.kind == "unsay"}
        # A removal that was lost with a ledger may have reached a relay all the same (see `_sent`).
        unsaid = {one.text for one in self.operations if one.kind == "unsay"}
        said = {one.text for one in kept if one.kind == "say"} - unsaid
        for device in range(self.devices):
            shown = {entry.text for entry in await self._stores[device].mind.log.entries()}
            if shown & removed or said - shown:
                self._object(
                    f"the log of device {device} shows {sorted(shown & removed)} and lacks {sorted(said - shown)}"
                )

    async def _held(self, device: int, shown: dict[str, str]) -> set[str]:
        held: set[str] = set()
        for path in {*FLAT, *PALACE, *shown}:
            held |= {version.value for version in await self._stores[device].history(path) if version.value}
        return held

    def _lasting(self) -> list[Operation]:
        """What was not lost with a ledger. Nobody met what was lost, so it neither forgot nor kept any text of others."""
        return [one for one in self.operations if one.number not in self._lost]

    def _judge_text(
        self, write: Operation, visible: set[str], held: list[set[str]], drafts: list[set[str]]
    ) -> None:
        lasting = [one for one in self._lasting() if one.path == write.path]
        later = [one for one in lasting if one.number > write.number]
        aware = [one for one in later if write.number in one.knew]
        if any(one.kind == "forget" and write.text in one.saw for one in aware):
            self._judge_forgotten(write, visible, held, drafts)
            return
        others = [one for one in lasting if self._concurrent(one, write)]
        if any(one.kind == "write" and write.text in one.saw for one in aware):
            # A conflict copy may have been made before a device met the newer text: it is a memory of its own then.
            if write.text in visible and not any(one.kind == "write" for one in others):
                self._object(f"{write.text} is back, although it was replaced by somebody who saw it")
            return
        if any(one.kind in {"forget", "write"} for one in aware):
            return  # it was known, but not shown at that place: it may be a conflict copy, a memory of its own
        if write.text in visible or self._was_pruned(write):
            return
        told = write.path in self._told[write.device]
        if any(one.kind == "forget" for one in others):
            if told and write.text in drafts[write.device]:
                return
            if told and "/" not in write.path and any(one.kind == "write" for one in others):
                return
            self._object(
                f"{write.text} was forgotten by somebody who never saw it: "
                f"told={told} draft={write.text in drafts[write.device]}"
            )
            return
        if "/" not in write.path and any(one.kind == "write" for one in others):
            if not told:
                self._object(
                    f"{write.text} at {write.path} lost to another device, and device {write.device} was not told"
                )
            return
        self._object(f"{write.text} at {write.path} is nowhere: nobody who knew it replaced or forgot it")

    def _judge_forgotten(
        self, write: Operation, visible: set[str], held: list[set[str]], drafts: list[set[str]]
    ) -> None:
        if write.text in visible:
            self._object(f"{write.text} is back, although it was forgotten by somebody who saw it")
        for device in range(self.devices):
            if write.text in held[device]:
                self._object(f"{write.text} was forgotten, and stands in the history of device {device}")
            if write.text in drafts[device]:
                self._object(f"{write.text} was forgotten, and is a draft of device {device}")

    def _was_pruned(self, write: Operation) -> bool:
        """Whether an automatic deletion that knew everything about a memory took it."""
        after = [
            one
            for one in self._lasting()
            if one.path == write.path and one.kind in {"write", "touch"} and one.number >= write.number
        ]
        for prune in self._lasting():
            if (
                prune.kind == "prune"
                and prune.path.startswith(f"{write.path}~conflict-")
                and prune.number > write.number
            ):
                return (
                    True  # perhaps its conflict copy, which is a memory of its own and has no operations here
                )
            if prune.kind != "prune" or prune.path != write.path or write.number not in prune.knew:
                continue
            uses = [one for one in after if one.number in prune.knew]
            if prune.at - max(one.at for one in uses) < SAFE_SECONDS - 10:
                self._object(f"{write.text} was pruned {prune.at - uses[-1].at:.0f} s after it was used")
            if all(one.number in prune.knew or prune.number in one.knew for one in after):
                return True
        return False

    @staticmethod
    def _concurrent(one: Operation, other: Operation) -> bool:
        return one.number not in other.knew and other.number not in one.knew and one is not other

    def _object(self, sentence: str) -> None:
        self._problems.append(sentence)


@pytest.mark.parametrize("seed", range(5))
async def test_nothing_is_lost_unsaid_and_nothing_forgotten_returns(seed, tmp_path):
    played = Game.dealt(seed, 50, tmp_path)

    assert await played.play() == [], "\n".join(played.log)
