"""`doctor`: a table of checks, each ok, doubtful or broken.

The checks cover key, ledger, embedder, relays, the events on relays, the log, and the clock, and change nothing. A check
returns findings and never raises for the problem that it looks for. What a relay says about itself is data.
"""

from __future__ import annotations

import asyncio
import stat
import time
import warnings
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import RelayError, SenseMemoryError
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import JsonOption, flag
from sense_memory.interfaces.cli.invocation import (
    ExitCode,
    Invocation,
    ask_to_approve,
    of,
    password_prompt,
    program,
    signer_of,
    with_options,
    with_store,
)
from sense_memory.interfaces.cli.output import relay_data
from sense_memory.interfaces.cli.program import SETUP, app
from sense_memory.interfaces.cli.search import embedder_in_use, embedder_sentence
from sense_memory.interfaces.cli.sync import LOCAL, NOTHING_FOUND, kept, survival
from sense_memory.interfaces.cli.withheld import manifest_lines
from sense_memory.interfaces.shapes import shape_of, thing
from sense_memory.interfaces.text import age, as_json, local_time, one_line, quantity


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.config.settings import Settings
    from sense_memory.interfaces.cli.invocation import Invocation
    from sense_memory.interfaces.cli.search import EmbedderInUse
    from sense_memory.ledger.rescue import RescueReport
    from sense_memory.memories.status import RelayStatus, Status
    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.client.nip11 import RelayInformation
    from sense_memory.relay.sync.holdings import Holding


@app.command(
    rich_help_panel=SETUP,
    epilog=ends(
        "sense-memory doctor",
        "# For one relay, before it is configured:",
        "sense-memory doctor --relay wss://relay.example",
        codes={0: "nothing is broken; look at the warnings", 1: "something is broken"},
    ),
)
def doctor(
    context: typer.Context,
    rescue: Annotated[
        bool,
        flag(
            "--rescue",
            text="Replace a damaged ledger by what can still be read of it. The damaged file is kept beside the new one.",
        ),
    ] = False,
    _json: JsonOption = False,
) -> None:
    """Check key, ledger, embedder, relays and clock, and what each relay holds, and say what to do.

    Each relay is asked what it holds. The answer is compared with the ledger: exactly (NIP-77), by numbers
    (NIP-45), or not at all if the relay supports neither. Without --rescue nothing is fetched, sent or changed.
    """
    from sense_memory.interfaces.cli.tables import spinner

    invocation = of(context)
    rescued = asyncio.run(_rescue(invocation)) if rescue else None
    with spinner("checking"):
        found = asyncio.run(examine(invocation))
    ok = all(check.state is not CheckState.FAIL for check in found.checks)
    if invocation.as_json:
        result = {
            "ok": ok,
            "checks": shape_of(found.checks),
            "relays": [_relay(relay) for relay in found.relays],
            "embedder": shape_of(found.embedder),
            "rescued": shape_of(rescued),
        }
        typer.echo(as_json(result))
    else:
        if rescued is not None:
            typer.echo(_summary(rescued))
        _print(found.checks)
    if not ok:
        raise typer.Exit(ExitCode.ERROR)


def _relay(found: RelayFindings) -> dict[str, Any]:
    holding = None if found.holding is None else shape_of(found.holding)
    return relay_data(found.url, found.status, problem=found.problem, holding=holding)


async def _rescue(invocation: Invocation) -> RescueReport:
    from sense_memory.config.settings import ledger_path
    from sense_memory.store import MemoryStore

    settings = invocation.settings()
    signer = signer_of(settings)
    path = settings.ledger or ledger_path(settings.home, signer.public_key)
    return await MemoryStore(signer, ledger=path).rescue()


def _summary(rescued: RescueReport) -> str:
    saved = quantity(sum(rescued.counts.values()), "event")
    drafts = f" and {quantity(rescued.drafts, 'draft')}" if rescued.drafts else ""
    return (
        f"Saved {saved}{drafts}; {rescued.unreadable:,} could not be read. "
        f"The damaged file is kept: {rescued.aside}\n"
        f"Run `{program()} sync --full`: relays give back what they have.\n"
    )


def _print(checks: Sequence[Check]) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.tables import plain_table, show

    styles = {CheckState.OK: "green", CheckState.WARN: "yellow", CheckState.FAIL: "bold red"}
    table = plain_table("check", "", "finding")
    for check in checks:
        table.add_row(
            Text(f"  {HOLDS}" if check.name.startswith(HOLDS) else check.name),
            Text(check.state.value, styles[check.state]),
            Text(one_line(check.finding)),
        )
    show(table)


LARGEST_EVENT_BYTES: Final = 65_536  # of JSON around a memory of MAX_PLAINTEXT_BYTES, in the worst case
LARGEST_CONTENT_CHARS: Final = 54_704  # base64 of such a memory, sealed (NIP-44)
FRAME_BYTES: Final = 10  # `["EVENT",]` around it
HOLDS: Final = "holds "  # begins the name of the check of a relay's events; the URL follows
OPEN_SECONDS: Final = 5.0
DOUBT_SECONDS: Final = 2.0  # for a relay that may not know the request
CLOSE_SECONDS: Final = 1.0
CLOCK_SLACK_SECONDS: Final = 300
NAMED_COUNT: Final = 3  # records dated ahead that are named
NO_EARLIER: Final = 1_735_689_600  # 2025-01-01: before it, this program did not exist


class CheckState(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@thing("check")
@dataclass(frozen=True, slots=True)
class Check:
    """One line of the table.

    Attributes:
        name: of the check.
        state: how it ended.
        finding: what was found, and what to do.
    """

    name: str
    state: CheckState
    finding: str


@dataclass(frozen=True, slots=True)
class RelayFindings:
    """The findings about a relay.

    Attributes:
        url: the address of the relay.
        problem: why the relay cannot be reached, or empty.
        status: as the ledger knows the relay; None where there is no ledger.
        holding: what the relay says it holds; None where it was not asked.
    """

    url: str
    problem: str
    status: RelayStatus | None
    holding: Holding | None


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of `doctor`.

    Attributes:
        checks: in the order they are shown.
        relays: all configured relays.
        embedder: the embedder in use, or None.
    """

    checks: tuple[Check, ...]
    relays: tuple[RelayFindings, ...]
    embedder: EmbedderInUse | None


async def examine(invocation: Invocation) -> Findings:
    """Check everything."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settings = invocation.load()
        key, signer = check_key(settings)
    found = [key, *(Check("settings", CheckState.WARN, str(warning.message)) for warning in caught)]
    status, embedder = None, None
    bunker = None if signer is None else await check_bunker(signer)
    found += [bunker] if bunker is not None else []
    if signer is not None and (bunker is None or bunker.state is CheckState.OK):
        checks, status = await check_ledger(settings, signer)
        found += checks
        embedder = await with_store(
            _there(settings, status), signer, lambda store: embedder_in_use(settings, store)
        )
    if embedder is not None:
        found.append(check_embedder(embedder))
    if not settings.relays:
        found.append(
            Check("relays", CheckState.WARN, "no relays are configured: everything is on this machine only")
        )
    lines = {relay.url: relay for relay in status.relays} if status else {}
    relays, held = await asyncio.gather(
        asyncio.gather(*(check_relay(url, lines.get(url)) for url in settings.relays)),
        ask_relays(settings, signer, status),
    )
    holdings = {holding.url: holding for holding in held}
    for check in relays:
        found.append(check)
        if check.state is not CheckState.FAIL and check.name in holdings:
            found.append(check_holding(holdings[check.name], kept(status.counts) if status else ""))
    if status is not None and settings.relays:
        found.append(
            Check("backup", CheckState.OK if status.is_replicated else CheckState.WARN, survival(status))
        )
    if status is not None and (log := check_log(status)) is not None:
        found.append(log)
    if status is not None:
        found += check_manifests(status)
    found += check_hooks(settings, time.time())
    found.append(check_clock(status, time.time()))
    problems = {check.name: check.finding for check in relays if check.state is CheckState.FAIL}
    findings = (
        RelayFindings(url, problems.get(url, ""), lines.get(url), holdings.get(url))
        for url in settings.relays
    )
    return Findings(tuple(found), tuple(findings), embedder)


def check_key(settings: Settings) -> tuple[Check, Signer | None]:
    """Check the key: its source, and who could read it."""
    from sense_memory.nostr.keys import npub
    from sense_memory.signers.agent_signer import find_signer

    try:
        signer, place = find_signer(settings, ask_password=password_prompt(), on_auth_url=ask_to_approve)
    except SenseMemoryError as error:
        return Check("key", CheckState.FAIL, with_options(error)), None
    shown = f", mode {_mode(settings.key_file):04o}" if place.endswith(str(settings.key_file)) else ""
    return Check("key", CheckState.OK, f"{npub(signer.public_key)}, from {place}{shown}"), signer


async def check_bunker(signer: Signer) -> Check | None:
    """Check whether the bunker that holds the key answers; None where the key is on this machine."""
    from sense_memory.signers.remote_signer import RemoteSigner

    if not isinstance(signer, RemoteSigner):
        return None
    begun = time.monotonic()
    try:
        await signer.ping()
    except SenseMemoryError as error:
        return Check("bunker", CheckState.FAIL, with_options(error))
    finally:
        await signer.disconnect()
    relays = ", ".join(signer.account.relays)
    took = f"{time.monotonic() - begun:.1f} s"
    return Check(
        "bunker",
        CheckState.OK,
        f"answered in {took} over {relays}; it knows this client as {signer.client_npub}",
    )


async def check_ledger(settings: Settings, signer: Signer) -> tuple[list[Check], Status | None]:
    """Check the ledger: the file, who could read it, and whether every event still verifies."""
    from sense_memory.config.settings import ledger_path
    from sense_memory.store import MemoryStore

    path = settings.ledger or ledger_path(settings.home, signer.public_key)
    if not path.exists():
        return [Check("ledger", CheckState.OK, f"{path} does not exist yet; the first memory makes it")], None
    mode = _mode(path)
    try:
        async with MemoryStore(signer, settings.relays, ledger=path, background=False) as store:
            status, problems = store.status(), store.integrity()
    except SenseMemoryError as error:
        return [Check("ledger", CheckState.FAIL, with_options(error, settings.agent))], None
    held = quantity(status.counts["events"], "event")
    checks = [Check("ledger", CheckState.FAIL, f"{path}: {problem}") for problem in problems[:10]]
    if not checks:
        checks = [Check("ledger", CheckState.OK, f"{path}, {held}, all sound, mode {_mode(path):04o}")]
    if mode & 0o077:
        checks.append(
            Check(
                "ledger",
                CheckState.WARN,
                f"others could read the ledger (mode {mode:04o}); the mode is 0600 now",
            )
        )
    return checks, status


def check_manifests(status: Status) -> list[Check]:
    """Check whether everything is here that the manifests of other devices name; nothing if they name nothing."""
    state = CheckState.WARN if status.manifests.is_alarming else CheckState.OK
    return [Check("manifests", state, line) for line in manifest_lines(status.manifests)]


def _there(settings: Settings, status: Status | None) -> Settings:
    """The settings, with a ledger in memory where there is no readable ledger file."""
    return settings if status is not None else replace(settings, ledger=Path(":memory:"))


def check_hooks(settings: Settings, now: float) -> list[Check]:
    """What went wrong in hooks of agent harnesses since they last ran well; nothing if nothing did."""
    from sense_memory.interfaces.harness.hook_log import failures

    found = {failure.hook: failure for failure in failures(settings.home)}
    return [
        Check("hooks", CheckState.WARN, f"{failure.hook}, {age(failure.at, now)}: {failure.problem}")
        for failure in found.values()
    ]


def check_embedder(found: EmbedderInUse) -> Check:
    """Check whether the embedder can be used, and has read everything."""
    state = CheckState.WARN if found.without_vectors else CheckState.OK
    return Check("embedder", CheckState.FAIL if found.problem else state, embedder_sentence(found))


async def check_relay(url: str, line: RelayStatus | None) -> Check:
    """Check whether a relay can be reached, its limits, and what the ledger knows of it."""
    from sense_memory.relay.client.nip11 import relay_information
    from sense_memory.relay.client.websocket import open_socket

    try:
        socket = await open_socket(url, OPEN_SECONDS, CLOSE_SECONDS)
    except RelayError as error:
        return Check(url, CheckState.FAIL, error.problem)
    await socket.hang_up(CLOSE_SECONDS)
    information = await relay_information(url)
    facts, problems = _facts(information), _obstacles(information)
    if line is not None:
        if line.is_local:
            facts.append(LOCAL)
        if line.last_complete is None:
            problems.append(f"never showed everything: run `{program()} sync`")
        else:
            facts.append(f"last complete pull {age(line.last_complete, time.time())}")
        problems += [f"{reason} ({count:,})" for reason, count in line.reasons.items()]
        problems += line.remarks
    state = CheckState.WARN if problems else CheckState.OK
    return Check(url, state, "; ".join([*problems, "reachable", *facts]))


async def ask_relays(settings: Settings, signer: Signer | None, status: Status | None) -> list[Holding]:
    """Check what each relay holds; no checks where there is no ledger to compare with."""
    from sense_memory.relay.client.actions import Timeouts
    from sense_memory.store import MemoryStore

    if signer is None or status is None or not settings.relays:
        return []
    patience = Timeouts(open=OPEN_SECONDS, idle=OPEN_SECONDS, notice_settle=DOUBT_SECONDS)
    options: dict[str, Any] = {"ledger": status.ledger, "background": False, "timeouts": patience}
    try:
        async with MemoryStore(signer, settings.relays, **options) as store:
            return await store.relays.holdings()
    except SenseMemoryError:
        return []  # the check of the ledger has reported the error


def check_holding(holding: Holding, memories: str = "") -> Check:
    """What one relay holds, in words, and what to do.

    Args:
        holding: what the relay says it holds.
        memories: the memories in the events here, in the words of `status`; the relay has them if it lacks none of
            the events.
    """
    from sense_memory.relay.sync.holdings import Holding, Method

    state, finding = CheckState.OK, ""
    here = quantity(holding.here, "event")
    match holding:
        case Holding(there=None, problem=str(problem)) | Holding(here=0, there=0, problem=str(problem)) if (
            problem
        ):
            state, finding = CheckState.WARN, f"could not be asked what it holds: {problem}"
        case Holding(problem=str(problem)) if problem:
            rest = check_holding(replace(holding, problem=""))
            state, finding = CheckState.WARN, f"{rest.finding}; {problem}"
        case Holding(method=Method.NEGENTROPY, here=0, missing_here=0) | Holding(here=0, there=0):
            state = CheckState.WARN
            finding = f"{NOTHING_FOUND}: it says it holds nothing of this key"
        case Holding(method=Method.NEGENTROPY, missing_there=0, missing_here=0):
            what = f"{memories}, in " if memories else ""
            belong = "belongs" if holding.here == 1 else "belong"
            finding = f"says it holds {what}the {here} that {belong} there, exactly"
        case Holding(method=Method.NEGENTROPY):
            lacks = f"lacks {holding.missing_there:,} of the {here} here" if holding.missing_there else ""
            more = f"holds {holding.missing_here:,} that are not here" if holding.missing_here else ""
            state = CheckState.WARN
            finding = f"says it {' and '.join(filter(None, (lacks, more)))}: run `{program()} sync`"
        case Holding(method=Method.COUNT, there=int(there), missing_there=0, missing_here=0):
            finding = f"counts {there:,} events, as many as belong there (numbers only)"
        case Holding(method=Method.COUNT, there=int(there), missing_there=0):
            more = f"at least {holding.missing_here:,} more than belong there: older versions, another program's, or new"
            finding = f"counts {there:,} events, {more} (numbers only)"
        case Holding(method=Method.COUNT, there=int(there)):
            lacks = f"at least {holding.missing_there:,} of the {here} here are missing"
            state, finding = (
                CheckState.WARN,
                f"counts {there:,} events, {lacks}: run `{program()} sync --full`",
            )
        case _:
            finding = (
                f"can neither compare nor count (NIP-77, NIP-45): only `{program()} sync --full` "
                f"shows whether it has the {here} here"
            )
    return Check(f"{HOLDS}{holding.url}", state, finding)


def _facts(information: RelayInformation | None) -> list[str]:
    if information is None:
        return ["says nothing about itself (NIP-11)"]
    name = " ".join(part for part in (information.software, information.version) if part)
    told = [
        information.name,
        name,
        f"NIPs {' '.join(map(str, information.supported_nips))}" if information.supported_nips else None,
        f"messages up to {information.max_message_length:,} bytes"
        if information.max_message_length
        else None,
        "asks for authentication" if information.auth_required else None,
    ]
    return [fact for fact in told if fact]


def _obstacles(information: RelayInformation | None) -> list[str]:
    """Limits in a relay's information document that would keep some memories out."""
    if information is None:
        return []
    found = []
    message, content = information.max_message_length, information.max_content_length
    if message is not None and message < LARGEST_EVENT_BYTES + FRAME_BYTES:
        found.append(
            f"refuses long memories: takes messages of {message:,} bytes at most, and our largest event has "
            f"{LARGEST_EVENT_BYTES:,}"
        )
    elif content is not None and content < LARGEST_CONTENT_CHARS:
        found.append(
            f"refuses long memories: takes contents of {content:,} characters at most, and our largest has "
            f"{LARGEST_CONTENT_CHARS:,}"
        )
    if information.min_pow_difficulty:
        found.append("refuses everything: asks for proof of work, which this client does not do")
    if information.payment_required:
        found.append("serves paying customers only")
    return found


def check_clock(status: Status | None, now: float) -> Check:
    """Check whether this clock can be right, going by the dates in the ledger."""
    if now < NO_EARLIER:
        return Check(
            "clock",
            CheckState.FAIL,
            f"this clock reads {local_time(now)}, years behind, and would date memories wrongly; set it",
        )
    found = _dated_ahead(status) if status else []
    if found:
        return Check("clock", CheckState.WARN, f"reads {local_time(now)}; {'; '.join(found)}")
    return Check("clock", CheckState.OK, f"reads {local_time(now)}, and nothing here is dated later")


def _dated_ahead(status: Status) -> list[str]:
    """What the ledger holds that is dated later than this clock allows."""
    found = []
    if waiting := status.counts["quarantined"]:
        verb = "is" if waiting == 1 else "are"
        found.append(
            f"{quantity(waiting, 'event')} from another device {verb} dated more than "
            f"{CLOCK_SLACK_SECONDS // 60} min later: check the clocks of both"
        )
    if ahead := status.dated_ahead:
        latest = sorted(ahead, key=lambda name: (-ahead[name], name))
        named = ", ".join(f"{name} ({local_time(ahead[name])})" for name in latest[:NAMED_COUNT])
        more = f" and {len(ahead) - NAMED_COUNT:,} more" if len(ahead) > NAMED_COUNT else ""
        found.append(
            f"{quantity(len(ahead), 'record')} {'has' if len(ahead) == 1 else 'have'} a date that this clock has not "
            f"reached: {named}{more}. If the clock is right now, wait for that date: until then a record can be neither sent "
            "nor edited. The log continues in new pages"
        )
    return found


def check_log(status: Status) -> Check | None:
    """Check whether each entry of the log is in a page; None if so."""
    if not status.unflushed:
        return None
    verb = "is" if status.unflushed == 1 else "are"
    finding = f"{quantity(status.unflushed, 'entry', 'entries')} {verb} in no page yet, and so on no relay"
    return Check("log", CheckState.WARN, f"{finding}: run `{program()} sync`")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
