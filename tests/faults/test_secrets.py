"""K rows: the key and the memories show nowhere, whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import traceback
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from relays.faults import Forge, NoticeOnly, Record, Refuse, SwallowPublish
from sense_memory import LocalSigner, SenseMemoryError
from sense_memory.errors import BadKey


class Confessions:
    """Everything that the program said: reprs, error texts, JSON."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def hear(self, *things) -> None:
        for thing in things:
            self.words += [str(thing), repr(thing), ascii(thing), f"{thing}"]

    async def fails(self, work, *arguments) -> None:
        """Run what has to fail, and note how it says so: the error, its fields and its traceback."""
        try:
            found = work(*arguments)
            if asyncio.iscoroutine(found):
                await found
        except SenseMemoryError as error:
            self.hear(error, error.args, vars(error), *traceback.format_exception(error))
        else:
            raise AssertionError(work)

    def __str__(self) -> str:
        return "\n".join(self.words)


async def write_and_fail(stage, store, said):
    """A day in the life of a store whose relays are no good."""
    plaintext = stage.plaintext
    ids = [await store.remember("k", f"{plaintext} one"), await store.remember("k", f"{plaintext} two")]
    ids += await store.remember_many((f"m{number}", f"{plaintext} {number}") for number in range(10))
    ids.append(await store.journal(f"{plaintext} entry"))
    await store.forget("m0")
    report = await stage.sync(store)
    said.hear(report, *report.relays, report.problems, json.dumps(asdict(report)))
    # `str` of a memory or an entry is its text, for `print`; their `repr`, and lists of them, have none.
    said.hear(repr(await store.recall("k")), await store.recall_all(), await store.recent(), store)
    said.hear(stage.signer, stage.signer._secret, store.relays.holders(ids[0]), store.integrity())
    await said.fails(store.remember, f"a/{plaintext}", plaintext)
    await said.fails(store.remember, "long", plaintext * 10_000)
    await said.fails(store.remember, "surrogate", f"{plaintext} \ud800")
    await said.fails(store.journal, "")
    await said.fails(store.recent, 0)
    return store.status()


@pytest.mark.virtual_time
async def test_k01_canary_key_never_appears(stage, no_secret, caplog):
    """All loggers at DEBUG, and the loop in its debug mode, which logs what it calls with what."""
    for name in ("websockets", "websockets.client", "websockets.server", "asyncio", "sense_memory"):
        caplog.set_level(logging.DEBUG, name)
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0
    said = Confessions()
    held = socket.socket()  # bound, so that no relay of another test gets the port, and not listening
    held.bind(("127.0.0.1", 0))
    down = SimpleNamespace(url=f"ws://127.0.0.1:{held.getsockname()[1]}")
    async with (
        stage.relay() as honest,
        stage.liar(Record()) as quiet,
        stage.liar(Refuse(f"blocked: {stage.words}")) as refusing,
        stage.liar(NoticeOnly(stage.words)) as noticing,
        stage.liar(SwallowPublish()) as swallowing,
        stage.liar(Forge("sig")) as forging,
    ):
        await stage.put(forging.upstream, await stage.event("forged"))
        relays = (honest, quiet, refusing, noticing, swallowing, forging, down)
        async with stage.store(*relays, ledger="k.db", timeouts=stage.quick) as store:
            status = await write_and_fail(stage, store, said)
            files = [path for path in stage.folder.rglob("*") if path.is_file()]
            contents = {path.name: path.read_bytes() for path in files}
        await said.fails(store.recall, "k")
        await said.fails(stage.store(honest, ledger="k.db", signer=stage.stranger).__aenter__)
        async with stage.store(down) as lonely:
            await said.fails(lonely.recall, "elsewhere")
    held.close()
    nsec = stage.signer.export_nsec()
    for wrong in (nsec[:-1] + "q", nsec.upper()[:10] + nsec[10:], nsec + " x", stage.key_hex + "0"):
        await said.fails(LocalSigner.from_nsec, wrong)
        await said.fails(LocalSigner.from_hex, wrong)

    assert "k.db" in contents
    assert "k.db-wal" in contents
    no_secret(str(said))
    no_secret(str(status), but=stage.words)
    no_secret(json.dumps(asdict(status)), but=stage.words)
    assert stage.words in str(status)  # a relay's own words are shown there, and nowhere else
    for content in contents.values():
        no_secret(content.decode("latin-1"))
        assert bytes.fromhex(stage.key_hex) not in content
    assert any(record.name == "asyncio" and "Executing" in record.message for record in caplog.records)
    no_secret(caplog.text)


async def test_k01_the_search_would_find_a_leak(stage, no_secret):
    """The canary test is only worth something if its search can fail."""
    nsec = stage.signer.export_nsec()
    for leak in (nsec, nsec[9:17], stage.key_hex.upper(), stage.key_hex[20:28], stage.plaintext, stage.words):
        try:
            no_secret(f"something {leak} something")
        except AssertionError:
            continue
        raise BadKey(leak)
