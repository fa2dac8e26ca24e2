"""The one change feed: whoever holds a cursor finds what changed since, whoever changed it."""

from __future__ import annotations

import pytest

from sense_memory.ledger import Ledger
from sense_memory.ledger.feed import START, Cursor


KEY = "persona/people/facts/lisa"
SLOT = f"sense-memory/{KEY}"
NOW = 1_000.0


def test_what_changed_since_a_cursor(me, ledger, take):
    take(me.memory(KEY, at=1))
    here = ledger.feed.cursor()
    assert not ledger.feed.has_changed(here)
    assert ledger.feed.since(here).slots == {}
    take(me.memory("b", at=1), me.tombstone(KEY, at=2))
    assert ledger.feed.has_changed(here)

    changes = ledger.feed.since(here)
    assert changes.slots == {"sense-memory/b": 0, SLOT: 3}
    assert not changes.is_everything
    assert changes.cursor == ledger.feed.cursor()


def test_a_cursor_goes_on_after_a_part(me, ledger, take):
    take(me.memory("a", at=1))
    here = ledger.feed.cursor()
    take(me.memory("b", at=1), me.memory("c", at=1), me.memory("d", at=1))
    first = ledger.feed.since(here, 2)
    rest = ledger.feed.since(first.cursor, 2)

    assert [*first.slots, *rest.slots] == ["sense-memory/b", "sense-memory/c", "sense-memory/d"]
    assert not ledger.feed.has_changed(rest.cursor)
    assert ledger.feed.since(rest.cursor, 2).cursor == rest.cursor


@pytest.mark.parametrize("cursor", [START, Cursor(99)], ids=["nothing was seen", "another file was seen"])
def test_who_has_not_followed_this_file_has_to_look_at_everything(me, ledger, take, cursor):
    take(me.memory("a", at=1))

    changes = ledger.feed.since(cursor)
    assert changes.is_everything
    assert changes.cursor == ledger.feed.cursor()


def test_a_deletion_by_id_alone_says_that_anything_may_have_changed(me, ledger, take):
    filed = me.memory(KEY, at=1)
    take(filed)
    here = ledger.feed.cursor()
    take(me.deletion(2, (), [filed.event.id]))

    assert ledger.feed.since(here).is_everything


async def test_what_another_process_writes_in_place_of_a_write_that_failed_is_a_change_from_elsewhere(
    me, tmp_path
):
    """It gets the same number in the order of arrival."""

    def fail():
        here.append_versions([me.memory("a")], [], NOW)
        raise RuntimeError("before it was committed")

    here, there = (Ledger(tmp_path / "a.db", me.public_key) for _ in range(2))
    here.head_changes.start()
    with pytest.raises(RuntimeError):
        await here.write(fail)
    there.append_versions([me.memory("b")], [], NOW)
    here.append_versions([me.memory("mine")], [], NOW)

    assert [change.slot for change in here.head_changes.next_batch()] == ["sense-memory/b"]
    here.close()
    there.close()
