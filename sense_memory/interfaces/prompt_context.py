"""What is remembered, as text for a prompt; what a question brought into it counts as used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.limits import COMPRESSED_HITS_COUNT


if TYPE_CHECKING:
    from sense_memory.palace.compression import Compressed
    from sense_memory.palace.prompt_style import StyleName
    from sense_memory.palace.search import PersonaHit
    from sense_memory.search.hits import Hits
    from sense_memory.store import MemoryStore


async def context_for(
    store: MemoryStore,
    question: str | None,
    *,
    domain: str | None,
    max_tokens: int,
    style: StyleName,
    include_untrusted: bool,
    marks: bool,
) -> tuple[Compressed, Hits[PersonaHit] | None]:
    """The text, and what was found for the question; None without a question.

    Args:
        store: an open store.
        question: what the prompt is for, so that what it needs comes first; None or empty for none.
        domain: only of this domain; None for all.
        max_tokens: the most tokens that the text may have.
        style: how the text is written.
        include_untrusted: also what tools and imports said.
        marks: whether what the question brought into the text is noted as used.
    """
    found = await store.persona_compress(
        domain,
        question=question or None,
        max_tokens=max_tokens,
        style=style,
        include_untrusted=include_untrusted,
    )
    if not question:
        return found, None
    hits = await store.persona_search(question, COMPRESSED_HITS_COUNT, domain=domain, relevance_floor=1.0)
    if marks:
        await store.mark_used([hit for hit in hits if hit.path in found.included])
    return found, hits
