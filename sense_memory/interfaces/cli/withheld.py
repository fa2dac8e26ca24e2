"""What manifests, and relays that agree or do not, say about completeness: the sentences of `sync`, `status`, `doctor`, `audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.interfaces.cli.invocation import program
from sense_memory.interfaces.text import one_line, quantity


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sense_memory.ledger.copies import CopyCounts
    from sense_memory.ledger.manifests import ManifestCheck
    from sense_memory.memories.status import RelayStatus
    from sense_memory.relay.sync.reports import FirstTrust


def manifest_lines(check: ManifestCheck) -> list[str]:
    """What the manifests of other devices say about the memories here; nothing if they name none."""
    return [*_counted(check), *_alarms(check)]


def _counted(check: ManifestCheck) -> Iterator[str]:
    if not (check.expected or check.undeleted):
        return
    if check.expected:
        yield f"Manifests of other devices: {check.expected:,} records expected, {_here(check)}"
    if check.missing or check.outdated:
        yield _not_shown(check)
    for url, count in check.lacking.items():
        if count:
            yield f"{url} did not show {quantity(count, 'record')} that other relays have; it was sent what it lacks"
    if check.undeleted:
        verb = "is" if check.undeleted == 1 else "are"
        yield (
            f"{quantity(check.undeleted, 'record')} {verb} here that another device has deleted: no relay showed "
            "the deletion"
        )
    if check.ahead:
        yield (
            f"{quantity(check.ahead, 'record')} cannot be judged: dated ahead of this clock; check the clocks"
        )


def _here(check: ManifestCheck) -> str:
    if check.missing or check.outdated:
        older = f", {check.outdated:,} in an older version only" if check.outdated else ""
        return f"{check.here:,} here: {check.missing:,} missing{older}"
    return f"{check.here:,} here"


def _not_shown(check: ManifestCheck) -> str:
    """Who may still have what is missing, and what to do."""
    again = f"run `{program()} sync` on the device that wrote it, or add a relay that has it"
    if check.unanswered:
        urls = ", ".join(check.unanswered)
        verb = "has" if len(check.unanswered) == 1 else "have"
        return f"{urls} {verb} not shown everything, and may hold what is missing; sync again, or {again}"
    return f"None of these relays showed it: it is lost there, withheld, or only on relays that are not used here: {again}"


def _alarms(check: ManifestCheck) -> Iterator[str]:
    """What is wrong with the manifests themselves."""
    for device in check.devices:
        name = f"device {one_line(device.device, 40)}"
        if device.unlisted:
            yield (
                f"Of {name}, a part of the list was not shown: {quantity(device.unlisted, 'record')} that it "
                "counts cannot be looked for"
            )
        if device.is_set_back:
            yield (
                f"The manifest of {name} has the number {device.seq:,}, after {device.seen_seq:,} was seen: its ledger was "
                "copied or set back"
            )
        elif device.is_doubled:
            yield f"Two manifests of {name} have the number {device.seq:,}: its ledger was copied"
    for url in check.relapsed:
        yield f"{url} no longer showed a manifest that it had: it lost events or was set back, and was sent it again"


def found_lines(found: Sequence[str]) -> list[str]:
    """The relays that other machines of the agent use, and how to use them too."""
    if not found:
        return []
    these = "it" if len(found) == 1 else "them"
    urls = ", ".join(found)
    told = f"Other machines of this agent also use {urls}; none was contacted."
    return [f"{told} To use {these}: {program()} relays add --found"]


def copies_line(copies: CopyCounts, relays: Sequence[RelayStatus]) -> list[str]:
    """How many records have enough copies elsewhere; nothing without relays elsewhere."""
    if all(relay.is_local for relay in relays) or not copies.records:
        return []
    where = f"{quantity(copies.min_acks, 'relay')} elsewhere (replicated)"
    told = f"{copies.replicated:,} of {quantity(copies.records, 'record')} acknowledged by {where}"
    return [f"{told}, {copies.durable:,} read back from as many (durable)"]


def trust_line(trust: FirstTrust | None) -> str:
    """That a ledger was filled by trust on first use, and how far the relays agreed; empty for one relay, or none."""
    if trust is None or trust.relays < 2:
        return ""
    agreed = f"{trust.agreeing} of {trust.relays} relays show the same memories"
    rest = "" if trust.agreeing == trust.relays else "; the others lack some, or did not show everything"
    return f"First sync, trust on first use: {agreed}{rest}."
