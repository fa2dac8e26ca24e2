"""`sync`, `status` and `watch`: replication with relays, its state, and live changes by other devices."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.errors import SenseMemoryError
from sense_memory.interfaces.cli.delivery import paused
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import JsonOption, flag
from sense_memory.interfaces.cli.invocation import ExitCode, no_relays, of, program, tell, with_options
from sense_memory.interfaces.cli.output import relay_data, told_by
from sense_memory.interfaces.cli.program import RELAYS, app
from sense_memory.interfaces.cli.search import embedder_in_use, embedder_sentence
from sense_memory.interfaces.cli.withheld import copies_line, found_lines, manifest_lines, trust_line
from sense_memory.interfaces.shapes import shape_of, shown_path, thing
from sense_memory.interfaces.text import age, as_json, local_time, one_line, quantity, quoted
from sense_memory.operating_system import on_end
from sense_memory.records.kinds import COUNTED


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.table import Table

    from sense_memory.interfaces.cli.search import EmbedderInUse
    from sense_memory.memories.status import RelayStatus, Status
    from sense_memory.mirror.decisions import MirrorReport
    from sense_memory.models import Change
    from sense_memory.relay.sync.reports import RelayReport, SyncReport
    from sense_memory.store import MemoryStore

LOCAL = "this machine: not a backup"
NOTHING_FOUND = "If you restored an agent, check whether this is its key, and whether this is its relay"


@app.command(
    rich_help_panel=RELAYS,
    epilog=ends(
        "sense-memory sync",
        "# Now and then: find what a relay has lost, and send it again:",
        "sense-memory sync --full",
        "# Once, after a relay's limits or rules have changed:",
        "sense-memory sync --retry-refused",
        codes={
            0: "every relay showed everything and holds everything",
            3: "at least one relay did not; the output says why",
        },
    ),
)
def sync(
    context: typer.Context,
    full: Annotated[
        bool,
        flag(
            "--full", text="Fetch every event from every relay again, and send again what a relay has lost."
        ),
    ] = False,
    retry_refused: Annotated[
        bool,
        flag(
            "--retry-refused",
            text="Send once more what relays refused, or did not accept for a week. Otherwise these events are not sent again.",
        ),
    ] = False,
    _json: JsonOption = False,
) -> None:
    """Bring the ledger and its relays in step now.

    Fetch and verify new events, then send the queued ones. If a relay fails, nothing is lost: its events stay queued
    here. An older version never replaces a newer one.

    `new` and `known` count the events that a relay showed; a relay that compares sets shows only what differs. `sent`
    counts what a relay accepted; it keeps fewer events, because a newer version replaces an older one there, and a
    deletion request its tombstone.
    """
    from sense_memory.interfaces.cli.tables import spinner

    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[SyncReport, Status, str, list[SceneOutbox]]:
        if not store.relays:
            raise no_relays()
        with spinner(f"asking {quantity(len(store.relays), 'relay')}"):
            report = await store.sync(full=full, retry_refused=retry_refused)
        scenes = [] if invocation.as_json else await scene_outboxes(store)
        return report, store.status(), await told_by(store, report), scenes

    report, status, lost, scenes = invocation.run(work, creates=True)
    in_step = report.in_step and all(relay.holds_all for relay in status.relays)
    if invocation.as_json:
        relays = [_round(relay, state) for relay, state in zip(report.relays, status.relays, strict=True)]
        typer.echo(as_json({**shape_of(report), "in_step": in_step, "relays": relays}))
    else:
        _print_rounds(report, status, lost, in_step=in_step)
        for scene in scenes:
            for line in _scene_lines(scene):
                tell(line)
    if not in_step:
        raise typer.Exit(ExitCode.NOT_REPLICATED)


@app.command(rich_help_panel=RELAYS, epilog=ends("sense-memory status", "sense-memory status --json"))
def status(context: typer.Context, _json: JsonOption = False) -> None:
    """Show whose memory this is, what is here, and what each relay holds.

    No relay is asked; `doctor` asks them. The table counts the memories and journal entries that each relay has shown,
    and those that it has only accepted. (A relay that compares sets does not show what is here already.) With an
    embedder, the output names the embedder and counts the memories that it has not read yet. Scenes have relays and
    queues of their own: the output names those whose events wait for a relay.
    """
    invocation = of(context)
    settings = invocation.settings()

    async def work(store: MemoryStore) -> tuple[Status, EmbedderInUse | None, list[SceneOutbox]]:
        return store.status(), await embedder_in_use(settings, store), await scene_outboxes(store)

    state, embedder, scenes = invocation.run(work)
    if invocation.as_json:
        result = _status(state, embedder)
        typer.echo(as_json({**result, "scenes": shape_of(scenes)}))
    else:
        _print_status(state, embedder, scenes)


# ── sync ────────────────────────────────────────────────────────────────────────────────


def outcome(relay: RelayReport, state: RelayStatus) -> str:
    """What a sync found at one relay, in words."""
    if relay.problem:
        return relay.problem
    found = [] if relay.pulled.complete else [f"incomplete: {', '.join(relay.pulled.reasons)}"]
    if relay.held_back:
        return "; ".join([*found, "nothing is sent until the relay has shown everything"])
    found += _broken_word(relay)
    if found or not state.holds_all:
        waits = [f"{reason} ({count:,})" for reason, count in relay.reasons.items()]
        return "; ".join([*found, *waits, *paused(state)]) or "not finished"
    same = "in step: nothing to send or fetch"
    return f"{same} ({LOCAL})" if state.is_local else same


def _broken_word(relay: RelayReport) -> list[str]:
    """The events and deletions that a relay accepted and does not honour."""
    found = []
    if relay.pulled.missing:
        lost = quantity(relay.pulled.missing, "event")
        then = "" if relay.waiting else "; sent again, and the next sync checks"
        found.append(f"{lost} that it had accepted {'is' if relay.pulled.missing == 1 else 'are'} gone{then}")
    if relay.serves_deleted:
        found.append("the relay still serves what was forgotten, although it accepted the deletion")
    return found


def _print_rounds(report: SyncReport, status: Status, lost: str, *, in_step: bool) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.tables import count_table, show

    rounds = list(zip(report.relays, status.relays, strict=True))
    rows = [(Text(relay.url), _counts(relay, state), (f"{relay.seconds:.1f} s",)) for relay, state in rounds]
    show(count_table("relay", rows, ("time",), always=("new", "known", "sent")))
    show(Text())
    is_whole = report.manifests.holds
    for relay, state in rounds:
        words = outcome(relay, state)
        if words.startswith("in step") and not is_whole:  # it may hold more than it shows
            words = words.replace("in step", "in step with what is here", 1)
        show(Text(f"{relay.url}: {one_line(words)}"))
    if lost:
        show(Text(lost))
    refused = _refusal(status)
    lacks_only_refused = refused and all(replace(relay, refused=0).in_step for relay in report.relays)
    if not in_step and not lacks_only_refused and is_whole:
        words = "Sync again when the cause is gone: not everything is in step. Nothing is lost; unsent events stay queued here."
        show(Text(words))
    if refused:
        show(Text(refused))
    for words in filter(None, (_trust(report, status), trust_line(report.trust))):
        show(Text(words))
    show(*(Text(line) for line in (*manifest_lines(report.manifests), *found_lines(report.found))))
    if report.complete and not status.counts["events"]:
        where = "the relay holds" if len(rounds) == 1 else "the relays hold"
        show(Text(f"{NOTHING_FOUND}: {where} nothing of {status.npub}, and neither does this ledger."))


def _trust(report: SyncReport, status: Status) -> str:
    """The warning that a first sync had a single relay to go by, with the remedy; empty if it had several."""
    if not (
        report.is_first and status.counts["events"] and sum(relay.complete for relay in report.relays) == 1
    ):
        return ""
    more = f"add one with `{program()} relays add wss://relay.example`, then sync again"
    if len(report.relays) > 1:
        more = "sync again when the others answer"
    return (
        "This ledger was empty, and one relay answered: everything that it shows is here, by trust on first use. A second "
        f"relay would show what this one has lost or left out; {more}."
    )


def _refusal(status: Status) -> str:
    """What relays refused for good, or did not accept for a week, with the remedy; empty if there is nothing."""
    states = ("refused", "parked")
    count = sum(relay.events.get(state, 0) for relay in status.relays for state in states)
    if not count:
        return ""
    told = f"{quantity(count, 'refused event')} {'is' if count == 1 else 'are'} not sent again"
    return (
        f"Once the limits or rules of the relay have changed, try `{program()} sync --retry-refused`: {told}."
    )


def _counts(relay: RelayReport, state: RelayStatus) -> dict[str, int | None]:
    """The numbers of one relay's round, by column; None where the relay was not reached and the number is not known."""
    waits = state.events.get("queued", 0) + state.events.get("parked", 0)
    if relay.problem and not (relay.served or relay.sent):
        unknown = dict.fromkeys(("new", "known", "other", "sent"))
        return {**unknown, "refused": state.events.get("refused", 0), "waiting": waits}
    other = sum(relay.served.values()) - relay.served.get("new", 0) - relay.served.get("known", 0)
    return {
        "new": relay.served.get("new", 0),
        "known": relay.served.get("known", 0),
        "other": other,
        "sent": relay.sent.get("accepted", 0),
        "refused": state.events.get("refused", 0),
        "waiting": waits,
    }


def _round(relay: RelayReport, state: RelayStatus) -> dict[str, Any]:
    found = {**shape_of(relay), "in_step": relay.in_step and state.holds_all}
    return relay_data(relay.url, state, problem=relay.problem, sync=found)


# ── status ──────────────────────────────────────────────────────────────────────────────


def survival(status: Status) -> str:
    """Whether the memory would survive the loss of this machine, in one sentence."""
    if status.is_replicated:
        relays = quantity(status.copies_elsewhere, "relay")
        verb = "says it holds" if status.copies_elsewhere == 1 else "say they hold"
        return (
            f"If this machine were lost, the memory would survive: {relays} elsewhere {verb} all of it. "
            "The key must be kept elsewhere too."
        )
    lost = "If this machine were lost, "
    if not status.relays:
        return f"{lost}the memory would be lost: no relays are configured."
    elsewhere = [relay for relay in status.relays if not relay.is_local]
    if not elsewhere:
        return f"{lost}the memory would be lost: its only relays are on this machine."
    if not any(relay.events.get("acked") or relay.events.get("confirmed") for relay in elsewhere):
        return (
            f"{lost}the memory would be lost: no relay elsewhere has any of it yet. Try `{program()} sync`."
        )
    return (
        f"{lost}a part of the memory would be lost: no relay elsewhere has all of it. Try `{program()} sync`."
    )


def _print_status(status: Status, embedder: EmbedderInUse | None, scenes: Sequence[SceneOutbox] = ()) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.tables import show

    counts = status.counts
    lines = [
        f"agent   {status.npub}",
        *([f"key     in a bunker, asked over {', '.join(status.bunker)}"] if status.bunker else []),
        f"ledger  {status.ledger}",
        f"holds   {kept(counts)}",
        f"        in {_events(counts)}",
    ]
    if counts["quarantined"]:
        waits = quantity(counts["quarantined"], "event")
        lines.append(f"        {waits} dated ahead of this clock; check the clocks")
    if counts["drafts"]:
        lines.append(f"        {quantity(counts['drafts'], 'draft')}, in no memory; see: {program()} drafts")
    if embedder is not None:
        how = "by words and meaning, embedder" if embedder.problem is None else "fails:"
        lines.append(f"search  {how} {embedder_sentence(embedder)}")
    for line in lines:
        tell(line, indent=8)
    if status.relays:
        show(Text(), _relay_table(status, time.time()))
        notes = [(relay.url, note) for relay in status.relays if (note := _note(relay))]
        show(*(Text(f"{url}: {one_line(note)}") for url, note in notes))
        if refused := _refusal(status):
            show(Text(refused))
    show(
        *(
            Text(line)
            for line in (*copies_line(status.copies, status.relays), *manifest_lines(status.manifests))
        )
    )
    show(*(Text(line) for scene in scenes for line in _scene_lines(scene)))
    show(Text(), Text(survival(status)))


@thing("scene outbox")
@dataclass(frozen=True, slots=True)
class SceneOutbox:
    """What a scene of the mind has not delivered.

    Attributes:
        id: of the scene.
        name: of the scene, for people.
        waiting: by relay, how many events wait for it.
        refused: by relay, how many events it refused for good.
        problem: why the scene could not be opened, or None.
    """

    id: str
    name: str
    waiting: dict[str, int]
    refused: dict[str, int]
    problem: str | None = None


async def scene_outboxes(store: MemoryStore) -> list[SceneOutbox]:
    """What the agent's scenes have not delivered; no relay is asked."""
    found = []
    if not store.status().counts["mind"]:
        return []
    for state in await store.mind.scenes.all(asks=False):
        try:
            async with store.mind.scenes.using(state.id) as scene:
                states = scene.outbox()
        except SenseMemoryError as error:
            found.append(SceneOutbox(state.id, state.name, {}, {}, with_options(error)))
            continue
        waiting = {url: waits for url, each in states.items() if (waits := each["queued"] + each["parked"])}
        refused = {url: each["refused"] for url, each in states.items() if each["refused"]}
        found.append(SceneOutbox(state.id, state.name, waiting, refused))
    return found


def _scene_lines(scene: SceneOutbox) -> Iterator[str]:
    name = f"scene {one_line(scene.name)}"
    if scene.problem:
        yield f"{name}: {one_line(scene.problem)}"
    for url, count in scene.waiting.items():
        waits = "waits" if count == 1 else "wait"
        remedy = f"{program()} mind scenes sync {quoted(scene.id)}"
        yield f"{name}: {quantity(count, 'event')} {waits} for {url}; to send: {remedy}"
    for url, count in scene.refused.items():
        yield f"{name}: {quantity(count, 'event')} refused by {url}"


def kept(counts: Mapping[str, int]) -> str:
    """The contents of a ledger: the number of memories and of journal entries."""
    memories = quantity(counts["heads"] - counts["entries"], "memory", "memories")
    return f"{memories} and {quantity(counts['entries'], 'journal entry', 'journal entries')}"


def _events(counts: Mapping[str, int]) -> str:
    """All events of the ledger, as a sum by kind."""
    parts = {
        "heads": f"{counts['heads']:,} current",
        **{name: quantity(counts[name], *kind.traits.counted) for name, kind in COUNTED.items()},
        "older": quantity(counts["older"], "older version"),
        "tombstones": f"{quantity(counts['tombstones'], 'tombstone')}",
        "deletions": quantity(counts["deletions"], "deletion request"),
        "quarantined": f"{counts['quarantined']:,} dated ahead",
    }
    events, told = quantity(counts["events"], "event"), [parts[name] for name in parts if counts[name]]
    return f"{events}: {', '.join(told)}" if len(told) > 1 else events


def _relay_table(status: Status, now: float) -> Table:
    from rich.text import Text

    from sense_memory.interfaces.cli.tables import count_table

    rows = []
    for relay in status.relays:
        counts = {
            "shown": relay.memories,
            "accepted": relay.promised,
            "waiting": relay.events.get("queued", 0) + relay.events.get("parked", 0),
            "refused": relay.events.get("refused", 0),
        }
        asked = "never" if relay.last_complete is None else age(relay.last_complete, now)
        note = LOCAL if relay.is_local else ""
        rows.append((Text(relay.url), counts, (asked, note)))
    return count_table("relay", rows, ("last pull", ""), always=("shown", "waiting"))


def _note(relay: RelayStatus) -> str:
    """Further remarks about a relay."""
    notes = [relay.problem] if relay.problem else []
    if relay.last_complete is None:
        notes.append("never showed everything, so the relay may have memories that are not here")
    notes += [f"{reason} ({count:,})" for reason, count in relay.reasons.items()]
    return "; ".join([*notes, *paused(relay), *relay.remarks])


def _status(status: Status, embedder: EmbedderInUse | None) -> dict[str, Any]:
    return {**shape_of(status), "embedder": shape_of(embedder), "summary": survival(status)}


_KEEPS_TEXT = ("linked", "changed")
_EXCERPT_CHARS = 80
_PATH_CHARS = 60
_ID_CHARS = 8  # of an id, enough for `journal --remove`


@app.command(
    rich_help_panel=RELAYS,
    epilog=ends(
        "sense-memory watch",
        "# Do something with each change:",
        'sense-memory --json watch | while read -r change; do echo "$change"; done',
        "# In a script, wait for one change, a minute at most:",
        "sense-memory watch --count 1 --seconds 60",
        codes={0: "ended by Ctrl-C, --count or --seconds"},
    ),
)
def watch(
    context: typer.Context,
    *,
    count: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", show_default=False, help="End after N changes."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0, metavar="S", show_default=False, help="End after S seconds."),
    ] = None,
    _json: JsonOption = False,
) -> None:
    """Show changes as other devices and other programs on this machine make them, until Ctrl-C.

    Changes that this agent's other devices made since the last sync come first. "linked" and "changed" mean palace
    memories whose text stayed the same. With --json, every change is one line of JSON. stderr names the relays, and
    says when a connection is lost or regained.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> None:
        watching = asyncio.create_task(_show(store, count, as_json=invocation.as_json))
        mirroring = asyncio.create_task(store.mirror.follow(_say_mirrored))
        on_end(asyncio.get_running_loop(), watching.cancel)
        await asyncio.wait([watching], timeout=seconds)
        for task in (watching, mirroring):
            task.cancel()
        for ended in await asyncio.gather(watching, mirroring, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    invocation.run(work, creates=True)


async def _show(store: MemoryStore, count: int | None, *, as_json: bool) -> None:
    where = quantity(len(store.relays), "relay") if store.relays else "no relay: none is configured"
    changes = store.watch(on_relay=_Relays().say)
    typer.echo(f"watching other programs on this machine, and {where}; Ctrl-C ends it", err=True)
    left = count
    async for change in changes:
        typer.echo(json_line(change) if as_json else line(change))  # flushes
        left = None if left is None else left - 1
        if left == 0:
            return


def _say_mirrored(report: MirrorReport) -> None:
    """Report what became of a mirrored folder."""
    for step in report.steps:
        note = f" ({step.note})" if step.note else ""
        typer.echo(f"{one_line(report.folder)}: {step.what} {one_line(step.name)}{one_line(note)}", err=True)
    if report.problem:
        typer.echo(f"{one_line(report.folder)}: {one_line(report.problem)}", err=True)


class _Relays:
    """The last report about each relay."""

    def __init__(self) -> None:
        self._was_live: dict[str, bool] = {}

    def say(self, url: str, problem: str) -> None:
        """Report the state of one relay."""
        was_live = self._was_live.get(url)
        self._was_live[url] = not problem
        if not problem:
            words = "connected" if was_live is None else "connected again"
        else:
            words = f"lost: {one_line(problem)}" if was_live else one_line(problem)
        typer.echo(f"{url}: {words}", err=True)


def line(change: Change) -> str:
    """A change for a person: when, where, what, and the beginning of the text."""
    words = "written" if change.kind == "journal" else change.kind.value
    if change.kind in _KEEPS_TEXT:
        words += ", with the same text"
    elif change.value is not None:
        cut = "…" if len(change.value) > _EXCERPT_CHARS else ""
        words += f": {one_line(change.value, _EXCERPT_CHARS)}{cut}"
    if change.superseded_by is not None:
        words = f"superseded by {one_line(change.superseded_by)}"
    if change.conflict_of is not None:
        words = f"conflict copy of {one_line(change.conflict_of)}, {words}"
    path = one_line(shown_path(change.path))
    if path == f"journal/{change.key}":
        path = path[: len("journal/") + _ID_CHARS]
    elif len(path) > _PATH_CHARS:
        path = f"{path[: _PATH_CHARS - 1]}…"
    return f"{local_time(change.created_at)}  {path}  {words}"


def json_line(change: Change) -> str:
    """A change for a program, on one line."""
    return as_json(shape_of(change), indent=None)
