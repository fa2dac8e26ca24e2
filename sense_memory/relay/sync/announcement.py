"""The public list of relays (NIP-65, kind 10002), which is published only on request: everybody can read it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sense_memory.errors import RelayError
from sense_memory.nostr.event import Unsigned
from sense_memory.nostr.relay_url import is_local
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay.client.connection import RelayConnection, each


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.client.actions import Timeouts

KIND_RELAY_LIST: Final = 10_002


async def announced(
    urls: Sequence[str], signer: Signer, *, clock: Callable[[], float], timeouts: Timeouts
) -> dict[str, str]:
    """Publish the public list of relays to each of them; returns by relay why it did not take it, or empty.

    Args:
        urls: the relays, checked already; those on this machine get the list and are not in it.
        signer: the key whose relays they are.
        clock: seconds since 1970.
        timeouts: the timeouts of every connection.
    """
    tags = tuple(("r", url) for url in urls if not is_local(url))
    event = await signer.sign(Unsigned(int(clock()), KIND_RELAY_LIST, tags, ""))
    answers = await asyncio.gather(*(_sent(url, event, signer, clock, timeouts) for url in urls))
    return dict(zip(urls, answers, strict=True))


async def _sent(
    url: str, event: Event, signer: Signer, clock: Callable[[], float], timeouts: Timeouts
) -> str:
    connection = RelayConnection(
        url,
        public_key=signer.public_key,
        sign=signer.sign,
        timeouts=timeouts,
        clock=asyncio.get_running_loop().time,
        now=clock,
    )
    try:
        async with connection:
            async for _, verdict in connection.publish(each([(event.id, event.body())])):
                return "" if verdict.outcome is RelayOutcome.ACCEPTED else verdict.reason
    except RelayError as error:
        return error.problem
    return "no answer"
