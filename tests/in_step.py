"""Devices that sync until nobody has anything new to say."""

from __future__ import annotations


def is_busy(report) -> bool:
    """Whether a sync brought anything to a relay, or from one."""
    return any(relay.sent or relay.served.get("new") for relay in report.relays)


async def sync_until_quiet(stores, rounds, before_each=lambda: None) -> bool:
    """Sync all, each completely, until a whole round moves nothing; whether that came within so many rounds."""
    for _ in range(rounds):
        before_each()
        reports = [await store.sync() for store in stores]
        assert all(report.complete for report in reports), reports
        if not any(map(is_busy, reports)):
            return True
    return False
