"""Keep a journal on the terminal, one entry a line. Uses only the public API.

Key, relays and ledger are those of the command line. Each line is durable in the ledger before the next is asked for,
with or without a network. At the end the program syncs with the relays.
"""

from __future__ import annotations

import argparse
import re
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sense_memory import NotSynced, SenseMemoryError, SyncMemoryStore


if TYPE_CHECKING:
    from sense_memory import JournalEntry

ALL = 100_000  # the most entries that `recent` returns
UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def moment(text: str) -> datetime:
    """Parse a date or time (ISO 8601, local), or how long ago: 12h, 3d, 2w."""
    try:
        if ago := re.fullmatch(r"(\d{1,6})([hdw])", text):
            return datetime.now().astimezone() - timedelta(**{UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; try 2027-01-15, 12h or 3d") from None


def arguments() -> argparse.Namespace:
    """The options, checked."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog="An empty line or Ctrl-D ends the program."
    )
    parser.add_argument("--agent", metavar="NAME", help="the agent of this machine; default: default")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--recent", metavar="N", type=int, default=5, help="first show the last N entries; default: 5"
    )
    shown.add_argument(
        "--since",
        metavar="WHEN",
        type=moment,
        help="first show all entries since a date, or since 12h, 3d or 2w ago",
    )
    return parser.parse_args()


def printable(text: str) -> str:
    """A text without control characters for a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\u{ord(c):04x}" for c in text)


def show(entries: list[JournalEntry]) -> None:
    """Entries, oldest first, so that the newest stands next to the prompt."""
    for entry in reversed(entries):
        when = datetime.fromtimestamp(entry.created_at).astimezone()
        print(f"{when:%Y-%m-%d %H:%M}  {printable(entry.content)}")


def earlier(store: SyncMemoryStore, options: argparse.Namespace) -> list[JournalEntry]:
    """The entries to show first, newest first."""
    if options.since is None:
        return store.recent(options.recent) if options.recent > 0 else []
    return [entry for entry in store.recent(ALL) if entry.created_at >= options.since.timestamp()]


def write(store: SyncMemoryStore) -> int:
    """Ask for lines until an empty one or the end of the input; returns how many were kept."""
    prompt = "> " if sys.stdin.isatty() else ""
    count = 0
    while True:
        try:
            line = input(prompt).strip()
        except EOFError:
            if prompt:
                print()
            return count
        if not line:
            return count
        store.journal(line)
        count += 1


def sync(store: SyncMemoryStore) -> None:
    """Sync with the relays; a relay that cannot be reached gets the entries next time."""
    if not store.relays:
        print("No relays are configured: the journal is on this machine only.")
    for relay in store.sync().relays:
        if relay.in_step:
            print(f"{relay.url}: in step")
        else:
            why = relay.problem or ", ".join((*relay.pulled.reasons, *relay.reasons)) or "not finished"
            print(f"{relay.url}: {why}; it gets the rest next time")


def main() -> int:
    """Show, ask, sync; returns the exit code."""
    options = arguments()
    try:
        with SyncMemoryStore.from_settings(agent=options.agent, background=False) as store:
            try:
                show(earlier(store, options))
            except NotSynced:
                print("There are no entries here yet, and no relay could be asked.")
            print(f"{write(store)} written.")
            sync(store)
    except SenseMemoryError as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nWhat was written is kept here; relays get the rest next time.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
