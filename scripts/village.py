"""Play a village: three agents share a scene for 200 turns, one of them loses its machine, and nobody forgets the clue.

Every line of village.txt is one turn: who, what kind of entry, what it says. Each agent has a key and a memory of its own,
reads at most eight entries of its past in a prompt of at most 400 tokens, and reflects after every 20 entries that it saw.
At turn 120 the smith's machine is lost; a new one has the key and nothing else. Uses only the public API.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.mind import (
    Context,
    ContextBuilder,
    Digest,
    EpisodicMemory,
    Reflect,
    ReflectionTracker,
    SalienceMemory,
    digest,
)


if TYPE_CHECKING:
    from sense_memory.mind import LogEntry, Scene

SCRIPT = Path(__file__).with_suffix(".txt")
WINDOW = 8  # entries of the past in a prompt
BUDGET = 400  # tokens of a prompt
THRESHOLD = 20  # entries that make a reflection due
SYNC_TURNS = 20
LOST_TURN = 120
LOST = "smith"
CLUE = "silver locket"


@dataclass
class Villager:
    """One agent."""

    name: str
    signer: LocalSigner
    store: MemoryStore
    scene: Scene

    async def entries(self) -> list[LogEntry]:
        """What the agent may see, oldest first."""
        return await self.scene.entries()

    async def context(self, world: str, *, salient: bool = True) -> Context:
        """The prompt of the agent, with its most salient or its newest entries."""
        salience = SalienceMemory(self.name, top_k=WINDOW)
        episodic = EpisodicMemory(self.name, max_recent=WINDOW)
        return ContextBuilder(BUDGET).build(
            await self.entries(),
            identity=f"You are the {self.name} of a small village.",
            scene=world,
            memory=lambda seen: salience.visible(seen, world) if salient else episodic.visible(seen),
            output_format="Answer in one sentence.",
        )

    async def reflect_if_due(self, turn: int) -> None:
        """Condense what was seen since the last reflection into a belief that all may read."""
        pending = ReflectionTracker(self.name, THRESHOLD).pending(await self.entries())
        if len(pending) < THRESHOLD:
            return
        task = Reflect(agent=self.name, experiences=tuple(entry.text for entry in pending))
        found = await self.store.mind.model.answer(task)
        belief = {"belief": found.belief, "based_on": [entry.id for entry in pending]}
        await self.scene.append("agent.reflected", belief, turn=turn)

    async def digest(self) -> Digest:
        """Beliefs instead of what they are based on, and the recent window."""
        return digest(await self.entries(), self.name, WINDOW)


@dataclass(frozen=True)
class Account:
    """How the play went."""

    turns: int
    largest_tokens: int
    clue_in_window: bool
    clue_by_salience: bool
    digests: dict[str, tuple[int, int, int]]  # beliefs, entries in the digest, entries seen
    same_before_and_after: bool
    restored: int
    same_for_all: bool
    forged: int

    def __str__(self) -> str:
        """The account, for people."""
        lines = [
            f"{self.turns} turns, three agents, one scene.",
            f"The largest prompt had {self.largest_tokens} of {BUDGET} tokens.",
            f"Turn {LOST_TURN}: the {LOST}'s machine is lost. With the key alone, {self.restored} entries came back.",
            f"The {LOST} has the same view as before: {_yes(self.same_before_and_after)}.",
        ]
        for name, (beliefs, shown, seen) in self.digests.items():
            lines.append(
                f"The {name} saw {seen} entries and reads {shown}: {beliefs} beliefs and the last {WINDOW}."
            )
        lines += [
            f"Everybody reads the same scene: {_yes(self.same_for_all)}; forged entries: {self.forged}.",
            f"Turn {self.turns}, the clue of turn 3 ({CLUE}) is in the recent window: {_yes(self.clue_in_window)}.",
            f"By salience it is in the prompt: {_yes(self.clue_by_salience)}.",
        ]
        return "\n".join(lines)


def _yes(found: bool) -> str:
    return "yes" if found else "no"


def script() -> list[tuple[str, str, str]]:
    """The turns: actor, kind, text."""
    rows = (line.split(" ", 2) for line in SCRIPT.read_text(encoding="utf-8").splitlines())
    return [(actor, kind, text) for actor, kind, text in rows]


class Clock:
    """A turn takes a minute, and the last one is about now."""

    def __init__(self) -> None:
        self.now = time() - 300 * 60

    def __call__(self) -> float:
        """Seconds since 1970."""
        return self.now


async def opened(stack: AsyncExitStack, signer: LocalSigner, url: str, clock: Clock) -> MemoryStore:
    """A store on a machine that has nothing yet."""
    store = MemoryStore(signer, [url], ledger=":memory:", background=False, clock=clock)
    return await stack.enter_async_context(store)


async def village(stack: AsyncExitStack, url: str, clock: Clock) -> dict[str, Villager]:
    """Three agents in one scene, whose owner is the baker."""
    keys = {name: LocalSigner.generate() for name in ("baker", "smith", "miller")}
    stores = {name: await opened(stack, key, url, clock) for name, key in keys.items()}
    owner = await stores["baker"].mind.scenes.create("village", as_name="baker")
    people = {"baker": Villager("baker", keys["baker"], stores["baker"], owner)}
    for name in ("smith", "miller"):
        invitation = await owner.invite(keys[name].npub, name)
        scene = await stores[name].mind.scenes.join(invitation)
        people[name] = Villager(name, keys[name], stores[name], scene)
    await in_step(people)
    return people


async def in_step(people: dict[str, Villager]) -> None:
    """Everybody sends, then everybody reads what others sent."""
    for _ in range(2):
        for villager in people.values():
            await villager.scene.sync()
    for villager in people.values():
        await villager.store.sync()


async def restored(stack: AsyncExitStack, villager: Villager, url: str, clock: Clock) -> Villager:
    """The same agent on a bare machine: a key, a relay, one sync."""
    await villager.store.close()
    store = await opened(stack, villager.signer, url, clock)
    await store.sync()
    (state,) = await store.mind.scenes.all()
    scene = await store.mind.scenes.open(state.id)
    await scene.sync()
    return Villager(villager.name, villager.signer, store, scene)


async def play() -> Account:
    """Play the whole script."""
    turns, world, clock = script(), "", Clock()
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(EmbeddedRelay())
        people = await village(stack, relay.url, clock)
        largest, same, count = 0, False, 0
        for turn, (actor, kind, text) in enumerate(turns, 1):
            clock.now += 59
            villager = people.get(actor, people["baker"])  # the owner speaks for the world
            world = text if kind == "world.observed" else world
            largest = max(largest, (await villager.context(world)).tokens)
            await villager.scene.append(kind, {"text": text}, actor=actor, turn=turn)
            clock.now += 1  # a belief comes after what it is based on
            await villager.reflect_if_due(turn)
            if turn % SYNC_TURNS == 0:
                await in_step(people)
            if turn == LOST_TURN:
                before = await people[LOST].context(world), await people[LOST].entries()
                people[LOST] = await restored(stack, people[LOST], relay.url, clock)
                after = await people[LOST].context(world), await people[LOST].entries()
                same, count = before == after, len(after[1])
        smith = people[LOST]
        digests = {}
        for name, villager in people.items():
            read = await villager.digest()
            seen = await villager.entries()
            digests[name] = (len(read.beliefs), len(read), len(seen))
        shared = [
            [entry.id for entry in await one.scene.entries() if entry.author] for one in people.values()
        ]
        return Account(
            len(turns),
            largest,
            CLUE in _memory(await smith.context(world, salient=False)),
            CLUE in _memory(await smith.context(world)),
            digests,
            same,
            count,
            all(ids == shared[0] for ids in shared),
            sum([await villager.scene.forged_count() for villager in people.values()]),
        )


def _memory(context: Context) -> str:
    """What is remembered in a prompt: the entries before the newest, which is the scene itself."""
    return "\n".join(entry.text for entry in context.entries if entry.turn != len(script()))


if __name__ == "__main__":
    print(asyncio.run(play()))
