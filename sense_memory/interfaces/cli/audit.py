"""`audit`: what each relay holds of what it should, and beside that; and how to mend it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from sense_memory.interfaces.cli.inputs import flag
from sense_memory.interfaces.cli.invocation import ExitCode, no_relays, program
from sense_memory.interfaces.cli.operations import operation
from sense_memory.interfaces.cli.program import RELAYS, app
from sense_memory.interfaces.cli.withheld import manifest_lines
from sense_memory.interfaces.shapes import thing
from sense_memory.interfaces.text import one_line, quantity


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sense_memory.ledger.manifests import ManifestCheck
    from sense_memory.relay.sync.audit import RelayAudit
    from sense_memory.store import MemoryStore


@thing("audit")
@dataclass(frozen=True, slots=True)
class AuditFindings:
    """What an audit found, and what healing changed.

    Attributes:
        sound: whether every relay showed everything, lacks nothing, and has no older versions and nothing that was deleted.
        relays: what each relay holds; after healing, what it holds now.
        before: the same before healing; null where nothing was healed.
        plan: what healing does, or would do, in sentences.
        manifests: what the manifests of other devices say about the memories here.
    """

    sound: bool
    relays: Sequence[RelayAudit]
    before: Sequence[RelayAudit] | None
    plan: Sequence[str]
    manifests: ManifestCheck


def _show(found: AuditFindings, _given: Any) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.tables import count_table, show

    rows: list[Any] = []
    for relay in found.relays:
        counts = {
            "held": relay.held,
            "missing": relay.missing,
            "not kept": relay.lost,
            "stale": relay.stale,
            "undeleted": relay.undeleted,
            "extra": relay.extra,
        }
        rows.append((Text(relay.url), counts, (_method(relay),)))
    if rows:
        show(count_table("relay", rows, ("read by",), always=("held", "missing")))
    for relay in found.relays:
        if not relay.complete:
            show(Text(f"{relay.url}: incomplete: {one_line(', '.join(relay.reasons))}"))
    lines = [*found.plan, *manifest_lines(found.manifests)]
    if lines:
        show(Text(), *(Text(line) for line in lines))
    if found.before is None and found.plan:
        show(Text(f"To do this: {program()} audit --heal"))


def _method(relay: RelayAudit) -> str:
    words = {"negentropy": "comparison, with a sample", "pages": "reading everything", "none": "not asked"}
    return words[relay.method.value]


def _plan(relays: Sequence[RelayAudit]) -> Iterator[str]:
    """What healing does at each relay."""
    for relay in relays:
        if not relay.complete:
            yield f"{relay.url}: ask again for everything"
        if relay.missing:
            lost = f", {relay.lost:,} of them once accepted there" if relay.lost else ""
            yield f"{relay.url}: send {quantity(relay.missing, 'event')}{lost}"
        if relay.undeleted:
            yield f"{relay.url}: ask again to delete {quantity(relay.undeleted, 'event')}"
        if relay.extra:
            yield f"{relay.url}: fetch {quantity(relay.extra, 'event')}, unless they are of another program"


def _progress() -> Callable[[str, int], None]:
    """A line on stderr that counts, if stderr is a terminal."""
    counts: dict[str, int] = {}

    def tell(url: str, count: int) -> None:
        counts[url] = count
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{sum(counts.values()):,} events read of {quantity(len(counts), 'relay')} ")
            sys.stderr.flush()

    return tell


@operation(
    app,
    "audit",
    "sense-memory audit",
    "# Read every event, whatever a relay claims to hold:",
    "sense-memory audit --full",
    "# Send what relays lack, ask again for deletions, then look again:",
    "sense-memory audit --heal",
    codes={0: "every relay holds what it should, and nothing older", 3: "at least one does not"},
    panel=RELAYS,
    shows=_show,
    ends_with=lambda found: 0 if found.sound and found.manifests.holds else ExitCode.NOT_REPLICATED,
)
async def audit(
    store: MemoryStore,
    *,
    full: Annotated[bool, flag("--full", text="Read every event of every relay; slower, and proof.")] = False,
    heal: Annotated[
        bool,
        flag(
            "--heal",
            text="Send what is missing, ask again for deletions, fetch what is new; then audit again.",
        ),
    ] = False,
    dry_run: Annotated[bool, flag("--dry-run", text="With --heal: only show the plan.")] = False,
    accept_losses: Annotated[
        bool,
        flag(
            "--accept-losses",
            text="Expect no longer what manifests name and no relay shows; those manifests are forgotten.",
        ),
    ] = False,
) -> AuditFindings:
    """Show what each relay holds of what it should, and what it holds beside that.

    held: of the events that belong there. missing: of these, what it lacks. not kept: of the missing, what it had accepted.
    stale: older versions of what is here. undeleted: what it still has although it accepted the deletion. extra: what is
    not here, new or of another program. A relay that compares sets (NIP-77) must serve a sample of what it claims; any
    other is read page by page. Without --heal and --accept-losses nothing is changed.
    """
    if not store.relays:
        raise no_relays()
    before: list[RelayAudit] | None = None
    found = await store.relays.audit(full=full, progress=_progress())
    plan = list(_plan(found))
    if heal and not dry_run:
        before = found
        report = await store.sync(full=True)
        if report.complete:
            await store.relays.write_manifest()
        found = await store.relays.audit(full=full, progress=_progress())
    if accept_losses and not dry_run:
        await store.relays.accept_losses()
        await store.sync()
    sound = all(relay.is_sound for relay in found)
    return AuditFindings(sound, found, before, plan, store.status().manifests)
