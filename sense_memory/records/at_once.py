"""Many requests of one signer: at once where each waits for another machine, one after the other where none does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from sense_memory.nostr.signer import is_remote


if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from sense_memory.nostr.signer import Signer

_T = TypeVar("_T")


async def all_of(signer: Signer, works: Sequence[Callable[[], Coroutine[object, object, _T]]]) -> list[_T]:
    """The results of some calls that need the signer, in order. The first error ends the others.

    Args:
        signer: how it answers decides; a remote signer limits by itself how many requests it has under way.
        works: the calls.
    """
    if not is_remote(signer):
        return [await work() for work in works]
    tasks = [asyncio.create_task(work()) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
