"""Which embedder is in use, and how much of a memory it has still to read: for `status` and `doctor`.

Looking asks no service and shows no text to a model; where the embedder cannot be used, that is a finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sense_memory.errors import InvalidSetting, SenseMemoryError
from sense_memory.interfaces.cli.text import one_line, quantity


if TYPE_CHECKING:
    from sense_memory.config.settings import Settings
    from sense_memory.store import MemoryStore


@dataclass(frozen=True, slots=True)
class InUse:
    """The embedder in use.

    Attributes:
        setting: as it is chosen, such as "static"; None where what was chosen is none.
        model: what it calls itself, or None where it could not be opened.
        without_vectors: how many memories it has not read yet, nor another device for it; None as `model`.
        problem: why it cannot be used, or None.
    """

    setting: str | None
    model: str | None = None
    without_vectors: int | None = None
    problem: str | None = None


async def look(settings: Settings, store: MemoryStore) -> InUse | None:
    """The embedder of the settings, with which the store was opened; None where none was chosen."""
    if not settings.wants_embedder:
        return None
    setting = _setting(settings)
    try:
        report = await store.embed(share=False, dry_run=True)
    except SenseMemoryError as error:
        return InUse(setting, problem=str(error))
    return InUse(setting, report.model, report.count)


def sentence(found: InUse) -> str:
    """The embedder in use in words."""
    if found.problem is not None:
        return one_line(found.problem)
    name = " ".join(filter(None, (found.setting, f"({found.model})" if found.model != found.setting else "")))
    if not found.without_vectors:
        return f"{one_line(name)}; it has read everything"
    count = quantity(found.without_vectors, "memory", "memories")
    verb = "has" if found.without_vectors == 1 else "have"
    return f"{one_line(name)}; {count} {verb} no vectors yet: run `sense-memory embed`"


def _setting(settings: Settings) -> str | None:
    if isinstance(settings.embedder, InvalidSetting):
        return None
    kind, model, url = settings.embedder.kind, settings.embedder.model, settings.embedder.url
    return kind + (f":{model}" if model else "") + (f"@{url}" if url else "")
