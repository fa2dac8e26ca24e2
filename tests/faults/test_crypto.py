"""C rows: what the ciphertexts on the wire may not have in common."""

from __future__ import annotations

import base64
import json

import pytest

from relays.faults import ForgetAfterAck, Record, Refuse, SwallowPublish
from sense_memory.errors import ClockSkewError
from tests.inside import ledger_of


def nonce(content: str) -> bytes:
    """The nonce of a NIP-44 payload: 32 bytes behind the version."""
    return base64.b64decode(content[:48])[1:33]


@pytest.mark.virtual_time
async def test_c02_nonces_never_repeat(stage):
    """A hundred thousand seals of one text, and one text through every way to write: all nonces differ."""
    me = stage.signer.public_key
    nonces = {nonce(await stage.signer.encrypt(b"the same text", me)) for _ in range(100_000)}
    assert len(nonces) == 100_000

    text, record = f"{stage.plaintext} the same text", Record()
    refuse = Refuse("invalid: created_at too early")
    async with (
        stage.liar(record, SwallowPublish(stores=False)) as silent,
        stage.liar(record, ForgetAfterAck()) as forgetful,
        stage.liar(record, refuse) as refusing,
        stage.relay() as honest,
        stage.store(silent, forgetful, refusing, honest, ledger="k.db", timeouts=stage.quick) as store,
    ):
        for _ in range(5):
            await store.remember("k", text)
            await store.journal(text)
        await store.remember_many((f"k{number}", text) for number in range(50))
        await store.refresh("k")
        await store.undo("k0")
        await store.forget("k1")
        await store.remember("k1", text)
        stage.clock.advance(-7_200)
        for _ in range(2):
            try:
                await store.remember("k2", text)
            except ClockSkewError as skewed:
                drafts = skewed.drafts
        stage.clock.advance(7_300)
        await store.publish_draft(drafts[0])
        for _ in range(3):
            await stage.sync(store, full=True)
            stage.clock.advance(3_601)
        store.export(stage.folder / "all.jsonl")
        kept = [draft.content for draft in ledger_of(store).drafts.all()]
        written = {json.loads(body)["id"]: json.loads(body)["content"] for body in ledger_of(store).bodies()}
        async with stage.store(ledger="other.db") as other:
            await other.import_(stage.folder / "all.jsonl")
            await other.refresh("k")
            written |= {
                json.loads(body)["id"]: json.loads(body)["content"] for body in ledger_of(other).bodies()
            }
    contents = [content for content in (*written.values(), *kept) if content]
    assert len(contents) > 60
    assert len({nonce(content) for content in contents} | nonces) == len(contents) + 100_000

    sent: dict[str, set[str]] = {}
    for frame in record.said("EVENT"):
        sent.setdefault(frame[1]["id"], set()).add(json.dumps(frame[1], sort_keys=True))
    assert max(record.published.count(ident) for ident in sent) >= 3  # sent again and again, sealed once
    assert {len(bodies) for bodies in sent.values()} == {1}
