"""`trust`, `quarantine` and `revoke`: rules about whose words may enter a prompt, and what is kept back, as plans."""

from __future__ import annotations

import time
from collections.abc import Mapping  # noqa: TC003 - the shape reads the annotations
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.inputs import argument, flag, moment, option
from sense_memory.interfaces.cli.invocation import note, program
from sense_memory.interfaces.cli.operations import operation
from sense_memory.interfaces.cli.output import show_rows
from sense_memory.interfaces.cli.program import MEMORIES, app
from sense_memory.interfaces.shapes.shape import thing
from sense_memory.interfaces.text import age, iso, one_line, quantity
from sense_memory.mind.trust import TrustStep
from sense_memory.palace.trust import Effect, TrustRule


if TYPE_CHECKING:
    from sense_memory.store import MemoryStore

_EFFECTS: Final = {Effect.TRUST: "trust", Effect.QUARANTINE: "quarantine", Effect.REVOKE: "revoke"}
_TEXT_CHARS: Final = 80


@thing("trust decision")
@dataclass(frozen=True, slots=True)
class TrustDecision:
    """What a rule about sources does, or would do.

    Attributes:
        rule: the rule; null where only the rules are listed.
        done: whether it holds now; after an undo, whether it was taken back.
        steps: what it is about.
        rules: all rules, where they are listed.
        restored: what an undo wrote again.
        left: what it did not, because something else is there by now.
        texts: what is kept back, by name, where it was asked for.
    """

    rule: TrustRule | None
    done: bool
    steps: tuple[TrustStep, ...] = ()
    rules: tuple[TrustRule, ...] = ()
    restored: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)


_Name = Annotated[
    str | None,
    argument("NAME", "One memory: a path, a flat key, archive:ID, block:LABEL or log:CONVERSATION/ID."),
]
_Source = Annotated[
    str | None,
    option("SOURCE", "A source: tool:NAME, document:NAME, import:NAME, scene:NAME, or tool for every tool."),
]
_Session = Annotated[str | None, option("ID", "A session, a conversation, or an import.")]
_Path = Annotated[str | None, option("PATH", "One memory, as NAME.")]
_Since = Annotated[str | None, option("WHEN", "Only what was written since: a date, a time, yesterday, 3h.")]
_Undo = Annotated[str | None, option("ID", "Take the rule with this id back, as one.")]
_Texts = Annotated[bool, flag("--show", text="Show what rules keep back, with its text.")]
_Yes = Annotated[bool, flag("--yes", "-y", text="Do it. Without it, only the plan is shown.")]
_DryRun = Annotated[bool, flag("--dry-run", text="Only show the plan.")]


def _show(found: TrustDecision, given: Any) -> None:
    now = time.time()
    if found.rule is None and getattr(given, "show", False):
        texts = [(one_line(name), one_line(text)) for name, text in found.texts.items()]
        show_rows(("memory", "text"), texts, none="Nothing is kept back.")
        return
    if found.rule is None:
        rows = [_row(rule, now) for rule in found.rules]
        show_rows(("rule", "what", "about", "made", "by"), rows, none="There are no rules about sources yet.")
        return
    rule = found.rule
    if given.undo is not None:
        restored = (
            f", {quantity(len(found.restored), 'memory', 'memories')} written again" if found.restored else ""
        )
        typer.echo(f"undone: {_EFFECTS[rule.effect]} {_about(rule)}{restored}")
        for name in found.left:
            note(f"something else is at {one_line(name)} by now; its earlier text stays sealed")
        return
    rows = [
        (step.outcome, one_line(step.name), one_line(step.source) or "-", age(step.at, now), _why(step))
        for step in found.steps
    ]
    show_rows(
        ("what happens", "memory", "from", "written", "because"), rows, none="Nothing here is from there."
    )
    if found.done:
        note(
            f"rule {rule.id} holds on every device; undo it with: {program()} {_EFFECTS[rule.effect]} --undo {rule.id}"
        )
    else:
        note(
            f"a plan about {quantity(len(rows), 'memory', 'memories')}; nothing was changed. Add --yes to do it"
        )


def _row(rule: TrustRule, now: float) -> tuple[str, ...]:
    undone = "" if rule.undone_at is None else f", undone {age(rule.undone_at, now)}"
    return (
        rule.id,
        rule.effect.value,
        _about(rule),
        f"{age(rule.made_at, now)}{undone}",
        one_line(rule.made_by),
    )


def _about(rule: TrustRule) -> str:
    """What a rule is about, in words."""
    parts = (
        rule.source,
        f"session {rule.session}" if rule.session else "",
        rule.name,
        f"since {iso(rule.since)}" if rule.since is not None else "",
    )
    return one_line(", ".join(filter(None, parts)))


def _why(step: TrustStep) -> str:
    if not step.derived_from:
        return "it is named"
    return f"made of {one_line(', '.join(step.derived_from))}"


def _refused(given: Any) -> str:
    wanted = [given.name, given.source, given.session, given.path]
    if given.undo is not None and any(wanted):
        return "give either --undo ID, or what the rule is about"
    if given.name and given.path:
        return "give either NAME or --path PATH"
    return "give either --yes or --dry-run" if given.yes and given.dry_run else ""


async def _decided(
    store: MemoryStore,
    effect: Effect,
    *,
    name: str | None,
    source: str | None,
    session: str | None,
    since: str | None = None,
    undo: str | None,
    yes: bool,
    show: bool = False,
) -> TrustDecision:
    trust = store.mind.trust
    if undo is not None:
        known = [rule.effect for rule in await trust.rules() if rule.id.startswith(undo)]
        if known and (known[0] is Effect.TRUST) != (effect is Effect.TRUST):
            raise InvalidInput(f"that rule is undone with: {program()} {_EFFECTS[known[0]]} --undo {undo}")
        undone = await trust.undo(undo)
        return TrustDecision(undone.rule, True, restored=undone.restored, left=undone.left)
    if not (name or source or session):
        kept = {name: one.text for name, one in (await trust.kept_back()).items()} if show else {}
        return TrustDecision(None, False, rules=tuple(await trust.rules()), texts=kept)
    begin = None if since is None else moment(since, time.time(), begins=True)
    plan = await trust.plan(effect, source=source or "", session=session or "", name=name or "", since=begin)
    if yes:
        plan = await trust.apply(plan)
    return TrustDecision(plan.rule, yes, plan.steps)


@operation(
    app,
    "trust",
    "sense-memory trust people/facts/lisa --yes",
    "sense-memory trust --source import:chatgpt --yes",
    "sense-memory trust --undo 3f2a90c1",
    panel=MEMORIES,
    writes=True,
    creates=False,
    shows=_show,
    refuses=_refused,
)
async def trust(
    store: MemoryStore,
    *,
    name: _Name = None,
    source: _Source = None,
    session: _Session = None,
    path: _Path = None,
    undo: _Undo = None,
    yes: _Yes = False,
    dry_run: _DryRun = False,  # noqa: ARG001 - the plan is what happens without --yes
) -> TrustDecision:
    """Let memories from elsewhere enter prompts by themselves: one memory, a source, or a session.

    What tools, documents, imports and other agents said is kept and found, and enters no prompt by itself. A rule of this
    command vouches for it, on every device. Of one memory it vouches for the text of now: another text at that path has to be
    trusted again. Without arguments, list all rules, with who made them and when.
    """
    return await _decided(
        store, Effect.TRUST, name=name or path, source=source, session=session, undo=undo, yes=yes
    )


@operation(
    app,
    "quarantine",
    "sense-memory quarantine --source tool:browser",
    "sense-memory quarantine --source tool:browser --since yesterday --yes",
    "sense-memory quarantine --undo 3f2a90c1",
    panel=MEMORIES,
    writes=True,
    creates=False,
    shows=_show,
    refuses=_refused,
)
async def quarantine(
    store: MemoryStore,
    *,
    name: _Name = None,
    source: _Source = None,
    session: _Session = None,
    path: _Path = None,
    since: _Since = None,
    undo: _Undo = None,
    show: _Texts = False,
    yes: _Yes = False,
    dry_run: _DryRun = False,  # noqa: ARG001 - the plan is what happens without --yes
) -> TrustDecision:
    """Keep back everything from a source, and everything that was made of it, on every device.

    It stays in the ledger, and no search, list or prompt shows it. The rule also holds for what arrives later. Without --yes,
    show the plan. Without arguments, list all rules; --show shows what they keep back. --undo takes a rule back as one.
    """
    return await _decided(
        store,
        Effect.QUARANTINE,
        name=name or path,
        source=source,
        session=session,
        since=since,
        undo=undo,
        yes=yes,
        show=show,
    )


@operation(
    app,
    "revoke",
    "sense-memory revoke --source tool:browser --since yesterday",
    "sense-memory revoke --source tool:browser --since yesterday --yes",
    "sense-memory revoke --undo 3f2a90c1",
    panel=MEMORIES,
    writes=True,
    creates=False,
    shows=_show,
    refuses=_refused,
)
async def revoke(
    store: MemoryStore,
    *,
    name: _Name = None,
    source: _Source = None,
    session: _Session = None,
    path: _Path = None,
    since: _Since = None,
    undo: _Undo = None,
    yes: _Yes = False,
    dry_run: _DryRun = False,  # noqa: ARG001 - the plan is what happens without --yes
) -> TrustDecision:
    """Forget everything from a source, and everything that was made of it, here and on relays.

    As `quarantine`, and memories, passages and blocks are forgotten too; a sealed copy stays for --undo, which cannot bring
    back their earlier versions. Entries of the log are kept back, and never removed. Without --yes, show the plan.
    """
    return await _decided(
        store,
        Effect.REVOKE,
        name=name or path,
        source=source,
        session=session,
        since=since,
        undo=undo,
        yes=yes,
    )
