"""A store as the settings of an agent describe it: config files, environment and `.env`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sense_memory import arguments


if TYPE_CHECKING:
    from sense_memory.nostr.signer import Signer


def configured(agent: str | None, options: dict[str, Any]) -> tuple[Signer, dict[str, Any]]:
    """The signer and the options of a store from the settings; each option that is passed overrides its setting.

    Raises: as `MemoryStore.from_settings`.
    """
    from sense_memory.config.settings import Settings, find_embedder, find_model, ledger_path
    from sense_memory.signers.agent_signer import find_signer

    options = arguments.settings(agent, options)
    settings = Settings.load(agent=agent, relays=options.get("relays"), ledger=options.get("ledger"))
    signer, _ = find_signer(settings)
    ledger = settings.ledger or ledger_path(settings.home, signer.public_key)
    embedder = partial(find_embedder, settings) if settings.wants_embedder else None
    return signer, {
        "plan": settings.plan,
        "embedder": embedder,
        "share_embeddings": settings.share_embeddings,
        "contradictions": settings.contradictions,
        "revive": settings.revive,
        "search_forgotten": settings.search_forgotten,
        "min_acks": settings.min_acks,
        "addresses": settings.addresses,
        "pad_sizes": settings.pad_sizes,
        "send_jitter": settings.send_jitter,
        "model": None if settings.model is None else partial(find_model, settings),
        **options,
        "relays": settings.relays,
        "ledger": ledger,
    }
