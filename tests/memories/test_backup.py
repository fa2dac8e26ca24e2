"""Export and import: what a file holds comes back, and nothing in a file is believed."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import io
import json
import os
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sense_memory import BadLine, EmbeddedRelay, ImportReport, InvalidInput, LocalSigner
from sense_memory.limits import MAX_FRAME_BYTES
from sense_memory.memories import backup as module
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DIRECT_MESSAGE, Unsigned
from tests.time_unit import SECOND


@pytest.fixture
def event(signer, clock):
    """A signed event as one line of JSON: a flat memory, unless told otherwise."""

    async def event(key="k", *, by=signer, kind=KIND_APP_DATA, tags=None, text=None, inside=None, at=0):
        fields = {"type": "sense-memory:kv", "key": key, "value": "v", "ts": 1} | (inside or {})
        content = await by.encrypt(json.dumps(fields).encode(), signer.public_key) if text is None else text
        tags = (("d", f"sense-memory/{key}"),) if tags is None else tags
        signed = await by.sign(Unsigned(int(clock()) + at, kind, tags, content))
        return signed.body().decode()

    return event


async def fill(store, clock):
    """Memories, a journal, a history, and something forgotten."""
    await store.remember_many((f"key {number}", f"value {number}") for number in range(5))
    clock.advance(60)
    await store.remember("key 0", "newer")
    await store.journal("dear diary")
    await store.forget("key 1")


async def everything(store):
    """What a store shows of itself."""
    return (
        await store.recall_all(),
        await store.recent(100),
        [await store.history(f"key {number}") for number in range(5)],
        store.status().counts,
    )


# ── Round trips ─────────────────────────────────────────────────────────────────────────


async def test_an_export_brings_an_empty_store_to_the_same_state(store, clock, tmp_path):
    async with store() as one, store() as two:
        await fill(one, clock)
        count = one.export(tmp_path / "all.jsonl")
        report = await two.import_(tmp_path / "all.jsonl")

        assert count == 8  # 4 memories and an older version, the entry, the tombstone and its deletion
        assert sum(report.counts.values()) == count
        assert report.bad == ()
        assert await everything(two) == await everything(one)
        assert two.integrity() == []
        assert await two.recall("key 1") is None


async def test_importing_again_changes_nothing(store, clock, tmp_path):
    async with store() as one:
        await fill(one, clock)
        one.export(tmp_path / "all.jsonl")
        before = await everything(one)

        assert await one.import_(tmp_path / "all.jsonl") == ImportReport({"known": 8})
        assert await everything(one) == before


async def test_the_order_of_lines_does_not_matter(store, clock, tmp_path):
    async with store() as one, store() as two:
        await fill(one, clock)
        one.export(tmp_path / "all.jsonl")
        lines = (tmp_path / "all.jsonl").read_bytes().splitlines(keepends=True)
        await two.import_(io.BytesIO(b"".join(reversed(lines))))

        assert (await everything(two))[:2] == (await everything(one))[:2]
        assert await two.recall("key 1") is None


async def test_an_old_export_brings_nothing_forgotten_back(store, clock, tmp_path):
    async with store() as one:
        await one.remember("k", "v")
        ident = await one.journal("entry")
        one.export(tmp_path / "old.jsonl")
        clock.advance(60)
        await one.forget("k")
        await one.journal.forget(ident)

        report = await one.import_(tmp_path / "old.jsonl")

        assert report == ImportReport({"deleted": 2})
        assert await one.recall("k") is None
        assert await one.recent() == []


async def test_an_old_export_never_overwrites_what_is_newer(store, clock, tmp_path):
    async with store() as one:
        await one.remember("k", "old")
        one.export(tmp_path / "old.jsonl")
    async with store() as two:
        clock.advance(60)
        await two.remember("k", "new")

        assert (await two.import_(tmp_path / "old.jsonl")).counts == {"stale": 1}
        assert (await two.recall("k")).value == "new"
        assert [item.value for item in await two.history("k")] == ["new", "old"]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.dictionaries(
        st.from_regex(r"[a-zé東 ]{1,9}", fullmatch=True).filter(str.strip),
        st.text(st.characters(codec="utf-8")).filter(str.strip),
    )
)
def test_any_text_survives_an_export(store, texts):
    async def there_and_back():
        file = io.BytesIO()
        async with store() as one, store() as two:
            await one.remember_many(texts.items())
            one.export(file)
            await two.import_(io.BytesIO(file.getvalue()))
            assert await two.recall_all() == await one.recall_all()

    asyncio.run(there_and_back())


async def test_what_was_imported_goes_to_relays(store, clock, tmp_path):
    async with store() as one:
        await fill(one, clock)
        one.export(tmp_path / "all.jsonl")
    async with EmbeddedRelay(clock=clock) as relay:
        async with store(relay.url) as two:
            await two.sync()
            await two.import_(tmp_path / "all.jsonl")
            (line,) = (await two.sync()).relays
            assert line.sent == {"accepted": 7}  # all but the older version
            assert line.in_step
            expected = await two.recall_all()
        async with store(relay.url) as three:
            await three.sync()
            assert await three.recall_all() == expected
            assert [entry.content for entry in await three.recent()] == ["dear diary"]


async def test_a_store_that_follows_its_relays_sends_an_import_by_itself(store, clock, tmp_path, event):
    (tmp_path / "one.jsonl").write_text(await event())
    ident = json.loads((tmp_path / "one.jsonl").read_text())["id"]
    async with EmbeddedRelay(clock=clock) as relay, store(relay.url, background=True) as one:
        await one.sync()
        await one.import_(tmp_path / "one.jsonl")
        async with asyncio.timeout(5 * SECOND):
            while one.relays.holders(ident) != {relay.url: "acked"}:  # noqa: ASYNC110 - a ledger has no event to wait for
                await asyncio.sleep(0)


# ── L-09: import is verification ────────────────────────────────────────────────────────


async def test_l09_import_is_verification(store, clock, tmp_path):
    """Good ones in, each bad one reported by line number."""
    async with store() as one, store(by=LocalSigner.generate()) as stranger:
        await one.remember_many((f"key {number}", "v") for number in range(4))
        await stranger.remember("key", "v")
        one.export(tmp_path / "mine.jsonl")
        stranger.export(tmp_path / "theirs.jsonl")
    good = (tmp_path / "mine.jsonl").read_text().splitlines()
    (foreign,) = (tmp_path / "theirs.jsonl").read_text().splitlines()
    forged = json.dumps({**json.loads(good[3]), "sig": json.loads(good[2])["sig"]})
    lines = [good[0], forged, good[1], foreign, good[1], good[2], good[3][:-40]]
    (tmp_path / "mixed.jsonl").write_text("\n".join(lines))

    async with store() as two:
        report = await two.import_(tmp_path / "mixed.jsonl")

        assert report.counts == {"new": 3, "known": 1}
        assert report.bad == (
            BadLine(2, "the signature does not match the author"),
            BadLine(4, "signed by another key", stranger.npub),
            BadLine(7, "not JSON"),
        )
        assert [memory.key for memory in await two.recall_all()] == ["key 0", "key 1", "key 2"]
        assert two.integrity() == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"key": "other", "tags": (("d", "sense-memory/k"),)}, "holds a memory of another address"),
        ({"text": "not encrypted"}, "cannot be opened with this key"),
        ({"inside": {"type": "sense-memory:kv", "key": 7}}, "cannot be opened with this key"),
        ({"tags": (("d", "another-app/k"),)}, "an event of another program"),
        ({"kind": 1, "text": "a public note"}, "an event of another program"),
        ({"kind": 30_023, "text": "an article"}, "an event of another program"),
        ({"kind": KIND_DIRECT_MESSAGE, "tags": (("p", "0" * 64),)}, "an event of another program"),
    ],
)
async def test_every_line_is_opened_before_it_is_believed(store, event, options, problem):
    file = io.BytesIO(f"{await event()}\n{await event(**options)}\n".encode())
    async with store() as one:
        assert await one.import_(file) == ImportReport({"new": 1}, (BadLine(2, problem, one.npub),))
        assert one.status().counts["events"] == 1


async def test_what_needs_a_newer_version_or_its_time_is_kept(store, event, clock):
    lines = [await event("a", inside={"v": 2}), await event("b", at=900)]
    async with store() as one:
        report = await one.import_(io.BytesIO("\n".join(lines).encode()))

        assert report == ImportReport({"new": 1, "quarantined": 1})
        assert await one.recall_all() == []
        file = io.BytesIO()
        assert one.export(file) == 2
        clock.advance(900)
        assert [memory.key for memory in await _reopened(store, file)] == ["b"]


async def _reopened(store, file):
    async with store() as one:
        await one.import_(io.BytesIO(file.getvalue()))
        return await one.recall_all()


async def test_devices_that_only_exchange_files_agree_when_the_time_of_an_event_has_come(store, clock):
    """One clock is 400 s ahead: what that device writes and forgets waits on the other, and no longer than it must."""
    async with store(clock=lambda: clock() + 400) as ahead, store() as behind:
        await behind.persona_remember("people", "facts", "home", "Lisa lives in Berlin")
        await _meet(behind, ahead)
        await ahead.persona_remember("people", "facts", "home", "Lisa lives in Rome")
        await ahead.persona_remember("people", "facts", "dog", "Lisa has a dog")
        await _meet(behind, ahead)
        assert [memory.key for memory in await behind.persona_recall()] == ["home"]
        clock.advance(500)
        await _meet(behind, ahead)
        texts = [sorted((m.path, m.value) for m in await one.persona_recall()) for one in (ahead, behind)]
        assert texts[0] == texts[1]
        assert len(texts[0]) == 2


async def _meet(one, other):
    for giving, taking in ((one, other), (other, one)):
        file = io.BytesIO()
        giving.export(file)
        file.seek(0)
        await taking.import_(file)


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"null",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"id": "\\ud800"}',
        b"NaN",
        b"-",
        b"\x00",
        b'{"id": "\xef\xbc\x91"}',  # a full-width digit
    ],
)
async def test_no_line_whatsoever_ends_an_import(store, event, line):
    file = io.BytesIO(b"\n".join([line, (await event()).encode(), line]))
    async with store() as one:
        report = await one.import_(file)

    assert report.counts == {"new": 1}
    assert [bad.number for bad in report.bad] == [1, 3]


async def test_blank_lines_and_line_ends_of_other_systems_are_fine(store, event):
    lines = [await event("a"), "", "   ", await event("b"), "\t"]
    for end in ("\n", "\r\n"):
        async with store() as one:
            assert (await one.import_(io.BytesIO(end.join(lines).encode()))) == ImportReport({"new": 2})


async def test_a_problem_repeats_nothing_of_its_line(store):
    async with store() as one:
        report = await one.import_(io.BytesIO(b'{"id": "MARKER \x1b[31m", "content": "MARKER"}\nMARKER'))

    assert len(report.bad) == 2
    assert "MARKER" not in repr(report)


# ── Bounds ──────────────────────────────────────────────────────────────────────────────


class Endless(io.RawIOBase):
    """A line of so many bytes, made as it is read."""

    def __init__(self, size: int, rest: bytes) -> None:
        super().__init__()
        self._left, self._rest = size, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        if self._left:
            count = min(self._left, len(buffer))
            buffer[:count] = b"x" * count
            self._left -= count
            return count
        count = min(len(self._rest), len(buffer))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


async def test_a_huge_line_is_one_bad_line_and_is_never_held(store, event):
    rest = f"\n{await event('a')}\n".encode()
    async with store() as one:
        tracemalloc.start()
        try:
            report = await one.import_(io.BufferedReader(Endless(30_000_000, rest)))
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert report == ImportReport({"new": 1}, (BadLine(1, "longer than 262,144 bytes"),))
    assert most < 5_000_000


@pytest.mark.parametrize("spare", [-2, -1, 0, 1])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nx\n"])
def test_a_line_is_too_long_where_it_does_not_fit_a_frame(signer, spare, end):
    file = io.BytesIO(b"x" * (MAX_FRAME_BYTES + spare) + end)

    found = list(module.read_import(file, signer.public_key))

    fits = len(b"x" * (MAX_FRAME_BYTES + spare) + end[:1]) <= MAX_FRAME_BYTES and (end or spare < 0)
    assert found[0] == (1, BadLine(1, "not JSON" if fits else "longer than 262,144 bytes"))
    assert [number for number, _ in found] == [1, 2][: end.count(b"\n") or 1]


async def test_import_tells_how_many_lines_it_read(store, clock, monkeypatch, tmp_path):
    monkeypatch.setattr("sense_memory.memories.backup.APPLY_BATCH_COUNT", 3)
    async with store() as one, store() as two:
        await one.remember_many((f"key {number}", "v") for number in range(7))
        one.export(tmp_path / "all.jsonl")
        seen = []

        await two.import_(tmp_path / "all.jsonl", progress=seen.append)

        assert seen == [3, 6, 7]


async def test_export_tells_how_many_events_it_wrote(store, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "APPLY_BATCH_COUNT", 3)
    async with store() as one:
        await one.remember_many((f"key {number}", "v") for number in range(7))
        seen = []

        assert one.export(tmp_path / "all.jsonl", progress=seen.append) == 7
        assert seen == [3, 6, 7]


# ── The file ────────────────────────────────────────────────────────────────────────────


async def test_an_export_is_private_and_holds_no_secret_and_no_text(store, signer, tmp_path):
    async with store() as one:
        await one.remember("k", "MARKER")
        await one.journal("MARKER")
        one.export(tmp_path / "all.jsonl")

    held = (tmp_path / "all.jsonl").read_text()
    assert (tmp_path / "all.jsonl").stat().st_mode & 0o777 == 0o600
    assert "MARKER" not in held
    assert signer.export_nsec() not in held
    assert {json.loads(line)["pubkey"] for line in held.splitlines()} == {signer.public_key}


async def test_a_file_that_exists_is_replaced_only_when_that_is_allowed(store, tmp_path):
    path = tmp_path / "all.jsonl"
    path.write_text("precious")
    async with store() as one:
        await one.remember("k", "v")
        with pytest.raises(InvalidInput, match="exists; the file was not touched"):
            one.export(path)
        assert path.read_text() == "precious"

        assert one.export(str(path), overwrite=True) == 1
        assert path.read_text().count("\n") == 1
    assert [item.name for item in tmp_path.iterdir()] == ["all.jsonl"]


async def test_an_export_that_fails_leaves_what_was_there(store, tmp_path, monkeypatch):
    path = tmp_path / "all.jsonl"
    path.write_text("precious")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    async with store() as one:
        await one.remember("k", "v")
        monkeypatch.setattr(module.os, "fsync", full)
        with pytest.raises(InvalidInput, match=r"cannot be written \(No space left on device\)"):
            one.export(path, overwrite=True)

    assert path.read_text() == "precious"
    assert [item.name for item in tmp_path.iterdir()] == ["all.jsonl"]


async def test_nothing_is_written_through_what_others_put_in_the_way(store, tmp_path, monkeypatch):
    """Not even where they guessed the name: another one is taken, and theirs stays what it was."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    names = iter(["0123abcd", "4567abcd"])
    monkeypatch.setattr(module.secrets, "token_hex", lambda _: next(names))
    (tmp_path / ".export-0123abcd.part").symlink_to(victim)
    async with store() as one:
        await one.remember("k", "v")
        assert one.export(tmp_path / "all.jsonl") == 1

    assert next(names, None) is None
    assert victim.read_text() == "precious"
    assert (tmp_path / ".export-0123abcd.part").is_symlink()
    assert not (tmp_path / "all.jsonl").is_symlink()
    assert len((tmp_path / "all.jsonl").read_bytes().splitlines()) == 1


async def test_what_a_killed_export_left_is_removed_by_the_next_and_nothing_else(store, tmp_path):
    (tmp_path / ".export-0123abcd.part").write_text("half a line")
    alive = tmp_path / ".export-4567abcd.part"
    others = [tmp_path / ".export-mine.part", tmp_path / f".all.jsonl.{os.getpid()}.part"]
    for path in others:
        path.write_text("precious")
    async with store() as one:
        await one.remember("k", "v")
        with alive.open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert one.export(tmp_path / "all.jsonl") == 1

    assert {path.name for path in tmp_path.iterdir()} == {
        "all.jsonl",
        *(path.name for path in (alive, *others)),
    }


async def test_an_export_has_no_name_until_it_is_whole(store, tmp_path):
    """So a kill leaves nothing behind, where the system can do that."""
    seen = []
    async with store() as one:
        await one.remember("k", "v")
        one.export(tmp_path / "all.jsonl", progress=lambda _: seen.append(list(tmp_path.iterdir())))

    assert seen == ([[]] if hasattr(os, "O_TMPFILE") else seen)


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="this system knows no files without a name")
async def test_where_files_need_a_name_an_export_has_one_of_its_own(store, tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE")
    async with store() as one:
        await one.remember("k", "v")
        assert one.export(tmp_path / "all.jsonl") == 1

    assert [path.name for path in tmp_path.iterdir()] == ["all.jsonl"]
    assert (tmp_path / "all.jsonl").stat().st_mode & 0o777 == 0o600


async def test_a_name_as_long_as_names_get_is_written_like_any_other(store, tmp_path):
    async with store() as one:
        assert one.export(tmp_path / ("x" * 255)) == 0


async def test_a_folder_that_is_none_and_a_file_that_is_none_are_clear_errors(store, tmp_path):
    async with store() as one:
        with pytest.raises(InvalidInput, match="cannot be written"):
            one.export(tmp_path / "none" / "all.jsonl")
        with pytest.raises(InvalidInput, match="cannot be read"):
            await one.import_(tmp_path / "none.jsonl")
        with pytest.raises(InvalidInput, match="cannot be read"):
            await one.import_(str(tmp_path))


async def test_only_plain_files_are_replaced(store, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    async with store() as one:
        for path in (tmp_path, tmp_path / "pipe"):
            with pytest.raises(InvalidInput, match="is not a plain file; it was not touched"):
                one.export(path, overwrite=True)


async def test_an_open_file_stays_open(store):
    file = io.BytesIO()
    async with store() as one:
        await one.remember("k", "v")
        one.export(file)
        file.seek(0)
        await one.import_(file)

    assert not file.closed


async def test_an_empty_ledger_is_an_empty_file(store, tmp_path):
    async with store() as one:
        assert one.export(tmp_path / "all.jsonl") == 0
        assert (tmp_path / "all.jsonl").read_bytes() == b""
        assert await one.import_(tmp_path / "all.jsonl") == ImportReport()
