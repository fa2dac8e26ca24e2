"""One search over messages, the log and the archive."""

from __future__ import annotations

import threading

import pytest

from sense_memory import EmbeddedRelay, LocalSigner
from sense_memory.errors import InvalidInput
from sense_memory.mind.search.hits import Place
from sense_memory.search.lexical import LexicalIndex
from tests.inside import ledger_of
from tests.memories.test_embedding_jobs import Topics
from tests.memories.test_search import inside
from tests.mind.chat.test_conversation import talk
from tests.mind.test_log import ME, opened


async def told(store):
    conversation = talk(store)
    await conversation.add("user", "My sister Kaja moved to Graz last spring.")
    await conversation.add("assistant", "Noted. Does she like the mountains there?")
    await store.mind.log.append("world.observed", {"text": "A storm closed the road to Graz."}, actor="world")
    await store.mind.archive.insert("Kaja restores old violins.", ["people", "music"], topics=["family"])
    await store.mind.archive.insert("The deploy key rotates in May.", "work, keys")


async def texts(store, query, **options):
    return [hit.text for hit in await store.mind.search(query, **options)]


async def test_messages_entries_and_passages_are_found_by_one_search():
    async with opened() as store:
        await told(store)
        found = await store.mind.search("Kaja Graz", 10)
        assert {hit.place for hit in found} == set(Place)
        assert found[0].text == "My sister Kaja moved to Graz last spring."
        assert all(hit.why for hit in found)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"within": ["archive"]}, ["Kaja restores old violins."]),
        ({"within": ["log"]}, ["A storm closed the road to Graz."]),
        ({"within": ["conversation"], "limit": 1}, ["My sister Kaja moved to Graz last spring."]),
        ({"tags": ["music"]}, ["Kaja restores old violins."]),
        ({"tags": ["keys"]}, []),
        ({"topic": "family"}, ["Kaja restores old violins."]),
        ({"conversation": "c1", "limit": 1}, ["My sister Kaja moved to Graz last spring."]),
        ({"conversation": "elsewhere"}, []),
    ],
)
async def test_a_search_can_be_narrowed(options, expected):
    async with opened() as store:
        await told(store)
        assert await texts(store, "Kaja in Graz", **options) == expected


async def test_what_is_appended_changed_or_removed_is_found_so_at_once():
    async with opened() as store:
        await told(store)
        assert await texts(store, "zither") == []
        entry = await store.mind.log.append("agent.thought", {"text": "I would like a zither"}, actor="me")
        passage = await store.mind.archive.insert("A zither has strings.", source="entry-1")
        assert {"I would like a zither", "A zither has strings."} <= set(await texts(store, "zither"))
        await store.mind.archive.insert("It has many strings.", source=passage.source)
        await store.mind.log.remove(entry.id)
        assert await texts(store, "zither") == []
        await store.mind.archive.delete(passage.id)
        assert await texts(store, "strings") == []


async def test_a_bare_machine_finds_everything():
    async with EmbeddedRelay() as relay:
        async with opened(relays=[relay.url]) as store:
            await told(store)
            expected = await store.mind.archive.all()
            await store.sync()
        async with opened(relays=[relay.url]) as bare:
            await bare.sync()
            assert await bare.mind.archive.all() == expected
            assert (await texts(bare, "violins"))[0] == "Kaja restores old violins."
            assert await bare.mind.archive.tags() == {"keys": 1, "music": 1, "people": 1, "work": 1}


@pytest.mark.parametrize(("content", "tags"), [("", ()), ("  ", ()), (None, ()), ("text", [7])])
async def test_a_passage_without_text_is_refused(content, tags):
    async with opened() as store:
        with pytest.raises(InvalidInput):
            await store.mind.archive.insert(content, tags)
        with pytest.raises(InvalidInput, match="nothing was removed"):
            await store.mind.archive.delete("nothing")


# ── By meaning ──────────────────────────────────────────────────────────────────────────


async def paraphrased(store):
    """What a search finds for words that nobody has said: of the conversation, of the log, of the archive."""
    hits = await store.mind.search("automobile", 2)
    assert {reason.kind for hit in hits for reason in hit.why} <= {"meaning", "neighbours", "session"}
    return {hit.text for hit in hits}


async def say_and_keep(store):
    await talk(store).add("user", "The engine is in pieces again.")
    await store.mind.log.append("world.observed", {"text": "A kitten sleeps."}, actor="world")
    await store.mind.archive.insert("The garage opens at nine.")
    for number in range(30):
        await talk(store).add("user", f"Nothing of interest, number {number}.")


MEANT = {"The engine is in pieces again.", "The garage opens at nine."}


async def test_messages_and_passages_are_found_by_what_they_mean():
    async with opened() as store:
        await say_and_keep(store)
        assert await paraphrased(store) == set()
    async with opened(embedder=Topics) as store:
        await say_and_keep(store)
        assert await paraphrased(store) == MEANT
        assert [hit.text for hit in await store.mind.search("automobile", 1, within=["archive"])] == [
            "The garage opens at nine."
        ]


async def test_every_item_is_embedded_once_and_a_removed_one_leaves_no_vectors(tmp_path):
    embedder = Topics()
    async with opened(tmp_path / "a.db", embedder=lambda: embedder) as store:
        await say_and_keep(store)
        await paraphrased(store)
    seen = len(embedder.seen)
    async with opened(tmp_path / "a.db", embedder=lambda: embedder) as store:
        assert await paraphrased(store) == MEANT
        assert len(embedder.seen) == seen + 1  # the question
        vectors = ledger_of(store).vectors
        (page,) = store.mind.log.pages()
        assert vectors.of(embedder.name, [page])
        (said,) = await store.mind.search("engine", 1)
        await store.mind.log.remove(said.id)
        assert not vectors.of(embedder.name, [page])
        assert "The garage opens at nine." in (left := await paraphrased(store))
        assert left.isdisjoint(MEANT - {"The garage opens at nine."})
    async with opened(tmp_path / "a.db", embedder=lambda: embedder) as store:
        assert "The garage opens at nine." in await paraphrased(store)


async def test_an_embedder_that_fails_or_does_not_answer_leaves_the_words(monkeypatch):
    monkeypatch.setattr("sense_memory.mind.search.search._ANSWER_SECONDS", 0.01)
    waits = threading.Event()

    class Hanging(Topics):
        def embed(self, texts):
            waits.wait(10)
            return super().embed(texts)

    failing = Topics()
    failing.problem = "out of order"
    for embedder in (failing, Hanging()):
        async with opened(embedder=lambda embedder=embedder: embedder) as store:
            await say_and_keep(store)
            for _ in range(3):
                assert (await texts(store, "engine"))[0] == "The engine is in pieces again."
            waits.set()


# ── In the snapshot ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def made(monkeypatch):
    """How many texts were indexed; every close writes a snapshot."""
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_COUNT", 1)
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_SHARE", 0)
    counts = []
    for name in ("extend", "extend_unsorted"):
        inner = getattr(LexicalIndex, name)
        count = lambda self, rows, inner=inner: (counts.append(len(rows)), inner(self, rows))[1]  # noqa: E731
        monkeypatch.setattr(LexicalIndex, name, count)
    return counts


async def found(store):
    return [
        (hit.place, hit.id, hit.text, hit.score, hit.why)
        for hit in await store.mind.search("Kaja Graz zither violins", 10)
    ]


async def test_a_cold_start_reads_the_index_and_indexes_what_is_new(tmp_path, made, clock):
    async with opened(tmp_path / "a.db", snapshot=True, clock=clock) as store:
        await told(store)
        expected = await found(store)
        assert sum(made) == 5
        await talk(store).add("user", "after the last search: a zither")
    made.clear()
    async with opened(tmp_path / "a.db", snapshot=True, clock=clock) as store:
        hits = await found(store)
        assert {hit[1] for hit in expected} < {hit[1] for hit in hits}
        assert sum(made) == 1
        passage = await store.mind.archive.insert("A zither too.", source="one")
        await store.mind.archive.insert("Strings.", source=passage.source)
        assert "Strings." in await texts(store, "strings")
        assert [hit.text for hit in await store.mind.search("Graz", conversation="c1", limit=1)]
        await talk(store).add("user", "The flush of this line rewrites its page.")
        expected = await found(store)
    made.clear()
    async with opened(tmp_path / "a.db", snapshot=True, clock=clock) as store:
        assert await found(store) == expected
        assert sum(made) == 0


@pytest.mark.parametrize("way", ["entry", "passage", "another device"])
@pytest.mark.parametrize("searched", [True, False])
async def test_no_word_of_what_was_removed_stays_in_the_snapshot(tmp_path, made, way, searched):
    signer = LocalSigner.from_hex(ME)
    async with EmbeddedRelay() as relay:
        options = {"relays": [relay.url], "snapshot": True}
        async with opened(tmp_path / "a.db", **options) as store:
            await told(store)
            secret = await store.mind.log.append("agent.thought", {"text": "a quokka"}, actor="me")
            passage = await store.mind.archive.insert("zebrafish")
            await found(store)
            await store.sync()
        word = b"zebrafish" if way == "passage" else b"quokka"
        assert word in await inside(signer, tmp_path)
        async with opened(tmp_path / "a.db", **options) as store:
            if searched:
                await found(store)
            if way == "entry":
                await store.mind.log.remove(secret.id)
            elif way == "passage":
                await store.mind.archive.delete(passage.id)
            else:
                async with opened(relays=[relay.url]) as other:
                    await other.sync()
                    await other.mind.log.remove(secret.id)
                    await other.sync()
                await store.sync()
            await found(store)
            if way == "entry":  # nor in the ledger's history
                assert all(len(ledger_of(store).versions(slot)) == 1 for slot in store.mind.log.pages())
        assert word not in (await inside(signer, tmp_path)).lower()
        async with opened(tmp_path / "a.db", **options) as store:
            assert await texts(store, word.decode()) == []
            assert len(await found(store)) >= 3


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What broke yesterday evening?", "The disk of the runner is full."),
        ("Was geschah letzte Woche?", "The certificate was renewed."),
        ("What did we decide at Christmas?", "Nobody deploys until January."),
        ("What did we note in May?", "The importer is called ferry."),
    ],
)
async def test_the_log_and_the_archive_know_when_something_was_said(question, answer):
    async with opened(clock=lambda: 1_752_667_200.0) as store:  # Wednesday, 16 July 2025, at noon
        for days, hour, text in (
            (204, 18, "Nobody deploys until January."),
            (8, 10, "The certificate was renewed."),
            (1, 9, "The flaky test is fixed."),
            (1, 19, "The disk of the runner is full."),
            (0, 8, "The runner has a larger disk."),
        ):
            at = 1_752_667_200.0 - days * 86_400 + (hour - 12) * 3_600
            await store.mind.log.append("agent.spoke", {"text": text}, actor="Ada", at=at)
        await store.mind.archive.insert("The importer is called ferry.", at=1_752_667_200.0 - 70 * 86_400)
        assert (await texts(store, question))[0] == answer


async def test_a_question_for_what_holds_now_prefers_the_newest_statement():
    async with opened() as store:
        conversation = talk(store)
        await conversation.add("user", "The release of the importer is 2.3, the importer of all releases.")
        await conversation.add("user", "We shipped another release of the importer, 2.7.")
        await conversation.add("user", "Is that the latest release of the importer?")
        found = await texts(store, "Which is the latest release of the importer")
        assert found[0] == "We shipped another release of the importer, 2.7."


@pytest.mark.parametrize("question", ["When is the meeting?", "When is the meeting now?"])
async def test_a_correction_without_a_word_of_the_question_comes_first_also_where_it_asks_for_now(question):
    async with opened() as store:
        conversation = talk(store)
        for text in (
            "The meeting is on the 10th of May.",
            "The meeting is on the 12th of May.",
            "No, it's the 14th.",
        ):
            await conversation.add("user", text)
        found = await texts(store, question)
        assert found[:2] == ["No, it's the 14th.", "The meeting is on the 12th of May."]
