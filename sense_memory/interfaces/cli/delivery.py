"""How a write reaches relays: the write is durable already; relays have a bounded time, and the outcome is printed.

A relay that is down never makes a write fail; too few copies make exit code 3 only with `--require-acks`.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from sense_memory.errors import LedgerError
from sense_memory.interfaces.cli.invocation import ExitCode, Invocation, note, program, say, tell, too_few
from sense_memory.interfaces.cli.output import relay_data
from sense_memory.interfaces.text import age, as_json, one_line, quantity


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.memories.status import RelayStatus
    from sense_memory.store import MemoryStore


def is_held(state: str) -> bool:
    """Whether an event in that state is held by the relay."""
    from sense_memory.ledger import HELD  # late: Tab must not load the ledger

    return state in HELD


@dataclass(frozen=True, slots=True)
class Copies:
    """Which of the events just written one relay has.

    Attributes:
        status: the relay, as the ledger knows it.
        states: how many events are in which state: queued, acked, confirmed, refused, parked, superseded.
        total: how many events there are.
        problem: why the relay lacks some events, or empty.
    """

    status: RelayStatus
    states: dict[str, int]
    total: int
    problem: str

    @property
    def url(self) -> str:
        """The relay."""
        return self.status.url

    @property
    def held(self) -> int:
        """How many events the relay acknowledged."""
        return sum(count for state, count in self.states.items() if is_held(state))

    @property
    def refused(self) -> int:
        """How many events the relay will never take."""
        return self.states.get("refused", 0)


@dataclass(frozen=True, slots=True)
class Written:
    """The events that were written and their copies. `acks` is the smallest number of relays that any one event has.

    `outdated` means that a relay holds a newer version by another device, which counts instead.
    """

    ids: tuple[str, ...]
    copies: tuple[Copies, ...]
    acks: int
    outdated: bool


def paused(state: RelayStatus) -> list[str]:
    """When sending goes on, if a relay's rate limit pauses it."""
    if not state.paused_seconds:
        return []
    when = age(state.paused_seconds, 0).replace("just now", "in 1 s")
    return [f"sending goes on {when}: the relay limits the rate"]


def refuse_contradiction(context: typer.Context, wait: float, require_acks: int) -> None:
    """Refuse `--require-acks` with `--wait 0`, before anything is written."""
    if require_acks and not wait:
        context.fail("--require-acks waits for the answers of relays; give --wait more than 0")


async def send(store: MemoryStore, ids: Sequence[str], wait: float) -> Written:
    """Give relays `wait` seconds to take what is queued, then see who has the events."""
    if wait and store.relays:
        with contextlib.suppress(
            TimeoutError, LedgerError
        ):  # a ledger that fails now is shown as the problem
            async with asyncio.timeout(wait):
                await store.flush()
    known = (store.relays.holders(ident) for ident in ids)  # unchanged ones may be on other relays
    holders = [{url: holder[url] for url in store.relays if url in holder} for holder in known]
    copies = []
    for relay in store.status().relays:
        found = [holder.get(relay.url, "queued") for holder in holders]
        states = {state: found.count(state) for state in dict.fromkeys(found)}
        problem = relay.problem or ", ".join([*relay.reasons, *paused(relay)])
        if not problem:
            problem = f"no answer within {wait:g} s" if wait else "not contacted"
        held = sum(map(is_held, found))
        copies.append(Copies(relay, states, len(ids), "" if held == len(ids) else problem))
    acks = min((sum(map(is_held, holder.values())) for holder in holders), default=0)
    outdated = any("superseded" in holder.values() for holder in holders)
    return Written(tuple(ids), tuple(copies), acks, outdated)


async def deliver(store: MemoryStore, wait: float) -> None:
    """Sign what was appended, and give relays `wait` seconds to accept the queue; names relays that did not, or refused."""
    if not wait or not store.relays:
        await store.mind.flush()
        return
    before = {relay.url: relay.events.get("refused", 0) for relay in store.status().relays}
    with contextlib.suppress(TimeoutError, LedgerError):  # all of it is durable here
        async with asyncio.timeout(wait):
            await store.flush()
    relays = store.status().relays
    if refusing := [relay.url for relay in relays if relay.events.get("refused", 0) > before[relay.url]]:
        note(f"kept here, refused by {', '.join(refusing)}; `{program()} status` says why")
    if late := [relay.url for relay in relays if relay.events.get("queued")]:
        note(f"kept here, not yet sent to {', '.join(late)}; run `{program()} sync`")


def report_write(
    invocation: Invocation,
    written: Written,
    done: str,
    result: dict[str, Any],
    require_acks: int,
    *,
    is_deletion: bool = False,
) -> None:
    """Print the outcome of a write or a deletion; exit code 3 if fewer relays acknowledged than asked for."""
    if invocation.as_json:
        relays = [_copy(copies) for copies in written.copies]
        typer.echo(as_json({**result, "acks": written.acks, "outdated": written.outdated, "relays": relays}))
    elif written.outdated:
        tell("kept in the history only: the newer version of another device counts instead")
    else:
        tell(f"{done} · {sentence(written.copies, is_deletion=is_deletion)}")
    if written.acks < require_acks:
        what = "this" if len(written.ids) == 1 else "all of it"
        say("error", too_few(require_acks, written.acks, what))
        raise typer.Exit(ExitCode.NOT_REPLICATED)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A memory that was forgotten.

    Attributes:
        named: the name of the memory, for JSON.
        deletion_id: of the deletion request.
        unsure: None if the memory was here; else why relays could not be asked for the memory, or empty if nobody had
            to ask.
    """

    named: dict[str, Any]
    deletion_id: str
    unsure: str | None

    @property
    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.named, "deletion_id": self.deletion_id, "was_here": self.unsure is None}


def report_forgetting(
    invocation: Invocation, written: Written, forgotten: Sequence[Forgotten], require_acks: int
) -> None:
    """Print the forgotten memories; for a name without a memory here, also why its deletion is requested nevertheless.

    Args:
        invocation: of the command.
        written: the deletion requests.
        forgotten: the memories.
        require_acks: how many relays have to acknowledge the deletion.
    """
    unknown = [memory for memory in forgotten if memory.unsure is not None]
    here, why = len(forgotten) - len(unknown), ""
    unsure = one_line(unknown[0].unsure or "") if unknown else ""
    if unsure and unsure not in sentence(written.copies):  # which gives the same reason
        why = f" ({unsure})"
    if len(forgotten) == 1:
        done = (
            f"no memory has that name here{_requested(written)}{why}"
            if unknown
            else deleted("forgotten", written)
        )
        report_write(invocation, written, done, forgotten[0].data, require_acks, is_deletion=True)
        return
    done = deleted(f"{quantity(here, 'memory', 'memories')} forgotten", written)
    if unknown:
        done += f"; {quantity(len(unknown), 'name')} without a memory here{_requested(written)}{why}"
    if not here:
        done = f"none of these {quantity(len(unknown), 'name')} has a memory here{_requested(written)}{why}"
    result = {"forgotten": [memory.data for memory in forgotten]}
    report_write(invocation, written, done, result, require_acks, is_deletion=True)


def report_deletion(
    invocation: Invocation, written: Written, done: str, result: dict[str, Any], require_acks: int = 0
) -> None:
    """Print a deletion: what was done here, such as "removed", what relays were asked, and which accepted it."""
    result = {**result, "deletion_id": written.ids[0]}
    report_write(invocation, written, deleted(done, written), result, require_acks, is_deletion=True)


def deleted(done: str, written: Written) -> str:
    """What was deleted here, such as "removed"; and whether relays were asked to delete it, if there are relays."""
    return f"{done} here{_requested(written)}"


def _requested(written: Written) -> str:
    is_requested = any(copies.held or copies.refused for copies in written.copies)
    return f", deletion {'requested' if is_requested else 'queued'}" if written.copies else ""


def sentence(copies: Sequence[Copies], *, is_deletion: bool = False) -> str:
    """Which relays accepted the events, such as "accepted by 2 of 3 relays, not yet by 1 (wss://…: …)"."""
    if not copies:
        return "no relays are configured" if is_deletion else "on this machine only: no relays are configured"
    whole = [relay for relay in copies if relay.held == relay.total]
    if len(whole) == len(copies):
        return f"accepted by {quantity(len(copies), 'relay')}"
    refusing = [relay for relay in copies if relay.refused]
    waiting = [relay for relay in copies if relay not in whole and relay not in refusing]
    parts = [
        f"accepted by {len(whole)} of {len(copies)} relays"
        if whole
        else f"accepted{' in full' if any(relay.held for relay in copies) else ''} by no relay yet"
    ]
    if waiting and (whole or refusing):
        parts.append(f"not yet by {len(waiting)}")
    if refusing:
        parts.append(f"refused by {len(refusing)}")
    reasons = [f"{relay.url}: {relay.problem}" for relay in (*waiting, *refusing)]
    if len(reasons) == 1:
        return f"{', '.join(parts)} ({reasons[0]})"
    return "\n  ".join([", ".join(parts), *reasons])


def _copy(copies: Copies) -> dict[str, Any]:
    copy = {"held": copies.held, "states": dict(copies.states)}
    return relay_data(copies.url, copies.status, problem=copies.problem, copy=copy)
