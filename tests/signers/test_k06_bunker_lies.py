"""Row K-06: what a bunker answers is compared with what it was asked; a lie is named, and the text stays as a draft."""

from __future__ import annotations

import json
import logging
from types import MethodType

import pytest

from sense_memory import LocalSigner
from sense_memory.errors import InvalidInput, SignerError
from sense_memory.nostr.remote_signing import BunkerUrl
from sense_memory.signers.remote_signer import RemoteSigner
from tests.signers.bunkers import Bunker


pytestmark = pytest.mark.virtual_time
THEIR_WORDS = "quokka"


class OtherContent(Bunker):
    async def signed(self, given, key=None):
        return await super().signed({**given, "content": given["content"][:-4] + "AAA="})


class OtherTags(Bunker):
    async def signed(self, given, key=None):
        return await super().signed({**given, "tags": [*given["tags"], ["client", "nosy"]]})


class OtherKind(Bunker):
    async def signed(self, given, key=None):
        return await super().signed({**given, "kind": 1})


class OldDate(Bunker):
    async def signed(self, given, key=None):
        return await super().signed({**given, "created_at": given["created_at"] - 86_400})


class OtherKey(Bunker):
    async def signed(self, given, key=None):
        return await super().signed(given, LocalSigner.generate())


class NoSignature(Bunker):
    async def sign_event(self, text):
        event = json.loads(await super().sign_event(text))
        del event["sig"]
        return json.dumps(event)


class ForgedSignature(Bunker):
    async def sign_event(self, text):
        event = json.loads(await super().sign_event(text))
        return json.dumps({**event, "sig": "0" * 128})


class NoEvent(Bunker):
    async def sign_event(self, text):
        return "[]"


class Refuses(Bunker):
    async def sign_event(self, text):
        raise PermissionError


SIGNS_WRONGLY = {
    OtherContent: "it changed the content that it was given",
    OtherTags: "it changed the tags that it was given",
    OtherKind: "it changed the kind that it was given",
    OldDate: "it changed the date that it was given",
    OtherKey: "it signed with another key",
    NoSignature: "id, pubkey and sig",
    ForgedSignature: "signature",
    NoEvent: "an event must be a JSON object",
    Refuses: "refuses sign_event; allow this client",
}


@pytest.mark.parametrize("kind", SIGNS_WRONGLY)
async def test_k06_what_a_bunker_signs_wrongly_is_refused_with_the_reason_and_stays_as_a_draft(bench, kind):
    async with bench.signer(kind) as (bunker, signer), bench.store(signer, [bench.relay]) as store:
        with pytest.raises(SignerError, match=r"Nothing was written or sent.*kept as draft 1") as caught:
            await store.remember("tea", "green")

        assert SIGNS_WRONGLY[kind] in str(caught.value)
        assert THEIR_WORDS not in str(caught.value)
        assert [(draft.key, draft.value) for draft in await store.drafts()] == [("tea", "green")]
        assert store.status().counts["events"] == 0
        bunker.signed = MethodType(Bunker.signed, bunker)  # the bunker is honest again
        bunker.sign_event = MethodType(Bunker.sign_event, bunker)
        await store.publish_draft(1)
        assert (await store.recall("tea")).value == "green"
        assert await store.drafts() == []


@pytest.mark.parametrize("write", ["palace", "journal", "many"])
async def test_k06_every_kind_of_memory_stays_as_a_draft(bench, write):
    async with bench.signer() as (bunker, signer), bench.store(signer) as store:
        bunker.is_silent = True
        calls = {
            "palace": lambda: store.persona_remember("people", "facts", "lisa", "likes tea"),
            "journal": lambda: store.journal("saw Lisa"),
            "many": lambda: store.remember_many({"a": "1", "b": "2"}),
        }
        with pytest.raises(SignerError, match="kept as draft"):
            await calls[write]()
        drafts = await store.drafts()
        expected = {"palace": ["people/facts/lisa"], "journal": [""], "many": ["a", "b"]}
        assert [draft.key for draft in drafts] == expected[write]
        bunker.is_silent = False
        for draft in drafts:
            await store.publish_draft(draft.number)
        held = {
            "palace": [memory.value for memory in await store.persona_recall("people") or []],
            "journal": [entry.content for entry in await store.recent()],
            "many": [memory.value for memory in await store.recall_all()],
        }
        assert held[write] == [draft.value for draft in drafts]


class OtherSecret(Bunker):
    async def connect(self, *_):
        return "another secret"


class NotSealed(Bunker):
    async def nip44_encrypt(self, reader, text):
        return text


class SealsOtherText(Bunker):
    async def nip44_encrypt(self, reader, text):
        return await self.user.encrypt(b"something else", reader)


class NoKey(Bunker):
    async def get_public_key(self):
        return "npub1"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (OtherSecret, "answered with another secret than its URL has"),
        (NotSealed, "its answer is not sealed"),
        (SealsOtherText, "does not open what it sealed"),
        (NoKey, "asked for its public key, and its answer is none"),
    ],
)
async def test_k06_a_bunker_that_lies_when_it_is_connected_is_not_connected(bench, kind, reason):
    with pytest.raises(SignerError, match=reason):
        async with bench.signer(kind):
            pass


async def test_k06_a_secret_that_the_bunker_does_not_know_connects_nothing(bench):
    async with bench.at_relay(), Bunker(bench.relay, bench.clock).running() as bunker:
        url = BunkerUrl.parse(bunker.url.replace("s3cret", "guessed"))
        with pytest.raises(SignerError, match="refuses connect") as caught:
            await RemoteSigner.connected(url, now=bench.clock)
        assert "guessed" not in str(caught.value)


class Leaks(Bunker):
    leaks = False

    async def nip44_encrypt(self, reader, text):
        return text if self.leaks else await super().nip44_encrypt(reader, text)


async def test_k06_a_plaintext_that_comes_back_as_sealed_is_never_published(bench):
    async with bench.signer(Leaks) as (bunker, signer), bench.store(signer) as store:
        bunker.leaks = True
        with pytest.raises(SignerError, match="not sealed"):
            await store.remember("tea", "green " * 40)
        assert store.status().counts["events"] == 0


class Approves(Bunker):
    """Asks a person to approve, over and over."""

    approve_at, then = "https://bunker.example/approve?x=1", False

    async def answers(self, client, method, params):
        if method == "sign_event":
            for _ in range(50):
                yield {"result": "auth_url", "error": self.approve_at}
            if not self.then:
                return
        async for answer in super().answers(client, method, params):
            yield answer


async def test_k06_endless_demands_to_approve_are_shown_once_and_end_after_a_minute(bench):
    shown = []
    async with bench.signer(Approves, on_auth_url=shown.append) as (_, signer), bench.store(signer) as store:
        with pytest.raises(
            SignerError, match=r"approve at https://bunker.example/approve\?x=1, and nobody did within 60 s"
        ):
            await store.remember("tea", "green")
        assert shown == ["https://bunker.example/approve?x=1"]
        assert len(await store.drafts()) == 1


async def test_the_answer_after_an_approval_counts(bench):
    shown = []
    async with bench.signer(Approves, on_auth_url=shown.append) as (bunker, signer):
        bunker.then = True
        async with bench.store(signer) as store:
            await store.remember("tea", "green")
        assert len(shown) == 1


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "http://evil.example",
        "https://a.example/\x1b[31m",
        "https://" + "a" * 600,
        777_777,
    ],
)
async def test_k06_a_url_that_nobody_should_open_is_not_shown(bench, url, caplog):
    async with bench.signer(Approves) as (bunker, signer), bench.store(signer) as store:
        bunker.approve_at = url
        with (
            caplog.at_level(logging.WARNING),
            pytest.raises(SignerError, match="approve at the bunker") as caught,
        ):
            await store.remember("tea", "green")
        assert str(url) not in str(caught.value) + caplog.text


async def test_k06_a_bunker_that_is_silent_is_given_up_after_a_minute_and_nothing_is_lost(bench):
    async with bench.signer() as (bunker, signer), bench.store(signer) as store:
        await store.remember("tea", "green")
        bunker.is_silent = True
        with pytest.raises(SignerError, match=r"did not answer within 60 s.*draft 1"):
            await store.remember("tea", "black")
        assert (await store.recall("tea")).value == "green"
        bunker.is_silent = False
        await store.publish_draft(1)
        assert (await store.recall("tea")).value == "black"


async def test_k06_drafts_are_read_and_written_while_the_bunker_is_gone(bench):
    """A client seals a draft by itself, so neither keeping nor reading it needs the bunker."""
    async with bench.signer() as (_, signer):
        pass  # the bunker ends
    async with bench.store(bench.again(signer)) as store:
        with pytest.raises(SignerError, match="draft 1"):
            await store.remember("tea", "green")
        with pytest.raises(SignerError, match="draft 2"):
            await store.persona_remember("people", "facts", "lisa", "likes tea")
    async with bench.store(bench.again(signer)) as store:
        assert [draft.value for draft in await store.drafts()] == ["green", "likes tea"]


async def test_a_draft_that_a_client_sealed_opens_with_the_agents_own_key_too(bench):
    async with bench.signer() as (bunker, signer), bench.store(signer) as store:
        bunker.is_silent = True
        with pytest.raises(SignerError):
            await store.remember("tea", "green")
    async with bench.store(bunker.user) as store:
        assert [draft.value for draft in await store.drafts()] == ["green"]


async def test_k06_a_bunker_that_changes_its_key_is_noticed_before_anything_is_sealed(bench):
    async with bench.signer() as (bunker, signer):
        bunker.user = LocalSigner.generate()
        bunker.asked.clear()
        async with bench.store(bench.again(signer)) as store:
            with pytest.raises(SignerError, match=r"now has the key npub1.*this memory belongs to npub1"):
                await store.remember("tea", "green")
        assert set(bunker.asked) == {"get_public_key"}


async def test_k06_a_client_that_was_revoked_reads_as_refused_and_never_as_a_damaged_ledger(bench):
    async with bench.signer() as (bunker, signer):
        async with bench.store(signer, snapshot=False) as store:
            await store.remember("tea", "green")
        bunker.clients.clear()
        async with bench.store(bench.again(signer), snapshot=False) as store:
            with pytest.raises(SignerError, match="refuses get_public_key"):
                await store.recall("tea")


class CannotDecrypt(Bunker):
    refuses = False

    async def nip44_decrypt(self, author, payload):
        if self.refuses:
            raise PermissionError
        return await super().nip44_decrypt(author, payload)


async def test_k06_a_bunker_that_stops_to_decrypt_does_not_make_events_unreadable(bench):
    """Else a sync would leave out every event that it brings, as if it were not ours."""
    async with bench.signer(CannotDecrypt) as (bunker, signer), bench.store(signer, [bench.relay]) as store:
        async with bench.store(bunker.user, [bench.relay], ledger=bench.folder / "first.db") as other:
            await other.remember("tea", "green")
            await other.sync()
        bunker.refuses = True
        with pytest.raises(SignerError, match="refuses nip44_decrypt"):
            await store.sync()
        bunker.refuses = False
        await store.sync()
        assert (await store.recall("tea")).value == "green"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nsec1" + "q" * 58,
        "bunker://",
        "bunker://abc?relay=wss://relay.example",
        f"bunker://{'a' * 64}?secret=x",
        f"bunker://{'a' * 64}?relay=http://relay.example&secret=x",
        f"bunker://{'a' * 64}?relay=ws://far.example&secret=s3cret",
        f"nostrconnect://{'a' * 64}?relay=wss://relay.example&secret=x",
        "bunker://[::1",
    ],
)
def test_a_url_that_is_none_of_a_bunker_is_refused_without_repeating_it(text):
    with pytest.raises(InvalidInput) as caught:
        BunkerUrl.parse(text)
    assert "s3cret" not in str(caught.value)
    assert "nsec1q" not in str(caught.value)
