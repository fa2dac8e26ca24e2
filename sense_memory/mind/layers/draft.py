"""The draft pipeline of the layered memory: input, recall, gather, draft, canonicalise, check, remember.

One function over the parts of a mind. Without a language model, rules do every step. An output that is not coherent is
returned with the verdict and is not remembered.

Guaranteed: once the reply is written, the caller gets it, whatever fails afterwards: `DraftResult.not_done` names the steps
that were not done, and `error` has the cause. An output that was not checked is not remembered.

An output is not evidence for itself. Its entry names the thoughts that it was drafted with (`based_on`). An earlier output
is recalled only if none of its thoughts is recalled, and with half its score. An output that only repeats its input and what it
was drafted from, or says nothing else than small talk and questions, does not become a thought, so drafting the same input
twice leaves the archive, the topics and the identity unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from sense_memory.errors import SenseMemoryError
from sense_memory.mind.call_checks import checked
from sense_memory.mind.layers.identity import EVERY_COUNT
from sense_memory.mind.model import MAX_LISTED_CHARS, Canonicalize, WriteReply
from sense_memory.mind.sentence_kinds import may_be_thought, saying, split_sentences
from sense_memory.plain_text import one_line


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from sense_memory.mind.layers.archive import Archive
    from sense_memory.mind.layers.identity import IdentityKernel
    from sense_memory.mind.layers.topics import Topics
    from sense_memory.mind.log import Log, LogEntry
    from sense_memory.mind.model import Coherence, LanguageModel, Reply
    from sense_memory.mind.prompts.prompt import Prompt
    from sense_memory.mind.prompts.recall import Recalled
    from sense_memory.mind.search.hits import MindHit
    from sense_memory.mind.trust import Trust

INPUT, OUTPUT = "agent.input", "agent.output"
BASED_ON: Final = "based_on"  # the field of an output with the ids of the thoughts that it was drafted with
RECALLED_COUNT: Final = 5
STEPS: Final = ("canonicalise", "check", "remember", "store the thought", "refresh the identity")
_CANDIDATES: Final = 3  # hits to choose from, for each thought to recall
_BACKFILLED: Final = frozenset({OUTPUT, "agent.spoke", "message.assistant"})


class Layers(Protocol):
    """The layers that the pipeline works on; a `Mind` has them."""

    log: Log
    archive: Archive
    topics: Topics
    identity: IdentityKernel
    trust: Trust

    @property
    def model(self) -> LanguageModel:
        """The language model of all parts."""

    async def recall(self, query: str, n_results: int = 5, topic: str | None = None) -> list[MindHit]:
        """The passages of the archive that are most relevant to a query."""

    async def prompt(self, *, query: str | None = None) -> Prompt:
        """Everything that a model should see for a query."""


@dataclass(frozen=True, slots=True)
class DraftResult:
    """The result of the pipeline for an input.

    Attributes:
        ok: whether the output is coherent, and every step was done.
        reason: why not; empty if ok.
        text: the output; as the model drafted it, if it could not be canonicalised.
        recalled: the thoughts that the output was drafted with; other memories were there, too.
        topics: the topics of the output; empty if it was not remembered.
        verdict: the result of the coherence check; None if the output was not checked.
        has_new_identity: whether the identity was refreshed.
        is_new: whether the output became a thought; false if it only repeats recalled text, or says nothing.
        not_done: the steps that a failure left undone, in order: canonicalise, check, remember, store the thought, refresh
            the identity. A thought that was not stored is in the log, and `backfill` stores it.
        error: the cause of the failure, or None.
    """

    ok: bool
    reason: str
    text: str = field(repr=False)
    recalled: tuple[MindHit, ...]
    topics: tuple[str, ...]
    verdict: Coherence | None
    has_new_identity: bool = False
    is_new: bool = False
    not_done: tuple[str, ...] = ()
    error: Exception | None = field(default=None, repr=False, compare=False)


@checked
async def draft(
    mind: Layers,
    text: str,
    *,
    title: str = "",
    topic: str | None = None,
    actor: str = "agent",
    model: LanguageModel | None = None,
    recalled_count: int = RECALLED_COUNT,
    identity_every: int = EVERY_COUNT,
) -> DraftResult:
    """Answer an input with the thoughts of a mind, and remember the answer.

    Args:
        mind: the mind.
        text: the input.
        title: the title of the request.
        topic: recall only thoughts of this topic.
        actor: who answers.
        model: drafts and canonicalises; by default the model of the mind.
        recalled_count: the number of thoughts to recall.
        identity_every: the number of thoughts between two refreshes of the identity.

    Raises:
        InvalidInput: the log does not accept the input; nothing was written.
        ModelError: the model wrote no reply; only the input is in the log.
    """
    model = model or mind.model
    await mind.log.append(INPUT, {"text": text, "title": title}, actor="user")
    hits = await mind.recall(f"{title} {text}".strip(), _CANDIDATES * recalled_count, topic)
    recalled = await _evidence(mind, hits, recalled_count)
    memories = [] if topic is not None else await _memories(mind, f"{title} {text}".strip())
    context = (await gather(mind, recalled, memories))[:MAX_LISTED_CHARS]
    reply = await model.answer(WriteReply(input=text, context=context))
    result, done = DraftResult(True, "", reply.text, tuple(recalled), (), None), 0
    try:
        async for found in _finished(
            mind,
            result,
            [text, context, *(hit.text for hit in hits)],
            reply,
            model,
            title=title,
            actor=actor,
            identity_every=identity_every,
        ):
            result, done = found, done + 1
    except Exception as error:  # the caller gets the reply, whatever fails afterwards
        return _unfinished(result, STEPS[done:], error)
    return result


async def _finished(
    mind: Layers,
    result: DraftResult,
    sources: Sequence[str],
    reply: Reply,
    model: LanguageModel,
    *,
    title: str,
    actor: str,
    identity_every: int,
) -> AsyncIterator[DraftResult]:
    """The result after each of the `STEPS`; an output that is not coherent, or not new, needs no further steps."""
    identity = await mind.identity.get()
    text = (await model.answer(Canonicalize(text=reply.text, identity=identity.lines()))).text
    yield (result := replace(result, text=text))
    verdict = await mind.identity.check(text)
    reason = "; ".join(f"{issue.against}: {issue.reason} ({issue.statement})" for issue in verdict.issues)
    yield (result := replace(result, ok=verdict.is_coherent, reason=reason, verdict=verdict))
    if not verdict.is_coherent:
        return
    is_new = not reply.is_empty and may_be_thought(text) and not _is_repeated(text, sources)
    payload = {"text": text, "title": title, BASED_ON: [hit.id for hit in result.recalled]}
    entry = await mind.log.append(OUTPUT, payload | ({} if is_new else {"is_new": False}), actor=actor)
    repeated = () if is_new else (hit for hit in result.recalled if _is_repeated(text, [hit.text]))
    topics = tuple(dict.fromkeys(name for hit in repeated for name in hit.topics))
    yield (result := replace(result, is_new=is_new, topics=topics))
    if not is_new:
        return
    yield (result := replace(result, topics=await store_thought(mind, entry, title=title)))
    is_due = await mind.identity.is_due(every=identity_every)
    if is_due:
        await mind.identity.refresh_identity_kernel()
    yield replace(result, has_new_identity=is_due)


def _unfinished(result: DraftResult, left: tuple[str, ...], error: Exception) -> DraftResult:
    cause = str(error) if isinstance(error, SenseMemoryError) else type(error).__name__
    remedy = " The log has the output, and `backfill` stores the thought." if left[0] == STEPS[3] else ""
    reason = f"not done: {', '.join(left)} ({cause}).{remedy}"
    return replace(result, ok=False, reason=reason, not_done=left, error=error)


async def _evidence(mind: Layers, hits: Sequence[MindHit], count: int) -> list[MindHit]:
    """The best hits that may speak (see `Trust`), without those that a later hit corrects.

    An output of this pipeline counts half, and is left out if a thought that it is based on is a hit.
    """
    found, ids = [], {hit.id for hit in hits}
    gate, passages = await mind.trust.gate(), {one.id: one for one in await mind.archive.all()}
    for hit in hits:
        passage = passages.get(hit.id)
        if hit.corrected_by in ids or passage is None or not gate.passage_may_speak(passage):
            continue
        entry = await mind.log.get(hit.id)
        based_on = None if entry is None else entry.payload.get(BASED_ON)
        if not isinstance(based_on, list):
            found.append((hit.score, hit))
        elif ids.isdisjoint(item for item in based_on if isinstance(item, str)):
            found.append((hit.score / 2, hit))
    best = sorted(found, key=lambda item: -item[0])[:count]
    return [hit for _, hit in best]


async def _memories(mind: Layers, query: str) -> list[Recalled]:
    """What the one prompt of the mind would recall, without thoughts, and without inputs and outputs of this pipeline."""
    found = (await mind.prompt(query=query)).recalled
    entries = {item.ident: await mind.log.get(item.ident) for item in found if item.source == "log"}
    drafts = {ident for ident, entry in entries.items() if entry is None or entry.kind in {INPUT, OUTPUT}}
    return [item for item in found if item.source != "archive" and item.ident not in drafts]


def _is_repeated(text: str, sources: Iterable[str]) -> bool:
    """Whether some sources contain every sentence of a text that says something."""
    known = {_plain(sentence) for source in sources for sentence in split_sentences(source)}
    return all(_plain(sentence) in known for sentence in saying(text) or split_sentences(text))


def _plain(sentence: str) -> str:
    return " ".join(sentence.lower().split()).rstrip(".!…")


async def gather(mind: Layers, recalled: Iterable[MindHit], memories: Iterable[Recalled] = ()) -> str:
    """The context of a draft: the identity, the summaries of the topics of the recalled thoughts, these thoughts, and other
    memories.

    Each is one line, and only a topic's name and this function end a line.
    """
    hits = list(recalled)
    identity = (await mind.identity.get()).lines()
    names = dict.fromkeys(name for hit in hits for name in hit.topics)
    summaries = await mind.topics.summaries()
    parts = (
        "\n".join(map(one_line, identity)),
        "\n".join(f"{one_line(name)}:\n{one_line(summaries[name])}" for name in names if summaries.get(name)),
        "\n".join(one_line(hit.text) for hit in hits),
        "\n".join(one_line(item.text) for item in memories),
    )
    return "\n\n".join(filter(None, parts))


@checked
async def store_thought(
    mind: Layers, entry: LogEntry, *, title: str = "", topics: Iterable[str] = ()
) -> tuple[str, ...]:
    """Store an entry of the log as a thought, and update its topics; returns the topics.

    May be repeated, also after an interruption: a topic does not count its newest thought twice.

    Args:
        mind: the mind.
        entry: the entry.
        title: the title of the thought.
        topics: the topics of the thought; by default the model classifies it. The first thought about a subject has none,
            and gets one together with the second.

    Raises:
        ModelError: the model gave no valid answer; the archive does not have the thought, and topics that were updated
            before stay so. Repeat the call.
    """
    names = tuple(topics)
    await mind.log.refresh()
    if foreign := mind.trust.foreign_sources([entry]):  # a summary of a topic shapes the identity
        said = {"origin": foreign[-1], "title": title, "source": entry.id}
        await mind.archive.insert(entry.text, topics=names, at=entry.at, sources=foreign, **said)
        return names
    names, also = (names, ()) if names else await mind.topics.sorted_in(entry.text, title)
    for earlier in also:
        await mind.topics.cover(names[0], earlier.content, earlier.id)
        await mind.archive.replace(replace(earlier, topics=names[:1]))
    for name in names:
        await mind.topics.cover(name, entry.text, entry.id)
    await mind.archive.insert(entry.text, topics=names, title=title, source=entry.id, at=entry.at)
    return names


@checked
async def backfill(mind: Layers, *, progress: Callable[[int], None] | None = None) -> int:
    """Store every output in the log that says something and is not yet in the archive as a thought; returns how many.

    Small talk, questions, commands, fragments, and what a thought already says are left out. May be interrupted and repeated:
    stored thoughts are skipped.

    Args:
        mind: the mind.
        progress: called with the number of thoughts stored so far.
    """
    passages = await mind.archive.all()
    kept, known = {passage.source for passage in passages}, {_plain(passage.content) for passage in passages}
    count = 0
    for entry in await mind.log.entries():
        is_output = entry.kind in _BACKFILLED and entry.payload.get("is_new") is not False
        if (
            is_output
            and entry.id not in kept
            and may_be_thought(entry.text)
            and _plain(entry.text) not in known
        ):
            known.add(_plain(entry.text))
            await store_thought(mind, entry, title=str(entry.payload.get("title", "")))
            count += 1
            if progress is not None:
                progress(count)
    return count
