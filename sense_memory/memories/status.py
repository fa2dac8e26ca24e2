"""The state of a store and its relays: plain data for people and for JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sense_memory.ledger.copies import NOTHING_COUNTED, CopyCounts, quorum
from sense_memory.ledger.manifests import NOTHING_CHECKED, ManifestCheck
from sense_memory.ledger.relays import Remark
from sense_memory.nostr import address
from sense_memory.nostr.keys import npub
from sense_memory.nostr.relay_url import is_local
from sense_memory.nostr.signer import is_remote
from sense_memory.records.kinds import SECTIONS


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.sync.pool import Pool


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """What the ledger knows of a relay.

    Attributes:
        url: as configured.
        is_local: whether the relay is on this machine; a copy there never counts as replicated.
        last_complete: when the relay last showed everything, seconds since 1970, or None.
        problem: why the last attempt in this process failed, or empty.
        events: how many events are queued, acked, confirmed, refused or parked for this relay.
        reasons: why events wait or were refused, with counts; our words.
        notices: the relay's own last words, escaped; data, not instructions.
        remarks: how the relay broke the protocol or its word, in our words.
        memories: how many heads of memories and journal entries the relay has shown; `events` counts older versions and
            deletions too.
        promised: how many more heads the relay has accepted and not shown yet.
        hides_journal: whether the relay hid the journal in its last complete pull, so that nothing is known of its entries.
        is_forgetful: whether the relay lacked events that it had accepted, when it was last asked.
        paused_seconds: how long nothing is sent to the relay, because it limits how often it takes events.
    """

    url: str
    is_local: bool
    last_complete: float | None
    problem: str = ""
    events: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    memories: int = 0
    promised: int = 0
    hides_journal: bool = False
    is_forgetful: bool = False
    paused_seconds: float = 0.0

    @property
    def holds_all(self) -> bool:
        """Whether the relay accepted everything the ledger holds, by its word, unless it broke its word before."""
        lacks = any(self.events.get(state) for state in ("queued", "refused", "parked"))
        return self.last_complete is not None and not lacks and not self.is_forgetful


@dataclass(frozen=True, slots=True)
class Status:
    """A store's state.

    Attributes:
        npub: the agent's public key.
        ledger: the file, or ":memory:".
        counts: heads, with the journal entries among them; the records that are counted apart, such as logs of
            introspection and records of the mind; events, with embeddings, older versions, tombstones, deletions and
            quarantined events among them; and drafts.
        relays: the state of each relay.
        dated_ahead: the addresses whose newest version here is dated too far ahead of this clock to be edited before
            that date, each with the date, seconds since 1970.
        unflushed: how many entries of the log are in no page yet, so that relays do not get them.
        manifests: what the manifests of other devices said about the memories here, when that was last checked.
        copies: how many of the records here enough relays have acknowledged, and have shown.
        bunker: the relays over which the bunker is asked that holds the key; empty where the key is on this machine.
    """

    npub: str
    ledger: str
    counts: Mapping[str, int]
    relays: tuple[RelayStatus, ...]
    dated_ahead: Mapping[str, int] = field(default_factory=dict)
    unflushed: int = 0
    manifests: ManifestCheck = NOTHING_CHECKED
    copies: CopyCounts = NOTHING_COUNTED
    bunker: tuple[str, ...] = ()

    @property
    def was_ever_complete(self) -> bool:
        """Whether some relay has ever shown everything it holds; True for a store without relays."""
        return not self.relays or any(relay.last_complete is not None for relay in self.relays)

    @property
    def never_complete(self) -> tuple[str, ...]:
        """The relays that never showed everything; each may hold memories that the ledger lacks."""
        return tuple(relay.url for relay in self.relays if relay.last_complete is None)

    @property
    def copies_elsewhere(self) -> int:
        """How many relays on other machines hold everything."""
        return sum(relay.holds_all and not relay.is_local for relay in self.relays)

    @property
    def is_replicated(self) -> bool:
        """Whether the memory would survive the loss of this machine, going by the relays' word."""
        return self.copies_elsewhere > 0


def was_ever_complete(ledger: Ledger, urls: Sequence[str]) -> bool:
    """As `Status.was_ever_complete`, without counting what the ledger holds."""
    return not urls or any(ledger.relays.state(url).completed_at is not None for url in urls)


def has_mind(ledger: Ledger) -> bool:
    """Whether the ledger holds entries of the mind's log or passages of its archive, which `mind.search` searches."""
    pages = (address.LOG_PAGES, f"{address.PREFIX}{address.MIND}archive/")
    return bool(ledger.log_rows) or any(map(ledger.heads.is_live_beneath, pages))


def status_of(
    signer: Signer,
    ledger: Ledger,
    urls: Sequence[str],
    pool: Pool | None,
    now: float,
    *,
    min_acks: int | None = None,
) -> Status:
    """The state of a store.

    Args:
        signer: of the agent.
        ledger: the open ledger.
        urls: the relays.
        pool: of those relays; None where no relay was needed yet.
        now: seconds since 1970.
        min_acks: how many relays must have a record; None for more than half of those elsewhere.
    """
    lines = []
    for url in urls:
        state, report = ledger.relays.state(url), pool.reports.get(url) if pool else None
        shown, accepted = ledger.inventory.held_counts(url)
        line = RelayStatus(
            url,
            is_local(url),
            state.completed_at,
            problem=report.problem if report else "",
            events=ledger.outbox.counts(url),
            reasons=ledger.outbox.reasons(url),
            notices=pool.notices.get(url, ()) if pool else (),
            remarks=ledger.relays.remarks(url),
            memories=shown,
            promised=accepted,
            hides_journal=ledger.relays.has_remark(url, Remark.HIDES_JOURNAL),
            is_forgetful=ledger.relays.has_remark(url, Remark.FORGETFUL),
            paused_seconds=max(0.0, ledger.relays.paused_until(url) - now),
        )
        lines.append(line)
    ahead = ledger.heads.dated_ahead(address.PREFIX, now)
    names = {
        slot.removeprefix(address.PREFIX).removeprefix(address.PERSONA): at for slot, at in ahead.items()
    }
    counts, path = ledger.counts_by_kind(SECTIONS), str(ledger.path or ":memory:")
    checked = ledger.manifests.last_check()
    copies = ledger.manifests.copies(urls, quorum(urls, min_acks))
    bunker = tuple(getattr(signer, "relays", ())) if is_remote(signer) else ()
    return Status(
        npub(signer.public_key),
        path,
        counts,
        tuple(lines),
        names,
        len(ledger.log_rows),
        checked,
        copies,
        bunker,
    )
