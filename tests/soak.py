"""`make soak`: the random games of the suite, with as many seeds as there is time for.

A game is a function of a seed that raises if anything went wrong, and does the same for the same seed. The suite
plays each with a few seeds; here seed follows seed, all games in turn, until the time is over or somebody stops
it with Ctrl-C. What fails is shown with how to play it again, and the others go on.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

from tests import test_convergence, test_device_game
from tests.memories.persona import test_any_order, test_links
from tests.mirror import test_mirror_game


MOVES = 1_000  # of a game


def memories(seed):
    """Flat memories and a journal, on three devices and three relays that hang up."""
    with folder() as place:
        asyncio.run(test_convergence.game(*test_convergence.dealt(seed, MOVES), place))


def palace(seed):
    """Memories of the palace: recalled, connected and pruned by several devices."""
    asyncio.run(test_any_order.game(*test_any_order.dealt(seed, MOVES)))


def knowledge(seed):
    """Devices that write, forget, prune and lose their machine, judged by who knew what when."""
    with folder() as place:
        played = test_device_game.Game.dealt(seed, MOVES // 10, place)
        objections = asyncio.run(played.play())
        assert not objections, "\n".join((*played.log, *objections))


def marks(seed):
    """Contradictions on two devices, of which a call can take away every one."""
    asyncio.run(test_links.game(test_links.dealt(seed, MOVES // 20)))


def killed_writers(seed):
    """Four processes on one ledger, killed again and again; every write that returned is there."""
    with folder() as place:
        # A process of its own, because it forks and this one may have threads.
        order = [sys.executable, "-m", "tests.crash.writers", str(place), str(seed), str(max(4, MOVES // 10))]
        done = subprocess.run(
            order, cwd=Path(__file__).parents[1], text=True, capture_output=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr


def mirrors(seed):
    """Two folders that are mirrored, whose machines are killed, offline, and have wrong clocks."""
    with folder() as place:
        played = test_mirror_game.MirrorGame(seed, MOVES // 20, place)
        objections = asyncio.run(played.play())
        assert not objections, "\n".join((*played.log, *objections))


GAMES = {
    "memories": memories,
    "palace": palace,
    "knowledge": knowledge,
    "marks": marks,
    "killed_writers": killed_writers,
    "mirrors": mirrors,
}


@contextmanager
def folder():
    """A temporary one, in memory where the system offers that."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def play(games, seeds, until=float("inf")):
    """Play every game with every seed, while there is time; how many were played, and how many failed."""
    played = failed = 0
    turns = ((seed, name) for seed in seeds for name in games)  # itertools.product would draw all seeds first
    for seed, name in turns:
        if time.monotonic() >= until:
            break
        played += 1
        try:
            games[name](seed)
        except Exception:
            failed += 1
            traceback.print_exc()
            print(f'again: make soak OPTIONS="--game {name} --seed {seed} --seeds 1"', flush=True)
        else:
            print(f"{name} {seed}: well", flush=True)
    return played, failed


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no game after so long")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first seed; from the clock")
    parser.add_argument("--seeds", type=int, help="how many seeds; no end")
    parser.add_argument("--game", choices=GAMES, help="this game only")
    options = parser.parse_args(arguments)
    end = None if options.seeds is None else options.seed + options.seeds
    seeds = itertools.count(options.seed) if end is None else range(options.seed, end)
    games = GAMES if options.game is None else {options.game: GAMES[options.game]}
    try:
        played, failed = play(games, seeds, time.monotonic() + 60 * options.minutes)
    except KeyboardInterrupt:
        sys.exit("stopped")
    print(f"games played: {played}, failed: {failed}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    logging.getLogger("sense_memory").setLevel(logging.CRITICAL)  # relays that hang up are the game
    main()
